"""The lake's table "kept": one row per report that a partition's messages were still stored.

``start_offset``: the messages from there on were kept at the beginning of the minute. A row stays
true, so it may come again; the table is a set.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from opentalos.pipelines.lake.layout import Layout
from opentalos.pipelines.service_events.json_events import (
    OFFSET_MAX,
    TIME_MS_MAX,
    not_ahead,
    number,
)
from opentalos.wire.metrics.usage import MINUTE_MS

TABLE: Final = "kept"
KEY: Final = ("minute", "topic", "partition", "start_offset")
EVENT: Final = StructType(
    [
        StructField("topic", StringType(), False),
        StructField("name", StringType(), False),
        StructField("tenant", StringType(), False),
        StructField("partition", IntegerType(), False),
        StructField("minute_ms", LongType(), False, number(0, TIME_MS_MAX)),
        StructField("start_offset", LongType(), False, number(0, OFFSET_MAX)),
    ]
)
RULES: Final = {  # conditions that an event's fields must meet together
    "empty name": "topic <> '' AND name <> '' AND tenant <> ''",
    "not a whole minute": f"minute_ms % {MINUTE_MS} = 0",
    **not_ahead("minute_ms"),
}
SCHEMA: Final = pa.schema(
    [
        pa.field("tenant", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("minute", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("start_offset", pa.int64(), nullable=False),
    ]
)
LAYOUT: Final = Layout(TABLE, SCHEMA, "minute", KEY)
