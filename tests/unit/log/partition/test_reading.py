"""Reads, offset queries and time lookup, from memory and from storage."""

import asyncio

import pytest
from tests.unit.log.bed import Answers, Bed, FakeClock, block, crash, open_bed, payloads, put, until
from tests.unit.log.faults import FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import (
    CorruptLog,
    OffsetOutOfRange,
    PartitionNotServing,
    StoreUnavailable,
)
from opentalos.model.limits import LogLimits
from opentalos.model.message import StoredBlock

# Small segments and no cache, so that reads cross segments and go to storage.
COLD = LogLimits(
    segment_bytes_max=1_024,
    index_interval_bytes=512,
    tail_cache_bytes_max=0,
    space_reserve_bytes=0,
)


async def filled(count: int, limits: LogLimits = COLD) -> Bed:
    """A log of ``count`` blocks of three messages, appended one second apart."""
    bed = await open_bed(limits=limits)
    for number in range(count):
        bed.clock.now_ms += 1_000
        await put(bed.log(), b"%04d" % number * 25, 3)
    return bed


async def one(log: PartitionLog, offset: int) -> StoredBlock:
    result = await log.read(offset, messages_max=1, bytes_max=1)
    assert len(result.blocks) == 1
    return result.blocks[0]


async def test_every_offset_is_found_in_its_block_over_many_segments() -> None:
    bed = await filled(40)
    assert bed.store.counters.rolls > 3
    for offset in range(120):
        found = await one(bed.log(), offset)
        assert found.base_offset == offset - offset % 3
        assert found.payload == b"%04d" % (offset // 3) * 25
    await bed.store.close()
    again = await open_bed(bed.storage, limits=COLD)
    for offset in range(119, -1, -7):
        assert (await one(again.log(), offset)).base_offset == offset - offset % 3
    await again.store.close()


async def test_bounds_limit_a_read_but_never_below_one_block() -> None:
    bed = await filled(10, LogLimits(space_reserve_bytes=0))
    log = bed.log()
    assert len((await log.read(0, messages_max=7, bytes_max=10_000)).blocks) == 2
    assert len((await log.read(0, messages_max=99, bytes_max=250)).blocks) == 2
    assert len((await log.read(4, messages_max=1, bytes_max=1)).blocks) == 1
    result = log.read_cached(4, messages_max=7, bytes_max=10_000)
    assert result is not None
    assert [found.base_offset for found in result.blocks] == [3, 6]
    assert log.read_cached(30, messages_max=1, bytes_max=1) is None
    await bed.store.close()


async def test_a_read_of_large_blocks_stops_before_the_one_that_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = LogLimits(tail_cache_bytes_max=0, space_reserve_bytes=0)
    bed = await open_bed(limits=limits)
    for number in range(12):
        await put(bed.log(), bytes((number,)) * (260 << 10))
    calls = 0
    real = bed.files.read

    async def read(path: str, *, position: int, bytes_max: int) -> bytes:
        nonlocal calls
        calls += 1
        return await real(path, position=position, bytes_max=bytes_max)

    monkeypatch.setattr(bed.files, "read", read)
    found: list[int] = []
    while len(found) < 12:
        result = await bed.log().read(len(found), messages_max=99, bytes_max=1_100_000)
        found += [block.base_offset for block in result.blocks]
    assert found == list(range(12))
    assert calls == 2 + 2  # the first read does not know yet how large blocks are
    await bed.store.close()


@pytest.mark.parametrize("cache_bytes", [0, 2_000, 1 << 20])
async def test_storage_and_cache_answer_alike(cache_bytes: int) -> None:
    limits = LogLimits(
        segment_bytes_max=2_000,
        index_interval_bytes=512,
        tail_cache_bytes_max=cache_bytes,
        space_reserve_bytes=0,
    )
    bed = await filled(50, limits)
    for offset in range(0, 150, 11):
        result = await bed.log().read(offset, messages_max=30, bytes_max=1 << 20)
        assert result.blocks[0].base_offset <= offset < result.blocks[0].next_offset
        for left, right in zip(result.blocks, result.blocks[1:], strict=False):
            assert left.next_offset == right.base_offset
    assert bed.store._context.cache.bytes <= cache_bytes
    await bed.store.close()


async def test_all_fields_of_a_block_come_back() -> None:
    bed = await open_bed(limits=COLD)
    await put(bed.log(), b"first")
    await put(bed.log(), b"x")
    sent = block(b"payload", 2)._replace(compression=4, format=2, extras=b"more", create_ms=-1)
    done = Answers()
    bed.log().append(sent, done)
    await until(lambda: bool(done.got))
    found = await one(bed.log(), 2)
    assert found == StoredBlock(2, 2, bed.clock.now_ms, -1, 4, 2, b"payload", b"more")
    await bed.store.close()


async def test_nothing_is_shown_before_its_commit_returned() -> None:
    storage, steps = MemoryStorage(), Steps()
    files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
    bed = await open_bed(storage, files=files, meta=meta)
    log = bed.log()
    await put(log, b"shown")
    steps.stop_at = steps.count + 1  # behind the write, before the commit returns
    log.append(block(b"hidden"), Answers())
    await steps.stopped.wait()
    steps.stop_at = -1
    assert b"hidden" in storage.files["topic-uuid/0/00000000000000000000-1.log"].content
    assert await payloads(log) == [b"shown"]
    assert log.read_cached(1, messages_max=1, bytes_max=1) is None
    assert await log.offsets() == (0, 1)
    await crash(bed)


async def test_an_empty_read_at_the_end_is_held_until_a_message_comes() -> None:
    bed = await open_bed()
    log = bed.log()
    await put(log, b"a")
    held = asyncio.ensure_future(log.read(1, messages_max=1, bytes_max=1, hold_s=5))
    latest = asyncio.ensure_future(log.read(-2, messages_max=1, bytes_max=1, hold_s=5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await put(log, b"b")
    for waiting in (held, latest):
        result = await asyncio.wait_for(waiting, 2)
        assert [found.payload for found in result.blocks] == [b"b"]
    assert not (await log.read(2, messages_max=1, bytes_max=1, hold_s=0.001)).blocks
    assert not log.writer.arrivals
    await bed.store.close()


async def test_out_of_range_needs_the_manifest() -> None:
    storage, steps = MemoryStorage(), Steps()
    meta = FaultyMeta(storage, steps)
    bed = await open_bed(storage, meta=meta)
    log = bed.log()
    await put(log, b"a")
    with pytest.raises(OffsetOutOfRange, match="retained are 0 to 0"):
        await log.read(2, messages_max=1, bytes_max=1)

    def no_manifest(name: str, path: str, after: bool) -> None:
        raise StoreUnavailable("coordination is down")

    steps.script = no_manifest
    with pytest.raises(PartitionNotServing):
        await log.read(2, messages_max=1, bytes_max=1)
    with pytest.raises(PartitionNotServing):
        await log.offsets()
    assert [found.payload for found in (await log.read(0, messages_max=1, bytes_max=1)).blocks]
    steps.script = None
    other = await open_bed(storage)
    await put(other.log(), b"b")
    with pytest.raises(PartitionNotServing):
        await log.read(5, messages_max=1, bytes_max=1)
    await other.store.close()
    await crash(bed)


async def test_time_lookup_gives_the_first_message_at_or_after_the_time() -> None:
    bed = await filled(40)
    start_ms = FakeClock().now_ms
    log = bed.log()
    for second in range(42):
        expected = min(max(second - 1, 0), 40) * 3
        assert await log.offset_at(start_ms + second * 1_000) == expected
        assert await log.offset_at(start_ms + second * 1_000 + 1) == min(second, 40) * 3
    await bed.store.close()
    again = await open_bed(bed.storage, limits=COLD)
    assert await again.log().offset_at(start_ms + 20_000) == 57
    assert await again.log().offset_at(0) == 0
    await again.store.close()


async def test_append_times_never_go_back() -> None:
    bed = await open_bed(limits=COLD)
    for step_ms in (0, 5_000, -60_000, 10):
        bed.clock.now_ms += step_ms
        await put(bed.log(), b"x" * 400)
    await bed.store.close()
    bed.clock.now_ms -= 1_000_000
    again = await open_bed(bed.storage, limits=COLD, clock=bed.clock)
    await put(again.log(), b"y")
    times = [(await one(again.log(), offset)).append_ms for offset in range(5)]
    assert times == sorted(times)
    await again.store.close()


async def test_a_damaged_block_of_a_sealed_segment_is_named_and_the_rest_stays_readable() -> None:
    bed = await filled(40)
    await bed.store.close()
    second = bed.log().writer.versioned.manifest.segments[1]
    path = second.path(bed.log().key)
    content = bed.storage.files[path].content
    number = second.base_offset // 3 + 2
    content[content.index(b"%04d" % number)] ^= 0x40
    again = await open_bed(bed.storage, limits=COLD)
    log = again.log()
    for other in range(40):
        if other == number:
            with pytest.raises(CorruptLog, match=f"{path} position [0-9]+ offset {number * 3}"):
                await one(log, other * 3)
        else:
            assert (await one(log, other * 3)).payload == b"%04d" % other * 25
    assert await put(log, b"on") == 120
    await again.store.close()


async def test_a_lost_side_index_is_rebuilt_from_its_segment() -> None:
    bed = await filled(40)
    await bed.store.close()
    stats = None
    for damage in (None, b"", b"garbage"):
        for path in [name for name in bed.storage.files if name.endswith(".idx")]:
            if damage is None:
                continue
            bed.storage.files[path].content[:] = damage
        again = await open_bed(bed.storage, limits=COLD)
        for offset in range(0, 120, 13):
            assert (await one(again.log(), offset)).base_offset == offset - offset % 3
        assert stats in (None, await again.log().stats())
        stats = await again.log().stats()
        await again.store.close()
    assert stats is not None
    assert (stats.retained_messages, stats.total_messages) == (120, 120)


async def test_a_reader_that_left_is_forgotten() -> None:
    bed = await open_bed()
    await put(bed.log(), b"a")
    held = asyncio.ensure_future(bed.log().read(1, messages_max=1, bytes_max=1, hold_s=5))
    await until(lambda: bool(bed.log().writer.arrivals))
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)
    assert not bed.log().writer.arrivals
    await bed.store.close()


async def test_a_state_that_cannot_be_known_refuses_writes_but_not_reads() -> None:
    bed = await filled(3)
    await bed.store.close()
    (index,) = [path for path in bed.storage.files if path.endswith(".idx")]
    del bed.storage.files[index]
    content = bed.storage.files[index.replace(".idx", ".log")].content
    content[content.index(b"0001")] ^= 1
    again = await open_bed(bed.storage, limits=COLD)
    with pytest.raises(CorruptLog, match="no sound side index"):
        await put(again.log(), b"x")
    assert (await one(again.log(), 0)).base_offset == 0
    assert (await one(again.log(), 6)).base_offset == 6
    assert (await again.log().stats()).retained_messages == 9
    await again.store.close()
