"""A server of its own and Kafka's tools, for all tests of this folder."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.kafka.tools.kafka_tools import KafkaTools, Login, login
from tests.e2e.rest.client import rest
from tests.server_process import ROOT_KEY, Key, ServerProcess
from tests.shared_servers import SharedServers


@pytest.fixture(scope="session")
def kafka_server(servers: SharedServers) -> ServerProcess:
    running = servers.get()
    for name in ("alice", "bob"):
        assert rest(running, "POST", "principals", {"id": name}).status == 201
    return running


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTools]:
    made = KafkaTools(tmp_path_factory.mktemp("kafka-tools"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logins")


def login_of(server: ServerProcess, folder: Path, name: str) -> Login:
    made = rest(server, "POST", f"principals/{name}/keys").document
    return login(folder, address_of(server), made["key_id"], made["secret"])


def address_of(server: ServerProcess) -> str:
    return str(json.loads((server.data / "server.json").read_text())["kafka"])


@pytest.fixture(scope="session")
def root(kafka_server: ServerProcess, logins: Path) -> Login:
    """The administrator of the service."""
    key: Key = ROOT_KEY
    return login(logins, address_of(kafka_server), key.key_id, key.secret)


@pytest.fixture(scope="session")
def alice(kafka_server: ServerProcess, logins: Path) -> Login:
    """A tenant."""
    return login_of(kafka_server, logins, "alice")


@pytest.fixture(scope="session")
def bob(kafka_server: ServerProcess, logins: Path) -> Login:
    """Another tenant."""
    return login_of(kafka_server, logins, "bob")
