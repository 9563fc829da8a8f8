"""The latest whole days of an hourly table; the day of its newest hour may be incomplete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from opentalos.model.errors import ConfigError

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class WholeDays:
    """Days before ``end_day`` (since 1970-01-01 UTC) and the hours of them that have a file."""

    end_day: int
    hours: Sequence[int]


def whole_days(hours: Sequence[int], days: int, now_ms: int) -> WholeDays | None:
    """At most ``days`` days of a table's ``hours()``; None if it has no whole day.

    Hours that have not begun at ``now_ms`` come from a fast clock and do not count.
    """
    hours = [hour for hour in hours if hour <= now_ms]
    if not hours:
        return None
    end_day = hours[-1] // DAY_MS
    found = [hour for hour in hours if (end_day - days) * DAY_MS <= hour < end_day * DAY_MS]
    return WholeDays(end_day, found) if found else None


def days_option(options: Mapping[str, str], name: str, *, default: int, most: int) -> int:
    """An option that is a number of days. Raises: ConfigError."""
    given = options.get(name, str(default))
    if not given.isdecimal() or not 0 < int(given) <= most:
        raise ConfigError(f"{name} is {given!r}: give a number of days from 1 to {most}")
    return int(given)
