"""Which jobs run beside each other; which failed, how often, and on a loaded machine."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from scripts import run_lanes
from scripts.run_lanes import (
    Counts,
    Job,
    Result,
    SharedBackends,
    counts,
    load,
    main,
    run_jobs,
    startable,
)

EVERY_OTHER = """
import os, sys
flag = sys.argv[1]
if os.path.exists(flag):
    os.remove(flag)
else:
    open(flag, "w").close()
    sys.exit(1)
"""


@pytest.fixture(autouse=True)
def lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One lane with a job that succeeds every other time; handlers of signals stay ours."""
    job = Job("every-other", (sys.executable, "-c", EVERY_OTHER, str(tmp_path / "flag")))
    monkeypatch.setattr(run_lanes, "LANES", {"quick": (job,)})
    monkeypatch.setattr(run_lanes, "REPORTS", tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def test_a_job_that_fails_now_and_then_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--times", "4", "quick"]) == 1
    said = capsys.readouterr().out
    assert "== round 4 of 4" in said
    assert "failing jobs: every-other (2 times)" in said


@pytest.mark.parametrize("count", ["0", "101", "many"])
def test_the_rounds_are_bounded(count: str) -> None:
    with pytest.raises(SystemExit):
        main(["--times", count, "quick"])


def test_busy_processes_end_with_the_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(*args: Any) -> subprocess.Popen[bytes]:
        started.append(real(*args))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    with load(True):
        assert len(started) == os.cpu_count()
        assert all(process.poll() is None for process in started)
    assert all(process.poll() is not None for process in started)


class NoBackends(SharedBackends):
    """Counts how often they were wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = 0

    def start(self) -> None:
        self.wanted += 1


ROOM_GB = 8.0


def job(name: str, *, busy: bool = True, memory_gb: float = 1.0) -> Job:
    return Job(name, (), busy=busy, memory_gb=memory_gb)


def with_backends(name: str) -> Job:
    return Job(name, (), backends=True, busy=False, memory_gb=3.0)


def test_the_backends_are_for_one_job_at_a_time() -> None:
    hdfs, faults = with_backends("hdfs"), with_backends("faults")
    unit, layers = job("unit"), job("layers")
    assert startable([unit, hdfs, faults], [], ROOM_GB) is hdfs
    assert startable([unit, faults], [hdfs], ROOM_GB) is unit
    assert startable([layers, faults], [unit], ROOM_GB) is faults
    assert startable([faults], [hdfs], ROOM_GB) is None
    assert startable([layers], [hdfs, unit], ROOM_GB) is None


def test_a_job_that_computes_has_one_that_waits_beside_it() -> None:
    hdfs, sdk, rest = with_backends("hdfs"), job("sdk", busy=False), job("rest", busy=False)
    unit, types = job("unit"), job("types")
    assert startable([sdk, unit, types], [hdfs], ROOM_GB) is unit
    assert startable([types, sdk], [unit], ROOM_GB) is sdk
    assert startable([rest, types], [sdk], ROOM_GB) is types
    assert startable([types], [unit], ROOM_GB) is types
    assert startable([rest], [sdk], ROOM_GB) is rest


def test_jobs_beside_each_other_fit_into_the_memory() -> None:
    hdfs, spark, unit = with_backends("hdfs"), job("spark", memory_gb=3.0), job("unit")
    assert startable([spark, unit], [hdfs], 5.0) is unit
    assert startable([spark, unit], [hdfs], 6.0) is spark
    assert startable([spark, unit], [], 2.0) is spark, "alone it runs in any case"


def test_a_report_says_what_was_counted_and_computed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite tests="9" failures="1" errors="1" skipped="2"><properties>'
        '<property name="processor_s" value="12.5" /></properties></testsuite></testsuites>'
    )
    assert counts(report) == Counts(passed=5, failed=2, skipped=2, processor_s=12.5)


def test_a_free_slot_takes_a_job_of_the_next_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """The long job of the first lane ends only when one of the second lane has run."""
    done = threading.Event()

    def run(what: Job) -> Result:
        if what.name == "long":
            assert done.wait(18), "the second lane waited for the first"
        if what.name == "second":
            done.set()
        return Result(what, ok=True, passed=1)

    monkeypatch.setattr(run_lanes, "run", run)
    backends = NoBackends()
    jobs = [with_backends("long"), job("short"), job("second"), with_backends("last")]
    results = run_jobs(jobs, backends)
    assert {result.job.name for result in results} == {"long", "short", "second", "last"}
    assert backends.wanted == 2


def test_only_jobs_with_backends_learn_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENTALOS_BACKENDS", raising=False)
    argv = (sys.executable, "-c", "import os; print(os.environ.get('OPENTALOS_BACKENDS'))")
    assert run_lanes.execute(Job("unit", argv)) == (0, "None\n")
    found = run_lanes.execute(Job("hdfs", argv, backends=True))
    assert found == (0, f"{run_lanes.ADDRESSES}\n")
