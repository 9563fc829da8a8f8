"""Two indexes over one slow store: in whatever order replies come, both end with what it has."""

import asyncio
import random

import pytest
from tests.unit.catalog.support import MovableTime

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.catalog.records.record_index import FOLLOW_INTERVAL_S, Codec, RecordIndex
from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.ports.meta_store import Record

PATHS = ["r/a", "r/b", "r/c"]
STEPS = 60


class SlowMeta(MemoryMetaStore):
    """Every call takes a random number of turns before and after it happens."""

    def __init__(self, storage: MemoryStorage, random_source: random.Random) -> None:
        super().__init__(storage)
        self._random = random_source

    async def _wait(self) -> None:
        for _ in range(self._random.choice([0, 1, 2, 15])):
            await asyncio.sleep(0)

    async def get(self, path: str) -> Record | None:
        await self._wait()
        record = await super().get(path)
        await self._wait()
        return record

    async def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> int:
        await self._wait()
        version = await super().create(path, value, ephemeral=ephemeral)
        await self._wait()
        return self._maybe_lost(version)

    async def replace(self, path: str, value: bytes, expected: int) -> int:
        await self._wait()
        version = await super().replace(path, value, expected)
        await self._wait()
        return self._maybe_lost(version)

    async def delete(self, path: str, expected: int) -> None:
        await self._wait()
        await super().delete(path, expected)
        await self._wait()

    def _maybe_lost(self, version: int) -> int:
        if self._random.random() < 0.1:
            raise OutcomeUnknown("the reply was lost")
        return version


async def _step(index: RecordIndex[str], source: random.Random, name: str) -> None:
    path = source.choice(PATHS)
    try:
        action = source.choice(["create", "change", "change", "remove"])
        if action == "create":
            await index.create(path, name)
        elif action == "change":
            await index.change(path, lambda old: old[-20:] + name)
        else:
            await index.remove(path, index.get(path) or "")
    except TalosError:
        pass  # refused or unknown; the end state decides


@pytest.mark.parametrize("seed", range(20))
async def test_every_index_ends_with_what_is_stored(seed: int) -> None:
    time = MovableTime(asyncio.get_running_loop())
    storage, source = MemoryStorage(), random.Random(seed)
    heard: list[dict[str, str]] = [{}, {}]

    def listen(number: int) -> RecordIndex[str]:
        def changed(path: str, old: str | None, new: str | None) -> None:
            assert heard[number].get(path) == old
            if new is None:
                del heard[number][path]
            else:
                heard[number][path] = new

        meta = SlowMeta(storage, source)
        return RecordIndex(meta, "r", Codec(str.encode, bytes.decode), changed)

    indexes = [listen(0), listen(1)]
    for index in indexes:
        await index.start()
    for step in range(STEPS):
        await asyncio.gather(
            *(_step(source.choice(indexes), source, f"{step}.{n}") for n in range(3))
        )
        time.advance(source.choice([0.0, 0.0, FOLLOW_INTERVAL_S]))
    stored = {path: kept.record.value.decode() for path, kept in storage.records.items()}
    for _ in range(40):
        time.advance(FOLLOW_INTERVAL_S)
        for _ in range(10):
            await asyncio.sleep(0)
    for index, seen in zip(indexes, heard, strict=True):
        assert dict(index.items()) == stored
        assert seen == stored
        await index.close()
