"""A tenant's traffic as a projection: level, trend and weekly season of its daily peaks. Pure.

The day of a peak is a day of UTC; its traffic is the busiest minute's, in bytes per second. The
projection of a day is ``(level + trend * days since it was made) * season of its weekday``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from opentalos.model.errors import BadRequest

DAY_MS = 86_400_000
WEEK = 7
PERMILLE = 1_000
RATE_MAX = 1 << 50  # bytes/s; far beyond any cluster, and every product of it is a float
SEASON_MAX = 1_000 * PERMILLE
DAYS_MAX = 10_000
TENANT_CHARS_MAX = 128
_THURSDAY = 3  # of 1970-01-01, with Monday as 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """What the traffic of a tenant has been and is expected to be; rates in bytes/s.

    ``season``: per mille by weekday, Monday first. ``spread``: how far the days lie around the
    rest, as a standard deviation. ``peak``: the highest of the latest 28 days; ``repeated_peak``
    was reached on two of them. ``days``: of history.
    """

    tenant: str
    made_ms: int
    days: int
    level: int
    trend_per_day: int
    season: Sequence[int]
    spread: int
    peak: int
    repeated_peak: int = 0
    mean: int = 0

    def expected(self, start_ms: int, days: int, spreads: float, *, growing: bool = True) -> int:
        """The highest traffic to expect in ``days`` days from a time on, in bytes/s.

        Args: spreads: so many are added. growing: False: as if the trend ended.
        """
        first = max(0, (start_ms - self.made_ms) // DAY_MS)
        last, trend = first + days, self.trend_per_day if growing else 0
        weekday = (self.made_ms // DAY_MS + _THURSDAY) % WEEK
        # Of each weekday its last date counts when the traffic grows, else its first.
        ends = range(max(first, last - WEEK + 1), last + 1)
        starts = range(first, min(last, first + WEEK - 1) + 1)
        highest = max(
            (self.level + trend * day) * self.season[(weekday + day) % WEEK]
            for day in (ends if trend > 0 else starts)
        )
        return max(self.repeated_peak, math.ceil(highest / PERMILLE + spreads * self.spread))

    def at_most(self, days: int, spreads: float) -> int:
        """A quick bound of what ``expected`` says of any of so many days since it was made."""
        level = self.level + max(0, self.trend_per_day) * days
        highest = level * max(self.season) / PERMILLE
        return max(self.repeated_peak, math.ceil(highest + spreads * self.spread))

    def age_days(self, now_ms: int) -> float:
        """How long ago it was made."""
        return (now_ms - self.made_ms) / DAY_MS


def check_projection(projection: Projection) -> None:
    """Raises: BadRequest: a value is out of its range."""
    if not 0 < len(projection.tenant) <= TENANT_CHARS_MAX or not projection.tenant.isprintable():
        raise BadRequest(f"a tenant's name must have 1 to {TENANT_CHARS_MAX} printable characters")
    for name in ("level", "spread", "peak", "repeated_peak", "mean"):
        if not 0 <= getattr(projection, name) <= RATE_MAX:
            raise BadRequest(f"{name} of {projection.tenant} must be 0 to {RATE_MAX:,}")
    if abs(projection.trend_per_day) > RATE_MAX:
        raise BadRequest(
            f"trend_per_day of {projection.tenant} must be -{RATE_MAX:,} to {RATE_MAX:,}"
        )
    if not 0 <= projection.days <= DAYS_MAX or projection.made_ms < 0:
        raise BadRequest(f"days or made_ms of {projection.tenant} is out of range")
    if len(projection.season) != WEEK or not all(0 <= s <= SEASON_MAX for s in projection.season):
        raise BadRequest(
            f"season of {projection.tenant} must have {WEEK} factors from 0 to {SEASON_MAX:,}"
        )


def projection_of(fields: Mapping[str, Any]) -> Projection:
    """From its fields, as JSON has them. Raises: TypeError, BadRequest."""
    season = tuple(fields["season"])
    projection = Projection(**{**fields, "season": season})
    check_projection(projection)
    return projection


def projection_fields(projection: Projection) -> dict[str, Any]:
    """Its fields, for JSON."""
    return asdict(projection) | {"season": list(projection.season)}
