"""A ZooKeeper of these cases' own, which they may kill and pause."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.tcp_proxy import TcpProxy
from tests.waiting import scale

from opentalos.adapters.zookeeper import ZookeeperMetaStore, open_zookeeper_meta_store
from opentalos.backends.jars import fetch
from opentalos.backends.zookeeper import ZookeeperBackend
from opentalos.model.limits import ZookeeperLimits

Opener = Callable[..., Awaitable[ZookeeperMetaStore]]
SESSION_S = 2.0  # on a quiet machine; on a slow one it would end while its process waits for a core


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperBackend]:
    backend = ZookeeperBackend(tmp_path_factory.mktemp("zookeeper"))
    fetch(backend.kind, print)
    backend.start(print, port=0)
    yield backend
    backend.daemon("zookeeper").kill()


@pytest.fixture
def proxy(zookeeper: ZookeeperBackend) -> Iterator[TcpProxy]:
    """Leads to ZooKeeper, with faults."""
    with TcpProxy(zookeeper.ports["client"]) as proxy:
        yield proxy


@pytest.fixture
async def opened(request: pytest.FixtureRequest) -> AsyncIterator[Opener]:
    """Opens stores below a znode of the case's own; they are closed with it."""
    stores: list[ZookeeperMetaStore] = []

    async def open_store(hosts: str, **limits: Any) -> ZookeeperMetaStore:
        url = f"zookeeper://{hosts}/{request.node.name}"
        wanted = ZookeeperLimits(**{"session_s": SESSION_S * scale(), **limits})
        stores.append(await open_zookeeper_meta_store(url, wanted))
        return stores[-1]

    yield open_store
    for store in stores:
        await store.close()
