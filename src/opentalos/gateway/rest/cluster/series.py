"""REST of series: metrics over time, from memory or from the OLAP store."""

from typing import Any

from opentalos.broker.figures.metrics import METRICS, By, Kind
from opentalos.broker.figures.plan import Times
from opentalos.broker.figures.scope import SeriesRequest
from opentalos.broker.figures.service import SERIES_MAX, SeriesFound, SeriesLine
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import usable
from opentalos.gateway.rest.routing.forms import GROUP
from opentalos.gateway.rest.routing.route import Route
from opentalos.gateway.rest.routing.schema import (
    fields,
    integer,
    items,
    nullable,
    number,
    one_of,
    table,
    text,
)

LIMIT_DEFAULT = 10
METRIC_DEFAULT = "messages_in"
READ_S = 20.0  # for a store that is slow
TIME_S_MAX = 1 << 40
STEP_S_MAX = 366 * 86_400
_MS_PER_S = 1_000
_TIME = {"minimum": 1, "maximum": TIME_S_MAX}
_LINE = fields(
    labels=table(text(about="topic, partition, group, error or server; rest: how many others.")),
    values=items(nullable(number("null: not known, or a percentile without calls."))),
    total=number("The sum of the values; of a gauge or percentile the largest."),
)
_SERIES = fields(
    metric=text(),
    unit=text(),
    kind=one_of(*Kind, about="sum: within a step; gauge: the largest of a step; percentile."),
    step_s=integer(1),
    times_s=items(integer(about="Start of the step, Unix seconds.")),
    series=items(_LINE),
    source=one_of("memory", "olap"),
    notes=items(text(about="What the answer leaves out, for people.")),
    partial=items(fields(server=text(), reason=text())),
)


async def get_series(call: Call) -> Answer:
    """Lines with a value for each step."""
    call.exchange.extend(READ_S)
    query = call.query
    times = (query.get(name, 0) * _MS_PER_S for name in ("from_s", "to_s", "step_s"))
    request = SeriesRequest(
        metric=query.get("metric", METRIC_DEFAULT),
        by=By(query["by"]) if "by" in query else None,
        topic=query.get("topic", ""),
        group=query.get("group", ""),
        times=Times(*times),
        limit=query.get("limit", LIMIT_DEFAULT),
    )
    with usable():
        found = await call.broker.observing.series.read(call.caller, request)
    return Answer(_shown(found))


async def list_metrics(call: Call) -> Answer:
    """What may be asked."""
    listed = [
        {
            "metric": metric.name,
            "unit": metric.unit,
            "kind": metric.kind.value,
            "by": [by.value for by in metric.by],
        }
        for metric in METRICS.values()
    ]
    return Answer({"metrics": listed})


def _shown(found: SeriesFound) -> dict[str, Any]:
    plan, metric = found.plan, found.metric
    return {
        "metric": metric.name,
        "unit": metric.unit,
        "kind": metric.kind.value,
        "step_s": plan.step_ms // _MS_PER_S,
        "times_s": [time_ms // _MS_PER_S for time_ms in plan.times_ms()],
        "series": list(map(_line, found.lines)),
        "source": found.source,
        "notes": list(found.notes),
        "partial": [{"server": part.server, "reason": part.reason} for part in found.partial],
    }


def _line(line: SeriesLine) -> dict[str, Any]:
    return {
        "labels": dict(line.labels),
        "values": [None if value is None else _number(value) for value in line.values],
        "total": _number(line.total),
    }


def _number(value: float) -> float:
    """Amounts as integers; milliseconds with microseconds."""
    return int(value) if value.is_integer() else round(value, 3)


_TAG = "series"
ROUTES = (
    Route(
        method="GET", path="series", handler=get_series, tag=_TAG,
        summary="Show a metric over time, split by topic, partition, group, error or server.",
        reply=_SERIES,
        query={
            "metric": one_of(*METRICS, about=f"Default {METRIC_DEFAULT}."),
            "by": one_of(*By, about="Default: the first that the metric has, mostly total."),
            "topic": text(chars_max=400, about="Only this topic."),
            "group": text(GROUP, about="Only this group of the topic; of the metric lag."),
            "from_s": integer(**_TIME, about="Unix seconds; default: an hour before the end."),
            "to_s": integer(**_TIME, about="Unix seconds; default: the last whole step."),
            "step_s": integer(1, STEP_S_MAX, "Wanted step; the reply says which one it has."),
            "limit": integer(1, SERIES_MAX, f"Series of their own; default {LIMIT_DEFAULT}."),
        },
        statuses=(404, 422),
        notes="The largest series come first, all others follow as one with the label `rest`. "
        "Errors, percentiles and servers are for roles that may read metrics; other callers see "
        "topics that they may describe. Memory has the last week; longer ranges come from the "
        "OLAP store, if `[measuring] olap` names one. `partial` names servers whose values are "
        "missing.",
    ),
    Route(
        method="GET", path="series/metrics", handler=list_metrics, tag=_TAG,
        summary="List the metrics that have series.",
        reply=fields(
            metrics=items(
                fields(metric=text(), unit=text(), kind=text(), by=items(text()))
            )
        ),
    ),
)  # fmt: skip
