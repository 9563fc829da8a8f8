"""On executors of their own: what a failed fetch, speculation and many tasks store; the archive."""

import os
import sys
from collections import Counter
from dataclasses import dataclass

import pytest
from tests.spark.cluster.cluster_job import MANY_TASKS, PARTS, ROWS
from tests.spark.conftest import TalosServer
from tests.spark.kills.copying import ROOT, read_all
from tests.spark.standalone.standalone_cluster import Family


@dataclass(frozen=True)
class Outcome:
    """What each part of the job said; empty: it succeeded."""

    said: dict[str, str]
    server: TalosServer

    def numbers(self, topic: str) -> list[int]:
        """Of the stored rows, in their order."""
        return [int(data[:4]) for data in read_all(self.server.config, topic, 0)]


@pytest.fixture(scope="module")
def outcome(server: TalosServer, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder = tmp_path_factory.mktemp("cluster")
    command = [sys.executable, "-m", "tests.spark.cluster.cluster_job"]
    command += [server.url, server.key, str(folder)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    job = Family(folder, command, environment, ROOT)
    try:
        for part in PARTS:
            job.wait_for(f"done: {part}\n")
        assert job.wait() == 0, job.said()
    finally:
        job.kill()
    return Outcome(job.report(PARTS[0]), server)


def test_a_stage_that_runs_again_after_a_failed_fetch_stores_nothing_twice(
    outcome: Outcome,
) -> None:
    assert outcome.said["same"] == ""
    assert outcome.numbers("same") == list(range(ROWS))


def test_other_rows_in_a_stage_that_runs_again_are_refused(outcome: Outcome) -> None:
    assert "NotTheSameRows" in outcome.said["reversed"]
    stored = outcome.numbers("reversed")
    assert stored == list(range(len(stored)))


def test_a_task_that_spark_speculates_on_stores_its_rows_once(outcome: Outcome) -> None:
    assert outcome.said["speculated"] == ""
    assert Counter(outcome.numbers("speculated")) == Counter(range(ROWS + 1))


def test_a_write_may_have_any_number_of_tasks(outcome: Outcome) -> None:
    assert outcome.said["many"] == ""
    found = [int(data) for data in read_all(outcome.server.config, "many", 0)]
    assert sorted(found) == list(range(MANY_TASKS))


def test_an_archive_on_the_disks_of_executors_is_refused(outcome: Outcome) -> None:
    assert "ConfigError" in outcome.said["archive"]
    assert "is a folder of one machine" in outcome.said["archive"]


def test_rollups_on_the_disks_of_executors_are_refused(outcome: Outcome) -> None:
    assert "ConfigError" in outcome.said["rollups"]
    assert "the OLAP store at" in outcome.said["rollups"]
    assert "--olap delta+hdfs://" in outcome.said["rollups"]
