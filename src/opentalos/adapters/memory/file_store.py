"""FileStore in memory."""

import asyncio
from collections.abc import Sequence

from opentalos.adapters.memory.storage import MemoryStorage, StoredFile
from opentalos.adapters.store_path import check_file_path, check_file_prefix
from opentalos.model.errors import (
    AlreadyExists,
    BadRequest,
    Fenced,
    NotFound,
    StorageFull,
    StoreUnavailable,
    WriterDead,
    to_keep,
)
from opentalos.model.message import Durability


class MemoryAppendFile:
    """AppendFile in memory. A commit gives way to the loop once, as a real one would."""

    thin = False

    def __init__(self, store: "MemoryFileStore", path: str, file: StoredFile) -> None:
        self._store, self._path, self._file = store, path, file
        self._closed = False
        self._dead: BaseException | None = None

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        """Append ``chunks``; see the port."""
        self._check_alive()
        try:
            await asyncio.sleep(0)
            self._check_fence()
            self._append(chunks)
        except BaseException as error:
            self._dead = to_keep(error)
            raise
        return len(self._file.content)

    async def close(self) -> int:
        """Make the file immutable; see the port."""
        if self._closed and self._dead is None:
            return len(self._file.content)
        self._check_alive()
        try:
            self._check_fence()
        except BaseException as error:
            self._dead = to_keep(error)
            raise
        self._closed = True
        return len(self._file.content)

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise WriterDead(f"{self._path}: an earlier call failed") from self._dead
        if self._closed or self._store.closed:
            raise WriterDead(f"{self._path}: closed")

    def _check_fence(self) -> None:
        if self._store.closed:
            raise WriterDead(f"{self._path}: the store was closed")
        if self._file.fenced:
            raise Fenced(f"{self._path}: another server owns the partition")

    def _append(self, chunks: Sequence[bytes | memoryview]) -> None:
        storage = self._store.storage
        total_bytes = sum(len(chunk) for chunk in chunks)
        if storage.used_bytes + total_bytes > storage.capacity_bytes:
            raise StorageFull(f"{self._path}: no space for {total_bytes} bytes")
        storage.used_bytes += total_bytes
        for chunk in chunks:
            self._file.content += chunk


class MemoryFileStore:
    """FileStore in memory; clients that share a ``MemoryStorage`` see the same files."""

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        self.storage = storage or MemoryStorage()
        self.closed = False

    async def create(self, path: str, *, durability: Durability) -> MemoryAppendFile:
        """Make a new file; see the port. Memory survives nothing, whatever the durability."""
        self._check_open()
        if check_file_path(path) in self.storage.files:
            raise AlreadyExists(path)
        file = self.storage.files[path] = StoredFile()
        return MemoryAppendFile(self, path, file)

    async def recover(self, path: str, *, deadline_s: float) -> int:
        """Fence the file and return its final length; see the port."""
        file = self._file(path)
        file.fenced = True
        return len(file.content)

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        """Read committed bytes; see the port."""
        file = self._file(path)
        if position < 0 or bytes_max < 0:
            raise BadRequest(f"{path}: cannot read {bytes_max} bytes at {position}")
        return bytes(file.content[position : position + bytes_max])

    async def list(self, prefix: str) -> Sequence[str]:
        """Paths below the folder ``prefix``, sorted; see the port."""
        self._check_open()
        folder = check_file_prefix(prefix)
        start = f"{folder}/" if folder else ""
        return sorted(path for path in self.storage.files if path.startswith(start))

    async def delete(self, path: str) -> None:
        """Fence and remove the file; see the port."""
        self._check_open()
        file = self.storage.files.pop(check_file_path(path), None)
        if file is not None:
            file.fenced = True
            self.storage.used_bytes -= len(file.content)

    async def space(self) -> int:
        """Free bytes; see the port."""
        self._check_open()
        return self.storage.capacity_bytes - self.storage.used_bytes

    async def close(self) -> None:
        """Disconnect; this client's open files are dead."""
        self.closed = True

    def _check_open(self) -> None:
        if self.closed:
            raise StoreUnavailable("the file store is closed")

    def _file(self, path: str) -> StoredFile:
        self._check_open()
        file = self.storage.files.get(check_file_path(path))
        if file is None:
            raise NotFound(path)
        return file
