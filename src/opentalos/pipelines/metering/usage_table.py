"""The lake's table "usage": one row per partition and minute of append time, and its upsert.

Of several events of one minute the one with the largest ``next_offset`` wins. So events may arrive
late, repeatedly and in any order, with the same result.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from opentalos.pipelines.lake.layout import Layout
from opentalos.pipelines.service_events.json_events import (
    COUNT_MAX,
    OFFSET_MAX,
    TIME_MS_MAX,
    not_ahead,
    number,
)
from opentalos.wire.metrics.usage import MINUTE_MS

TABLE: Final = "usage"
KEY: Final = ("topic", "partition", "minute")
EVENT: Final = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("name", StringType(), False),
        StructField("tenant", StringType(), False),
        StructField("partition", IntegerType(), False),
        StructField("minute_ms", LongType(), False, number(0, TIME_MS_MAX)),
        StructField("records", LongType(), False, number(1, COUNT_MAX)),
        StructField("bytes", LongType(), False, number(0, COUNT_MAX)),
        StructField("first_offset", LongType(), False, number(0, OFFSET_MAX)),
        StructField("next_offset", LongType(), False, number(0, OFFSET_MAX)),
    ]
)
RULES: Final = {  # conditions that an event's fields must meet together
    "empty name": "topic <> '' AND name <> '' AND tenant <> ''",
    "not a whole minute": f"minute_ms % {MINUTE_MS} = 0",
    "first_offset is not below next_offset": "first_offset < next_offset",
    "records is not next_offset - first_offset":
        "try_subtract(next_offset, first_offset) = records",
    **not_ahead("minute_ms"),
}  # fmt: skip
SCHEMA: Final = pa.schema(
    [
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("minute", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("first_offset", pa.int64(), nullable=False),
        pa.field("next_offset", pa.int64(), nullable=False),
    ]
)
LAYOUT: Final = Layout(TABLE, SCHEMA, "minute", KEY)
KEPT: Final = "kept"
CONFLICT: Final = "conflict"
_OLDER: Final = "older"
_CONTENT: Final = ("tenant", "name", "records", "bytes", "first_offset")
_ARRIVAL: Final = ("source_partition", "source_offset")


def usage_rows(events: DataFrame) -> DataFrame:
    """Valid events as rows of the table, with the partition and offset that they came from."""
    minute = F.timestamp_millis("minute_ms").alias("minute")
    columns = [minute if name == "minute" else F.col(name) for name in SCHEMA.names]
    return events.select(*columns, *_ARRIVAL)


def merge_usage(stored: DataFrame, fresh: DataFrame) -> DataFrame:
    """``latest_usage`` of stored and fresh rows; stored rows count as the earlier ones.

    Args: stored: rows of the table; fresh: rows of ``usage_rows``.
    """
    nowhere = (F.lit(None).cast("bigint").alias(name) for name in _ARRIVAL)
    return latest_usage(stored.select(*SCHEMA.names, *nowhere).unionByName(fresh))


def latest_usage(rows: DataFrame) -> DataFrame:
    """The rows with an additional column ``outcome``; exactly one row of each minute is "kept".

    It has the largest ``next_offset`` and is the first one with it. A row with the same
    ``next_offset`` and other content is a "conflict", which is a defect of its writer.
    """
    minute = Window.partitionBy(*KEY)
    # The table's own rows have no source offset and come first: nulls are the smallest.
    order = minute.orderBy(
        F.desc("next_offset"), *(F.asc_nulls_first(column) for column in _ARRIVAL)
    )
    content = F.struct("next_offset", *_CONTENT)
    ranked = rows.withColumn("_rank", F.row_number().over(order)).withColumn(
        "_winner", F.first(content).over(order)
    )
    disagrees = (F.col("next_offset") == F.col("_winner.next_offset")) & (
        content != F.col("_winner")
    )
    outcome = F.when(F.col("_rank") == 1, KEPT).when(disagrees, CONFLICT).otherwise(_OLDER)
    return ranked.withColumn("outcome", outcome).drop("_rank", "_winner")
