"""A process with a Java machine ends with its own status, whatever its threads do."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import RunningBackends

pytestmark = [pytest.mark.backend, pytest.mark.timeout(120)]

PROGRAM = Path(__file__).with_name("leaving_java.py")
STATUS = 3
PROGRAM_S = 60.0  # it would wait for good, or crash


def test_a_command_ends_while_a_thread_is_inside_java(
    backends: RunningBackends, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(backends.jars), str(STATUS)],
        cwd=tmp_path,  # a crash of the JVM leaves its report here
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (STATUS, "")
