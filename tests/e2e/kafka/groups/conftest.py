"""A server whose groups of Kafka clients change quickly, and what clients need to reach it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.kafka.clients import kafka_address
from tests.e2e.kafka.groups.kafka_clients import Reach
from tests.server_process import ROOT_KEY, ServerProcess
from tests.shared_servers import SharedServers, tenant

CONFIG = """
[kafka_group]
initial_delay_s = 0.2
heartbeat_s = 0.3
session_min_s = 1.0
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """Of the test alone: it may be stopped."""
    process = ServerProcess(tmp_path, config=CONFIG).start()
    yield process
    process.kill()


@pytest.fixture
def reach(servers: SharedServers) -> Reach:
    """A tenant of a shared server."""
    server = servers.get(CONFIG)
    return Reach(kafka_address(server), server.url, tenant(server))


@pytest.fixture
def own_reach(server: ServerProcess) -> Reach:
    """The address stays when the server is started again."""
    return Reach(kafka_address(server), server.url, ROOT_KEY)
