"""Rollups that executors write to a real HDFS, over attempts that fail: each row once."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.conftest import RunningBackends
from tests.spark.hdfs.rollup_job import HOUR, PARTITIONS, STEPS, WRITERS
from tests.spark.kills.copying import ROOT
from tests.spark.standalone.standalone_cluster import Family

from opentalos.cli.main import talos
from opentalos.pipelines.lake.opening import open_existing
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.monitoring.rollup_tables import METRICS
from opentalos.pipelines.olap.delta_store import DeltaStore
from opentalos.pipelines.olap.store import Group, Measure, Selection

pytestmark = pytest.mark.backend
BYTES = STEPS * PARTITIONS * (PARTITIONS + 1) // 2  # partition n puts n bytes in each step
COUNTS = PARTITIONS * STEPS * (STEPS + 1) // 2


@dataclass(frozen=True)
class Outcome:
    """What the job said, and where its rollups are."""

    said: dict[str, Any]
    lake: str


@pytest.fixture(scope="module")
def outcome(backends: RunningBackends, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    folder: Path = tmp_path_factory.mktemp("rollups")
    lake = f"delta+{backends.hdfs_url}/lakes/{folder.name}"
    command = [sys.executable, "-m", "tests.spark.hdfs.rollup_job", lake, str(folder)]
    path = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    job = Family(folder, command, environment, ROOT)
    try:
        for writer in WRITERS:
            job.wait_for(f"done: {writer.__name__}\n")
        assert job.wait() == 0, job.said()
    finally:
        job.kill()
    return Outcome(job.report(WRITERS[0].__name__), lake)


def sums(lake: str, table: str, *measures: Measure) -> list[Any]:
    store = DeltaStore(lake, (METRICS,))
    rows = Selection(table=table, start_ms=HOUR, end_ms=HOUR + HOUR_MS)
    (found,) = store.query(Group(rows=rows, by=(), measures=measures)).to_pylist()
    return list(found.values())


def test_files_of_attempts_that_failed_are_no_rows(outcome: Outcome) -> None:
    assert outcome.said["DeltaFileWriter"] == 0
    assert outcome.said["FailingWriter"] > 0
    assert outcome.said["KillingWriter"] > 0
    assert outcome.said["killed"]
    measures = (Measure("n", "count"), Measure("t", "sum", "total"), Measure("s", "sum", "samples"))
    for level, rows in (("10s", STEPS), ("1m", STEPS), ("1h", 1)):
        found = sums(outcome.lake, f"metrics_{level}", *measures)
        assert found == [rows * PARTITIONS, BYTES, STEPS * PARTITIONS]
        sketches = sums(outcome.lake, f"metrics_{level}_sketches", Measure("c", "sum", "count"))
        assert sketches == [COUNTS]


def test_no_rollup_passes_the_driver(outcome: Outcome) -> None:
    assert "spark.driver.maxResultSize" in outcome.said["rows"]


def test_a_query_reads_rollups_on_hdfs(outcome: Outcome) -> None:
    asked = ["query", "top", "metrics_1h", "--olap", outcome.lake, "--format", "json"]
    asked += ["--measure", "put_bytes", "--by", "topic", "--limit", "1"]
    span = ("--since", f"@{HOUR // 1000}", "--until", f"@{(HOUR + HOUR_MS) // 1000}")
    done = CliRunner().invoke(talos, [*asked, *span])
    assert done.exit_code == 0, done.output
    # The last topic has the four partitions with most bytes.
    largest = sum(range(PARTITIONS - 3, PARTITIONS + 1)) * STEPS
    assert json.loads(done.stdout) == {
        "topic": f"topic-{PARTITIONS // 4 - 1}",
        "sum_total": largest,
    }
    listed = CliRunner().invoke(talos, ["query", "tables", "--olap", outcome.lake])
    assert "metrics_10s_sketches" in listed.stdout


def test_rollups_on_hdfs_are_vacuumed(outcome: Outcome) -> None:
    table, _ = open_existing(f"{outcome.lake}/rollups/{METRICS.name}")
    assert table.vacuum(0) >= outcome.said["FailingWriter"]
    assert sums(outcome.lake, "metrics_1h", Measure("t", "sum", "total")) == [BYTES]
