"""What a demo started ends with it, also when it is killed."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
from tests.process_state import runs
from tests.waiting import eventually

from opentalos.cli.demo.leftovers import MARK, end_all

SLEEPS = [sys.executable, "-c", "import sys; print('ready', flush=True); sys.stdin.read()"]
# A demo whose backend is a daemon: in a session of its own, and with no pipe to the demo.
DEMO = """
import subprocess, sys
from pathlib import Path
from opentalos.cli.demo.leftovers import guarded
with guarded(Path(sys.argv[1])):
    daemon = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    print(daemon.pid, flush=True)
    sys.stdin.read()
"""


def test_only_processes_with_the_folder_as_mark_are_ended(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    found = []
    for folder in (mine, other):
        process = subprocess.Popen(
            SLEEPS, env={**os.environ, MARK: str(folder)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        found.append(process)
    mine_runs, other_runs = (psutil.Process(process.pid) for process in found)
    try:
        end_all(mine)
        assert not runs(mine_runs)
        assert runs(other_runs)
        assert not mine.exists()
    finally:
        for process in found:
            process.kill()
            process.communicate()


def test_a_demo_that_is_killed_leaves_no_daemon_and_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    command = [sys.executable, "-c", DEMO, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        daemon = psutil.Process(int(demo.stdout.readline()))
        assert runs(daemon)
        demo.kill()
    eventually("the daemon ends", lambda: not runs(daemon))
    eventually("the folder is removed", lambda: not folder.exists())
