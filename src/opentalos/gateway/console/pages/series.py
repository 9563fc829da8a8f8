"""Time series of REST as charts, sparklines and figures need them.

``source`` is the URL of a chart's figures, ``read`` the series for what a page draws itself. Sums
become rates per second; percentiles stay milliseconds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentalos.gateway.console.calls import RestError
from opentalos.gateway.console.page import Data, Page, Visit, url

HOUR_S: Final = 3_600
SPANS: Final = {"15m": 900, "1h": HOUR_S, "6h": 6 * HOUR_S, "24h": 24 * HOUR_S, "7d": 168 * HOUR_S}
LIMIT_MAX: Final = 500
_PASSED: Final = ("metric", "topic", "group", "by")
# The caller may not see it, there is no such topic, or its time has no figures yet.
_NOT_THERE: Final = (403, 404, 422)


class Line(NamedTuple):
    """One series. ``values``: as many as there are times; None: not known."""

    name: str
    labels: Mapping[str, str]
    values: Sequence[float | None]

    @property
    def latest(self) -> float | None:
        """The last known value of the steps that are over."""
        return next((value for value in reversed(self.values[:-1]) if value is not None), None)


class Series(NamedTuple):
    """Series of one metric over the same times, the largest first."""

    times_s: Sequence[int]
    lines: Sequence[Line]
    notes: Sequence[str] = ()

    @property
    def first(self) -> Line | None:
        """The only line, or the largest one."""
        return next(iter(self.lines), None)

    def of(self, label: str, value: str) -> Sequence[float | None]:
        """Values of the series with this label; empty: there is none."""
        return next((line.values for line in self.lines if line.labels.get(label) == value), ())


async def read(visit: Visit, metric: str, *, span_s: int = HOUR_S, **names: str | int) -> Series:
    """The series of a metric until now; none of what the caller may not see.

    Args: names: topic, group, by, step_s, limit, as REST has them.
    """
    now_s = visit.now_ms // 1_000
    query: dict[str, str | int | None] = {
        "metric": metric, "from_s": now_s - span_s, **names,
    }  # fmt: skip
    try:
        found = await visit.rest.get("series", query=query)
    except RestError as error:
        if error.status in _NOT_THERE:
            return Series((), ())
        raise
    return series_of(found)


def series_of(found: Mapping[str, Any]) -> Series:
    """What REST returned, with sums as rates per second."""
    per = found["step_s"] if found["kind"] == "sum" else 1
    lines = [
        Line(
            _name(line["labels"]),
            line["labels"],
            [None if value is None else value / per for value in line["values"]],
        )
        for line in found["series"]
    ]
    return Series(found["times_s"], lines, found.get("notes", ()))


def source(metric: str, **names: str | int | None) -> str:
    """The URL of a chart's figures: topic, group, by, span (one of SPANS), limit."""
    return url("series", metric=metric, **names)


async def show(visit: Visit) -> Data:
    """Figures of a chart."""
    query = visit.query
    names = {name: query.text(name) for name in _PASSED if query.text(name)}
    metrics = names.pop("metric", "").split(",")[:4]  # such as three percentiles in one chart
    span_s = SPANS[query.choice("span", tuple(SPANS), "1h")]
    limit = query.integer("limit", 8, 1, LIMIT_MAX)
    found = {
        metric: await read(visit, metric, span_s=span_s, limit=limit, **names) for metric in metrics
    }
    times = next((series.times_s for series in found.values() if series.times_s), ())
    several = len(metrics) > 1
    lines = [
        (_percentile(metric) if several else line.name or metric, line.values)
        for metric, series in found.items()
        for line in series.lines
        if len(line.values) == len(times)
    ]
    start = _known_from([values for _, values in lines], len(times))
    shown = [{"name": name, "values": values[start:]} for name, values in lines]
    return Data({"times": times[start:], "series": shown})


def _known_from(lines: Sequence[Sequence[float | None]], steps: int) -> int:
    """The first step of which a value is known: a young server's charts are not mostly empty."""
    for step in range(steps):
        if any(values[step] is not None for values in lines):
            return step
    return 0


def _percentile(metric: str) -> str:
    """``put_p999`` as people write it: P99.9."""
    digits = metric.rpartition("_p")[2]
    return f"P{digits[:2]}.{digits[2:]}".rstrip(".") if digits.isdigit() else metric


def _name(labels: Mapping[str, str]) -> str:
    if "rest" in labels:
        return f"{labels['rest']} more"
    return ", ".join(labels.values())


PAGES = (Page(path="series", show=show),)
