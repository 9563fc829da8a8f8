"""The README's first minutes: its shell and Python, with our SDK and with the official one."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import ROOT, SDK_PYTHON, sdk_environment
from tests.server_process import TALOS
from tests.waiting import completed

from opentalos.sdk import SimpleConsumer
from opentalos.testing import EmbeddedServer

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path / "talos-data") as running:
        (tmp_path / "talos-data" / "root.key").write_text(f"{running.key_id}:{running.secret}\n")
        yield running


def test_its_commands_and_programs_run(server: EmbeddedServer, tmp_path: Path) -> None:
    found = BLOCK.findall((ROOT / "README.md").read_text())
    assert [language for language, _ in found] == ["sh", "python", "python"]
    shell, own, official = (
        text.replace("http://127.0.0.1:9420", server.url)
        .replace("KEYID", server.key_id)
        .replace("SECRET", server.secret)
        for _, text in found
    )
    (tmp_path / "own.py").write_text(own)
    environment = {**os.environ, "PATH": f"{TALOS.parent}:{os.environ['PATH']}"}
    done = completed(
        ["sh", "-ec", f"{shell}\n{sys.executable} own.py"],
        cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"(\d) 0 b'hello'\n\1 1 b'world'", done.stdout), done.stdout
    done = completed(
        [str(SDK_PYTHON), "-c", f"{official}\nimport os; os._exit(0)"],
        cwd=tmp_path, env=sdk_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with SimpleConsumer(server.client_config(), "demo") as consumer:
        ends = {partition: offsets.next for partition, offsets in consumer.offsets().items()}
        assert sum(ends.values()) == 3
        assert consumer.fetch(0, ends[0] - 1)[-1].data == b"hello"
