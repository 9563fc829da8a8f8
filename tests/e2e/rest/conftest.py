"""A server of its own for each test of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server_process import ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path, config="[http]\nwrite_stall_s = 1.0\n")
    process.start()
    yield process
    process.kill()
