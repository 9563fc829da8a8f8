"""An HBase of these cases' own, which they may kill and pause."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from opentalos.adapters.hbase import HbaseRowStore, open_hbase_row_store
from opentalos.adapters.jvm import default_jars
from opentalos.backends.hbase import HbaseBackend
from opentalos.backends.jars import CLIENT, fetch
from opentalos.model.limits import HbaseLimits, JvmLimits

Opener = Callable[[float], Awaitable[HbaseRowStore]]


@pytest.fixture(scope="module")
def hbase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HbaseBackend]:
    backend = HbaseBackend(tmp_path_factory.mktemp("hbase"))
    for kind in (backend.kind, CLIENT):
        fetch(kind, print)
    backend.start(print, port=0)
    yield backend
    backend.daemon("hbase").kill()


@pytest.fixture
def jvm() -> JvmLimits:
    return JvmLimits(jars=str(default_jars()))


@pytest.fixture
async def opened(hbase: HbaseBackend, jvm: JvmLimits) -> AsyncIterator[Opener]:
    """Opens stores of one namespace, with a time for calls; they are closed with the case."""
    stores: list[HbaseRowStore] = []

    async def open_store(call_timeout_s: float) -> HbaseRowStore:
        limits = HbaseLimits(call_timeout_s=call_timeout_s)
        stores.append(await open_hbase_row_store(f"{hbase.url}/e2e", jvm, limits))
        return stores[-1]

    yield open_store
    for store in stores:
        await store.close()


@pytest.fixture
def table() -> str:
    return f"case-{uuid.uuid4().hex}"
