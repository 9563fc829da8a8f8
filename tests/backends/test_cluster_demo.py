"""``talos cluster demo`` from start to end."""

from pathlib import Path

import pytest
from tests.compat.conftest import ROOT, sdk_environment
from tests.server_process import TALOS
from tests.talking_program import run_talking
from tests.waiting import completed

pytestmark = pytest.mark.backend


def test_the_demo_kills_a_server_and_leaves_nothing_behind(tmp_path: Path) -> None:
    said = run_talking(
        [TALOS, "cluster", "demo", "--exit"],
        ROOT,
        {**sdk_environment(), "TMPDIR": str(tmp_path)},
    )
    assert "all partitions acknowledge again after" in said
    assert "s3 is back: no partition moved" in said
    assert list(tmp_path.iterdir()) == []
    processes = completed(["ps", "-eo", "args"]).stdout
    assert str(tmp_path) not in processes
