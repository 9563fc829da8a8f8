"""The pipeline ``metering``: events of the servers into the lake's tables "usage" (I9), "egress"
and "kept"."""

import logging
from collections.abc import Mapping
from functools import reduce
from operator import or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from opentalos.pipelines.lake.hours import Hours, hour_of_row
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import Layout
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.sink import batch_of, run_table
from opentalos.pipelines.metering import egress_table, kept_table
from opentalos.pipelines.metering.fixed_events import is_kind, merge_first, rows_of
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
from opentalos.pipelines.service_events.json_events import EventCheck, bad_messages
from opentalos.pipelines.service_events.service_topic import ON_EXPIRED, ServiceTopic
from opentalos.pipelines.service_events.side_output import SideOutput
from opentalos.wire.metrics.egress import EGRESS_KIND, EGRESS_VERSION
from opentalos.wire.metrics.kept import KEPT_KIND, KEPT_VERSION
from opentalos.wire.metrics.usage import USAGE_VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC: Final = "__usage"
GROUP: Final = "pipeline-metering"  # commits its progress, so that its lag is visible
_SOURCE: Final = ServiceTopic("metering", TOPIC, GROUP, "partition,offset,value,append_time")
_LOG: Final = logging.getLogger(__name__)
_KINDS: Final = {  # of events that never change: their fields, version, rules and table
    EGRESS_KIND: (
        egress_table.EVENT,
        EGRESS_VERSION,
        egress_table.RULES,
        egress_table.LAYOUT,
    ),
    KEPT_KIND: (kept_table.EVENT, KEPT_VERSION, kept_table.RULES, kept_table.LAYOUT),
}


class Metering:
    """Upserts usage by (topic, partition, minute): the larger next offset wins.

    A repeated batch changes nothing, so a killed driver neither loses nor duplicates rows.
    """

    name = _SOURCE.pipeline
    about = "usage, egress and storage of tenants, per topic and minute, for the bill"
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
        self._others: dict[str, LakeTable] = {}  # the first event of a kind creates its table
        self._side = SideOutput(settings, Metering.name)
        self._checks: dict[str, EventCheck] = {}
        self.bad = 0  # messages for the side output, of this process
        self.conflicts = 0  # events that contradict another event of the same offsets

    def __call__(self, messages: DataFrame, batch_id: int) -> None:
        """Write one batch; after an error Spark repeats it."""
        kept = messages.persist()
        try:
            kinds = {name: is_kind("value", name) for name in _KINDS}
            good, bad = self._split("", kept.where(~reduce(or_, kinds.values())))
            others: list[tuple[Layout, DataFrame]] = []
            for name, kind in _KINDS.items():
                found, wrong = self._split(name, kept.where(kinds[name]))
                others.append((kind[-1], found))
                bad = bad.unionByName(wrong)
            self.bad += self._side.write(bad, batch_id)
            for layout, found in others:
                self._take_fixed(layout, rows_of(found, layout.schema.names), batch_id)
            fresh = usage_rows(good)
            hours = _hours(fresh)
            if hours:
                self._take(fresh, Hours(self._table, LAYOUT, hours), batch_id)
        finally:
            kept.unpersist()

    def _split(self, kind: str, messages: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Valid events of a kind, or usage, and invalid messages."""
        if not self._checks:  # the first batch makes them: they need a session
            self._checks[""] = EventCheck(EVENT, USAGE_VERSION, RULES)
            for name, (schema, version, rules, _) in _KINDS.items():
                self._checks[name] = EventCheck(schema, version, rules)
        judged = self._checks[kind].judged(messages)
        return self._checks[kind].good(judged), bad_messages(judged)

    def _take(self, fresh: DataFrame, hours: Hours, batch_id: int) -> None:
        spark = fresh.sparkSession
        judged = merge_usage(hours.stored(spark), fresh).persist()
        try:
            is_conflict, is_kept = (F.col("outcome") == each for each in (CONFLICT, KEPT))
            is_fresh = is_kept & F.col("source_offset").isNotNull()
            found = judged.agg(F.count_if(is_conflict), F.count_if(is_fresh)).first()
            assert found is not None  # an aggregate without groups is always one row
            if found[0]:
                aside = _as_bad(judged.where(is_conflict))
                self._report(self._side.write(aside, batch_id, "conflicts"))
            if found[1]:  # else all are stored
                rows = judged.where(is_kept)
                hours.replace(batch_of(spark, batch_id, Metering.name), rows)
        finally:
            judged.unpersist()

    def _take_fixed(self, layout: Layout, fresh: DataFrame, batch_id: int) -> None:
        starts = _hours(fresh)
        if not starts:
            return
        if layout.name not in self._others:
            home, lake = self._settings.home, self._settings.lake
            self._others[layout.name] = pipeline_table(home, lake, layout, create=True)
        spark, hours = fresh.sparkSession, Hours(self._others[layout.name], layout, starts)
        rows = merge_first(hours.stored(spark), fresh, layout.schema.names, layout.key).persist()
        try:
            if not rows.where("source_offset IS NOT NULL").isEmpty():  # else all are stored
                hours.replace(batch_of(spark, batch_id, Metering.name), rows)
        finally:
            rows.unpersist()

    def _report(self, conflicts: int) -> None:
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
