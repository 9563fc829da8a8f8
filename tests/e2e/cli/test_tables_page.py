"""The page about tables: its commands run in order against a real server."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.e2e.cli.conftest import Commands
from tests.server_process import TALOS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "tables.md"
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCRIPT_S = 150.0


@pytest.mark.timeout(SCRIPT_S + 30)
def test_the_commands_of_the_page_succeed(own: Commands) -> None:
    blocks = FENCE.findall(PAGE.read_text())
    assert len(blocks) > 10
    path = f"{TALOS.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", "set -o pipefail\n" + "\n".join(blocks)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**own.variables(), "PATH": path, "NO_PROXY": "*"},
        cwd=own.folder,
        timeout=SCRIPT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dropped people" in done.stdout
