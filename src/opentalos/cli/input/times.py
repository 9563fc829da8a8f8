"""Times, durations and partition positions as users write them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import click

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGO: Final = re.compile(r"(\d{1,9})([smhd])")
_UNIX: Final = re.compile(r"@(\d{1,11}(?:\.\d{1,6})?)")
_OFFSET: Final = re.compile(r"\d{1,19}")
_OFFSET_MAX: Final = (1 << 63) - 1
TIME_HELP: Final = (
    "TIME is ISO 8601 (2026-03-01T12:00 in the local time zone, or with Z or +08:00), @SECONDS of "
    "Unix time, or an age: 90s, 10m, 2h, 7d."
)
Position = int | str | datetime  # an offset, "start", "end", or a time with a zone
# As the SDK, the official clients and users of Kafka name the two ends.
_ENDS: Final = {"start": "start", "earliest": "start", "end": "end", "latest": "end"}


def as_time(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime | None:
    """Callback of an option that takes a time. Raises: click.BadParameter."""
    try:
        return None if value is None else parse_time(value, datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def as_position(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Position | None:
    """Callback of an option that takes a position. Raises: click.BadParameter."""
    try:
        return None if value is None else parse_position(value, datetime.now(UTC))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


from_option = click.option(
    "--from",
    "start",
    metavar="start|end|TIME|OFFSET",
    callback=as_position,
    help="Position of the first message; earliest is start, latest is end.",
    show_default="end with --follow, else start",
)
partitions_option = click.option(
    "--partition",
    "partitions",
    metavar="N",
    type=click.IntRange(0),
    multiple=True,
    help="Read only this partition; repeatable.",
)


def parse_position(text: str, now: datetime) -> Position:
    """Parse a position in a partition. Raises: ValueError, with the valid forms."""
    if text in _ENDS:
        return _ENDS[text]
    if _OFFSET.fullmatch(text):
        offset = int(text)
        if offset > _OFFSET_MAX:
            raise ValueError(f"offset {text} is too large")
        return offset
    return parse_time(text, now)


def parse_time(text: str, now: datetime) -> datetime:
    """Parse a time; without a zone it is local time. Raises: ValueError."""
    try:
        if _AGO.fullmatch(text):
            return now - parse_span(text)
        if unix := _UNIX.fullmatch(text):
            return datetime.fromtimestamp(float(unix[1]), UTC)
        found = datetime.fromisoformat(text)
        return found if found.tzinfo else found.astimezone()
    except (ValueError, OverflowError, OSError):
        raise ValueError(
            f"{text!r} is not a valid time; examples: 2026-03-01T12:00, @1772366400, "
            "10m (10 minutes ago)"
        ) from None


def parse_span(text: str) -> timedelta:
    """Parse a duration. Raises: ValueError, OverflowError."""
    found = _AGO.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a valid duration; examples: 90s, 10m, 2h, 7d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def unix_ms(time: datetime) -> int:
    """Unix milliseconds; 0 for times before 1970."""
    return max(0, int(time.timestamp() * 1000))


def time_text(time_ms: int) -> str:
    """A UTC time that people and ``parse_time`` can read."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")
