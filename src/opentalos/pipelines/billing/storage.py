"""How long tenants' bytes were kept in a month, for the bill: exact integrals of byte-minutes.

The messages of one minute of append time count from the minute's end to the last report that they
were kept (``kept_table``); what no report covers is not billed. The tables are read only if a plan
of the month has a price for it, so bills without one are what they were before.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from opentalos.model.errors import NotFound
from opentalos.pipelines.lake.layout import ALL, Span
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.periods.whole_days import DAY_MS
from opentalos.pipelines.lake.sink import table_frame
from opentalos.pipelines.metering.kept_table import LAYOUT
from opentalos.pipelines.metering.usage_frame import usage_frame
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.wire.metrics.usage import MINUTE_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from opentalos.pipelines.billing.plans.days import Days

# Of byte-milliseconds: 2 ** 48 bytes of a minute, a month's time and 10 ** 12 minutes have 36.
_DIGITS: Final = 38
_SUM: Final = f"decimal({_DIGITS},0)"
_BYTES: Final = "decimal(20,0)"
_TIME: Final = "decimal(11,0)"
_PARTITION: Final = ("topic", "partition")
_PLACE: Final = ("tenant", "topic")
KEPT_SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("topic", pa.string()),
        ("name", pa.string()),
        ("byte_minutes", pa.decimal128(_DIGITS, 0)),
    ]
)

Row = Mapping[str, Any]


def month_storage(
    spark: "SparkSession", settings: PipelineSettings, month: Month, spans: "Sequence[Days]"
) -> list[Row]:
    """One row per tenant, topic and ``day``, the first of a span: name and byte_minutes.

    Raises: ConfigError, NotFound, StoreUnavailable: as ``usage_frame``.
    """
    kept = _reports(spark, settings, Span(month.begin_ms, ALL.end_ms))
    if kept is None:
        return []
    usage = usage_frame(spark, settings, Span(ALL.start_ms, month.end_ms))
    found = byte_times(usage, kept, month, spans).collect()
    return [
        {
            **{name: row[name] for name in (*_PLACE, "name")},
            "day": span.begin,
            "byte_minutes": int(row[_column(span)]) // MINUTE_MS,
        }
        for row in found
        for span in spans
        if row[_column(span)]
    ]


def byte_times(
    usage: DataFrame, kept: DataFrame, month: Month, spans: "Sequence[Days]"
) -> DataFrame:
    """One row per tenant and topic: name, and per span the sum of bytes x milliseconds kept.

    Args: usage: the table, all rows from before the month's end; kept: that table, from its begin.
    """
    reports = kept.groupBy(*_PARTITION, "start_offset").agg(
        F.max(F.unix_millis("minute")).alias("until_ms")
    )
    least = reports.groupBy(*_PARTITION).agg(F.min("start_offset").alias("_least"))
    rows = usage.join(F.broadcast(least), [*_PARTITION]).where("first_offset >= _least")
    nothing = F.lit(None)
    both = rows.select(
        *_PARTITION,
        F.col("first_offset").alias("offset"),
        F.lit(1).alias("is_row"),
        nothing.cast("bigint").alias("until_ms"),
        *("tenant", "name", "bytes"),
        (F.unix_millis("minute") + MINUTE_MS).alias("from_ms"),
    ).unionByName(
        reports.select(
            *_PARTITION,
            F.col("start_offset").alias("offset"),
            F.lit(0).alias("is_row"),
            "until_ms",
            *(nothing.cast("string").alias(name) for name in ("tenant", "name")),
            *(nothing.cast("bigint").alias(name) for name in ("bytes", "from_ms")),
        )
    )
    # Of the reports whose start is not above the row's first offset, the latest.
    before = Window.partitionBy(*_PARTITION).orderBy("offset", "is_row")
    until = F.max("until_ms").over(before.rowsBetween(Window.unboundedPreceding, 0))
    whole = both.withColumn("until_ms", until).where("is_row = 1")
    sums = (F.sum(_byte_ms(span, month)).cast(_SUM).alias(_column(span)) for span in spans)
    return whole.groupBy(*_PLACE).agg(F.max("name").alias("name"), *sums)


def _byte_ms(span: "Days", month: Month) -> Column:
    begin_ms = F.lit(month.begin_ms + span.begin * DAY_MS)
    end_ms = F.lit(month.begin_ms + span.end * DAY_MS)
    kept_ms = F.least("until_ms", end_ms) - F.greatest("from_ms", begin_ms)
    positive_ms = F.greatest(kept_ms, F.lit(0).cast("bigint"))
    return F.col("bytes").cast(_BYTES) * positive_ms.cast(_TIME)


def _column(span: "Days") -> str:
    return f"day_{span.begin}"


def kept_table(storage: Iterable[Row]) -> pa.Table:
    """One row per tenant and topic of the whole month, in a fixed order."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in storage:
        key = tuple(row[name] for name in _PLACE)
        sums = found.setdefault(key, {"name": row["name"], "byte_minutes": 0})
        sums["name"] = max(sums["name"], row["name"])
        sums["byte_minutes"] += row["byte_minutes"]
    rows = [dict(zip(_PLACE, key, strict=True)) | sums for key, sums in sorted(found.items())]
    order = [(name, "ascending") for name in ("tenant", "name", "topic")]
    return pa.Table.from_pylist(rows, KEPT_SCHEMA).sort_by(order)


def reported_since(
    spark: "SparkSession", settings: PipelineSettings, month: Month
) -> set[tuple[str, int]]:
    """Topic and number of the partitions that were reported since the month's end."""
    kept = _reports(spark, settings, Span(month.end_ms, ALL.end_ms))
    if kept is None:
        return set()
    return {(row[0], row[1]) for row in kept.select(*_PARTITION).distinct().collect()}


def _reports(spark: "SparkSession", settings: PipelineSettings, span: Span) -> DataFrame | None:
    try:
        table = pipeline_table(settings.home, settings.lake, LAYOUT)
    except NotFound:
        return None  # the first report of a lake creates it
    return table_frame(spark, table, LAYOUT, span)
