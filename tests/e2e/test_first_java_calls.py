"""The first calls of a process may come from all its threads at once."""

import os
import sys
from pathlib import Path

import pytest
from tests.conftest import RunningBackends
from tests.waiting import completed

pytestmark = pytest.mark.backend

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = "tests.e2e.first_java_calls"


def test_no_java_type_is_made_while_threads_call(backends: RunningBackends, tmp_path: Path) -> None:
    places = (backends.hdfs_url, str(backends.hdfs_conf_dir), backends.hbase_url)
    done = completed(
        [sys.executable, "-m", PROGRAM, *places, str(backends.jars)],
        cwd=tmp_path,  # a crash of the JVM leaves its report here
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "left to threads: []\n"
