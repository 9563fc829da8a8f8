"""An in-memory copy of all records below one MetaStore path, changed only by compare-and-set."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import quote

from opentalos.model.errors import (
    AlreadyExists,
    NotFound,
    StoreUnavailable,
    TalosError,
    VersionConflict,
)
from opentalos.ports.meta_store import MetaStore, Record

T = TypeVar("T")
_LOG = logging.getLogger("opentalos.catalog")
CAS_ATTEMPTS_MAX = 8  # attempts of a change that conflicts with concurrent ones
FOLLOW_INTERVAL_S = 0.2  # for records that people change
FOLLOW_RETRY_S = 1.0  # after a broken watch


def record_path(*parts: str) -> str:
    """A record's path; characters of ids that paths do not allow are percent-quoted."""
    return "/".join(quote(part, safe="@:+") for part in parts)


class Codec(NamedTuple, Generic[T]):
    """Converts values to record bytes; ``decode`` raises TalosError for invalid ones."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]


class _Stored(NamedTuple, Generic[T]):
    version: int
    digest: int  # a removed and recreated record may have its former version again
    value: T

    def is_from(self, record: Record) -> bool:
        return self.version == record.version and self.digest == hash(record.value)


class RecordIndex(Generic[T]):
    """All records below ``prefix`` as values; ``changed(path, old, new)`` is called per change.

    Own writes show at once. Writes of other servers arrive through the watch; since a watch may
    show an older state than an own write that has just returned, every difference is settled by a
    linearizable read of that one record.
    """

    def __init__(
        self,
        meta: MetaStore,
        prefix: str,
        codec: Codec[T],
        changed: Callable[[str, T | None, T | None], None] = lambda path, old, new: None,
        *,
        interval_s: float = FOLLOW_INTERVAL_S,
    ) -> None:
        self._meta, self._prefix, self._codec, self._changed = meta, prefix, codec, changed
        self._interval_s = interval_s  # between checks for changes of other servers
        self._records: dict[str, _Stored[T]] = {}
        self._states_seen = 0
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load everything, then follow. Raises: NewerFormat, CorruptLog with the record's path."""
        states = self._meta.watch(self._prefix)
        for path, record in (await anext(states)).items():
            self._apply(path, record)
        self.task = asyncio.create_task(self._follow(states), name=f"follow {self._prefix}")

    async def close(self) -> None:
        """Stop following."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None

    def get(self, path: str) -> T | None:
        """The value of a record, from memory."""
        stored = self._records.get(path)
        return stored.value if stored else None

    def items(self) -> Iterator[tuple[str, T]]:
        """All records, in the order they were loaded or made."""
        return ((path, stored.value) for path, stored in self._records.items())

    async def create(self, path: str, value: T) -> None:
        """Add a record. Raises: AlreadyExists; not done or unknown as the store says."""
        content, seen = self._codec.encode(value), self._states_seen
        try:
            version = await self._meta.create(path, content)
        except AlreadyExists:
            await self.refresh(path)
            raise
        await self._written(path, (None, seen), _Stored(version, hash(content), value))

    async def change(self, path: str, change: Callable[[T], T]) -> T:
        """Replace a record by ``change(value)``, which may raise to reject and may run again.

        Raises: NotFound; StoreUnavailable: too many concurrent changes. Not done.
        """
        for _ in range(CAS_ATTEMPTS_MAX):
            stored = self._records.get(path)
            if stored is None:
                raise NotFound(path)
            value = change(stored.value)
            if value == stored.value:
                return stored.value
            content, seen = self._codec.encode(value), self._states_seen
            try:
                version = await self._meta.replace(path, content, stored.version)
            except VersionConflict:
                await self.refresh(path)
                continue
            after = _Stored(version, hash(content), value)
            await self._written(path, (stored, seen), after)
            return value
        raise StoreUnavailable(
            f"could not change record {path}: too many concurrent changes; retry"
        )

    async def put(self, path: str, empty: T, change: Callable[[T], T]) -> None:
        """``change`` a record, or make it from ``change(empty)`` if there is none.

        Raises: as ``change``, but not NotFound; an unknown outcome as the store says.
        """
        if self._records.get(path) is None:
            try:
                await self.create(path, change(empty))
                return
            except AlreadyExists:
                pass  # another server was quicker
        await self.change(path, change)

    async def remove(self, path: str, expected: T) -> None:
        """Remove a record if it still has this value."""
        stored = self._records.get(path)
        if stored is None or stored.value != expected:
            return
        seen = self._states_seen
        try:
            await self._meta.delete(path, stored.version)
        except VersionConflict:
            await self.refresh(path)
            return
        await self._written(path, (stored, seen), None)

    async def refresh(self, path: str) -> None:
        """Read one record again; the copy is then as new as this call."""
        for _ in range(CAS_ATTEMPTS_MAX):
            before = self._records.get(path)
            record = await self._meta.get(path)
            if self._records.get(path) is not before:
                continue  # an own write completed meanwhile and may be newer than what was read
            if record is None:
                self._drop(path)
            else:
                self._apply(path, record)
            return

    async def reload(self) -> None:
        """Read all records again, such as after a lost session."""
        states = self._meta.watch(self._prefix)
        try:
            await self._settle(await anext(states))
        finally:
            await _close(states)

    async def _written(
        self, path: str, before: tuple[_Stored[T] | None, int], after: _Stored[T] | None
    ) -> None:
        """Apply an own write. If the record changed before the reply, read it again."""
        if before != (self._records.get(path), self._states_seen):
            try:
                await self.refresh(path)
            except TalosError as error:
                _LOG.warning("could not read record %s: %s; the watch refreshes it", path, error)
        elif after is None:
            self._drop(path)
        else:
            self._keep(path, after)

    def _apply(self, path: str, record: Record) -> None:
        stored = self._records.get(path)
        if stored is not None and stored.is_from(record):
            return
        try:
            value = self._codec.decode(record.value)
            self._keep(path, _Stored(record.version, hash(record.value), value))
        except TalosError as error:
            raise type(error)(f"record {path}: {error}") from error

    def _keep(self, path: str, stored: _Stored[T]) -> None:
        old = self._records.get(path)
        if old is not None and old[:2] == stored[:2]:
            return  # the watch applied it first
        self._changed(path, old.value if old else None, stored.value)
        self._records[path] = stored

    def _drop(self, path: str) -> None:
        old = self._records.pop(path, None)
        if old is not None:
            self._changed(path, old.value, None)

    async def _follow(self, states: AsyncIterator[Mapping[str, Record]]) -> None:
        while True:
            try:
                async for state in states:
                    await self._settle(state)
                    await asyncio.sleep(self._interval_s)
            except TalosError as error:
                _LOG.warning("watch of %s failed: %s; retrying", self._prefix, error)
            finally:
                await _close(states)
            await asyncio.sleep(FOLLOW_RETRY_S)
            states = self._meta.watch(self._prefix)

    async def _settle(self, state: Mapping[str, Record]) -> None:
        self._states_seen += 1
        different = [
            path
            for path, record in state.items()
            if path not in self._records or not self._records[path].is_from(record)
        ]
        different += [path for path in self._records if path not in state]
        for path in different:
            await self.refresh(path)


async def _close(states: AsyncIterator[Mapping[str, Record]]) -> None:
    """End a watch now; the garbage collector might do it only after the loop ends."""
    close = getattr(states, "aclose", None)
    if close is not None:
        await close()
