"""End marks: a partition that went idle has a witness of its last commit, at a bounded cost."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.log.bed import LIMITS, TOPIC, Bed, crash, open_bed, payloads, put, until

from opentalos.adapters.memory import MemoryAppendFile, MemoryFileStore, MemoryStorage
from opentalos.log.maintenance.verify import LogVerifier
from opentalos.log.segment.format import BLOCK_HEADER_BYTES
from opentalos.model.errors import CorruptLog
from opentalos.model.message import Durability

IDLE_S = LIMITS.end_mark_ms / 1_000


def path_of(storage: MemoryStorage) -> str:
    (path,) = [path for path in storage.files if path.endswith(".log")]
    return path


async def idle_log() -> Bed:
    bed = await open_bed()
    for number in range(3):
        await put(bed.log(), b"payload-%d" % number)
    await asyncio.sleep(4 * IDLE_S)
    return bed


async def test_an_idle_partition_gets_one_mark_and_no_more() -> None:
    bed = await idle_log()
    length = len(bed.storage.files[path_of(bed.storage)].content)
    await asyncio.sleep(60 * IDLE_S)
    assert bed.store.counters.end_marks == 1
    assert len(bed.storage.files[path_of(bed.storage)].content) == length
    assert await put(bed.log(), b"payload-3") == 3
    await asyncio.sleep(4 * IDLE_S)
    assert bed.store.counters.end_marks == 2
    assert len(await payloads(bed.log())) == 4
    await bed.store.close()
    again = await open_bed(bed.storage)
    verifier = LogVerifier(again.files, again.meta)
    for key in await verifier.partitions():
        assert [each async for each in verifier.check(key, lambda: None)] == []
    assert len(await payloads(again.log())) == 4
    await again.store.close()


@pytest.mark.parametrize("durability", Durability)
async def test_rot_in_the_last_group_below_a_mark_is_proven_rot(durability: Durability) -> None:
    settings = replace(TOPIC, durability=durability)
    bed = await open_bed()
    for number in range(3):
        await put(bed.store.partition(settings, 0), b"payload-%d" % number)
    await asyncio.sleep(4 * IDLE_S)
    await crash(bed)
    content = bed.storage.files[path_of(bed.storage)].content
    at = content.index(b"payload-2")
    content[at : at + 9] = bytes(9)  # several bytes, which no flipped bit explains
    again = await open_bed(bed.storage)
    with pytest.raises(CorruptLog, match=r"acknowledged below offset 3$"):
        await put(again.store.partition(settings, 0), b"x")
    await again.store.close()


async def test_a_mark_is_not_copied_and_costs_no_offset() -> None:
    bed = await idle_log()
    await crash(bed)
    again = await open_bed(bed.storage)
    assert await put(again.log(), b"payload-3") == 3
    assert again.store.counters.tails_cut == 0
    assert await payloads(again.log()) == [b"payload-%d" % number for number in range(4)]
    await again.store.close()


async def test_a_torn_mark_is_cut_and_nothing_else() -> None:
    bed = await idle_log()
    await crash(bed)
    del bed.storage.files[path_of(bed.storage)].content[-BLOCK_HEADER_BYTES // 2 :]
    again = await open_bed(bed.storage)
    assert len(await payloads(again.log())) == 3
    assert again.store.counters.tails_cut == 1
    await again.store.close()


async def test_puts_in_close_succession_cost_no_marks() -> None:
    bed = await open_bed()
    for number in range(40):
        await put(bed.log(), b"%d" % number)
        await asyncio.sleep(IDLE_S / 2)
    assert bed.store.counters.end_marks == 0
    await bed.store.close()


async def test_no_mark_while_partitions_have_work(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = await open_bed()
    await put(bed.log(), b"x")
    monkeypatch.setattr(bed.store._context.lanes, "depth", lambda: 1)
    await asyncio.sleep(20 * IDLE_S)
    assert bed.store.counters.end_marks == 0
    monkeypatch.undo()
    await until(lambda: bed.store.counters.end_marks == 1)
    await bed.store.close()


async def test_marks_of_many_partitions_have_a_bounded_rate() -> None:
    bed = await open_bed()
    for partition in range(30):
        await put(bed.log(partition), b"x")
    await asyncio.sleep(5.5 * IDLE_S)
    assert 0 < bed.store.counters.end_marks <= 12
    await until(lambda: bed.store.counters.end_marks == 30)
    await bed.store.close()


class FailingMarks(MemoryFileStore):
    """A commit of a mark fails, once."""

    failed = False

    async def create(self, path: str, *, durability: Durability) -> MemoryAppendFile:
        file = await super().create(path, durability=durability)
        commit = file.commit

        async def checked(
            chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
        ) -> int:
            if len(chunks) == 1 and len(chunks[0]) == BLOCK_HEADER_BYTES and not self.failed:
                self.failed = True
                await file.close()
            return await commit(chunks, durability=durability)

        file.commit = checked  # type: ignore[method-assign]
        return file


async def test_a_mark_that_fails_takes_nothing_with_it() -> None:
    storage = MemoryStorage()
    files = FailingMarks(storage)
    bed = await open_bed(storage, files=files)
    await put(bed.log(), b"one")
    await until(lambda: files.failed)
    assert await put(bed.log(), b"two") == 1
    assert await payloads(bed.log()) == [b"one", b"two"]
    await bed.store.close()


class HangingMarks(FailingMarks):
    """A commit of a mark hangs, once."""

    async def create(self, path: str, *, durability: Durability) -> MemoryAppendFile:
        file = await MemoryFileStore.create(self, path, durability=durability)
        commit = file.commit

        async def held(
            chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
        ) -> int:
            if len(chunks) == 1 and len(chunks[0]) == BLOCK_HEADER_BYTES and not self.failed:
                self.failed = True
                await asyncio.Event().wait()
            return await commit(chunks, durability=durability)

        file.commit = held  # type: ignore[method-assign]
        return file


async def test_a_mark_that_hangs_delays_a_put_no_longer_than_a_commit_that_hangs() -> None:
    storage = MemoryStorage()
    files = HangingMarks(storage)
    bed = await open_bed(storage, files=files)
    await put(bed.log(), b"one")
    await until(lambda: files.failed)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert await asyncio.wait_for(put(bed.log(), b"two"), 30) == 1
    assert loop.time() - began_s < LIMITS.commit_hang_s + 0.5
    assert bed.store.counters.hung_commits == 1
    assert await payloads(bed.log()) == [b"one", b"two"]
    await bed.store.close()


async def test_without_marks_only_the_first_group_of_a_file_gets_one() -> None:
    """It is the only witness of that file that a manifest has named it."""
    bed = await open_bed(limits=replace(LIMITS, end_mark_ms=0))
    await put(bed.log(), b"x")
    await asyncio.sleep(5)
    assert bed.store.counters.end_marks == 1
    await put(bed.log(), b"x")
    await asyncio.sleep(5)
    assert bed.store.counters.end_marks == 1
    await bed.store.close()
