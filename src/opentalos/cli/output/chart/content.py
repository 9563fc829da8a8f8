"""What the chart of an answer shows: panels with curves over time, or with bars by name.

Pure: ``chart_of`` decides titles, series, gaps and units; ``drawing`` only draws them. No value is
invented: series beyond the limit are summed where a sum means something, otherwise the chart says
how many it leaves out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final

from opentalos.cli.output.visible import visible
from opentalos.model.errors import BadRequest
from opentalos.pipelines.olap.store import TIME, Measure, Percentile, Query, Selection, Series, Top

CURVES_MAX: Final = 10  # of a panel, as many as there are colours that differ
PANELS_MAX: Final = 8
BARS_MAX: Final = 30  # names of a panel
LABEL_MAX: Final = 40  # characters
NAN: Final = math.nan  # no value
_MS: Final = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000, "ms": 1}
_FUNCTIONS: Final = {"sum": "sum of", "min": "lowest", "max": "highest", "avg": "mean of"}
_UNITS: Final = {"bytes": "bytes", "ms": "ms", "s": "s", "seconds": "s", "share": "share"}
_COUNTED: Final = ("samples", "count")  # columns that are numbers, whatever is measured
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Curve:
    """One series: a value, or ``NAN``, for each time or name of the chart."""

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Curves with one axis; ``unit`` is ``bytes``, ``ms``, ``s``, ``share`` or empty."""

    label: str
    unit: str
    per: str = ""  # the interval that a sum is of
    curves: tuple[Curve, ...]
    left_out: int = 0  # series that are not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Panels above each other that share ``times`` (Unix ms) or, without these, ``names``."""

    title: str
    subtitle: str
    legend: str  # what the labels of curves are
    times: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    panels: tuple[Panel, ...] = ()


@dataclass(slots=True)
class _Found:
    """The values of one group of an answer, by place: a time, or 0."""

    label: str
    values: dict[int, float] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        return sum(abs(value) for value in self.values.values() if not math.isnan(value))


def chart_of(query: Query, rows: Sequence[Row]) -> Chart:
    """The chart of an answer, without panels if it has no rows. Raises: BadRequest."""
    every = _columns_of_panels(query)
    _check_bounded(every)
    step_ms = query.step_ms if isinstance(query, Series | Percentile) else 0
    title, subtitle = _title(query), _subtitle(query.rows, step_ms)
    legend = ", ".join(map(shown, query.by))
    if not rows:
        return Chart(title=title, subtitle=subtitle, legend=legend)
    if not step_ms:
        names, panels = _bars(query, rows)
        return Chart(title=title, subtitle=subtitle, legend="", names=names, panels=panels)
    times = _times([row[TIME] for row in rows], step_ms)
    panels = tuple(_over_time(query, rows, columns, times) for columns in _columns_of_panels(query))
    return Chart(title=title, subtitle=subtitle, legend=legend, times=times, panels=panels)


def _check_bounded(panels: Sequence[tuple[str, ...]]) -> None:
    if len(panels) > PANELS_MAX or len(panels[0]) > CURVES_MAX:
        count, most = max((len(panels), PANELS_MAX), (len(panels[0]), CURVES_MAX))
        raise BadRequest(f"cannot draw {count} values: a chart shows at most {most}; ask for fewer")


def shown(value: Any) -> str:
    """A value as a label: one line, short, without characters that a reader cannot see."""
    text = " ".join(visible(str(value).encode("utf-8", "surrogateescape")).decode().split())
    if not text:
        return "(empty)"
    return text if len(text) <= LABEL_MAX else text[: LABEL_MAX - 1] + "…"


def span_text(span_ms: int) -> str:
    """A duration in the largest unit that divides it, such as ``10 s``."""
    unit, size = next(found for found in _MS.items() if span_ms % found[1] == 0)
    return f"{span_ms // size} {unit}"


def _measures(query: Query) -> tuple[Measure, ...]:
    return () if isinstance(query, Percentile) else query.measures


def _columns_of_panels(query: Query) -> list[tuple[str, ...]]:
    """Percentiles share an axis; other values each have their own."""
    if isinstance(query, Percentile):
        return [tuple(dict.fromkeys(query.names))]
    return [(name,) for name in dict.fromkeys(measure.name for measure in query.measures)]


def _measure_of(query: Query, columns: tuple[str, ...]) -> Measure | None:
    """The measure of a panel; None: its values are percentiles."""
    return next((item for item in _measures(query) if item.name == columns[0]), None)


def _title(query: Query) -> str:
    if isinstance(query, Percentile):
        values = ", ".join(query.names)
    else:
        values = ", ".join(map(_value_text, query.measures))
    about = ", ".join(shown(value) for value in _measured(query.rows)) or shown(query.rows.table)
    by = f" by {', '.join(map(shown, query.by))}" if query.by else ""
    most = f", {query.limit} largest" if isinstance(query, Top) else ""
    return f"{about}: {values}{by}{most}"


def _subtitle(rows: Selection, step_ms: int) -> str:
    filters = [
        f"{shown(item.column)} = {' or '.join(map(shown, item.values))}"
        for item in rows.filters
        if item.column != "measure"
    ]
    parts = [shown(rows.table), *filters]
    parts.append(f"{_time_text(rows.start_ms)} to {_time_text(rows.end_ms)} UTC")
    if step_ms:
        parts.append(f"every {span_text(step_ms)}")
    return ", ".join(parts)


def _time_text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _measured(rows: Selection) -> tuple[str, ...]:
    """The measures that the query names."""
    return tuple(
        str(value) for item in rows.filters if item.column == "measure" for value in item.values
    )


def _value_text(measure: Measure) -> str:
    if measure.per:
        return f"{shown(measure.column)} / {shown(measure.per)}"
    if not measure.column:
        return "count"
    return f"{_FUNCTIONS[measure.function]} {shown(measure.column)}"


def _adds_up(measure: Measure | None) -> bool:
    """Whether the sum of several groups' values is a value."""
    return measure is not None and measure.function in ("sum", "count") and not measure.per


def _unit(query: Query, measure: Measure | None) -> str:
    """The unit of a value, known from the measures' names, or from the column's."""
    if measure is not None and (not measure.column or measure.column in _COUNTED):
        return ""
    names = _measured(query.rows) or ((measure.column,) if measure is not None else ())
    units = {_UNITS.get(name.rpartition("_")[2], "") for name in names}
    return units.pop() if len(units) == 1 else ""


def _panel(query: Query, columns: tuple[str, ...], curves: tuple[Curve, ...], left: int) -> Panel:
    measure = _measure_of(query, columns)
    per = span_text(query.step_ms) if isinstance(query, Series) and _adds_up(measure) else ""
    return Panel(
        label="percentiles" if measure is None else _value_text(measure),
        unit=_unit(query, measure),
        per=per,
        curves=curves,
        left_out=left,
    )


def _times(found: Sequence[int], step_ms: int) -> tuple[int, ...]:
    """The times of an answer, and one within each gap, where curves are interrupted."""
    times = sorted(set(found))
    gaps = [first + step_ms for first, second in pairwise(times) if second - first > step_ms]
    return tuple(sorted([*times, *gaps]))


def _number(value: Any) -> float:
    return NAN if value is None else float(value)


def _over_time(
    query: Query, rows: Sequence[Row], columns: tuple[str, ...], times: tuple[int, ...]
) -> Panel:
    groups: dict[tuple[Any, ...], _Found] = {}
    for row in rows:
        key = tuple(row[name] for name in query.by)
        for column in columns:
            found = groups.setdefault((column, *key), _Found(_label(columns, column, key)))
            found.values[row[TIME]] = _number(row[column])
    measure = _measure_of(query, columns)
    kept, left = _bounded(list(groups.values()), CURVES_MAX, adds_up=_adds_up(measure))
    curves = tuple(
        Curve(found.label, tuple(found.values.get(time, NAN) for time in times)) for found in kept
    )
    return _panel(query, columns, curves, left)


def _label(columns: tuple[str, ...], column: str, key: tuple[Any, ...]) -> str:
    parts = [shown(value) for value in key]
    return " ".join([column, *parts] if len(columns) > 1 or not parts else [", ".join(parts)])


def _bounded(groups: list[_Found], most: int, *, adds_up: bool) -> tuple[list[_Found], int]:
    """The largest groups in their order, and the others as one sum, or as a number."""
    if len(groups) <= most:
        return groups, 0
    room = most - 1 if adds_up else most
    by_weight = sorted(range(len(groups)), key=lambda place: -groups[place].weight)
    largest = set(by_weight[:room])
    kept = [group for place, group in enumerate(groups) if place in largest]
    others = [group for place, group in enumerate(groups) if place not in largest]
    if not adds_up:
        return kept, len(others)
    total = _Found(_others(len(others)))
    for group in others:
        for place, value in group.values.items():
            if not math.isnan(value):
                total.values[place] = total.values.get(place, 0.0) + value
    return [*kept, total], 0


def _others(count: int) -> str:
    return f"sum of {count} others"


def _bars(query: Query, rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[Panel, ...]]:
    """Bars for the same names in every panel; the names with the largest first values."""
    panels = _columns_of_panels(query)
    kept, others = list(rows), list[Row]()
    if len(rows) > BARS_MAX:
        first = panels[0][0]
        order = sorted(range(len(rows)), key=lambda place: -abs(_or_zero(rows[place][first])))
        largest = set(order[: BARS_MAX - 1])
        kept = [row for place, row in enumerate(rows) if place in largest]
        others = [row for place, row in enumerate(rows) if place not in largest]
    names = [", ".join(shown(row[name]) for name in query.by) or "all" for row in kept]
    if others and any(map(_adds_up, _measures(query))):
        names.append(_others(len(others)))
    made = []
    for columns in panels:
        measure = _measure_of(query, columns)
        curves = [[_number(row[column]) for row in kept] for column in columns]
        if len(names) > len(kept):
            column, adds_up = columns[0], _adds_up(measure)
            curves[0].append(sum(_or_zero(row[column]) for row in others) if adds_up else NAN)
        labelled = tuple(map(Curve, columns, map(tuple, curves)))
        left = 0 if _adds_up(measure) else len(others)
        made.append(_panel(query, columns, labelled, left))
    return tuple(names), tuple(made)


def _or_zero(value: Any) -> float:
    found = _number(value)
    return 0.0 if math.isnan(found) else found
