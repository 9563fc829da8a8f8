"""The lake's table "egress": one row per event of what a tenant read in one minute at one server.

An event never changes and may come again, so the first of the same source and number stays. The
table is apart from "usage": that one is a function of the log, this one is measured.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from opentalos.pipelines.lake.layout import Layout
from opentalos.pipelines.service_events.json_events import (
    COUNT_MAX,
    OFFSET_MAX,
    TIME_MS_MAX,
    not_ahead,
    number,
)
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
