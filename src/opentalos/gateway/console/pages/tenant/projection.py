"""The projection of a tenant's traffic as a picture: when a limit will be reached."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

DAY_MS: Final = 86_400_000
DAYS: Final = 90  # of the picture
SEARCHED_DAYS: Final = 730
WIDTH, HEIGHT, LEFT, BOTTOM = 720.0, 180.0, 4.0, 160.0
_WEEK: Final = 7
_THURSDAY: Final = 3  # of 1970-01-01, with Monday as 0
_PERMILLE: Final = 1_000
_TICKS: Final = 6


class Outlook(NamedTuple):
    """Expected peaks by day, from today on.

    ``points``, ``band``: of an SVG line and of the area between expected and expected plus
    spread; ``limit_y``: None: no limit is known; ``reached_days``: from today; None: not within
    two years; ``most``: bytes/s at the top of the picture.
    """

    points: str
    band: str
    limit: int
    limit_y: float | None
    reached_days: int | None
    reached_x: float | None
    today: float
    most: float
    ticks: Sequence[tuple[float, str]]


def outlook_of(found: Mapping[str, Any], limit: int, now_ms: int) -> Outlook:
    """Args: found: a projection of REST; limit: bytes/s; 0: none is known."""
    today_days = max(0, (now_ms - found["made_ms"]) // DAY_MS)
    expected = [peak_of(found, today_days + day) for day in range(DAYS + 1)]
    spread = found["spread"]
    most = max([*expected, *(value + spread for value in expected), float(limit)]) * 1.05 or 1.0
    step = (WIDTH - LEFT) / DAYS

    def place(day: int, value: float) -> str:
        return f"{LEFT + day * step:.1f},{BOTTOM - value / most * (BOTTOM - 6):.1f}"

    upper = [place(day, value + spread) for day, value in enumerate(expected)]
    lower = [place(day, value) for day, value in enumerate(expected)]
    reached = reached_days(found, limit, today_days)
    return Outlook(
        points=" ".join(lower),
        band=" ".join([*upper, *reversed(lower)]),
        limit=limit,
        limit_y=round(BOTTOM - limit / most * (BOTTOM - 6), 1) if limit else None,
        reached_days=reached,
        reached_x=None if reached is None or reached > DAYS else round(LEFT + reached * step, 1),
        today=expected[0],
        most=most,
        ticks=_ticks(now_ms, step),
    )


def peak_of(found: Mapping[str, Any], day: int) -> float:
    """The expected peak in bytes/s, so many days after the projection was made."""
    weekday = (found["made_ms"] // DAY_MS + _THURSDAY + day) % _WEEK
    level = max(0, found["level"] + found["trend_per_day"] * day)
    return float(level * found["season"][weekday]) / _PERMILLE


def reached_days(found: Mapping[str, Any], limit: int, today_days: int) -> int | None:
    """Days from today until a peak, with its spread, is above the limit."""
    if not limit:
        return None
    return next(
        (
            day
            for day in range(SEARCHED_DAYS)
            if peak_of(found, today_days + day) + found["spread"] > limit
        ),
        None,
    )


def _ticks(now_ms: int, step: float) -> Sequence[tuple[float, str]]:
    every = DAYS // _TICKS
    return [
        (
            round(LEFT + day * step, 1),
            datetime.fromtimestamp((now_ms + day * DAY_MS) / 1_000, UTC).strftime("%m-%d"),
        )
        for day in range(0, DAYS, every)
    ]
