"""What only Druid can do wrong: hours in several pieces, and being away."""

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.olap.test_stores import (
    FIELDS,
    HOUR,
    NEXT,
    SKETCH_FIELDS,
    TOTAL,
    answered,
    selection,
    table,
)
from tests.waiting import eventually

from opentalos.backends.druid import DruidBackend
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.monitoring.pipeline import MonitoringWriter
from opentalos.pipelines.monitoring.rollup_tables import METRICS
from opentalos.pipelines.monitoring.rollups import LAYOUT
from opentalos.pipelines.olap.druid_http import DruidHttp
from opentalos.pipelines.olap.druid_store import DruidStore
from opentalos.pipelines.olap.store import Filter, Group, Measure, Percentile
from opentalos.pipelines.olap.table_set import TABLE_NAME, TableSet
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.wire.metrics.measurement import Measurement, encode_measurement

pytestmark = pytest.mark.backend


def test_an_hour_in_pieces_is_replaced_in_one_step(druid: DruidBackend, run: str) -> None:
    store, name = DruidStore(druid.url, piece_bytes_max=250), f"pieces_{run}"
    query = Group(rows=selection(name), by=("topic",), measures=(TOTAL,))
    for total in (1.0, 2.0):
        rows = [(HOUR + place, f"t{place}", 0, total, 1) for place in range(3)]
        store.replace(HOUR, {name: table(rows)})
        assert answered(store, query) == [(f"t{place}", total) for place in range(3)]
    assert name in {item.name for item in store.tables()}
    assert not [item.name for item in store.tables() if item.name.endswith("pieces")]


def tasks_of(druid: DruidBackend, datasource: str) -> set[str]:
    """Ingestion tasks of a datasource so far."""
    listed = DruidHttp(druid.url).coordinator("/druid/indexer/v1/tasks")
    return {task["id"] for task in listed if task["dataSource"].startswith(datasource)}


def test_the_tables_of_a_set_need_one_task_for_an_hour(druid: DruidBackend, run: str) -> None:
    name = f"set_{run}"
    fine, coarse, counts = f"{name}_fine", f"{name}_coarse", f"{name}_counts"
    tables = TableSet(name, {fine: FIELDS, coarse: FIELDS, counts: SKETCH_FIELDS})
    store = DruidStore(druid.url, (tables,))
    by_topic: Any = {"by": ("topic",), "measures": (TOTAL,)}
    for attempt in (1, 2, 3):  # a retry, then other rows
        total = float(max(attempt, 2))
        hour = {
            fine: table([(HOUR + place, "a", 0, total, 1) for place in range(3)]),
            coarse: table([(HOUR, "a", 0, 3 * total, 3), (HOUR, "", 1, 1.0, 1)]),
            counts: table([(HOUR, "a", 7, attempt)] if attempt < 3 else [], SKETCH_FIELDS),
        }
        store.replace(HOUR, hour)
        assert len(tasks_of(druid, name)) == attempt
        query = Group(rows=selection(fine), **by_topic)
        assert answered(store, query) == [("a", 3 * total)]
        query = Group(rows=selection(coarse), **by_topic)
        assert answered(store, query) == [("", 1.0), ("a", 3 * total)]
        found = answered(store, Percentile(rows=selection(counts), percents=(50,)))
        assert [row[0] for row in found] == ([attempt] if attempt < 3 else [])
    filtered = selection(coarse, Filter("topic", ("a",)))
    assert answered(store, Group(rows=filtered, **by_topic)) == [("a", 6.0 + 3.0)]

    infos = {info.name: info for info in store.tables()}
    assert name not in infos
    assert infos[counts].columns == ("topic", "bucket", "count")
    assert TABLE_NAME not in infos[fine].columns

    with pytest.raises(ValueError, match="replaced together"):
        store.replace(HOUR, {fine: table([])})
    empty = {fine: table([]), coarse: table([]), counts: table([], SKETCH_FIELDS)}
    store.replace(NEXT, {**empty, fine: table([(NEXT, "a", 0, 1.0, 1)])})
    store.replace(HOUR, empty)
    assert answered(store, Group(rows=selection(fine), **by_topic)) == []
    assert len(tasks_of(druid, name)) == 4, "an hour without rows needs no task"


def test_compaction_removes_the_rows_of_one_table_as_the_guide_says(
    druid: DruidBackend, run: str
) -> None:
    name = f"compacted_{run}"
    fine, coarse = f"{name}_fine", f"{name}_coarse"
    store = DruidStore(druid.url, (TableSet(name, {fine: FIELDS, coarse: FIELDS}),))
    rows = [(HOUR, "a", 0, 1.0, 1)]
    store.replace(HOUR, {fine: table(rows), coarse: table(rows)})
    http, interval = DruidHttp(druid.url), "2025-11-24T16:00:00Z/2025-11-24T17:00:00Z"
    unwanted = {"type": "in", "dimension": TABLE_NAME, "values": [fine]}
    compaction = {
        "type": "compact",
        "dataSource": name,
        "ioConfig": {"type": "compact", "inputSpec": {"type": "interval", "interval": interval}},
        "transformSpec": {"filter": {"type": "not", "field": unwanted}},
    }
    http.coordinator("/druid/indexer/v1/task", compaction)
    left: Any = {"by": ("topic",), "measures": (TOTAL,)}
    eventually(
        "the compacted rows are gone",
        lambda: not answered(store, Group(rows=selection(fine), **left)),
    )
    assert answered(store, Group(rows=selection(coarse), **left)) == [("a", 1.0)]


def test_tables_that_an_earlier_release_stored_by_themselves_are_found_until_the_set_is_there(
    druid: DruidBackend, run: str
) -> None:
    name, alone = f"later_{run}", f"later_{run}_rows"
    DruidStore(druid.url).replace(HOUR, {alone: table([(HOUR, "old", 0, 1.0, 1)])})
    store = DruidStore(druid.url, (TableSet(name, {alone: FIELDS}),))
    query = Group(rows=selection(alone, end=NEXT + HOUR), by=("topic",), measures=(TOTAL,))
    assert answered(store, query) == [("old", 1.0)]
    store.replace(NEXT, {alone: table([(NEXT, "new", 0, 1.0, 1)])})
    assert answered(store, query) == [("new", 1.0)]
    assert [info.name for info in store.tables() if info.name.startswith(name)] == [alone]


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
    writer = MonitoringWriter(settings, table, DruidStore(druid.url, (METRICS,)))
    failures: list[BaseException] = []

    def take() -> None:
        try:
            writer(batch, 0)
        except BaseException as error:
            failures.append(error)

    job = threading.Thread(target=take)
    job.start()
    eventually(
        "the pipeline raises an alarm",
        lambda: "ALARM olap store unavailable" in caplog.text or not job.is_alive(),
        state=lambda: caplog.text,
    )
    for name in ("coordinator", "broker"):
        druid.start_daemon(name)
    druid.wait_ready(print)
    eventually("the batch is taken", lambda: not job.is_alive(), state=lambda: caplog.text)
    assert failures == []
    assert "olap store available again" in caplog.text

    store = DruidStore(druid.url, (METRICS,))
    total = Measure("total", "sum", "total")
    for level in ("metrics_10s", "metrics_1m", "metrics_1h"):
        query = Group(rows=selection(level), by=("measure",), measures=(total,))
        assert answered(store, query) == [("put_requests", 5.0)]
    counts = Percentile(rows=selection("metrics_1h_sketches"), percents=(50,), by=("measure",))
    assert [found[:2] for found in answered(store, counts)] == [("put_ms", 2)]
