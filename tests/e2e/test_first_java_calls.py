"""The first calls of a process may come from all its threads at once."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import RunningBackends

pytestmark = [pytest.mark.backend, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).with_name("first_java_calls.py")
PROGRAM_S = 150.0


def test_no_java_type_is_made_while_threads_call(backends: RunningBackends, tmp_path: Path) -> None:
    places = (backends.hdfs_url, str(backends.hdfs_conf_dir), backends.hbase_url)
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *places, str(backends.jars)],
        cwd=tmp_path,  # a crash of the JVM leaves its report here
        capture_output=True,
        text=True,
        timeout=PROGRAM_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "left to threads: []\n"
