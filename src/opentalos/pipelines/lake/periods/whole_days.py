"""The latest whole days of a table; the day of its newest row may be incomplete."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.layout import Span

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class WholeDays:
    """Days before ``end_day``, since 1970-01-01 UTC."""

    end_day: int
    span: Span


def days_before(newest_ms: int, days: int) -> WholeDays | None:
    """At most ``days`` days before that of a table's newest row; None: there is none."""
    end_day = newest_ms // DAY_MS
    if end_day <= 0:
        return None
    return WholeDays(end_day, Span(max(0, end_day - days) * DAY_MS, end_day * DAY_MS))


def days_option(options: Mapping[str, str], name: str, *, default: int, most: int) -> int:
    """An option that is a number of days. Raises: ConfigError."""
    given = options.get(name, str(default))
    if not given.isdecimal() or not 0 < int(given) <= most:
        raise ConfigError(f"{name} is {given!r}: give a number of days from 1 to {most}")
    return int(given)
