"""A server whose groups of Kafka clients change quickly, and what clients need to reach it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.kafka.groups.kafka_clients import Reach
from tests.server_process import ROOT_KEY, ServerProcess

CONFIG = """
[kafka_group]
initial_delay_s = 0.2
heartbeat_s = 0.3
session_min_s = 1.0
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path, config=CONFIG).start()
    yield process
    process.kill()


@pytest.fixture
def reach(server: ServerProcess) -> Reach:
    """The address stays when the server is started again."""
    address = str(json.loads((server.data / "server.json").read_text())["kafka"])
    return Reach(address, server.url, ROOT_KEY)
