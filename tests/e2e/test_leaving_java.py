"""A process with a Java machine ends with its own status, whatever its threads do."""

import sys
from pathlib import Path

import pytest
from tests.conftest import RunningBackends
from tests.waiting import completed

pytestmark = pytest.mark.backend

PROGRAM = Path(__file__).with_name("leaving_java.py")
STATUS = 3


def test_a_command_ends_while_a_thread_is_inside_java(
    backends: RunningBackends, tmp_path: Path
) -> None:
    done = completed(  # it would wait for good, or crash
        [sys.executable, str(PROGRAM), str(backends.jars), str(STATUS)],
        cwd=tmp_path,  # a crash of the JVM leaves its report here
    )
    assert (done.returncode, done.stderr) == (STATUS, "")
