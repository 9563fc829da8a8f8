"""``talos cluster demo`` from start to end."""

import subprocess
from pathlib import Path

import pytest
from tests.compat.conftest import ROOT, sdk_environment
from tests.server_process import TALOS

pytestmark = [pytest.mark.backend, pytest.mark.timeout(420)]


def test_the_demo_kills_a_server_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(TALOS), "cluster", "demo", "--exit"],
        cwd=ROOT,
        env={**sdk_environment(), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all partitions acknowledge again after" in done.stdout
    assert "s3 is back: no partition moved" in done.stdout
    assert list(tmp_path.iterdir()) == []
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(tmp_path) not in processes
