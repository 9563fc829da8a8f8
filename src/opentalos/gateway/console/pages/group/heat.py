"""A heat map over time as a picture: runs of equal shades, so that it stays small."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from opentalos.gateway.console.pages.series import Series
from opentalos.gateway.console.shown import level, number

ROW: Final = 14  # units of the picture
WIDTH: Final = 1_000
LEFT: Final = 74  # for the names of rows
TICKS: Final = 6
ROWS_MAX: Final = 40
COLUMNS_MIN: Final = 15  # also if fewer steps are known
_DAY_S: Final = 86_400


class Run(NamedTuple):
    """Neighbouring steps of one row with one shade."""

    x: float
    y: int
    width: float
    shade: int
    text: str


class Heat(NamedTuple):
    """``names``: (y, text) of rows; ``ticks``: (x, text) of times."""

    width: int
    height: int
    runs: Sequence[Run]
    names: Sequence[tuple[int, str]]
    ticks: Sequence[tuple[float, str]]
    most: float
    left: int = LEFT


def heat_of(found: Series, label: str, unit: str) -> Heat | None:
    """Rows in the order of their label's number, the rest last; None: nothing is known yet."""
    lines = [line for line in found.lines if any(value is not None for value in line.values)]
    if not lines or not found.times_s:
        return None
    # What is not known yet would leave most of the picture empty.
    first = min(
        next(place for place, value in enumerate(line.values) if value is not None)
        for line in lines
    )
    first = max(0, min(first, len(found.times_s) - COLUMNS_MIN))
    times_s = found.times_s[first:]
    lines = [line._replace(values=line.values[first:]) for line in lines]
    lines.sort(key=lambda line: (label not in line.labels, int(line.labels.get(label, 0))))
    # The rest is a sum of many, which would make all others pale.
    single = [line for line in lines if label in line.labels][:ROWS_MAX] or lines[:1]
    most = max((value or 0 for line in single for value in line.values), default=0)
    step = (WIDTH - LEFT) / len(times_s)
    runs: list[Run] = []
    for place, line in enumerate(single):
        name = f"{label} {line.labels.get(label, '')}".strip()
        runs += _runs(line.values, times_s, (place * ROW, step, most), (name, unit))
    names = [
        (place * ROW + ROW - 4, line.labels.get(label, line.name))
        for place, line in enumerate(single)
    ]
    return Heat(WIDTH, len(single) * ROW + 18, runs, names, _ticks(times_s, step), most)


def _runs(
    values: Sequence[float | None],
    times_s: Sequence[int],
    place: tuple[int, float, float],
    words: tuple[str, str],
) -> Sequence[Run]:
    (y, step, most), (name, unit) = place, words
    found: list[Run] = []
    start = 0
    for end in range(1, len(values) + 1):
        shade = -1 if values[start] is None else level(values[start] or 0, most)
        if end < len(values):
            other = values[end]
            if shade == (-1 if other is None else level(other, most)):
                continue
        known = [value for value in values[start:end] if value is not None]
        if known:
            least, largest = number(min(known)), number(max(known))
            amount = largest if least == largest else f"{least} to {largest}"
            last = times_s[end - 1] + (times_s[1] - times_s[0] if len(times_s) > 1 else 0)
            text = f"{name}, {_clock(times_s[start])} to {_clock(last)}: {amount} {unit}"
            found.append(Run(round(LEFT + start * step, 1), y, round((end - start) * step, 1),
                             shade, text))  # fmt: skip
        start = end
    return found


def _ticks(times_s: Sequence[int], step: float) -> Sequence[tuple[float, str]]:
    every = max(1, len(times_s) // TICKS)
    long = times_s[-1] - times_s[0] > _DAY_S
    return [
        (round(LEFT + place * step, 1), _clock(times_s[place], days=long))
        for place in range(0, len(times_s), every)
        if LEFT + place * step < WIDTH - LEFT / 2
    ]


def _clock(time_s: int, *, days: bool = False) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%m-%d %H:%M" if days else "%H:%M")
