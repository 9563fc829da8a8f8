"""Hours that a batch touches are merged by executors and replaced as a whole."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.spark.lakes import LAKES, lake_url

from opentalos.model.errors import BadRequest, ConfigError, StoreUnavailable
from opentalos.pipelines.billing.pipeline import BILLING
from opentalos.pipelines.lake.delta.files import DeltaFileWriter
from opentalos.pipelines.lake.hours import Hours
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import TIME_TYPE, Batch, Layout
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.sink import check_lake
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.lake.written_rows import RowsMissing
from opentalos.pipelines.metering.pipeline import METERING
from opentalos.pipelines.monitoring.pipeline import MONITORING
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.tables.pipeline import SDS_REPLAY

START = datetime(2026, 11, 21, 22, tzinfo=UTC)
START_MS = int(START.timestamp()) * 1000
HOURS = [START_MS + hour * HOUR_MS for hour in range(3)]
PER_HOUR = 3_600
LAYOUT = Layout(
    "seconds",
    pa.schema(
        [
            pa.field("at", TIME_TYPE, nullable=False),
            pa.field("number", pa.int64(), nullable=False),
        ]
    ),
    "at",
    ("at", "number"),
)


@pytest.fixture(params=LAKES)
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> LakeTable:
    """A row per second of three hours."""
    table = pipeline_table(tmp_path, lake_url(request.param, tmp_path), LAYOUT, create=True)
    rows = spark.range(3 * PER_HOUR).withColumnRenamed("id", "number")
    at = F.timestamp_millis(F.lit(START_MS) + F.col("number") * 1000).alias("at")
    assert Hours(table, LAYOUT, HOURS).replace(Batch("q", 0), rows.select(at, "number"))
    return table


def numbers(table: LakeTable) -> list[int]:
    return table.read().column("number").to_pylist()  # type: ignore[no-any-return]


def test_each_hour_has_files_of_its_own_in_the_order_of_the_key(table: LakeTable) -> None:
    assert sorted(numbers(table)) == list(range(3 * PER_HOUR))
    for path in table.files():
        stored = pq.ParquetFile(path.removeprefix("file://")).read().column("at").to_pylist()
        assert len({at.hour for at in stored}) == 1
        assert stored == sorted(stored)


def test_one_hour_is_replaced_by_what_executors_make_of_it(
    spark: SparkSession, table: LakeTable
) -> None:
    hours = Hours(table, LAYOUT, HOURS[1:2])
    inside = hours.stored(spark).where(F.hour("at") == 23)
    assert inside.count() == PER_HOUR
    others = set(table.files()) - set(hours._seen.files)
    assert hours.replace(Batch("q", 1), hours.stored(spark).where("number % 2 = 0"))
    assert len(numbers(table)) == 2 * PER_HOUR + PER_HOUR // 2
    assert others <= set(table.files())
    again = Hours(table, LAYOUT, HOURS[1:2])
    assert not again.replace(Batch("q", 1), again.stored(spark))
    assert len(numbers(table)) == 2 * PER_HOUR + PER_HOUR // 2


def test_hours_are_replaced_by_rows_in_memory(table: LakeTable) -> None:
    hours = Hours(table, LAYOUT, HOURS[1:])
    rows = hours.stored_rows()
    assert sorted(rows.column("number").to_pylist()) == list(range(PER_HOUR, 3 * PER_HOUR))
    assert hours.replace_by(
        Batch("q", 1), rows.filter(pc.equal(pc.bit_wise_and(rows.column("number"), 1), 0))
    )
    assert sorted(numbers(table)) == [*range(PER_HOUR), *range(PER_HOUR, 3 * PER_HOUR, 2)]
    again = Hours(table, LAYOUT, HOURS[1:])
    assert not again.replace_by(Batch("q", 1), again.stored_rows())
    with pytest.raises(StoreUnavailable, match="seconds"):
        hours.replace_by(Batch("q", 2), rows)


def test_a_stored_file_that_is_gone_is_an_error_that_a_batch_is_repeated_for(
    table: LakeTable,
) -> None:
    hours = Hours(table, LAYOUT, HOURS[:1])
    for path in table.files():
        Path(path.removeprefix("file://")).unlink()
    with pytest.raises(StoreUnavailable, match="could not read table seconds"):
        hours.stored_rows()


def test_rows_of_other_hours_in_a_compacted_file_stay(
    spark: SparkSession, table: LakeTable
) -> None:
    table.compact()
    hours = Hours(table, LAYOUT, HOURS[:1])
    late = START + timedelta(minutes=1)
    changed = F.when(F.col("at") == late, -1).otherwise(F.col("number")).alias("number")
    assert hours.replace(Batch("q", 1), hours.stored(spark).select("at", changed))
    assert sorted(numbers(table)) == [-1, *(at for at in range(3 * PER_HOUR) if at != 60)]
    assert len(table.files()) <= 3


def test_files_that_the_driver_does_not_see_are_not_committed(
    spark: SparkSession, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = Hours(table, LAYOUT, HOURS[:1])
    writer = type(table.writer())
    assert writer is DeltaFileWriter or writer.__name__ == "LocalFileWriter"
    monkeypatch.setattr(writer, "stored_rows", lambda _, paths: [0] * len(paths))
    with pytest.raises(RowsMissing, match="table seconds did not take the batch"):
        hours.replace(Batch("q", 1), hours.stored(spark).where("number < 5"))
    assert sorted(numbers(table)) == list(range(3 * PER_HOUR))


def test_no_hour_is_not_every_hour(table: LakeTable) -> None:
    with pytest.raises(BadRequest, match="no hour of table seconds is to be replaced"):
        Hours(table, LAYOUT, [])


def session(master: str) -> Any:
    """What a pipeline asks of a session before it uses it."""
    context = SimpleNamespace(master=master, getConf=dict)  # nothing is configured
    return SimpleNamespace(sparkContext=context)


@pytest.mark.parametrize("lake", ["", "/shared/lake", "delta+file:///lake"])
def test_a_lake_of_one_machine_is_refused_on_a_cluster(tmp_path: Path, lake: str) -> None:
    settings = PipelineSettings(
        url="http://127.0.0.1:1", key="k:s", home=tmp_path, lake=lake, olap="delta+hdfs://h:1/olap"
    )
    words = "is a folder of one machine, and the executors of yarn .*; give --lake delta.hdfs://"
    for pipeline in (METERING, MONITORING):
        with pytest.raises(ConfigError, match=words):
            pipeline.start(session("yarn"), settings)
    check_lake(session("local[2]"), settings, "table usage")
    assert list(tmp_path.iterdir()) == []


def test_the_state_of_a_table_is_refused_on_a_cluster(tmp_path: Path) -> None:
    settings = PipelineSettings(url="http://127.0.0.1:1", key="k:s", home=tmp_path)
    with pytest.raises(ConfigError, match=r"below .*of one machine.*give --master local\[\*\]"):
        SDS_REPLAY.start(session("spark://h:7077"), settings)


def test_a_bill_of_a_folder_is_refused_on_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'plan = "a"\nvalid_from = "2026-01"\ncurrency = "EUR"\ndecimals = 2\n'
    )
    options = {"plans": str(tmp_path), "default-plan": "a"}
    settings = PipelineSettings(url="http://h:1", key="k:s", home=tmp_path, options=options)
    remote = session("yarn")
    remote.conf = SimpleNamespace(get=lambda _: "true")
    with pytest.raises(ConfigError, match="table usage is a folder of one machine"):
        BILLING.run(remote, settings)
