"""What a run of lanes says at its end, and on a loaded machine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from scripts.lanes import jobs, play, report
from scripts.lanes.jobs import Job
from scripts.lanes.play import load
from scripts.lanes.report import CaseResult, Report, Result
from scripts.run_lanes import conclude, main

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
    monkeypatch.setattr(jobs, "LANES", {"quick": (job,)})
    monkeypatch.setattr(report, "REPORTS", tmp_path)
    monkeypatch.setattr(play, "REPORTS", tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def test_a_job_that_fails_now_and_then_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--times", "4", "quick"]) == 1
    said = capsys.readouterr().out
    assert "== round 4 of 4" in said
    assert "failing jobs: every-other (2 times)" in said


def test_a_job_runs_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["every-other"]) == 1
    assert "failing jobs: every-other\n" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["no-such-lane"], ["--times", "0", "quick"],
    ["--times", "101", "quick"], ["--times", "many", "quick"]])  # fmt: skip
def test_wrong_usage_is_refused(argv: Sequence[str]) -> None:
    with pytest.raises(SystemExit):
        main(argv)


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


def flaky(count: int) -> Result:
    names = {f"tests/e2e/test_x.py::test_{number}": "the group settles" for number in range(count)}
    return Result(Job("e2e", (), ("tests/e2e",)), ok=True, passed=9 + count, flaky=names)


def test_a_test_that_passed_when_repeated_is_named_last(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert conclude([flaky(1)], "gate", 1) == 0
    *_, named, last = capsys.readouterr().out.splitlines()
    assert named == "flaky: tests/e2e/test_x.py::test_0: the group settles"
    assert last == "10 passed, 0 failed, 0 skipped"
    kept = json.loads((tmp_path / "flaky.json").read_text())
    assert kept == {"tests/e2e/test_x.py::test_0": "the group settles"}


def test_more_repeated_tests_than_one_machine_explains_fail_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert conclude([flaky(3), flaky(1)], "gate", 1) == 1
    assert "4 tests passed only when repeated" in capsys.readouterr().out


def test_a_quarantined_test_is_named_and_gates_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    held = Result(
        Job("e2e", (), ("tests/e2e",)), ok=True, passed=1, skipped=1, quarantined=["t::x"]
    )
    assert conclude([held], "gate", 1) == 0
    assert "quarantine: t::x failed" in capsys.readouterr().out


def test_the_end_says_what_set_the_length(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def ran(name: str, start_s: float, end_s: float) -> Result:
        tests = [CaseResult(f"tests/{name}.py::test_a[{case}]", "passed", 2.5) for case in "xy"]
        given = Report(tests, 1.0)
        return Result(Job(name, (), ("tests",)), True, 2, 0, 0, start_s, end_s, given)

    conclude([ran("a", 0, 100), ran("b", 0, 130), ran("c", 100.1, 1900)], "gate", 1)
    said = capsys.readouterr().out
    assert "the length was set by: a (100 s), then c (1800 s)" in said
    assert "total: 31 min 40 s" in said
    assert "warning: above 30 minutes" in said
    assert "5.0 s  tests/a.py::test_a" in said, "cases of one function count together"
    kept = json.loads((tmp_path / "durations.json").read_text())
    assert kept["jobs"] == {"a": 100, "b": 130, "c": 1799.9}
