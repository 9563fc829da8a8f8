"""A damaged log never looks empty: who reads at the end of what is proven gets the damage."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.log.bed import (
    LIMITS,
    TOPIC,
    Answers,
    Bed,
    block,
    crash,
    log_records,
    open_bed,
    payloads,
    proven_payloads,
    put,
    until,
)
from tests.unit.log.faults import FailOnce, FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.log_store import DAMAGED_SHOWN_MAX
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.results import OFFSET_END, OFFSET_START
from opentalos.model.errors import CorruptLog, OutcomeUnknown, PartitionNotServing
from opentalos.model.message import OffsetRange, PartitionKey

LATE = replace(LIMITS, journal="on", journals=1)


async def read(log: PartitionLog, offset: int, hold_s: float = 0.0) -> list[bytes]:
    found = await log.read(offset, messages_max=10, bytes_max=1_000, hold_s=hold_s)
    return [bytes(block.payload) for block in found.blocks]


async def without_journal(partitions: int = 1) -> Bed:
    """A restarted server whose journal, which had every message, is gone."""
    bed = await open_bed(limits=LATE)
    for number in range(partitions):
        await put(bed.log(number), b"only in the journal")
    await crash(bed)
    for path in [path for path in bed.storage.files if path.endswith(".jnl")]:
        del bed.storage.files[path]
    return await open_bed(bed.storage, limits=LATE)


async def rotten(count: int = 5, bad: int = 4) -> Bed:
    """A restarted server; a bit of one message is flipped."""
    bed = await open_bed()
    for number in range(count):
        await put(bed.log(), b"payload-%d" % number)
    await crash(bed)
    (path,) = [path for path in bed.storage.files if path.endswith(".log")]
    content = bed.storage.files[path].content
    content[content.index(b"payload-%d" % bad)] ^= 1
    return await open_bed(bed.storage)


@pytest.mark.parametrize("offset", [OFFSET_START, OFFSET_END, 0, 1, 9])
async def test_the_first_read_of_a_log_without_anything_proven_gets_the_damage(offset: int) -> None:
    bed = await without_journal()
    with pytest.raises(CorruptLog):
        await read(bed.log(), offset)
    await crash(bed)


@pytest.mark.parametrize("offset", [OFFSET_END, 4, 5])
async def test_a_read_at_the_proven_end_gets_the_damage_at_once(offset: int) -> None:
    bed = await rotten()
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(CorruptLog, match="offset 4"):
        await read(bed.log(), offset, hold_s=30.0)
    assert asyncio.get_running_loop().time() - began_s < 1.0
    await crash(bed)


async def test_what_is_proven_is_read_from_the_start_on() -> None:
    bed = await rotten()
    assert await proven_payloads(bed.log()) == [b"payload-%d" % number for number in range(4)]
    found = await bed.log().read(0, messages_max=1, bytes_max=1)
    assert isinstance(found.damage, CorruptLog)
    await crash(bed)


async def test_the_end_of_a_damaged_log_is_not_known_but_its_start_is() -> None:
    bed = await rotten()
    with pytest.raises(CorruptLog, match="offset 4"):
        await bed.log().offsets()
    assert await bed.log().proven() == OffsetRange(0, 4)
    assert (await bed.log().stats()).retained_messages == 4
    assert isinstance(bed.log().damage, CorruptLog)
    await crash(bed)


async def test_an_offset_by_time_is_found_below_the_damage_only() -> None:
    bed = await open_bed()
    for number in range(3):
        bed.clock.now_ms += 10_000
        await put(bed.log(), b"payload-%d" % number)
    last_ms = bed.clock.now_ms
    await crash(bed)
    (path,) = [path for path in bed.storage.files if path.endswith(".log")]
    bed.storage.files[path].content[-1] ^= 1
    again = await open_bed(bed.storage, clock=bed.clock)
    with pytest.raises(CorruptLog, match="offset 2"):
        await again.log().offset_at(last_ms)
    assert await again.log().offset_at(last_ms - 10_000) == 1
    await crash(again)


async def lost_acknowledged() -> tuple[Bed, PartitionLog, "asyncio.Task[list[bytes]]"]:
    """An open log whose disk lost acknowledged messages, found when a commit fails; a reader has
    waited at the end."""
    steps, storage = Steps(), MemoryStorage()
    files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
    bed = await open_bed(storage, files=files, meta=meta)
    log = bed.log()
    await put(log, b"first")
    (path,) = [path for path in storage.files if path.endswith(".log")]
    kept = len(storage.files[path].content)
    for number in range(3):
        await put(log, b"%d" % number)
    waiting = asyncio.create_task(read(log, 4, hold_s=300.0))
    await until(lambda: len(log.arrivals) > 0)
    del storage.files[path].content[kept:]
    steps.script = FailOnce("commit", OutcomeUnknown("disk trouble"), after=False)
    log.append(block(b"late"), Answers())
    await until(lambda: not log.writer.busy())
    return bed, log, waiting


async def test_a_reader_that_waits_gets_the_damage_as_soon_as_it_is_found() -> None:
    bed, _, waiting = await lost_acknowledged()
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(CorruptLog, match="was acknowledged"):
        await waiting
    assert asyncio.get_running_loop().time() - began_s < 1.0
    await crash(bed)


async def test_damage_found_while_serving_is_named_to_readers_again_and_again() -> None:
    bed, log, waiting = await lost_acknowledged()
    for _ in range(3):
        for offset in (OFFSET_END, 4):
            with pytest.raises(CorruptLog, match="was acknowledged"):
                await read(log, offset)
        with pytest.raises(CorruptLog, match="was acknowledged"):
            await log.offsets()
        assert await log.proven() == OffsetRange(0, 4)
        assert await read(log, OFFSET_START) == [b"first", b"0", b"1", b"2"]
    await asyncio.wait([waiting])
    await crash(bed)


async def test_no_reader_takes_the_proven_end_for_the_end_while_damage_is_being_found() -> None:
    found = await rotten()
    await crash(found)
    storage = found.storage
    for stop_at in range(100):
        steps = Steps(stop_at)
        files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
        bed = await open_bed(storage, files=files, meta=meta)
        opening = asyncio.create_task(put(bed.log(), b"x"))
        stopped = asyncio.create_task(steps.stopped.wait())
        await asyncio.wait([opening, stopped], return_when=asyncio.FIRST_COMPLETED)
        reading = asyncio.create_task(read(bed.log(), 4))
        await asyncio.wait([reading], timeout=1.0)
        assert not reading.done() or isinstance(reading.exception(), CorruptLog)
        known = opening.done()
        for task in (opening, stopped, reading):
            task.cancel()
        await asyncio.gather(opening, stopped, reading, return_exceptions=True)
        await crash(bed)
        if known:
            return
    pytest.fail("the opening never ended")


async def test_a_manifest_that_cannot_be_read_is_the_partition_s_damage() -> None:
    bed = await open_bed()
    await put(bed.log(), b"first")
    await crash(bed)
    (path,) = log_records(bed.storage)
    record = bed.storage.records[path]
    record.record = replace(record.record, value=b"{")
    again = await open_bed(bed.storage)
    with pytest.raises(CorruptLog, match="manifest"):
        await read(again.log(), OFFSET_START)
    assert again.store.figures.damaged_partitions == 1
    await crash(again)


async def test_damaged_partitions_are_in_the_figures_until_they_leave() -> None:
    partitions = DAMAGED_SHOWN_MAX + 2
    bed = await without_journal(partitions)
    assert bed.store.figures.damaged_partitions == 0
    for number in range(partitions):
        with pytest.raises(CorruptLog):
            await read(bed.log(number), OFFSET_START)
    figures = bed.store.figures
    assert figures.damaged_partitions == partitions
    assert len(figures.damaged) == DAMAGED_SHOWN_MAX
    assert figures.damaged[0].key == PartitionKey(TOPIC.topic_uuid, 0)
    assert "journal" in figures.damaged[0].reason
    assert len(figures.damaged[0].reason) <= 200
    bed.store.drop(PartitionKey(TOPIC.topic_uuid, 0), PartitionNotServing("moved"))
    await bed.store.hand_off(PartitionKey(TOPIC.topic_uuid, 1), PartitionNotServing("moved"))
    assert bed.store.figures.damaged_partitions == partitions - 2
    await bed.store.delete_topic(TOPIC.topic_uuid, partitions)
    assert bed.store.figures.damaged_partitions == 0
    await crash(bed)


async def test_other_partitions_are_read_and_written() -> None:
    bed = await without_journal()
    with pytest.raises(CorruptLog):
        await read(bed.log(), OFFSET_START)
    assert await put(bed.log(1), b"fine") == 0
    assert await payloads(bed.log(1)) == [b"fine"]
    assert bed.log(1).damage is None
    await bed.store.close()
