"""Lanes that run many times: which jobs failed, how often, and on a loaded machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts import run_lanes
from scripts.run_lanes import Job, load, main

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
