"""One real server for the tests of the SDK that do not stop it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.server_process import ROOT_KEY, ServerProcess
from tests.shared_servers import SharedServers
from tests.waiting import eventually_async

from opentalos.sdk import ClientConfig, aio


@pytest.fixture
def sdk_server(servers: SharedServers) -> ServerProcess:
    return servers.get()


@pytest.fixture
def sdk_config(sdk_server: ServerProcess) -> ClientConfig:
    return config_of(sdk_server.url)


def config_of(*endpoints: str, **settings: Any) -> ClientConfig:
    """The root key at these endpoints."""
    key_id, secret = ROOT_KEY.key_id, ROOT_KEY.secret
    return ClientConfig(endpoints=endpoints, key_id=key_id, secret=secret, **settings)


async def read_all(client: aio.Client, topic: str, partition: int) -> list[bytes]:
    """What a partition holds."""
    consumer = aio.SimpleConsumer(client, topic)
    found: list[bytes] = []
    offset, end = 0, (await consumer.offsets())[partition].next
    while offset < end:
        records = await consumer.fetch(partition, offset)
        found += [record.data for record in records]
        offset = records[-1].offset + 1
    return found


async def moment_between() -> datetime:
    """A time after all that is stored already, and before all that is stored from now on."""
    between = await _next_moment()
    await _next_moment()
    return between


async def _next_moment() -> datetime:
    """Servers store times in milliseconds."""
    before = datetime.now(UTC)

    def later() -> datetime | None:
        now = datetime.now(UTC)
        return now if now - before > timedelta(milliseconds=2) else None

    found = await eventually_async("the clock shows a later time", later)
    assert found is not None
    return found
