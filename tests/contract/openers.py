"""Storages that the contract suites run on; a new adapter is added here and nowhere else.

An opener makes one fresh storage (or a fresh corner of a shared backend) and hands out any number
of clients of it. A case must not know which adapter it runs on, uses names that no other case
uses, and assumes nothing about time but that things happen within ``PATIENCE_S``.
"""

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.memory import (
    MemoryFileStore,
    MemoryMetaStore,
    MemoryRowStore,
    MemoryStorage,
)
from opentalos.adapters.sqlite import open_sqlite_meta_store, open_sqlite_row_store
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore
from opentalos.ports.row_store import RowStore
from opentalos.testing.disk import SimulatedDisk
from opentalos.testing.faults import FileFaults, MetaFaults, RowFaults
from opentalos.testing.faulty_files import FaultyFileStore
from opentalos.testing.faulty_meta import FaultyMetaStore
from opentalos.testing.faulty_rows import FaultyRowStore
from opentalos.testing.loop import SimulatedProcess, SimulationLoop

PATIENCE_S = 15.0  # the slowest backend's take-over, with room
RECOVER_S = 10.0


class Closable(Protocol):
    """Every port can be closed."""

    async def close(self) -> None: ...


StoreT = TypeVar("StoreT", bound=Closable)


@dataclass
class Storage(Generic[StoreT]):
    """One storage; ``client`` opens another client of it."""

    open_client: Callable[[], Awaitable[StoreT]]
    lose_reply: Callable[[], None] | None = None  # the next write takes effect, its reply is lost
    clients: list[StoreT] = field(default_factory=list)

    async def client(self) -> StoreT:
        """A new client; closed with the storage if the case does not do so."""
        client = await self.open_client()
        self.clients.append(client)
        return client

    async def close(self) -> None:
        """Close every client; closing twice is harmless by contract."""
        for client in self.clients:
            async with asyncio.timeout(PATIENCE_S):
                await client.close()


Opener = Callable[[Path], AbstractAsyncContextManager[Storage[StoreT]]]


@asynccontextmanager
async def memory_files(_folder: Path) -> AsyncIterator[Storage[FileStore]]:
    """Files of one MemoryStorage."""
    shared = MemoryStorage()

    async def client() -> FileStore:
        return MemoryFileStore(shared)

    storage: Storage[FileStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def local_files(folder: Path) -> AsyncIterator[Storage[FileStore]]:
    """Files of one directory."""

    async def client() -> FileStore:
        return await open_local_file_store(folder / "files")

    storage: Storage[FileStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def local_files_of_one_process(folder: Path) -> AsyncIterator[Storage[FileStore]]:
    """Files of one directory that no other process uses, as a server's."""

    async def client() -> FileStore:
        return await open_local_file_store(folder / "files", exclusive=True)

    storage: Storage[FileStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def memory_records(_folder: Path) -> AsyncIterator[Storage[MetaStore]]:
    """Records of one MemoryStorage."""
    shared = MemoryStorage()

    async def client() -> MetaStore:
        return MemoryMetaStore(shared)

    storage: Storage[MetaStore] = Storage(client)
    yield storage
    await storage.close()


class LosingConnection(sqlite3.Connection):
    """Reports an I/O error for a COMMIT that took effect, as often as it was told to."""

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
async def sqlite_records(folder: Path) -> AsyncIterator[Storage[MetaStore]]:
    """Records of one file, each client with a connection of its own."""

    async def client() -> MetaStore:
        path = folder / "meta.sqlite"
        return await open_sqlite_meta_store(path, connection_class=LosingConnection)

    storage: Storage[MetaStore] = Storage(client, lose_reply=lose_sqlite_reply)
    yield storage
    await storage.close()


@asynccontextmanager
async def memory_rows(_folder: Path) -> AsyncIterator[Storage[RowStore]]:
    """Rows of one MemoryStorage."""
    shared = MemoryStorage()

    async def client() -> RowStore:
        return MemoryRowStore(shared)

    storage: Storage[RowStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def sqlite_rows(folder: Path) -> AsyncIterator[Storage[RowStore]]:
    """Rows of one file, each client with a connection of its own."""

    async def client() -> RowStore:
        path = folder / "rows.sqlite"
        return await open_sqlite_row_store(path, connection_class=LosingConnection)

    storage: Storage[RowStore] = Storage(client, lose_reply=lose_sqlite_reply)
    yield storage
    await storage.close()


def simulated_disk() -> tuple[SimulatedDisk, SimulatedProcess]:
    """The simulation's disk without faults; its delays pass on the loop of the case."""
    loop = cast(SimulationLoop, asyncio.get_running_loop())  # any loop will do for the stores
    return SimulatedDisk(loop, random.Random(1)), SimulatedProcess(loop, "case")


@asynccontextmanager
async def simulated_files(_folder: Path) -> AsyncIterator[Storage[FileStore]]:
    """Files of one simulated disk: what simulation shows holds only if it keeps the contract."""
    disk, process = simulated_disk()

    async def client() -> FileStore:
        return FaultyFileStore(disk, process, FileFaults())

    storage: Storage[FileStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def simulated_records(_folder: Path) -> AsyncIterator[Storage[MetaStore]]:
    """Records beside one simulated disk."""
    disk, process = simulated_disk()

    async def client() -> MetaStore:
        return FaultyMetaStore(disk, process, MetaFaults())

    storage: Storage[MetaStore] = Storage(client)
    yield storage
    await storage.close()


@asynccontextmanager
async def simulated_rows(_folder: Path) -> AsyncIterator[Storage[RowStore]]:
    """Rows beside one simulated disk."""
    disk, process = simulated_disk()

    async def client() -> RowStore:
        return FaultyRowStore(disk, process, RowFaults())

    storage: Storage[RowStore] = Storage(client)
    yield storage
    await storage.close()


FILE_STORES: dict[str, Opener[FileStore]] = {
    "memory": memory_files,
    "local": local_files,
    "local-exclusive": local_files_of_one_process,
    "simulated": simulated_files,
}
META_STORES: dict[str, Opener[MetaStore]] = {
    "memory": memory_records,
    "sqlite": sqlite_records,
    "simulated": simulated_records,
}
ROW_STORES: dict[str, Opener[RowStore]] = {
    "memory": memory_rows,
    "sqlite": sqlite_rows,
    "simulated": simulated_rows,
}

# Those that can lose the reply of a write that took effect; memory has no reply to lose.
LOSING_META_STORES = {name: META_STORES[name] for name in ("sqlite",)}
LOSING_ROW_STORES = {name: ROW_STORES[name] for name in ("sqlite",)}
