"""``monitoring`` from a real server's topic to an answer, and again from its start."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.spark.conftest import TalosServer
from tests.spark.queries import finished, started

from opentalos.model.names import METRICS_TOPIC
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.monitoring.pipeline import MONITORING
from opentalos.pipelines.monitoring.rollup_tables import LEVELS
from opentalos.pipelines.monitoring.rollups import LEVEL_0
from opentalos.pipelines.olap.opening import open_olap
from opentalos.pipelines.olap.store import Filter, Measure, Percentile, Selection, Series
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.sdk import SimpleProducer
from opentalos.wire.metrics.measurement import Measurement, encode_measurement

SERVICE = "test-monitoring"
STEP_MS = 10_000


def put(server: TalosServer, values: list[bytes]) -> None:
    """Into the topic of measurements, as soon as it is there."""
    server.wait_for_topic(METRICS_TOPIC)
    with SimpleProducer(server.config, METRICS_TOPIC, 0) as producer:
        producer.put(values)


def row(at_ms: int, value: float) -> bytes:
    sums, sketches = {"put_requests": value}, {"put_ms": {7: int(value)}}
    return encode_measurement(
        Measurement(at_ms=at_ms, step_ms=STEP_MS, service=SERVICE, sums=sums, sketches=sketches)
    )


def answers(home: Path, start_ms: int) -> Iterator[Any]:
    """What every table says of our service."""
    store, ours = open_olap(home), (Filter("service", (SERVICE,)),)
    measures = (Measure("total", "sum", "total"), Measure("samples", "sum", "samples"))
    for level, step_ms in LEVELS.items():
        span = {"start_ms": start_ms, "end_ms": start_ms + 30 * HOUR_MS, "filters": ours}
        rows = Selection(table=level, **span)  # type: ignore[arg-type]
        yield store.query(Series(rows=rows, step_ms=step_ms, measures=measures)).to_pylist()
        counts = Selection(table=f"{level}_sketches", **span)  # type: ignore[arg-type]
        yield store.query(Percentile(rows=counts, percents=(50,), step_ms=step_ms)).to_pylist()


def test_a_replay_of_the_whole_topic_changes_nothing(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    now_ms = time.time_ns() // 1_000_000
    hour = now_ms - now_ms % HOUR_MS - 20 * HOUR_MS
    settings = PipelineSettings(url=server.url, key=server.key, home=tmp_path, available_now=True)

    def run() -> None:
        finished(started(lambda: MONITORING.start(spark, settings)))

    put(server, [row(hour + step * STEP_MS, step) for step in (1, 2, 7)] + [b"{no JSON"])
    run()
    late = [row(hour + step * STEP_MS, step) for step in (3, 1)]
    put(server, late)
    run()
    first = list(answers(tmp_path, hour))
    assert [item["total"] for item in first[0]] == [1, 2, 3, 7]
    assert [(item["total"], item["samples"]) for item in first[2]] == [(6, 3), (7, 1)]
    assert [(item["total"], item["samples"]) for item in first[4]] == [(13, 4)]
    assert [item["count"] for item in first[5]] == [13]
    assert list((tmp_path / "side" / "monitoring").glob("batch-*/*.parquet"))

    shutil.rmtree(tmp_path / "checkpoints")
    run()
    assert list(answers(tmp_path, hour)) == first
    shutil.rmtree(tmp_path)
    run()
    assert list(answers(tmp_path, hour)) == first


def test_spark_reads_on_while_an_hour_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    table = HourTable(tmp_path, "metrics", LEVEL_0)
    empty = LEVEL_0.empty_table()
    for hour in (0, HOUR_MS):
        table.replace(hour, empty)
    assert table.read(spark, [5 * HOUR_MS]).count() == 0
    listed = table.read(spark)
    for _ in range(3):
        table.replace(0, empty)
    assert listed.count() == 0
    assert spark.read.parquet(str(table.folder)).columns == LEVEL_0.names
