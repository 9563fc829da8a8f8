"""Storages that the contract suites run on; a new adapter is added here and nowhere else.

An opener makes one fresh storage (or a fresh corner of a shared backend) and hands out any number
of clients of it. A case must not know which adapter it runs on, uses names that no other case
uses, and assumes nothing about time but that things happen within ``PATIENCE_S``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from opentalos.adapters.local import open_local_file_store
from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.ports.file_store import FileStore

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


FILE_STORES: dict[str, Opener[FileStore]] = {"memory": memory_files, "local": local_files}
