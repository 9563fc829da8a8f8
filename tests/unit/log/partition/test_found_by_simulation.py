"""Small forms of what simulation seeds found in the log."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from tests.unit.log.bed import (
    TOPIC,
    Answers,
    Bed,
    block,
    crash,
    open_bed,
    payloads,
    put,
    put_block,
    until,
)

from opentalos.adapters.memory import MemoryAppendFile, MemoryFileStore, MemoryStorage
from opentalos.log.partition.jobs import drop
from opentalos.model.errors import OutcomeUnknown, PartitionNotServing
from opentalos.model.message import Durability, ProducerStamp

FLUSHED = replace(TOPIC, topic_uuid="flushed-uuid", durability=Durability.FLUSHED)


async def flushed_and_crashed() -> tuple[Bed, str]:
    """A flushed partition with two messages whose server was killed; its segment's path."""
    bed = await open_bed()
    log = bed.store.partition(FLUSHED, 0)
    await put(log, b"one")
    await put(log, b"two")
    await crash(bed)
    (path,) = [path for path in bed.storage.files if path.endswith(".log")]
    return bed, path


@pytest.mark.parametrize("left", ["zeros", "half a header", "nothing"])
async def test_a_flushed_segment_whose_start_the_power_took_is_truncated(left: str) -> None:
    bed, path = await flushed_and_crashed()
    content = bed.storage.files[path].content
    content[:] = {"zeros": bytes(len(content)), "half a header": content[:30], "nothing": b""}[left]
    again = await open_bed(bed.storage)
    log = again.store.partition(FLUSHED, 0)
    assert await put(log, b"three") == 0
    assert await payloads(log) == [b"three"]
    assert again.store.counters.truncated == 1
    await again.store.close()


async def test_a_flushed_segment_with_a_flipped_bit_in_its_header_is_not_truncated() -> None:
    bed, path = await flushed_and_crashed()
    bed.storage.files[path].content[20] ^= 1
    again = await open_bed(bed.storage)
    with pytest.raises(Exception, match="segment header"):
        await put(again.store.partition(FLUSHED, 0), b"three")
    assert again.store.counters.truncated == 0
    await again.store.close()


async def test_retention_keeps_the_state_though_the_side_index_was_never_written() -> None:
    bed = await open_bed()
    stamp = ProducerStamp(1, 0, 0)
    await put_block(bed.log(), block(b"one", producer=stamp))
    await bed.store.close()
    for path in [path for path in bed.storage.files if path.endswith(".idx")]:
        del bed.storage.files[path]
    again = await open_bed(bed.storage)
    log = again.log()
    assert (await log.offsets()).next == 1
    last = log.writer.versioned.manifest.sealed[0]
    await log.writer.run(partial(drop, log.writer, 1, last))
    await again.store.close()
    third = await open_bed(again.storage)
    async with asyncio.timeout(5):
        duplicate = await put_block(third.log(), block(b"one", producer=stamp))
        assert duplicate == 0
        following = block(b"two", producer=stamp._replace(sequence=1))
        assert await put_block(third.log(), following) == 1
    await third.store.close()


async def test_retention_makes_sure_of_a_side_index_that_may_not_be_durable() -> None:
    bed = await open_bed()
    await put_block(bed.log(), block(b"one", producer=ProducerStamp(1, 0, 0)))
    await bed.store.close()
    again = await open_bed(bed.storage)
    log = again.log()
    assert (await log.offsets()).next == 1
    last = log.writer.versioned.manifest.sealed[0]
    await log.writer.run(partial(drop, log.writer, 1, last))
    (index,) = [file for path, file in bed.storage.files.items() if path.endswith(".idx")]
    assert index.fenced  # as a recovery leaves it, which syncs what a failed commit left
    await again.store.close()


class HeldFiles(MemoryFileStore):
    """Commits wait while ``go`` is cleared."""

    waiting = False

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage)
        self.go = asyncio.Event()

    async def create(self, path: str, *, durability: Durability) -> MemoryAppendFile:
        file = await super().create(path, durability=durability)
        commit = file.commit

        async def held(
            chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
        ) -> int:
            going_on = self.go  # as it is when the commit begins
            self.waiting = not going_on.is_set()
            await going_on.wait()
            return await commit(chunks, durability=durability)

        file.commit = held  # type: ignore[method-assign]
        return file


async def test_what_left_and_came_back_does_not_take_anothers_message_for_its_own() -> None:
    storage = MemoryStorage()
    files = HeldFiles(storage)
    files.go.set()
    bed = await open_bed(storage, files=files)
    await put(bed.log(), b"a")
    slow = files.go = asyncio.Event()
    answers = Answers()
    bed.log().append(block(b"lost"), answers)
    await until(lambda: files.waiting)
    files.go = asyncio.Event()
    files.go.set()
    key = bed.log().key
    leaving = asyncio.create_task(bed.store.hand_off(key, PartitionNotServing("moved")))
    await asyncio.sleep(0)
    other = await open_bed(storage)
    await put(other.log(), b"another's")
    await other.store.close()
    with pytest.raises(PartitionNotServing, match="last step"):
        bed.log()
    slow.set()
    await asyncio.gather(leaving, return_exceptions=True)
    assert isinstance(answers.errors[0], OutcomeUnknown)
    await until(lambda: not bed.store._former[key].busy())
    assert await put(bed.log(), b"later") == 2
    assert await payloads(bed.log()) == [b"a", b"another's", b"later"]
    await bed.store.close()
