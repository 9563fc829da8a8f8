"""A server of its own for each test of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server_process import ServerProcess

# Schemathesis tries every route with a wrong secret, and is to be refused for that each time.
CONFIG = "[http]\nwrite_stall_s = 1.0\n[auth]\nfailures_max = 1_000\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path, config=CONFIG)
    process.start()
    yield process
    process.kill()
