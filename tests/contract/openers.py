"""Storages that the contract suites run on; a new adapter is added here and nowhere else.

An opener makes one fresh storage (or a fresh corner of a shared backend) and hands out any number
of clients of it. A case must not know which adapter it runs on, uses names that no other case
uses, and assumes nothing about time but that things happen within the limit of a wait.
"""

import asyncio
import random
import sqlite3
import struct
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

import pytest
from _pytest.mark import ParameterSet
from tests.accelerator import KINDS
from tests.conftest import RunningBackends
from tests.tcp_proxy import TcpProxy
from tests.waiting import within_limit

from opentalos.adapters.hbase import HbaseRowStore, open_hbase_row_store
from opentalos.adapters.hbase.client import Attempt
from opentalos.adapters.hdfs import open_hdfs_file_store
from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.local.descriptors import FileDescriptors
from opentalos.adapters.local.native_crew import OFF, REQUIRED
from opentalos.adapters.memory import (
    MemoryFileStore,
    MemoryMetaStore,
    MemoryRowStore,
    MemoryStorage,
)
from opentalos.adapters.sqlite import open_sqlite_meta_store, open_sqlite_row_store
from opentalos.adapters.system_clock import SystemClock
from opentalos.adapters.zookeeper import open_zookeeper_meta_store
from opentalos.model.errors import OutcomeUnknown
from opentalos.model.limits import HbaseLimits, HdfsLimits, JvmLimits, ZookeeperLimits
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore
from opentalos.ports.row_store import RowStore
from opentalos.testing.simulation.loop import SimulatedProcess, SimulationLoop
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.faults import FileFaults, MetaFaults, RowFaults
from opentalos.testing.simulation.stores.faulty_files import FaultyFileStore
from opentalos.testing.simulation.stores.faulty_meta import FaultyMetaStore
from opentalos.testing.simulation.stores.faulty_rows import FaultyRowStore


class Closable(Protocol):
    """Every port can be closed."""

    async def close(self) -> None: ...


StoreT = TypeVar("StoreT", bound=Closable)


@dataclass
class Storage(Generic[StoreT]):
    """One storage; ``client`` opens another client of it."""

    open_client: Callable[[], Awaitable[StoreT]]
    lose_reply: Callable[[], None] | None = None  # the next write takes effect, its reply is lost
    stuck_max: int = 0  # files of live writers that it may refuse to recover in succession
    clients: list[StoreT] = field(default_factory=list)

    async def client(self) -> StoreT:
        """A new client; closed with the storage if the case does not do so."""
        client = await self.open_client()
        self.clients.append(client)
        return client

    async def close(self) -> None:
        """Close every client; closing twice is harmless by contract."""
        for client in self.clients:
            async with within_limit("a client closes"):
                await client.close()


@dataclass(frozen=True)
class Place:
    """Where a case may make storages: a folder of its own, and real backends, which all share."""

    folder: Path
    backends: Callable[[], RunningBackends]  # starts them if need be


Opener = Callable[[Place], AbstractAsyncContextManager[Storage[StoreT]]]


def params_of(stores: Mapping[str, Opener[StoreT]]) -> list[ParameterSet]:
    """The names as parameters of a fixture, marked if they need a real backend."""
    return [
        pytest.param(name, marks=pytest.mark.backend if name in BACKENDS else ()) for name in stores
    ]


@asynccontextmanager
async def memory_files(_place: Place) -> AsyncIterator[Storage[FileStore]]:
    """Files of one MemoryStorage."""
    shared = MemoryStorage()

    async def client() -> FileStore:
        return MemoryFileStore(shared)

    storage: Storage[FileStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def local_files(place: Place) -> AsyncIterator[Storage[FileStore]]:
    """Files of one directory, written by Python's threads."""

    async def client() -> FileStore:
        return await open_local_file_store(place.folder / "files", accelerator=OFF)

    storage: Storage[FileStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def local_files_written_natively(place: Place) -> AsyncIterator[Storage[FileStore]]:
    """Files of one directory, written by native threads."""

    async def client() -> FileStore:
        return await open_local_file_store(place.folder / "files", accelerator=REQUIRED)

    storage: Storage[FileStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def local_files_of_one_process(place: Place) -> AsyncIterator[Storage[FileStore]]:
    """Files of one directory that no other process uses, as a server's."""

    async def client() -> FileStore:
        folder = place.folder / "files"
        return await open_local_file_store(folder, exclusive=True, accelerator=OFF)

    storage: Storage[FileStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def local_files_without_descriptors(place: Place) -> AsyncIterator[Storage[FileStore]]:
    """Files of one directory that give their descriptors back after each call."""

    async def client() -> FileStore:
        few = FileDescriptors(append_max=0, readers_max=1)
        return await open_local_file_store(place.folder / "files", descriptors=few)

    storage: Storage[FileStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def hdfs_files(place: Place) -> AsyncIterator[Storage[FileStore]]:
    """Files of a folder of their own in a real HDFS."""
    backends = place.backends()
    url = f"{backends.hdfs_url}/contract/{uuid.uuid4().hex}"
    jvm = JvmLimits(jars=str(backends.jars))
    limits = HdfsLimits(conf_dir=str(backends.hdfs_conf_dir), block_bytes=16 << 20)

    async def client() -> FileStore:
        return await open_hdfs_file_store(url, jvm, limits)

    # All replicas may be caught in the middle of a write: then HDFS refuses, and RecoveryStuck says
    # so (docs/operating/hdfs.md). Two files in a row are more than chance.
    storage: Storage[FileStore] = Storage(client, stuck_max=2)
    yield storage
    await storage.close()


@asynccontextmanager
async def memory_records(_place: Place) -> AsyncIterator[Storage[MetaStore]]:
    """Records of one MemoryStorage."""
    shared = MemoryStorage(wall_ms=SystemClock().wall_ms)

    async def client() -> MetaStore:
        return MemoryMetaStore(shared)

    storage: Storage[MetaStore] = Storage(client)
    yield storage
    await storage.close()


class LosingConnection(sqlite3.Connection):
    """Reports an I/O error for a COMMIT that took effect, as often as configured."""

    losses = 0  # still to come, on any connection

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        cursor = super().execute(statement, *parameters)
        if statement == "COMMIT" and LosingConnection.losses > 0:
            LosingConnection.losses -= 1
            error = sqlite3.OperationalError("injected")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        return cursor


def lose_sqlite_reply() -> None:
    """The next COMMIT on any connection takes effect and raises."""
    LosingConnection.losses = 1


@asynccontextmanager
async def sqlite_records(place: Place) -> AsyncIterator[Storage[MetaStore]]:
    """Records of one file, each client with a connection of its own."""

    async def client() -> MetaStore:
        path = place.folder / "meta.sqlite"
        return await open_sqlite_meta_store(path, connection_class=LosingConnection)

    storage: Storage[MetaStore] = Storage(client, lose_reply=lose_sqlite_reply)
    yield storage
    await storage.close()


def writes_zookeeper(chunk: bytes) -> bool:
    """Whether these bytes of a client begin with a request that changes a node."""
    create, delete, set_data, check, multi = (
        1,
        2,
        5,
        13,
        14,
    )  # Source: ZooKeeper 3.9, ZooDefs.OpCode
    kind, first = struct.unpack_from("!ii", chunk, 8) if len(chunk) >= 16 else (0, 0)
    return kind in (create, delete, set_data) or (kind == multi and first != check)


@asynccontextmanager
async def zookeeper_records(place: Place) -> AsyncIterator[Storage[MetaStore]]:
    """Records below a znode of their own, reached through a proxy that can lose an answer."""
    host, port = place.backends().zookeeper_hosts.rsplit(":", 1)
    with TcpProxy(int(port), host) as proxy:
        url = f"zookeeper://{proxy.address}/contract/{uuid.uuid4().hex}"

        async def client() -> MetaStore:
            return await open_zookeeper_meta_store(url, ZookeeperLimits())

        storage: Storage[MetaStore] = Storage(
            client, lose_reply=lambda: proxy.lose_answer(writes_zookeeper)
        )
        yield storage
        await storage.close()


@asynccontextmanager
async def memory_rows(_place: Place) -> AsyncIterator[Storage[RowStore]]:
    """Rows of one MemoryStorage."""
    shared = MemoryStorage()

    async def client() -> RowStore:
        return MemoryRowStore(shared)

    storage: Storage[RowStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def sqlite_rows(place: Place) -> AsyncIterator[Storage[RowStore]]:
    """Rows of one file, each client with a connection of its own."""

    async def client() -> RowStore:
        path = place.folder / "rows.sqlite"
        return await open_sqlite_row_store(path, connection_class=LosingConnection)

    storage: Storage[RowStore] = Storage(client, lose_reply=lose_sqlite_reply)
    yield storage
    await storage.close()


@asynccontextmanager
async def hbase_rows(place: Place) -> AsyncIterator[Storage[RowStore]]:
    """Tables of one namespace; those of the case are dropped."""
    running = place.backends()
    tables: set[str] = set()
    losses: list[str] = []  # answers still to lose

    class Remembering(HbaseRowStore):
        async def open_table(self, table: str, *, splits: Sequence[bytes] = ()) -> None:
            tables.add(table)
            await super().open_table(table, splits=splits)

    async def client() -> RowStore:
        jvm = JvmLimits(jars=str(running.jars))
        store = await open_hbase_row_store(f"{running.hbase_url}/contract", jvm, HbaseLimits())
        store.__class__ = Remembering
        write = store._client.write

        def losing(table: str, attempts: Sequence[Attempt]) -> Sequence[Any]:
            answers = write(table, attempts)
            return [OutcomeUnknown(losses.pop())] * len(attempts) if losses else answers

        store._client.write = losing  # type: ignore[method-assign,assignment]
        return store

    storage: Storage[RowStore] = Storage(client, lose_reply=lambda: losses.append("injected"))
    yield storage
    cleaner = await storage.client()
    for table in tables:
        await cleaner.drop_table(table)
    await storage.close()


def simulated_disk() -> tuple[SimulatedDisk, SimulatedProcess]:
    """The simulation's disk without faults; its delays pass on the loop of the case."""
    loop = cast(SimulationLoop, asyncio.get_running_loop())  # any loop will do for the stores
    return SimulatedDisk(loop, random.Random(1)), SimulatedProcess(loop, "case")


@asynccontextmanager
async def simulated_files(_place: Place) -> AsyncIterator[Storage[FileStore]]:
    """Files of one simulated disk: what simulation shows holds only if it keeps the contract."""
    disk, process = simulated_disk()

    async def client() -> FileStore:
        return FaultyFileStore(disk, process, FileFaults())

    storage: Storage[FileStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def simulated_records(_place: Place) -> AsyncIterator[Storage[MetaStore]]:
    """Records beside one simulated disk."""
    disk, process = simulated_disk()

    async def client() -> MetaStore:
        return FaultyMetaStore(disk, process, MetaFaults())

    storage: Storage[MetaStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def simulated_rows(_place: Place) -> AsyncIterator[Storage[RowStore]]:
    """Rows beside one simulated disk."""
    disk, process = simulated_disk()

    async def client() -> RowStore:
        return FaultyRowStore(disk, process, RowFaults())

    storage: Storage[RowStore] = Storage(client)
    yield storage
    await storage.close()


BACKENDS = {"hdfs", "zookeeper", "hbase"}  # stores that need a real one

FILE_STORES: dict[str, Opener[FileStore]] = {
    "memory": memory_files,
    "local": local_files,
    **({"local-native": local_files_written_natively} if REQUIRED in KINDS else {}),
    "local-exclusive": local_files_of_one_process,
    "local-resting": local_files_without_descriptors,
    "simulated": simulated_files,
    "hdfs": hdfs_files,
}
META_STORES: dict[str, Opener[MetaStore]] = {
    "memory": memory_records,
    "sqlite": sqlite_records,
    "simulated": simulated_records,
    "zookeeper": zookeeper_records,
}
ROW_STORES: dict[str, Opener[RowStore]] = {
    "memory": memory_rows,
    "sqlite": sqlite_rows,
    "simulated": simulated_rows,
    "hbase": hbase_rows,
}

# Those that can lose the reply of a write that took effect; memory has no reply to lose.
LOSING_META_STORES = {name: META_STORES[name] for name in ("sqlite", "zookeeper")}
LOSING_ROW_STORES = {name: ROW_STORES[name] for name in ("sqlite", "hbase")}
