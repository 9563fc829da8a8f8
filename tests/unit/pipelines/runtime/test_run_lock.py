"""One process on a checkpoint, and the end of what a killed one left."""

import json
import os
import socket
import subprocess
from pathlib import Path

import psutil
import pytest
from tests.waiting import ended

from opentalos.model.errors import ConfigError
from opentalos.pipelines.runtime import run_lock
from opentalos.pipelines.runtime.run_lock import RunLock


def noted(java: int, began: float) -> str:
    return json.dumps({"java": java, "java_began": began, "host": socket.gethostname()})


def test_a_second_owner_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    first, second = RunLock(tmp_path, "archive"), RunLock(tmp_path, "archive")
    first.take(supervised=True)
    with pytest.raises(
        ConfigError, match=rf"archive is already running on .* \(pid {os.getpid()}\)"
    ):
        second.take()
    owner = second.owner()
    assert owner is not None
    assert owner["pid"] == os.getpid()
    assert owner["supervised"]
    first.release()
    assert second.owner() is None
    second.take()
    second.release()


def test_the_java_of_a_killed_owner_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lock, "_ORPHAN_S", 0.0)
    orphan = subprocess.Popen(["sleep", "60"])
    began = psutil.Process(orphan.pid).create_time()
    lock = RunLock(tmp_path, "archive")
    lock.path.parent.mkdir()
    lock.path.write_text(noted(orphan.pid, began))
    lock.take()
    assert ended(orphan) == -9
    lock.release()


def test_another_process_with_that_pid_is_left_alone(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    lock = RunLock(tmp_path, "archive")
    lock.path.parent.mkdir()
    lock.path.write_text(noted(other.pid, 1.0))
    lock.take()
    assert other.poll() is None
    lock.release()
    other.kill()
    other.wait()


def test_an_owner_of_another_machine_is_not_killed(tmp_path: Path) -> None:
    held = RunLock(tmp_path, "archive")
    held.take()
    there = json.loads(held.path.read_text())
    other = subprocess.Popen(["sleep", "60"])
    began = psutil.Process(other.pid).create_time()
    for host, status in (("elsewhere", None), (there["host"], -9)):
        held.path.write_text(json.dumps({"pid": other.pid, "began": began, "host": host}))
        RunLock(tmp_path, "archive").kill_owner()
        if status is not None:
            assert ended(other) == status
        else:
            assert other.poll() is None
    held.release()
