"""The README's first command, with fewer messages."""

import subprocess
from pathlib import Path

import pytest
from tests.compat.conftest import ROOT, sdk_environment
from tests.server_process import TALOS

pytestmark = pytest.mark.timeout(90)


def test_the_demo_runs_its_tour_and_ends(tmp_path: Path) -> None:
    command = [str(TALOS), "demo", "--exit", "--messages", "500", "--data", str(tmp_path / "demo")]
    done = subprocess.run(
        command, cwd=ROOT, env=sdk_environment(), capture_output=True, text=True, timeout=80
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A server runs at http://127.0.0.1:" in done.stdout
    assert "500 / 500" in done.stdout
    assert "lag of group 'tour': 0" in done.stdout
    assert "messages/s" in done.stdout
    again = subprocess.run(
        command, cwd=ROOT, env=sdk_environment(), capture_output=True, text=True, timeout=80
    )
    assert again.returncode == 0, again.stdout + again.stderr
