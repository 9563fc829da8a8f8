"""The archive as a table of Delta: each message once, over crashes, for every reader of Delta."""

from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.archive.archiving import fill, run, settings
from tests.spark.archived import each_once
from tests.spark.conftest import TalosServer

from opentalos.model.errors import ConfigError
from opentalos.pipelines.archive.delta_archive import LAYOUT
from opentalos.pipelines.archive.pipeline import ARCHIVE
from opentalos.pipelines.datasource.source.columns import ALL_COLUMNS
from opentalos.pipelines.lake.delta.files import DeltaFileWriter
from opentalos.pipelines.lake.delta.table import DeltaLakeTable
from opentalos.pipelines.lake.opening import open_existing
from opentalos.pipelines.lake.sink import table_frame
from opentalos.pipelines.runtime.causes import cause_of


def archived(folder: Path) -> Counter[tuple[int, int]]:
    """How often each (partition, offset) is in the table."""
    rows = DeltaTable(str(folder)).to_pyarrow_table(columns=["partition", "offset"])
    return Counter((row["partition"], row["offset"]) for row in rows.to_pylist())


def test_readers_of_delta_read_each_message_once(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    fill(server, "kept-in-delta", 1_000)
    folder = tmp_path / "archive"
    url = f"delta+file://{folder}"
    given = settings(server, tmp_path, topics="kept-in-delta", path=url)
    run(spark, given)
    fill(server, "kept-in-delta", 500, new=False)
    run(spark, given)
    run(spark, given)  # nothing is new

    assert archived(folder) == each_once({0: 1_500, 1: 1_500})
    table, layout = open_existing(url)
    assert (layout.time, layout.partition_by) == ("append_time", ("topic", "date"))
    assert layout.schema.names == [*ALL_COLUMNS, "date"]
    rows = table_frame(spark, table, LAYOUT)
    assert rows.where("topic = 'kept-in-delta' and date = to_date(append_time)").count() == 3_000
    values = rows.where("partition = 0").orderBy("offset").select("value").limit(3).collect()
    assert [bytes(value.value) for value in values] == [b"0", b"1", b"2"]
    assert table.compact() > 0
    assert archived(folder) == each_once({0: 1_500, 1: 1_500})


def test_a_batch_that_spark_repeats_is_there_once(
    spark: SparkSession, server: TalosServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(server, "repeated", 100)
    given = settings(server, tmp_path, topics="repeated", path=f"delta+file://{tmp_path}/archive")

    def dies(*_: object) -> bool:
        raise RuntimeError("the driver dies")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeTable, "commit", dies)
        with pytest.raises(PySparkException, match="the driver dies"):
            run(spark, given)
    assert archived(tmp_path / "archive") == Counter()
    run(spark, given)
    assert archived(tmp_path / "archive") == each_once({0: 100, 1: 100})

    commits = given.checkpoint("archive") / "commits"
    (commits / "0").unlink()  # as if the driver died right after the commit of the table
    (commits / ".0.crc").unlink(missing_ok=True)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeTable, "commit", dies)  # it is not even written again
        run(spark, given)
    assert archived(tmp_path / "archive") == each_once({0: 100, 1: 100})


def test_a_batch_whose_files_the_driver_does_not_see_is_repeated(
    spark: SparkSession, server: TalosServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(server, "unseen-files", 100)
    url = f"delta+file://{tmp_path}/archive"
    given = settings(server, tmp_path, topics="unseen-files", path=url)
    monkeypatch.setattr(DeltaFileWriter, "stored_rows", lambda _, paths: [7] * len(paths))
    with pytest.raises(PySparkException, match=r"RowsMissing.*has 7 of \d+ rows"):
        run(spark, given)
    monkeypatch.undo()
    run(spark, given)
    assert archived(tmp_path / "archive") == each_once({0: 100, 1: 100})


def test_the_table_of_another_checkpoint_is_refused(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    fill(server, "two-tables", 10)
    path = f"delta+file://{tmp_path}/shared"
    run(spark, settings(server, tmp_path / "one", topics="two-tables", path=path))
    with pytest.raises(PySparkException) as caught:
        run(spark, settings(server, tmp_path / "two", topics="two-tables", path=path))
    cause = cause_of(caught.value)
    assert cause.kind == "ConfigError"
    assert "choose another URL" in cause.text
    assert archived(tmp_path / "shared") == each_once({0: 10, 1: 10})


def test_another_compression_is_refused(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    given = settings(server, tmp_path, topics="a", path="delta+file:///a", compression="gzip")
    with pytest.raises(ConfigError, match=r"archive\.compression is 'gzip': a table of Delta has"):
        ARCHIVE.start(spark, given)
