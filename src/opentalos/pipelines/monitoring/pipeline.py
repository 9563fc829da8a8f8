"""The pipeline ``monitoring``: measurements into rollups for fast queries."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.tables import HourTable
from opentalos.pipelines.monitoring.rollups import (
    EVENT,
    LEVEL_0,
    LEVELS,
    event_rules,
    hour_column,
    level_0,
    measures_by_level,
    merge_level_0,
    sketch_table,
    sketches_by_level,
)
from opentalos.pipelines.olap.opening import open_olap, when_up
from opentalos.pipelines.olap.store import TIME, OlapStore
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.service_events.json_events import split_events, write_side
from opentalos.pipelines.service_events.service_topic import ON_EXPIRED, ServiceTopic
from opentalos.wire.metrics.measurement import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC: Final = "__metrics"
TABLE: Final = "metrics"  # level 0, in the lake
GROUP: Final = "pipeline-monitoring"  # commits its progress, so that its lag is visible
LATE_HOURS: Final = 168
LATE_HOURS_MAX: Final = 24 * 366
_LATE: Final = "late-hours"
_SOURCE: Final = ServiceTopic("monitoring", TOPIC, GROUP, "partition,offset,value,append_time")


class Monitoring:
    """Upserts measurements by key, and recomputes the rollups of the hours that they belong to.

    So repeated batches, repeated measurements and measurements that arrive hours late give the same
    result. A batch changes hours up to ``late-hours`` before its messages, one hour at a time.
    """

    name = _SOURCE.pipeline
    about = f"measurements of {TOPIC} by 10 s, 1 min and 1 h, for talos query"
    options: Mapping[str, str] = MappingProxyType(
        {
            _LATE: f"older measurements go to the side output; default: {LATE_HOURS}",
            ON_EXPIRED: f"fail (default) or skip: messages that expired in {TOPIC} before a read",
        }
    )

    def start(self, spark: "SparkSession", settings: PipelineSettings) -> "StreamingQuery":
        """Start the stream. Raises: ConfigError: an option is invalid."""
        writer = MonitoringWriter(
            settings.home,
            open_olap(settings.home, settings.olap),
            late_hours=_late_hours(settings.options),
        )
        return _SOURCE.start(spark, settings, writer)


class MonitoringWriter:
    """Writes valid measurements into level 0 and the OLAP store, others to the side output."""

    def __init__(self, home: Path, olap: OlapStore, *, late_hours: int = LATE_HOURS) -> None:
        self._home, self._olap = home, olap
        self._rules = event_rules(late_hours)
        self._lake = HourTable(home, TABLE, LEVEL_0)
        self.bad = 0  # messages for the side output, of this process

    def __call__(self, messages: DataFrame, batch_id: int) -> None:
        """Write one batch; after an error Spark repeats it."""
        kept = messages.persist()
        try:
            good, bad = split_events(kept, EVENT, VERSION, self._rules)
            self.bad += write_side(bad, self._home, Monitoring.name, batch_id)
            fresh = level_0(good).select(hour_column().alias("hour"), "*").persist()
            try:
                for (hour_ms,) in sorted(fresh.select("hour").distinct().collect()):
                    self._take(hour_ms, fresh.where(fresh.hour == hour_ms))
            finally:
                fresh.unpersist()
        finally:
            kept.unpersist()

    def _take(self, hour_ms: int, fresh: DataFrame) -> None:
        """Level 0 first: after a crash before the rollups, the repeated batch makes them."""
        stored = self._lake.read(fresh.sparkSession, [hour_ms])
        merged = merge_level_0(stored, fresh).persist()
        try:
            self._lake.replace(hour_ms, merged.toArrow())
            measures, sketches = measures_by_level(merged), sketches_by_level(merged)
            self._publish(hour_ms, measures.toArrow(), sketches.toArrow())
        finally:
            merged.unpersist()

    def _publish(self, hour_ms: int, measures: pa.Table, sketches: pa.Table) -> None:
        tables = {}
        for level in LEVELS:
            for name, rows in ((level, measures), (sketch_table(level), sketches)):
                tables[name] = _sorted(rows.filter(pc.equal(rows.column("level"), level)))
        when_up(TABLE, partial(self._olap.replace, hour_ms, tables))


def _sorted(rows: pa.Table) -> pa.Table:
    """In an order that compresses well and keeps a measure's values together."""
    kept = rows.drop_columns(["level"])
    order: Any = [(name, "ascending") for name in ("measure", "service", "tenant", "topic", TIME)]
    return kept.sort_by(order)


def _late_hours(options: Mapping[str, str]) -> int:
    text = options.get(_LATE, str(LATE_HOURS))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= LATE_HOURS_MAX:
        raise ConfigError(f"{_LATE} is {text!r}: give a number of hours from 1 to {LATE_HOURS_MAX}")
    return int(text)


MONITORING: Final = Monitoring()
