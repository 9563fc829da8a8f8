"""A tenant's latest day against the days before it: what is unusual, with the reason in numbers.

Pure. The expectation is the fit of the quota projections (level, trend, season of the weekday,
spread), made without the day that is judged. Both conditions must hold, so that neither a tenant
with almost constant traffic nor one with wild bursts raises alarms every day: the difference is
more than so many spreads, and the day is a multiple of what was expected, or a fraction of it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from opentalos.pipelines.quota.traffic_fit import WEEK, Days, Fit, fit

HISTORY_DAYS_MIN: Final = 14  # the fit's level needs as many
SPREADS_DEFAULT: Final = 4.0
FACTOR_DEFAULT: Final = 1.5
BYTES_PER_S_MIN: Final = 1_000.0  # less traffic, found and expected, is never an anomaly
_KIB: Final = 1024.0
_UNITS: Final = ("B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s")
_WEEKDAYS: Final = (
    "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """How far a day may be from its expectation: in spreads, and as a factor above 1."""

    spreads: float = SPREADS_DEFAULT
    factor: float = FACTOR_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """A day's traffic that is out of its expectation; rates in bytes/s."""

    value: float
    expected: float
    weekday: int  # of the day, Monday is 0
    days: int  # of history
    found: Fit
    spreads: float  # that were allowed

    def text(self, measure: str) -> str:
        """The reason, such as ``busiest minute 12.0 MiB/s, expected 3.0 MiB/s: ...``."""
        season = self.found.season[self.weekday]
        trend = self.found.trend_per_day
        side = "above" if self.value > self.expected else "below"
        parts = [
            f"{measure} {rate_text(self.value)}, expected {rate_text(self.expected)}: level "
            f"{rate_text(self.found.level)} x {season:.2f} for {_WEEKDAYS[self.weekday]}",
            f"trend {'-' if trend < 0 else '+'}{rate_text(abs(trend))} a day",
            f"from {self.days} days; {rate_text(abs(self.value - self.expected))} {side}",
            f"allowed are {rate_text(self.spreads * self.found.spread)} "
            f"({self.spreads:g} spreads of {rate_text(self.found.spread)})",
        ]
        return ", ".join(parts)


def anomaly_of(days: Days, weekday: int, tolerance: Tolerance) -> Anomaly | None:
    """Whether the last day is unusual; None also if the history is too short to say.

    Args: days: bytes/s of each day without gaps, 0 where nothing was stored;
          weekday: of the last day, Monday is 0.
    """
    history = np.trim_zeros(days[:-1], "f")
    if history.size < HISTORY_DAYS_MIN:
        return None
    found = fit(history, weekday)
    value, expected = float(days[-1]), found.level * found.season[weekday % WEEK]
    far = abs(value - expected) > tolerance.spreads * found.spread
    lower, higher = sorted((value, expected))
    if not far or higher < BYTES_PER_S_MIN or higher < tolerance.factor * lower:
        return None
    return Anomaly(
        value=value,
        expected=expected,
        weekday=weekday % WEEK,
        days=int(history.size),
        found=found,
        spreads=tolerance.spreads,
    )


def rate_text(bytes_per_s: float) -> str:
    """A rounded rate."""
    power = 0
    while bytes_per_s >= _KIB and power < len(_UNITS) - 1:
        bytes_per_s /= _KIB
        power += 1
    return f"{bytes_per_s:.1f} {_UNITS[power]}"
