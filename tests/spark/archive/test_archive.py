"""The archive: each message once for every reader, also over crashes between any two steps."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.archive.archiving import fill, run, settings
from tests.spark.archived import archived, each_once
from tests.spark.conftest import TalosServer

from opentalos.model.errors import ConfigError
from opentalos.pipelines.archive.hadoop_files import HadoopFiles
from opentalos.pipelines.archive.pipeline import ARCHIVE, ArchiveWriter
from opentalos.pipelines.datasource.source.columns import ALL_COLUMNS
from opentalos.pipelines.runtime.causes import cause_of
from opentalos.pipelines.session import set_epoch


def test_spark_and_duckdb_read_each_message_once(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    fill(server, "kept", 1_000)
    given = settings(server, tmp_path, topics="kept")
    run(spark, given)
    fill(server, "kept", 500, new=False)
    run(spark, given)
    run(spark, given)  # nothing is new

    folder = tmp_path / "archive"
    assert archived(folder) == each_once({0: 1_500, 1: 1_500})
    rows = spark.read.parquet(str(folder))
    assert set(rows.columns) == {*ALL_COLUMNS, "date"}
    assert Counter((item.partition, item.offset) for item in rows.collect()) == archived(folder)
    days = {item.date for item in rows.select("date").distinct().collect()}
    assert days == {item.day for item in rows.selectExpr("to_date(append_time) as day").collect()}
    values = rows.where("partition = 0").orderBy("offset").select("value").limit(3).collect()
    assert [bytes(value.value) for value in values] == [b"0", b"1", b"2"]


def test_a_run_that_another_one_replaced_adds_nothing(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    fill(server, "fenced", 100)
    given = settings(server, tmp_path, topics="fenced")
    folder = tmp_path / "archive"
    (tmp_path / "archive.batches").mkdir()
    (tmp_path / "archive.batches" / "epoch-0000000000000000009.fresh").touch()  # as after a crash
    try:
        set_epoch(spark, 5)
        run(spark, given)
        fill(server, "fenced", 100, new=False)
        set_epoch(spark, 4)
        with pytest.raises(PySparkException) as caught:
            run(spark, given)
        assert cause_of(caught.value).kind == "LeaseNotHeld"
        assert not cause_of(caught.value).passing
        assert archived(folder) == each_once({0: 100, 1: 100})
        set_epoch(spark, 6)
        run(spark, given)
    finally:
        set_epoch(spark, 0)
    assert archived(folder) == each_once({0: 200, 1: 200})
    (noted,) = (tmp_path / "archive.batches").glob("epoch-*[0-9]")
    assert noted.name == f"epoch-{6:019}"


class Died(Exception):
    """The driver is gone at this point."""


@pytest.mark.parametrize("step", ["rename", "write_new", "delete"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_batch_that_died_at_any_step_is_there_once(
    spark: SparkSession,
    server: TalosServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    nth: int,
) -> None:
    topic = f"died-{step}-{nth}".replace("_", "-")
    fill(server, topic, 100)
    given = settings(server, tmp_path, topics=topic)
    real = getattr(HadoopFiles, step)
    calls = []

    def dies(self: HadoopFiles, *arguments: str) -> None:
        calls.append(arguments)
        if len(calls) == nth:
            raise Died
        real(self, *arguments)

    monkeypatch.setattr(HadoopFiles, step, dies)
    with pytest.raises(PySparkException, match="Died"):
        run(spark, given)
    monkeypatch.undo()
    run(spark, given)
    assert archived(tmp_path / "archive") == each_once({0: 100, 1: 100})
    assert not list((tmp_path / "archive.batches").glob("*/date=*"))


def test_a_batch_whose_rows_are_not_all_there_is_repeated(
    spark: SparkSession, server: TalosServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(server, "unseen", 100)
    given = settings(server, tmp_path, topics="unseen")
    real = ArchiveWriter._write

    def one_executor(self: ArchiveWriter, messages: DataFrame, staged: str) -> None:
        real(self, messages.where("partition = 0"), staged)  # the other one has a disk of its own

    monkeypatch.setattr(ArchiveWriter, "_write", one_executor)
    with pytest.raises(PySparkException, match="its files have 100 of 200 messages"):
        run(spark, given)
    monkeypatch.undo()
    run(spark, given)
    assert archived(tmp_path / "archive") == each_once({0: 100, 1: 100})


def test_the_archive_of_another_checkpoint_is_refused(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    fill(server, "two-archives", 10)
    path = str(tmp_path / "shared")
    run(spark, settings(server, tmp_path / "one", topics="two-archives", path=path))
    with pytest.raises(PySparkException) as caught:
        run(spark, settings(server, tmp_path / "two", topics="two-archives", path=path))
    cause = cause_of(caught.value)
    assert cause.kind == "ConfigError"
    assert "is the archive of another checkpoint" in cause.text
    assert archived(tmp_path / "shared") == each_once({0: 10, 1: 10})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"topics": "a", "topic-pattern": "b"},
        {"topics": "a", "compression": "rar"},
        {"topics": "a", "on-expired": "never"},
        {"topics": "a", "on-deleted": "drop"},
        {"topics": "a", "tasks": "many"},
    ],
)
def test_options_that_cannot_be_used_are_refused(
    spark: SparkSession, server: TalosServer, tmp_path: Path, options: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match="archive"):
        ARCHIVE.start(spark, settings(server, tmp_path, **options))


def test_lists_of_old_batches_do_not_pile_up(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    fill(server, "listed", 10)
    given = settings(server, tmp_path, topics="listed")
    run(spark, given)
    lists = sorted((tmp_path / "archive.batches").glob("0*.json"))
    assert [item.name for item in lists] == ["000000000.json"]
    names = json.loads(lists[0].read_text())["files"]
    there = (tmp_path / "archive").glob("date=*/*.parquet")
    assert sorted(names) == sorted(str(item.relative_to(tmp_path / "archive")) for item in there)
