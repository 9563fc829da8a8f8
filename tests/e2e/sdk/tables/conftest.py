"""One server in this process for the tests of the table client; each takes tables of its own."""

from collections.abc import Iterator

import pytest

from opentalos.sdk import Client, ClientConfig, TalosAdmin
from opentalos.sdk.tables import TableAdmin
from opentalos.testing import EmbeddedServer


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as running:
        yield running


@pytest.fixture(scope="session")
def config(server: EmbeddedServer) -> ClientConfig:
    return ClientConfig(endpoints=(server.url,), key_id=server.key_id, secret=server.secret)


@pytest.fixture(scope="session")
def client(config: ClientConfig) -> Iterator[Client]:
    with Client(config) as shared:
        yield shared


@pytest.fixture(scope="session")
def admin(client: Client) -> TableAdmin:
    return TableAdmin(client)


@pytest.fixture(scope="session")
def topics(client: Client) -> TalosAdmin:
    return TalosAdmin(client)
