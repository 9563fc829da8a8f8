"""Rollups are what level 0 says, whatever order and how often measurements come."""

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.lakes import LAKES, lake_url

from opentalos.model.errors import ConfigError, StoreUnavailable
from opentalos.pipelines.lake import hours
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.monitoring import pipeline, small_batch
from opentalos.pipelines.monitoring.pipeline import MONITORING, MonitoringWriter
from opentalos.pipelines.monitoring.rollup_tables import LEVELS, METRICS, sketch_table
from opentalos.pipelines.monitoring.rollups import LAYOUT
from opentalos.pipelines.olap import opening
from opentalos.pipelines.olap.parquet_store import ParquetStore
from opentalos.pipelines.olap.store import (
    NO_LEASE,
    Group,
    Measure,
    OlapStore,
    Percentile,
    Selection,
    Series,
    Writer,
)
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.service_events.side_output import side_folder
from opentalos.wire.metrics.measurement import Measurement, encode_measurement

HOUR = 1_764_000_000_000 // HOUR_MS * HOUR_MS
STEP_MS = 10_000
MESSAGES = "partition INT, offset BIGINT, value BINARY, append_time TIMESTAMP"
TOTALS = tuple(
    Measure(name, function, column)
    for name, function, column in (
        ("total", "sum", "total"),
        ("samples", "sum", "samples"),
        ("low", "min", "low"),
        ("high", "max", "high"),
        ("last", "max", "last"),
    )
)


def row(step: int, **changed: Any) -> Measurement:
    """A measurement of the step that begins ``step`` steps after the hour."""
    usual = Measurement(
        at_ms=HOUR + (step + 1) * STEP_MS,
        step_ms=STEP_MS,
        service="server",
        machine="s1",
        sums={"put_requests": 1.0 + step},
        gauges={"lane_depth": 10.0 - step},
        sketches={"put_ms": {5: 1, 7: step + 1}},
    )
    return replace(usual, **changed)


def messages(
    spark: SparkSession, values: Iterable[bytes], *, first: int = 0, at_ms: int = HOUR
) -> DataFrame:
    rows = [(0, first + place, bytearray(value)) for place, value in enumerate(values)]
    plain = spark.createDataFrame(rows, "partition INT, offset BIGINT, value BINARY")
    return plain.selectExpr("*", f"timestamp_millis({at_ms}) AS append_time")


def olap(home: Path, kind: str = "parquet") -> OlapStore:
    return opening.open_olap(home, lake_url(kind, home), (METRICS,))


def rows_of(
    home: Path, table: str, by: tuple[str, ...] = ("measure", "kind"), kind: str = "parquet"
) -> list[Any]:
    """All rows of a level from the hour on, as the store answers."""
    chosen = Selection(table=table, start_ms=HOUR - HOUR_MS, end_ms=HOUR + 48 * HOUR_MS)
    query = Series(rows=chosen, step_ms=LEVELS[table], by=by, measures=TOTALS)
    return [tuple(item.values()) for item in olap(home, kind).query(query).to_pylist()]


def writer(home: Path, kind: str = "parquet", **options: Any) -> MonitoringWriter:
    settings = PipelineSettings(url="", key="", home=home, lake=lake_url(kind, home))
    store = options.pop("store", None) or olap(home, kind)
    return MonitoringWriter(settings, level_0(home, kind, create=True), store, **options)


def level_0(home: Path, kind: str = "parquet", *, create: bool = False) -> LakeTable:
    return pipeline_table(home, lake_url(kind, home), LAYOUT, create=create)


@pytest.fixture(scope="module", params=LAKES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def home(spark: SparkSession, kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two batches were taken: one late, and one that came twice."""
    home = tmp_path_factory.mktemp("monitoring")
    taken = writer(home, kind)
    events = [encode_measurement(row(step)) for step in (0, 6, 359)]
    late = [encode_measurement(row(step)) for step in (1, 0)]  # the second one is known
    taken(messages(spark, events), 0)
    for _ in range(2):
        taken(messages(spark, late, first=3, at_ms=HOUR + 24 * HOUR_MS), 1)
    taken(messages(spark, events), 0)  # and the first batch once more
    return home


def test_steps_of_ten_seconds_are_as_they_were_sent(home: Path, kind: str) -> None:
    assert rows_of(home, "metrics_10s", kind=kind)[:4] == [
        (HOUR, "lane_depth", "gauge", 10.0, 1, 10.0, 10.0, 10.0),
        (HOUR, "put_requests", "sum", 1.0, 1, 1.0, 1.0, 1.0),
        (HOUR + STEP_MS, "lane_depth", "gauge", 9.0, 1, 9.0, 9.0, 9.0),
        (HOUR + STEP_MS, "put_requests", "sum", 2.0, 1, 2.0, 2.0, 2.0),
    ]


def test_a_minute_adds_sums_and_keeps_the_last_gauge(home: Path, kind: str) -> None:
    assert rows_of(home, "metrics_1m", kind=kind) == [
        (HOUR, "lane_depth", "gauge", 19.0, 2, 9.0, 10.0, 9.0),
        (HOUR, "put_requests", "sum", 3.0, 2, 1.0, 2.0, 2.0),
        (HOUR + 60_000, "lane_depth", "gauge", 4.0, 1, 4.0, 4.0, 4.0),
        (HOUR + 60_000, "put_requests", "sum", 7.0, 1, 7.0, 7.0, 7.0),
        (HOUR + 59 * 60_000, "lane_depth", "gauge", -349.0, 1, -349.0, -349.0, -349.0),
        (HOUR + 59 * 60_000, "put_requests", "sum", 360.0, 1, 360.0, 360.0, 360.0),
    ]


def test_the_step_that_ends_an_hour_belongs_to_it(home: Path, kind: str) -> None:
    assert rows_of(home, "metrics_1h", kind=kind) == [
        (HOUR, "lane_depth", "gauge", -326.0, 4, -349.0, 10.0, -349.0),
        (HOUR, "put_requests", "sum", 370.0, 4, 1.0, 360.0, 360.0),
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_sketches_of_every_level_have_every_count_once(home: Path, kind: str, level: str) -> None:
    chosen = Selection(table=f"{level}_sketches", start_ms=HOUR, end_ms=HOUR + HOUR_MS)
    query = Percentile(rows=chosen, percents=(50,), by=("measure",))
    found = olap(home, kind).query(query).to_pylist()
    assert [(item["measure"], item["count"]) for item in found] == [("put_ms", 4 + 1 + 2 + 7 + 360)]


def test_level_0_has_a_row_for_each_key(home: Path, kind: str) -> None:
    stored = level_0(home, kind).read().to_pylist()
    assert sorted((item["at_ms"] - HOUR, item["source_offset"]) for item in stored) == [
        (STEP_MS, 4), (2 * STEP_MS, 3), (7 * STEP_MS, 1), (HOUR_MS, 2),
    ]  # fmt: skip
    assert all(item["began"].timestamp() * 1000 == item["at_ms"] - STEP_MS for item in stored)


def test_an_hour_that_an_earlier_release_stored_is_continued(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer(tmp_path / "new")(messages(spark, [encode_measurement(row(0))]), 0)
    former = level_0(tmp_path / "new").read().drop_columns(["began"])
    HourTable(tmp_path, "metrics").replace(HOUR, former)
    writer(tmp_path)(messages(spark, [encode_measurement(row(1))], first=1), 0)
    assert [item[3] for item in rows_of(tmp_path, "metrics_1h")] == [19.0, 3.0]
    began = sorted(item["began"].timestamp() for item in level_0(tmp_path).read().to_pylist())
    assert [at * 1000 - HOUR for at in began] == [0, STEP_MS]


def test_order_and_batches_do_not_matter(spark: SparkSession, kind: str, tmp_path: Path) -> None:
    lots = random.Random(6)
    rows = [
        row(lots.randrange(400), machine=f"s{lots.randrange(3)}", topic=lots.choice(["", "t"]))
        for _ in range(60)
    ]
    values = [encode_measurement(item) for item in rows]
    batch = messages(spark, values)
    once = writer(tmp_path / "once", kind)
    once(batch, 0)
    many = writer(tmp_path / "many", kind)
    for number, cut in enumerate(("offset % 3 = 2", "offset < 40", "offset % 3 < 2")):
        many(batch.where(cut), number)
    by = ("service", "machine", "topic", "partition", "measure")
    for level in LEVELS:
        found = rows_of(tmp_path / "many", level, by, kind)
        assert found == rows_of(tmp_path / "once", level, by, kind)
    unique = {item.key: item for item in rows}.values()
    hour_1 = [item for item in unique if item.at_ms <= HOUR + HOUR_MS]
    total = sum(item.sums["put_requests"] for item in hour_1)
    chosen = Selection(table="metrics_1h", start_ms=HOUR, end_ms=HOUR + HOUR_MS)
    query = Group(rows=chosen, by=("kind",), measures=TOTALS[:1])
    answer = olap(tmp_path / "many", kind).query(query).to_pylist()
    assert {item["kind"]: item["total"] for item in answer}["sum"] == total


@pytest.mark.parametrize("large", ["rows", "message", "batch", "hours"])
def test_large_batches_give_what_small_ones_give(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: str
) -> None:
    lots = random.Random(7)
    steps = [0, 6, 400, *(lots.randrange(400) for _ in range(20))]
    events = [row(step, topic=lots.choice(["", "t"]), gauges={}) for step in steps]
    values = [encode_measurement(item) for item in events]
    batches = [[*values[:9], b"no JSON"], values[9:], [b"", b"{}"], values[:1]]
    limits: dict[str, Any] = {
        "rows": (pipeline, "SMALL_ROWS"),
        "message": (small_batch, "BYTES_MAX"),
        "batch": (small_batch, "BATCH_BYTES_MAX"),
        "hours": (hours, "SMALL_VALUES"),
    }
    for name in ("small", "large"):
        if name == "large":
            place, limit = limits[large]
            monkeypatch.setattr(place, limit, 0)
        taken = writer(tmp_path / name)
        for number, of_batch in enumerate(batches):
            taken(messages(spark, of_batch, first=100 * number, at_ms=HOUR + HOUR_MS), number)
        assert taken.bad == 3
    for level in LEVELS:
        found = rows_of(tmp_path / "small", level)
        assert found
        assert found == rows_of(tmp_path / "large", level)
    order = [(name, "ascending") for name in ("at_ms", "topic")]
    kept = [level_0(tmp_path / name).read().sort_by(order) for name in ("small", "large")]
    assert kept[0].equals(kept[1])
    aside = [side_folder(tmp_path / name, "monitoring") for name in ("small", "large")]
    wrong = [pq.read_table(folder).sort_by("offset").to_pylist() for folder in aside]
    assert [item["offset"] for item in wrong[0]] == [9, 200, 201]
    assert wrong[0] == wrong[1]


def test_a_small_batch_is_one_job_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    taken = writer(tmp_path)
    for number in range(2):  # the second one finds stored rows
        group = f"small batch {number}"
        batch = messages(spark, [encode_measurement(row(number))], first=number)
        spark.sparkContext.setJobGroup(group, "")
        try:
            taken(batch, number)
        finally:
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
        assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) == 1
    assert len(rows_of(tmp_path, "metrics_10s")) == 4


def test_batches_are_small_again_after_a_large_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, sizes = writer(tmp_path), list[int]()
    take_small = taken._take_small

    def noted(batch: small_batch.SmallBatch, *given: Any) -> bool:
        sizes.append(batch.good.num_rows)
        return take_small(batch, *given)

    monkeypatch.setattr(taken, "_take_small", noted)
    monkeypatch.setattr(pipeline, "SMALL_ROWS", 2)
    for number, count in enumerate((1, 3, 2, 1, 2)):
        values = [encode_measurement(row(5 * number + step)) for step in range(count)]
        taken(messages(spark, values, first=5 * number), number)
    # The one of three rows is found to be large, so the next one is not tried, but counted.
    assert sizes == [1, 1, 2]
    assert rows_of(tmp_path, "metrics_1h")[0][4] == 1 + 3 + 2 + 1 + 2


def test_rows_have_the_columns_that_queries_are_told(
    spark: SparkSession, kind: str, tmp_path: Path
) -> None:
    writer(tmp_path, kind)(messages(spark, [encode_measurement(row(0))]), 0)
    told = {
        name: [column for column in columns.names if column != "time"]
        for name, columns in METRICS.tables.items()
    }
    assert told == {info.name: list(info.columns) for info in olap(tmp_path, kind).tables()}
    assert set(told) == {*LEVELS, *map(sketch_table, LEVELS)}


def test_what_cannot_be_used_is_put_aside_with_its_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    good = encode_measurement(row(0))
    wrong = {
        "over 2 h late": encode_measurement(row(-2 * 360 - 2, sums={}, sketches={})),
        "in the future": encode_measurement(row(360 + 1)),
        "interval before 1970": good.replace(b'"at_ms":%d' % row(0).at_ms, b'"at_ms":5'),
        "bucket out of bounds": good.replace(b'"5"', b'"9999"'),
        "out of bounds: step_ms": good.replace(b'"step_ms":10000', b'"step_ms":0'),
        "out of bounds: sums": good.replace(b'"put_requests":1.0', b'"put_requests":-1.0'),
        "newer version: 2": good.replace(b'"v":1', b'"v":2'),
        "missing: service": good.replace(b'"service":"server",', b""),
    }
    taken = writer(tmp_path, late_hours=2)
    taken(messages(spark, [good, *wrong.values()]), 0)
    assert taken.bad == len(wrong)
    kept = pq.read_table(side_folder(tmp_path, "monitoring")).to_pylist()
    assert {item["reason"] for item in kept} == set(wrong)
    assert len(rows_of(tmp_path, "metrics_10s")) == 2


def test_a_store_that_is_down_is_waited_for_and_nothing_is_lost(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[int]()

    class Flaky(ParquetStore):
        def publish(self, tables: Any, hours: Any, files: Any, writer: Writer = NO_LEASE) -> None:
            calls.extend(hours)
            if len(calls) < 3:
                raise StoreUnavailable("down")
            super().publish(tables, hours, files, writer)

    monkeypatch.setattr(opening, "BACKOFF_S_MIN", 0.0)
    taken = writer(tmp_path, store=Flaky(tmp_path))
    taken(messages(spark, [encode_measurement(row(0))]), 0)
    assert calls == [HOUR] * 3
    assert len(rows_of(tmp_path, "metrics_1h")) == 2


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", "99999", "²"])
def test_a_wrong_number_of_hours_is_refused(spark: SparkSession, tmp_path: Path, text: str) -> None:
    settings = PipelineSettings(
        url="http://127.0.0.1:1", key="k:s", home=tmp_path, options={"late-hours": text}
    )
    with pytest.raises(ConfigError, match="late-hours"):
        MONITORING.start(spark, settings)
