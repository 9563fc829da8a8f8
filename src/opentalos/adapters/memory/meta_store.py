"""MetaStore in memory."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence

from opentalos.adapters.memory.storage import MemoryStorage, StoredRecord
from opentalos.adapters.store_path import check_meta_path, check_meta_prefix, check_meta_value
from opentalos.model.errors import AlreadyExists, StoreUnavailable, VersionConflict
from opentalos.ports.meta_store import Record, Session


class MemoryMetaStore:
    """MetaStore in memory; clients that share a ``MemoryStorage`` see the same records.

    Writes never end as unknown here, so no nonce is kept.
    """

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        self.storage = storage or MemoryStorage()
        self._closed = False
        self._watching: dict[asyncio.Event, None] = {}

    async def get(self, path: str) -> Record | None:
        """The record or None; see the port."""
        self._check_open()
        stored = self.storage.records.get(check_meta_path(path))
        return stored.record if stored else None

    async def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> int:
        """Add a record; see the port."""
        self._check_open()
        check_meta_value(check_meta_path(path), value)
        if path in self.storage.records:
            raise AlreadyExists(path)
        record = self.storage.record(value, self.storage.version_floor + 1)
        self.storage.records[path] = StoredRecord(record, self if ephemeral else None)
        self.storage.record_changed(path)
        return record.version

    async def replace(self, path: str, value: bytes, expected: int) -> int:
        """Compare-and-set; see the port."""
        self._check_open()
        check_meta_value(check_meta_path(path), value)
        stored = self._expected(path, expected)
        stored.record = self.storage.record(value, expected + 1)
        self.storage.record_changed(path)
        return stored.record.version

    async def delete(self, path: str, expected: int) -> None:
        """Compare-and-remove; see the port."""
        self._check_open()
        self._expected(check_meta_path(path), expected)
        del self.storage.records[path]
        self.storage.version_floor = max(self.storage.version_floor, expected)
        self.storage.record_changed(path)

    async def children(self, path: str) -> Sequence[str]:
        """Names directly below ``path``; see the port."""
        self._check_open()
        start = _below(path)
        return sorted({name[len(start) :].split("/", 1)[0] for name in self._names(start)})

    async def watch(self, prefix: str) -> AsyncIterator[Mapping[str, Record]]:
        """Current state, then the latest states; ends when the store is closed; see the port."""
        self._check_open()
        start = _below(prefix)
        changed = asyncio.Event()
        self.storage.add_watcher(changed, start)
        self._watching[changed] = None
        try:
            shown: dict[str, Record] | None = None
            while not self._closed:
                changed.clear()
                state = {name: self.storage.records[name].record for name in self._names(start)}
                if state != shown:
                    shown = state
                    yield dict(state)
                else:
                    await changed.wait()
        finally:
            self.storage.remove_watcher(changed)
            self._watching.pop(changed, None)

    def session(self) -> Session:
        """Memory sessions lapse only by ``close``."""
        return Session(valid_until_s=math.inf, lost=self._closed, incarnation=1)

    async def close(self) -> None:
        """End the session: its ephemeral records go, its watches end."""
        if self._closed:
            return
        self._closed = True
        owned = [path for path, stored in self.storage.records.items() if stored.owner is self]
        for path in owned:
            del self.storage.records[path]
            self.storage.record_changed(path)
        for changed in self._watching:
            changed.set()

    def _names(self, start: str) -> list[str]:
        return [name for name in self.storage.records if name.startswith(start)]

    def _expected(self, path: str, expected: int) -> StoredRecord:
        stored = self.storage.records.get(path)
        version = stored.record.version if stored else 0
        if stored is None or version != expected:
            raise VersionConflict(f"record {path}: version {version}, expected {expected}")
        return stored

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the meta store is closed")


def _below(prefix: str) -> str:
    folder = check_meta_prefix(prefix)
    return f"{folder}/" if folder else ""
