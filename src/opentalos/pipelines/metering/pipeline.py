"""The pipeline ``metering``: usage events of the servers into the lake's table "usage" (I9)."""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering.usage_table import (
    CONFLICT,
    EVENT,
    KEPT,
    KEY,
    RULES,
    SCHEMA,
    TABLE,
    merge_usage,
    usage_rows,
)
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.service_events.json_events import split_events, write_side
from opentalos.pipelines.service_events.service_topic import ON_EXPIRED, ServiceTopic
from opentalos.wire.metrics.usage import USAGE_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC: Final = "__usage"
GROUP: Final = "pipeline-metering"  # commits its progress, so that its lag is visible
_SOURCE: Final = ServiceTopic("metering", TOPIC, GROUP, "partition,offset,value,append_time")
_LOG: Final = logging.getLogger(__name__)


class Metering:
    """Upserts usage by (topic, partition, minute): the larger next offset wins.

    A repeated batch changes nothing, so a killed driver neither loses nor duplicates rows.
    """

    name = _SOURCE.pipeline
    about = "usage of tenants, per topic, partition and minute, for the bill"
    options: Mapping[str, str] = MappingProxyType(
        {ON_EXPIRED: f"fail (default) or skip: usage that expired in {TOPIC} before it was read"}
    )

    def start(self, spark: "SparkSession", settings: PipelineSettings) -> "StreamingQuery":
        """Start the stream. Raises: ConfigError: an option is invalid."""
        return _SOURCE.start(spark, settings, UsageWriter(settings))


class UsageWriter:
    """Writes batches of messages into the table; invalid messages go to the side output."""

    def __init__(self, settings: PipelineSettings) -> None:
        self._home = settings.home
        self._table = HourTable(settings.home, TABLE, SCHEMA)
        self.bad = 0  # messages for the side output, of this process
        self.conflicts = 0  # events that contradict another event of the same offsets

    def __call__(self, messages: DataFrame, batch_id: int) -> None:
        """Write one batch; after an error Spark repeats it."""
        kept = messages.persist()
        try:
            self._take(kept, batch_id)
        finally:
            kept.unpersist()

    def _take(self, messages: DataFrame, batch_id: int) -> None:
        good, bad = split_events(messages, EVENT, USAGE_VERSION, RULES)
        fresh = usage_rows(good)
        hour = F.unix_millis("minute") - F.unix_millis("minute") % HOUR_MS
        hours = [int(row[0]) for row in fresh.select(hour.alias("hour")).distinct().collect()]
        stored = self._table.read(messages.sparkSession, hours)
        judged = merge_usage(stored, fresh).persist()
        try:
            conflicts = judged.where(F.col("outcome") == CONFLICT)
            self.bad += write_side(bad, self._home, Metering.name, batch_id)
            self._report(write_side(_as_bad(conflicts), self._home, Metering.name, batch_id))
            rows = judged.where(F.col("outcome") == KEPT).toArrow()
        finally:
            judged.unpersist()
        for hour_ms in sorted(hours):
            self._replace(hour_ms, rows)

    def _replace(self, hour_ms: int, rows: pa.Table) -> None:
        """Rewrite an hour, unless all of its rows are stored already."""
        end = pa.scalar((hour_ms + HOUR_MS) * 1000, pa.timestamp("us", "UTC"))
        begin = pa.scalar(hour_ms * 1000, pa.timestamp("us", "UTC"))
        minute = rows.column("minute")
        inside = rows.filter(pc.and_(pc.greater_equal(minute, begin), pc.less(minute, end)))
        if inside.column("source_offset").null_count < inside.num_rows:
            order: Any = [(name, "ascending") for name in KEY]
            self._table.replace(hour_ms, inside.select(SCHEMA.names).sort_by(order))

    def _report(self, conflicts: int) -> None:
        if conflicts:
            self.conflicts += conflicts
            _LOG.error("usage-conflict: events=%d contradict earlier events", conflicts)


def _as_bad(conflicts: DataFrame) -> DataFrame:
    """Contradicting events in the form of the side output; the table keeps the first event."""
    return conflicts.select(
        F.col("source_partition").alias("partition"),
        F.col("source_offset").alias("offset"),
        F.lit("contradicts the first event of the same next_offset").alias("reason"),
        F.to_json(F.struct(*SCHEMA.names)).cast("binary").alias("value"),
    )


METERING: Final = Metering()
