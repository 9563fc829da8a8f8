"""Spark's workers write files of a lake table, the driver commits them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.spark.queries import finished

from opentalos.model.errors import BadRequest
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import TIME_TYPE, Batch, Layout, Span
from opentalos.pipelines.lake.opening import open_lake_table
from opentalos.pipelines.lake.sink import LakeSink, scanned_frame, table_frame

START = datetime(2026, 11, 21, 23, tzinfo=UTC)
START_MS = int(START.timestamp()) * 1000
LAYOUT = Layout(
    "numbers",
    pa.schema(
        [
            pa.field("at", TIME_TYPE, nullable=False),
            pa.field("number", pa.int64(), nullable=False),
        ]
    ),
    "at",
    ("at", "number"),
)


@pytest.fixture(params=["parquet", "delta"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    url = f"{tmp_path}/t" if request.param == "parquet" else f"delta+file://{tmp_path}/t"
    return open_lake_table(url, LAYOUT)


def source(spark: SparkSession, folder: Path, numbers: range) -> None:
    """A file for the stream of ``read``."""
    rows = spark.range(numbers.start, numbers.stop, 1, 2).withColumnRenamed("id", "number")
    at = F.timestamp_millis(F.lit(START_MS) + F.col("number") * 1000)
    rows.withColumn("at", at).write.mode("append").parquet(str(folder))


def read(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("number bigint, at timestamp").parquet(str(folder))


def run(rows: DataFrame, sink: LakeSink, checkpoint: Path) -> None:
    query = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    started = query.trigger(availableNow=True).start()
    try:
        finished(started)
    finally:
        started.stop()


def numbers_of(table: LakeTable) -> list[int]:
    return sorted(table.read().column("number").to_pylist())


def test_a_stream_is_in_the_table_once_though_its_batch_is_repeated(
    spark: SparkSession, tmp_path: Path, table: LakeTable
) -> None:
    files, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source(spark, files, range(100))
    run(read(spark, files), LakeSink(table), checkpoint)
    assert numbers_of(table) == list(range(100))

    (checkpoint / "commits" / "0").unlink()  # as if the driver died right after the commit
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    run(read(spark, files), LakeSink(table), checkpoint)
    assert numbers_of(table) == list(range(100))

    source(spark, files, range(100, 150))
    run(read(spark, files), LakeSink(table), checkpoint)
    assert numbers_of(table) == list(range(150))


def test_a_driver_that_dies_before_the_commit_leaves_no_row(
    spark: SparkSession, tmp_path: Path, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    source(spark, tmp_path / "in", range(10))
    with monkeypatch.context() as patch:

        def dies(*_: object) -> bool:
            raise RuntimeError("the driver dies")

        patch.setattr(type(table), "commit", dies)
        with pytest.raises(Exception, match="the driver dies"):
            run(read(spark, tmp_path / "in"), LakeSink(table), tmp_path / "checkpoint")
    assert numbers_of(table) == []
    run(read(spark, tmp_path / "in"), LakeSink(table), tmp_path / "checkpoint")
    assert numbers_of(table) == list(range(10))
    assert table.vacuum(0) > 0
    assert numbers_of(table) == list(range(10))


def test_a_merging_stream_replaces_rows_of_the_same_key(
    spark: SparkSession, tmp_path: Path, table: LakeTable
) -> None:
    sink = LakeSink(table, merge=True)
    for place, numbers in enumerate((range(20), range(10, 30))):
        source(spark, tmp_path / f"in{place}", numbers)
        run(read(spark, tmp_path / f"in{place}"), sink, tmp_path / f"checkpoint{place}")
    assert numbers_of(table) == list(range(30))


def test_spark_reads_a_span_of_the_table(
    spark: SparkSession, tmp_path: Path, table: LakeTable
) -> None:
    assert table_frame(spark, table, LAYOUT).count() == 0
    source(spark, tmp_path / "in", range(100))
    run(read(spark, tmp_path / "in"), LakeSink(table), tmp_path / "checkpoint")
    end = START + timedelta(seconds=40)
    found = table_frame(spark, table, LAYOUT, Span(START_MS, int(end.timestamp()) * 1000))
    assert sorted(row.number for row in found.collect()) == list(range(40))
    assert found.columns == LAYOUT.schema.names


def test_workers_read_a_span_of_a_snapshot_and_reduce_it(
    spark: SparkSession, tmp_path: Path, table: LakeTable
) -> None:
    def sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"total": [sum(batch.column("number").to_pylist())]})

    def total(stored: ds.Dataset, span: Span) -> int:
        result = pa.schema([("total", pa.int64())])
        found = scanned_frame(spark, stored, LAYOUT, span, sums, result).collect()
        return sum(row.total for row in found)

    span = Span(START_MS, START_MS + 40_000)
    assert total(table.scan(span), span) == 0
    for number in range(2):
        source(spark, tmp_path / "in", range(50 * number, 50 * number + 50))
        run(read(spark, tmp_path / "in"), LakeSink(table), tmp_path / "checkpoint")
    stored = table.scan(span)
    assert total(stored, span) == sum(range(40))
    assert total(table.scan(), Span()) == sum(range(100))
    table.merge(Batch("other", 0), pa.table({"at": [START], "number": [1_000]}, LAYOUT.schema))
    assert total(stored, span) == sum(range(40))
    assert total(table.scan(span), span) == sum(range(40)) + 1_000


def test_a_sink_outside_of_a_stream_is_refused(spark: SparkSession, table: LakeTable) -> None:
    with pytest.raises(BadRequest, match="use it with foreachBatch"):
        LakeSink(table)(spark.range(1), 0)
