"""What tenants' topics were read in a month, for the bill: measured, and apart from usage.

The table "egress" is read only if a plan of the month has a price for it, so bills without one are
what they were before there was egress.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from opentalos.model.errors import NotFound
from opentalos.pipelines.billing.plans.price_plan import COUNT_DIGITS, Resource
from opentalos.pipelines.billing.plans.tenant_plans import Assigned
from opentalos.pipelines.billing.usage_sums import with_day
from opentalos.pipelines.lake.layout import Span
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.sink import table_frame
from opentalos.pipelines.metering.egress_table import LAYOUT
from opentalos.pipelines.pipeline import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from opentalos.pipelines.billing.plans.days import Days

LATE: Final = timedelta(minutes=10)  # after a month's end its last events may come
_COUNT: Final = f"decimal({COUNT_DIGITS},0)"
_COUNT_ARROW: Final = pa.decimal128(COUNT_DIGITS, 0)
READS_SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("topic", pa.string()),
        ("name", pa.string()),
        ("reader", pa.string()),
        ("messages", _COUNT_ARROW),
        ("bytes", _COUNT_ARROW),
    ]
)
_PLACE: Final = ("tenant", "topic", "reader")

Row = Mapping[str, Any]


def month_egress(
    spark: "SparkSession", settings: PipelineSettings, month: Month, spans: "Sequence[Days]"
) -> list[Row]:
    """One row per tenant, topic, reader and ``day``, of ``with_day``: name, messages, bytes.

    Raises: StoreUnavailable.
    """
    try:
        table = pipeline_table(settings.home, settings.lake, LAYOUT)
    except NotFound:
        return []  # the first event of a lake creates it
    rows = table_frame(spark, table, LAYOUT, Span(month.begin_ms, month.end_ms))
    totals = (
        with_day(rows, month, spans)
        .groupBy(*_PLACE, "day")
        .agg(
            F.max("name").alias("name"),
            *(F.sum(F.col(name).cast(_COUNT)).cast(_COUNT).alias(name) for name in
              ("messages", "bytes")),
        )
    )  # fmt: skip
    found: list[Row] = totals.toArrow().to_pylist()
    return found


def billable(rows: Iterable[Row], assigned: Sequence[Assigned], resource: Resource) -> list[Row]:
    """Without the days on which the tenant's plan has no price for it. A tenant without a plan
    keeps its rows: that is a problem, as with usage."""
    parts: dict[str, list[Assigned]] = {}
    for part in assigned:
        parts.setdefault(part.tenant, []).append(part)
    return [
        row
        for row in rows
        if any(
            (part.plan is None or resource in part.plan.rates)
            and (part.days.whole or part.days.begin <= row["day"] < part.days.end)
            for part in parts.get(row["tenant"], ())
        )
    ]


def with_resource(
    spans: Iterable[Row], rows: Iterable[Row], resource: Resource, column: str = "bytes"
) -> list[Row]:
    """Spans of usage, ``span_totals``, with the sums of a column; ordered by tenant and day."""
    nothing = {"records": 0, "bytes": 0}
    found = {(span["tenant"], span["day"]): dict(span) for span in spans}
    for row in rows:
        key = row["tenant"], row["day"]
        span = found.setdefault(key, {"tenant": key[0], "day": key[1], **nothing})
        span[resource] = span.get(resource, 0) + int(row[column])
    return [found[key] for key in sorted(found)]


def reads_table(egress: Iterable[Row]) -> pa.Table:
    """One row per tenant, topic and reader of the whole month, in a fixed order."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in egress:
        key = tuple(row[name] for name in _PLACE)
        sums = found.setdefault(key, {"name": row["name"], "messages": 0, "bytes": 0})
        sums["name"] = max(sums["name"], row["name"])
        for name in ("messages", "bytes"):
            sums[name] += int(row[name])
    rows = [dict(zip(_PLACE, key, strict=True)) | sums for key, sums in sorted(found.items())]
    order = [(name, "ascending") for name in ("tenant", "name", "topic", "reader")]
    return pa.Table.from_pylist(rows, READS_SCHEMA).sort_by(order)
