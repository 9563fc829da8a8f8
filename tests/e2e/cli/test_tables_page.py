"""The page about tables: its commands run in order against a real server."""

import os
import re
import subprocess
from pathlib import Path

from tests.e2e.cli.conftest import Commands
from tests.server_process import TALOS
from tests.waiting import completed

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "tables.md"
FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_succeed(own: Commands) -> None:
    blocks = FENCE.findall(PAGE.read_text())
    assert len(blocks) > 10
    path = f"{TALOS.parent}{os.pathsep}{os.environ['PATH']}"
    done = completed(
        ["bash", "-ec", "set -o pipefail\n" + "\n".join(blocks)],
        stdin=subprocess.DEVNULL,
        env={**own.variables(), "PATH": path, "NO_PROXY": "*"},
        cwd=own.folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dropped people" in done.stdout
