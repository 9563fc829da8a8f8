"""How values are written on pages: numbers, sizes, times, durations. Filters of the templates."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

NONE: Final = "-"
_KIB: Final = 1024
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
_TIME_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999
_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SPARK_WIDTH, _SPARK_HEIGHT = 100.0, 24.0
_TEN: Final = 10
_SEPARATORS: Final = frozenset(" /-_.:@#+")
WORD_CHARS: Final = 12  # a longer word may have no place in a narrow column


def number(value: float | None) -> str:
    """Grouped by thousands; at most one digit after the point."""
    if value is None:
        return NONE
    if isinstance(value, int) or abs(value) >= _TEN or value == int(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}"


def size(count: float | None) -> str:
    """Bytes in the unit that fits."""
    if count is None:
        return NONE
    if count < _KIB:
        return f"{count:,.0f} B"
    power = min(int(math.log(count, _KIB)), len(_UNITS))
    return f"{count / _KIB**power:,.1f} {_UNITS[power - 1]}"


def duration(seconds: float | None) -> str:
    """The two largest units: ``3 d 2 h``."""
    if seconds is None:
        return NONE
    left = int(seconds)
    parts = []
    for length, unit in _SPANS:
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count:,} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def instant(ms: int | None) -> str:
    """UTC to the second."""
    if ms is None or not 0 <= ms <= _TIME_MS_MAX:
        return NONE
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def machine_time(ms: int) -> str:
    """For the attribute ``datetime``."""
    shown = instant(ms)
    return "" if shown == NONE else shown.replace(" ", "T") + "Z"


def ago(ms: int | None, now_ms: int) -> str:
    """How long ago, or in how long."""
    if ms is None:
        return NONE
    seconds = (now_ms - ms) / 1_000
    if abs(seconds) < 1:
        return "now"
    first = duration(abs(seconds)).split(" ")[:2]
    return f"{' '.join(first)} ago" if seconds > 0 else f"in {' '.join(first)}"


def plural(count: int, singular: str, many: str = "") -> str:
    """``1 partition``, ``2 partitions``."""
    return f"{count:,} {singular if count == 1 else many or singular + 's'}"


def spark_points(values: Sequence[float | None]) -> str:
    """Points of a line through the values, for a box of 100 by 24; empty: fewer than two."""
    while values and values[0] is None:  # before the server started
        values = values[1:]
    known = [value for value in values if value is not None]
    if len(known) < 2:  # a line has two ends
        return ""
    most = max(known) or 1.0
    step = _SPARK_WIDTH / (len(values) - 1)
    return " ".join(
        f"{index * step:.1f},{_SPARK_HEIGHT - 1 - value / most * (_SPARK_HEIGHT - 2):.1f}"
        for index, value in enumerate(values)
        if value is not None
    )


def level(value: float, most: float, levels: int = 9) -> int:
    """The shade of a cell of a heat map: 0 for nothing, up to ``levels``."""
    if value <= 0 or most <= 0:
        return 0
    return max(1, min(levels, math.ceil(value / most * levels)))


class Piece(NamedTuple):
    """A part of a name that stays on one line; ``long``: it may be cut where it has no place."""

    text: str
    long: bool


def pieces(name: str) -> Sequence[Piece]:
    """The parts of a name, or of a sentence with names, between which lines may break: each ends
    with its separators."""
    found, start = [], 0
    for end, (sign, following) in enumerate(pairwise(name), 1):
        if sign in _SEPARATORS and following not in _SEPARATORS:
            found.append(name[start:end])
            start = end
    found.append(name[start:])
    return [Piece(text, len(text) > WORD_CHARS) for text in found]
