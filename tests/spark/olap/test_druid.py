"""What only Druid can do wrong: hours in several pieces, and being away."""

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.olap.test_stores import HOUR, TOTAL, answered, selection, table

from opentalos.backends.druid import DruidBackend
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.monitoring.pipeline import MonitoringWriter
from opentalos.pipelines.monitoring.rollups import LAYOUT
from opentalos.pipelines.olap.druid_store import DruidStore
from opentalos.pipelines.olap.store import Group, Measure, Percentile
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.wire.metrics.measurement import Measurement, encode_measurement

pytestmark = [pytest.mark.backend, pytest.mark.timeout(300)]

ALARM_WAIT_S = 120.0


def test_an_hour_in_pieces_is_replaced_in_one_step(druid: DruidBackend, run: str) -> None:
    store, name = DruidStore(druid.url, piece_bytes_max=250), f"pieces_{run}"
    query = Group(rows=selection(name), by=("topic",), measures=(TOTAL,))
    for total in (1.0, 2.0):
        rows = [(HOUR + place, f"t{place}", 0, total, 1) for place in range(3)]
        store.replace(HOUR, {name: table(rows)})
        assert answered(store, query) == [(f"t{place}", total) for place in range(3)]
    assert name in {item.name for item in store.tables()}
    assert not [item.name for item in store.tables() if item.name.endswith("pieces")]


def test_the_pipeline_waits_for_a_druid_that_is_away(
    spark: SparkSession, druid: DruidBackend, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    row = Measurement(
        at_ms=HOUR + 10_000, step_ms=10_000, service="server",
        sums={"put_requests": 5.0}, sketches={"put_ms": {1: 2}},
    )  # fmt: skip
    columns = "partition INT, offset BIGINT, value BINARY"
    plain = spark.createDataFrame([(0, 0, bytearray(encode_measurement(row)))], columns)
    batch = plain.selectExpr("*", f"timestamp_millis({HOUR}) AS append_time")
    for name in ("broker", "coordinator"):
        druid.daemon(name).kill()

    settings = PipelineSettings(url="", key="", home=tmp_path)
    table = pipeline_table(tmp_path, "", LAYOUT)
    writer = MonitoringWriter(settings, table, DruidStore(druid.url))
    failures: list[BaseException] = []

    def take() -> None:
        try:
            writer(batch, 0)
        except BaseException as error:
            failures.append(error)

    job = threading.Thread(target=take)
    job.start()
    until = time.monotonic() + ALARM_WAIT_S
    while "ALARM olap store unavailable" not in caplog.text and job.is_alive():
        assert time.monotonic() < until, caplog.text
        time.sleep(0.1)
    for name in ("coordinator", "broker"):
        druid.start_daemon(name)
    druid.wait_ready(print)
    job.join(ALARM_WAIT_S)
    assert not job.is_alive()
    assert failures == []
    assert "olap store available again" in caplog.text

    store = DruidStore(druid.url)
    total = Measure("total", "sum", "total")
    for level in ("metrics_10s", "metrics_1m", "metrics_1h"):
        query = Group(rows=selection(level), by=("measure",), measures=(total,))
        assert answered(store, query) == [("put_requests", 5.0)]
    counts = Percentile(rows=selection("metrics_1h_sketches"), percents=(50,), by=("measure",))
    assert [found[:2] for found in answered(store, counts)] == [("put_ms", 2)]
