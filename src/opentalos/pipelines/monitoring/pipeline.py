"""The pipeline ``monitoring``: measurements into rollups for fast queries."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from opentalos.model.errors import ConfigError
from opentalos.pipelines.driver_place import check_rollups
from opentalos.pipelines.lake.file_writer import LocalFileWriter
from opentalos.pipelines.lake.hours import Hours
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import Batch
from opentalos.pipelines.lake.sink import batch_of, run_table
from opentalos.pipelines.monitoring.publishing import publish_files, publish_rows, send_rows
from opentalos.pipelines.monitoring.rollup_tables import METRICS
from opentalos.pipelines.monitoring.rollups import (
    EVENT,
    LAYOUT,
    event_rules,
    hour_column,
    level_0,
    level_0_of_both,
    merge_level_0,
)
from opentalos.pipelines.monitoring.small_batch import (
    SmallBatch,
    SmallBatches,
    hours_of,
    merged_level_0,
    rollups_of,
)
from opentalos.pipelines.olap.file_store import FileStore
from opentalos.pipelines.olap.opening import open_olap
from opentalos.pipelines.olap.store import OlapStore, Writer
from opentalos.pipelines.pipeline import CHECKPOINT, CHECKPOINT_AT, PipelineSettings
from opentalos.pipelines.runtime.lease_check import confirm_lease
from opentalos.pipelines.service_events.json_events import REASON, EventCheck, bad_messages
from opentalos.pipelines.service_events.service_topic import ON_EXPIRED, ServiceTopic
from opentalos.pipelines.service_events.side_output import SideOutput
from opentalos.wire.metrics.measurement import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC: Final = "__metrics"
GROUP: Final = "pipeline-monitoring"  # commits its progress, so that its lag is visible
LATE_HOURS: Final = 168
LATE_HOURS_MAX: Final = 24 * 366
_LATE: Final = "late-hours"
SMALL_ROWS: Final = 10_000  # in a batch that the driver takes into memory
_SOURCE: Final = ServiceTopic("monitoring", TOPIC, GROUP, "partition,offset,value,append_time")


class Monitoring:
    """Upserts measurements by key, and recomputes the rollups of the hours that they belong to.

    So repeated batches, repeated measurements and measurements that arrive hours late give the same
    result. A batch changes hours up to ``late-hours`` before its messages.
    """

    name = _SOURCE.pipeline
    about = f"measurements of {TOPIC} by 10 s, 1 min and 1 h, for talos query"
    options: Mapping[str, str] = MappingProxyType(
        {
            _LATE: f"older measurements go to the side output; default: {LATE_HOURS}",
            ON_EXPIRED: f"fail (default) or skip: messages that expired in {TOPIC} before a read",
            CHECKPOINT: CHECKPOINT_AT,
        }
    )

    def start(self, spark: "SparkSession", settings: PipelineSettings) -> "StreamingQuery":
        """Start the stream. Raises: ConfigError: an option is invalid, or as ``run_table`` and
        ``check_rollups``."""
        late_hours = _late_hours(settings.options)
        check_rollups(spark, settings)
        writer = MonitoringWriter(
            settings,
            run_table(spark, settings, LAYOUT),
            open_olap(settings.home, settings.olap, (METRICS,)),
            late_hours=late_hours,
        )
        return _SOURCE.start(spark, settings, writer)


class MonitoringWriter:
    """Writes valid measurements into level 0 and the OLAP store, others to the side output.

    A small batch takes one job of Spark's: the driver has the rows in memory and does the rest. A
    batch that follows one that was not small is not even tried that way.
    """

    def __init__(
        self,
        settings: PipelineSettings,
        table: LakeTable,
        olap: OlapStore,
        *,
        late_hours: int = LATE_HOURS,
    ) -> None:
        self._settings, self._table, self._olap = settings, table, olap
        self._side = SideOutput(settings, Monitoring.name)
        self._rules = event_rules(late_hours)
        # Made by the first batch: they need a session.
        self._check: EventCheck | None = None
        self._batches: SmallBatches | None = None
        self._here = isinstance(table.writer(), LocalFileWriter)  # the driver has the table's files
        self._small = self._here
        self.bad = 0  # messages for the side output, of this process

    def __call__(self, messages: DataFrame, batch_id: int) -> None:
        """Write one batch; after an error Spark repeats it."""
        check = self._check = self._check or EventCheck(EVENT, VERSION, self._rules)
        if self._small:
            batches = self._batches = self._batches or SmallBatches(check)
            small = batches.take(messages, SMALL_ROWS)
            if small is not None and self._take_small(small, messages.sparkSession, batch_id):
                return
        judged = check.judged(messages).persist()
        try:
            found = _contents(judged)
            self._small = self._here and found.bad + found.good <= SMALL_ROWS
            if found.bad:
                self.bad += self._side.write(bad_messages(judged), batch_id)
            if found.good:
                self._take(level_0(check.good(judged)), found.hours, batch_id)
        finally:
            judged.unpersist()

    def _take_small(self, batch: SmallBatch, spark: "SparkSession", batch_id: int) -> bool:
        """Write it; False: nothing was done, since the stored hours are not small."""
        hours = hours_of(batch.good)
        stored = Hours(self._table, LAYOUT, hours) if hours else None
        if stored is not None and not stored.are_small:
            return False
        if batch.bad.num_rows:
            self.bad += self._side.write(spark.createDataFrame(batch.bad), batch_id)
        if stored is not None:
            merged = merged_level_0(stored.stored_rows(), batch.good)
            number = batch_of(spark, batch_id, Monitoring.name)
            stored.replace_by(number, merged)
            publish_rows(self._olap, rollups_of(merged), hours, self._writer(number))
        return True

    def _take(self, fresh: DataFrame, hours: list[int], batch_id: int) -> None:
        """Level 0 first: after a crash before the rollups, the repeated batch makes them."""
        spark, stored = fresh.sparkSession, Hours(self._table, LAYOUT, hours)
        self._small &= stored.are_small
        batch = batch_of(spark, batch_id, Monitoring.name)
        merged = merge_level_0(level_0_of_both(stored.stored(spark), fresh)).persist()
        try:
            stored.replace(batch, merged)
            if isinstance(self._olap, FileStore):
                publish_files(self._olap, merged, hours, self._writer(batch))
            else:
                send_rows(self._olap, merged, hours, self._writer(batch))
        finally:
            merged.unpersist()

    def _writer(self, batch: Batch) -> Writer:
        confirm = partial(confirm_lease, self._settings, Monitoring.name, batch.epoch)
        return Writer(batch.query, batch.epoch, confirm, batch.number)


class _Contents(NamedTuple):
    """What a batch has: numbers of invalid messages and events, and the hours of these."""

    bad: int
    good: int
    hours: list[int]  # Unix ms of their starts, ascending


def _contents(judged: DataFrame) -> _Contents:
    valid = F.col(REASON).isNull()
    row = judged.agg(
        F.count_if(~valid), F.count_if(valid), F.collect_set(F.when(valid, hour_column()))
    ).first()
    assert row is not None  # an aggregate without groups is always one row
    return _Contents(int(row[0]), int(row[1]), sorted(row[2]))


def _late_hours(options: Mapping[str, str]) -> int:
    text = options.get(_LATE, str(LATE_HOURS))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= LATE_HOURS_MAX:
        raise ConfigError(f"{_LATE} is {text!r}: give a number of hours from 1 to {LATE_HOURS_MAX}")
    return int(text)


MONITORING: Final = Monitoring()
