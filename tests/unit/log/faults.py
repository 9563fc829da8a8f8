"""Memory stores whose calls a test can fail, hold or end half-way, by number or by name."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from opentalos.adapters.memory import (
    MemoryAppendFile,
    MemoryFileStore,
    MemoryMetaStore,
    MemoryStorage,
)
from opentalos.log.maintenance.clock_record import ROOT as CLOCKS
from opentalos.model.errors import WriterDead
from opentalos.model.message import Durability
from opentalos.ports.meta_store import Record, Session

# Asked before and after each call with its name and path; may raise. ``after`` False: before.
Script = Callable[[str, str, bool], None]


class Steps:
    """Counts the calls of both stores; at one of them the server stops."""

    def __init__(self, stop_at: int = -1) -> None:
        self.stop_at = stop_at  # two steps per call: even before its effect, odd after it
        self.count = 0
        self.script: Script | None = None
        self.torn_bytes: int | None = None  # a commit that is stopped before leaves so many bytes
        self.stopped = asyncio.Event()

    async def step(self, name: str, path: str, after: bool) -> None:
        if path.startswith(f"{CLOCKS}/"):
            return  # the record of the server's clock is no part of a partition
        number, self.count = self.count, self.count + 1
        if self.stop_at >= 0 and number >= self.stop_at:
            self.stopped.set()
            await asyncio.get_running_loop().create_future()
        if self.script is not None:
            self.script(name, path, after)


class FaultyFile:
    """AppendFile that asks ``Steps``."""

    thin = False

    def __init__(self, inner: MemoryAppendFile, steps: Steps, path: str) -> None:
        self.inner, self.steps, self.path = inner, steps, path
        self.dead = False

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        if self.dead:
            raise WriterDead(self.path)
        try:
            steps = self.steps
            if steps.torn_bytes is not None and steps.count == steps.stop_at:
                await self.inner.commit([b"".join(chunks)[: steps.torn_bytes]])
            await steps.step("commit", self.path, False)
            length = await self.inner.commit(chunks, durability=durability)
            await steps.step("commit", self.path, True)
        except BaseException:
            self.dead = True
            raise
        return length

    async def close(self) -> int:
        await self.steps.step("close", self.path, False)
        length = await self.inner.close()
        await self.steps.step("close", self.path, True)
        return length


class FaultyFiles:
    """FileStore that asks ``Steps``."""

    def __init__(self, storage: MemoryStorage, steps: Steps) -> None:
        self.inner, self.steps = MemoryFileStore(storage), steps
        self.free_bytes: int | None = None

    async def create(self, path: str, *, durability: Durability) -> FaultyFile:
        await self.steps.step("create", path, False)
        file = await self.inner.create(path, durability=durability)
        await self.steps.step("create", path, True)
        return FaultyFile(file, self.steps, path)

    async def recover(self, path: str, *, deadline_s: float) -> int:
        await self.steps.step("recover", path, False)
        length = await self.inner.recover(path, deadline_s=deadline_s)
        await self.steps.step("recover", path, True)
        return length

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        await self.steps.step("read", path, False)
        return await self.inner.read(path, position=position, bytes_max=bytes_max)

    async def list(self, prefix: str) -> Sequence[str]:
        await self.steps.step("list", prefix, False)
        return await self.inner.list(prefix)

    async def delete(self, path: str) -> None:
        await self.steps.step("delete", path, False)
        await self.inner.delete(path)
        await self.steps.step("delete", path, True)

    async def space(self) -> int:
        return await self.inner.space() if self.free_bytes is None else self.free_bytes

    async def close(self) -> None:
        await self.inner.close()


class FaultyMeta:
    """MetaStore that asks ``Steps``."""

    def __init__(self, storage: MemoryStorage, steps: Steps) -> None:
        self.inner, self.steps = MemoryMetaStore(storage), steps

    async def get(self, path: str) -> Record | None:
        await self.steps.step("get", path, False)
        return await self.inner.get(path)

    async def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> int:
        await self.steps.step("replace", path, False)
        version = await self.inner.create(path, value, ephemeral=ephemeral)
        await self.steps.step("replace", path, True)
        return version

    async def replace(self, path: str, value: bytes, expected: int) -> int:
        await self.steps.step("replace", path, False)
        version = await self.inner.replace(path, value, expected)
        await self.steps.step("replace", path, True)
        return version

    async def delete(self, path: str, expected: int) -> None:
        await self.steps.step("delete", path, False)
        await self.inner.delete(path, expected)

    async def children(self, path: str) -> Sequence[str]:
        return await self.inner.children(path)

    def watch(self, prefix: str) -> AsyncIterator[Mapping[str, Record]]:
        return self.inner.watch(prefix)

    def session(self) -> Session:
        return self.inner.session()

    async def close(self) -> None:
        await self.inner.close()


class FailOnce:
    """Script that fails the calls of one kind, so many times, before or after their effect."""

    def __init__(
        self, name: str, error: Exception, *, after: bool = False, times: int = 1, path: str = ""
    ) -> None:
        self.name, self.error, self.after, self.times, self.path = name, error, after, times, path

    def __call__(self, name: str, path: str, after: bool) -> None:
        if (name, after) == (self.name, self.after) and self.times and self.path in path:
            self.times -= 1
            raise self.error
