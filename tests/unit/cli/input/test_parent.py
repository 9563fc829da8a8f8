"""A program ends with the one that started it."""

import signal
import subprocess
import sys

import psutil
from tests.process_state import runs
from tests.waiting import completed, ended, eventually, stays

CHILD = """
import signal
from opentalos.cli.input.parent import end_with_stdin
end_with_stdin()
print("ready", flush=True)
signal.pause()
"""
PARENT = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid())])
print(child.pid, flush=True)
child.wait()
"""
GRANDCHILD = """
import signal, sys
from opentalos.cli.input.parent import end_with_parent
end_with_parent(int(sys.argv[1]))
signal.pause()
"""


def test_a_child_ends_with_its_stdin_and_not_before() -> None:
    command = [sys.executable, "-c", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.stdin.write(b"not the end")
        child.stdin.flush()
        stays("the child runs", lambda: child.poll() is None)
        child.stdin.close()
        assert ended(child) == -signal.SIGTERM


def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-c", PARENT, GRANDCHILD]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        stays("the child runs", lambda: runs(child))
        parent.kill()
    eventually("the child ends", lambda: not runs(child))


def test_a_child_whose_parent_ended_before_it_looked_ends() -> None:
    done = completed([sys.executable, "-c", GRANDCHILD, "1"])
    assert done.returncode == -signal.SIGTERM
