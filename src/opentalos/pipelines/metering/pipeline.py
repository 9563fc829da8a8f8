"""The pipeline ``metering``: events of the servers into the lake's tables "usage" (I9) and
"egress"."""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from opentalos.pipelines.lake.hours import Hours, hour_of_row
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.sink import batch_of, run_table
from opentalos.pipelines.metering import egress_table
from opentalos.pipelines.metering.usage_table import (
    CONFLICT,
    EVENT,
    KEPT,
    LAYOUT,
    RULES,
    SCHEMA,
    merge_usage,
    usage_rows,
)
from opentalos.pipelines.pipeline import CHECKPOINT, CHECKPOINT_AT, PipelineSettings
from opentalos.pipelines.service_events.json_events import split_events
from opentalos.pipelines.service_events.service_topic import ON_EXPIRED, ServiceTopic
from opentalos.pipelines.service_events.side_output import SideOutput
from opentalos.wire.metrics.egress import EGRESS_VERSION
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
    about = "usage and egress of tenants, per topic and minute, for the bill"
    options: Mapping[str, str] = MappingProxyType(
        {
            ON_EXPIRED: f"fail (default) or skip: usage that expired in {TOPIC} before it was read",
            CHECKPOINT: CHECKPOINT_AT,
        }
    )

    def start(self, spark: "SparkSession", settings: PipelineSettings) -> "StreamingQuery":
        """Start the stream. Raises: ConfigError: an option is invalid, or as ``run_table``."""
        table = run_table(spark, settings, LAYOUT)
        return _SOURCE.start(spark, settings, UsageWriter(settings, table))


class UsageWriter:
    """Writes batches of messages into the tables; invalid messages go to the side output."""

    def __init__(self, settings: PipelineSettings, table: LakeTable) -> None:
        self._settings, self._table = settings, table
        self._egress: LakeTable | None = None  # the first event of a lake creates it
        self._side = SideOutput(settings, Metering.name)
        self.bad = 0  # messages for the side output, of this process
        self.conflicts = 0  # events that contradict another event of the same offsets

    def __call__(self, messages: DataFrame, batch_id: int) -> None:
        """Write one batch; after an error Spark repeats it."""
        kept = messages.persist()
        try:
            measured = egress_table.is_egress("value")
            good, bad = split_events(kept.where(~measured), EVENT, USAGE_VERSION, RULES)
            read, bad_read = split_events(
                kept.where(measured), egress_table.EVENT, EGRESS_VERSION, egress_table.RULES
            )
            self.bad += self._side.write(bad.unionByName(bad_read), batch_id)
            self._take_egress(egress_table.egress_rows(read), batch_id)
            fresh = usage_rows(good)
            hours = _hours(fresh)
            if hours:
                self._take(fresh, Hours(self._table, LAYOUT, hours), batch_id)
        finally:
            kept.unpersist()

    def _take(self, fresh: DataFrame, hours: Hours, batch_id: int) -> None:
        spark = fresh.sparkSession
        judged = merge_usage(hours.stored(spark), fresh).persist()
        try:
            conflicts = judged.where(F.col("outcome") == CONFLICT)
            self._report(self._side.write(_as_bad(conflicts), batch_id, "conflicts"))
            rows = judged.where(F.col("outcome") == KEPT)
            if not rows.where("source_offset IS NOT NULL").isEmpty():  # else all are stored
                hours.replace(batch_of(spark, batch_id, Metering.name), rows)
        finally:
            judged.unpersist()

    def _take_egress(self, fresh: DataFrame, batch_id: int) -> None:
        starts = _hours(fresh)
        if not starts:
            return
        if self._egress is None:
            home, lake = self._settings.home, self._settings.lake
            self._egress = pipeline_table(home, lake, egress_table.LAYOUT, create=True)
        spark, hours = fresh.sparkSession, Hours(self._egress, egress_table.LAYOUT, starts)
        rows = egress_table.merge_egress(hours.stored(spark), fresh).persist()
        try:
            if not rows.where("source_offset IS NOT NULL").isEmpty():  # else all are stored
                hours.replace(batch_of(spark, batch_id, Metering.name), rows)
        finally:
            rows.unpersist()

    def _report(self, conflicts: int) -> None:
        if conflicts:
            self.conflicts += conflicts
            _LOG.error("usage-conflict: events=%d contradict earlier events", conflicts)


def _hours(rows: DataFrame) -> list[int]:
    hours = rows.select(hour_of_row("minute").alias("hour")).distinct()
    return [int(row.hour) for row in hours.collect()]


def _as_bad(conflicts: DataFrame) -> DataFrame:
    """Contradicting events in the form of the side output; the table keeps the first event."""
    return conflicts.select(
        F.col("source_partition").alias("partition"),
        F.col("source_offset").alias("offset"),
        F.lit("contradicts the first event of the same next_offset").alias("reason"),
        F.to_json(F.struct(*SCHEMA.names)).cast("binary").alias("value"),
    )


METERING: Final = Metering()
