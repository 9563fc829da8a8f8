"""The lake's table "egress": one row per event of what a tenant read in one minute at one server.

An event never changes and may come again, so the first of the same source and number stays. The
table is apart from "usage": that one is a function of the log, this one is measured.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from opentalos.pipelines.lake.layout import Layout
from opentalos.pipelines.service_events.json_events import (
    COUNT_MAX,
    OFFSET_MAX,
    TIME_MS_MAX,
    not_ahead,
    number,
)
from opentalos.wire.metrics.egress import EGRESS_KIND
from opentalos.wire.metrics.usage import MINUTE_MS

TABLE: Final = "egress"
KEY: Final = ("minute", "source", "number")
EVENT: Final = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("name", StringType(), False),
        StructField("tenant", StringType(), False),
        StructField("reader", StringType(), False),
        StructField("minute_ms", LongType(), False, number(0, TIME_MS_MAX)),
        StructField("source", StringType(), False),
        StructField("number", LongType(), False, number(0, OFFSET_MAX)),
        StructField("messages", LongType(), False, number(0, COUNT_MAX)),
        StructField("bytes", LongType(), False, number(0, COUNT_MAX)),
    ]
)
RULES: Final = {  # conditions that an event's fields must meet together
    "empty name": "topic <> '' AND name <> '' AND tenant <> '' AND reader <> '' AND source <> ''",
    "not a whole minute": f"minute_ms % {MINUTE_MS} = 0",
    **not_ahead("minute_ms"),
}
SCHEMA: Final = pa.schema(
    [
        pa.field("tenant", pa.string(), nullable=False),  # owner of the topic
        pa.field("topic", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("reader", pa.string(), nullable=False),  # tenant that read
        pa.field("minute", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
    ]
)
LAYOUT: Final = Layout(TABLE, SCHEMA, "minute", KEY)
_ARRIVAL: Final = ("source_partition", "source_offset")


def is_egress(value: str) -> Column:
    """Whether the message in a column is an egress event. Servers write compact JSON, in which a
    text cannot contain this: its quotes are escaped."""
    text = F.lit(f'"kind":"{EGRESS_KIND}"')
    return F.coalesce(F.contains(F.col(value), text.cast("binary")), F.lit(False))


def egress_rows(events: DataFrame) -> DataFrame:
    """Valid events as rows of the table, with the partition and offset that they came from."""
    minute = F.timestamp_millis("minute_ms").alias("minute")
    columns = [minute if name == "minute" else F.col(name) for name in SCHEMA.names]
    return events.select(*columns, *_ARRIVAL)


def merge_egress(stored: DataFrame, fresh: DataFrame) -> DataFrame:
    """All rows, each source and number once; the stored one stays, with a null ``source_offset``.

    Args: stored: rows of the table; fresh: rows of ``egress_rows``.
    """
    nowhere = (F.lit(None).cast("bigint").alias(name) for name in _ARRIVAL)
    both = stored.select(*SCHEMA.names, *nowhere).unionByName(fresh)
    first = Window.partitionBy(*KEY).orderBy(*(F.asc_nulls_first(name) for name in _ARRIVAL))
    return both.withColumn("_rank", F.row_number().over(first)).where("_rank = 1").drop("_rank")
