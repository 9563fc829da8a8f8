"""Durability belongs to a segment: what a changed setting means for what is stored already."""

import asyncio
import random
from dataclasses import replace

import pytest
from tests.unit.log.bed import TOPIC, Bed, crash, open_bed, payloads, put, until

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.partition.jobs import seal_outdated
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.segment.format import SegmentHeader
from opentalos.log.segment.view import read_segment_header
from opentalos.model.errors import CorruptLog
from opentalos.model.message import Durability
from opentalos.testing.simulation.loop import SimulatedProcess, SimulationLoop
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.faults import FileFaults
from opentalos.testing.simulation.stores.faulty_files import FaultyFileStore

SYNCED = TOPIC
FLUSHED = replace(TOPIC, durability=Durability.FLUSHED)
PAGE = 4_096


def log_files(storage: MemoryStorage) -> list[str]:
    return sorted(path for path in storage.files if path.endswith(".log"))


def log_of(bed: Bed, settings: object = FLUSHED) -> PartitionLog:
    return bed.store.partition(settings, 0)  # type: ignore[arg-type]


async def flushed_log_with_lost_pages(*, older: bool) -> MemoryStorage:
    """A flushed log of 40 messages whose second and third page a power loss took."""
    bed = await open_bed()
    for number in range(40):
        await put(log_of(bed), b"%04d" % number * 100)
    await crash(bed)
    (path,) = log_files(bed.storage)
    content = bed.storage.files[path].content
    content[PAGE : 3 * PAGE] = bytes(2 * PAGE)
    if older:
        header = SegmentHeader.decode(bytes(content[:64]))
        content[:64] = header._replace(durability=None).encode()
    return bed.storage


async def test_a_segment_says_which_durability_its_commits_have() -> None:
    bed = await open_bed()
    await put(log_of(bed), b"flushed")
    (path,) = log_files(bed.storage)
    assert (await read_segment_header(bed.files, path)).durability is Durability.FLUSHED
    await bed.store.close()


async def test_a_flushed_segment_is_cut_although_its_topic_is_synced_by_now() -> None:
    storage = await flushed_log_with_lost_pages(older=False)
    bed = await open_bed(storage)
    log = log_of(bed, SYNCED)
    kept = await payloads(log)
    assert 5 < len(kept) < 10
    assert bed.store.counters.truncated == 1
    assert await put(log, b"goes on") == len(kept)
    await bed.store.close()


async def test_a_synced_segment_is_not_cut_although_its_topic_is_flushed_by_now() -> None:
    bed = await open_bed()
    for number in range(40):
        await put(log_of(bed, SYNCED), b"%04d" % number * 100)
    await crash(bed)
    (path,) = log_files(bed.storage)
    bed.storage.files[path].content[PAGE : 3 * PAGE] = bytes(2 * PAGE)
    again = await open_bed(bed.storage)
    with pytest.raises(CorruptLog, match="acknowledged below offset 39"):
        await put(log_of(again, FLUSHED), b"x")
    assert again.store.counters.truncated == 0
    await again.store.close()


@pytest.mark.parametrize("settings", [SYNCED, FLUSHED])
async def test_an_older_segment_is_cut_only_if_its_topic_is_flushed(settings: object) -> None:
    bed = await open_bed(await flushed_log_with_lost_pages(older=True))
    if settings is FLUSHED:
        assert 5 < len(await payloads(log_of(bed, settings))) < 10
    else:
        with pytest.raises(CorruptLog, match="acknowledged below offset 39"):
            await put(log_of(bed, settings), b"x")
    await bed.store.close()


@pytest.mark.parametrize("first", [SYNCED, FLUSHED])
async def test_a_changed_durability_seals_the_open_segment_without_a_put(first: object) -> None:
    second = FLUSHED if first is SYNCED else SYNCED
    bed = await open_bed()
    log = log_of(bed, first)
    await put(log, b"before")
    bed.store.update_topic(second)
    await until(lambda: log.writer.segment is None)
    assert bed.store.counters.seals == 1
    await put(log, b"after")
    assert await payloads(log) == [b"before", b"after"]
    (_, path) = log_files(bed.storage)
    assert (await read_segment_header(bed.files, path)).durability is second.durability
    await bed.store.close()


async def test_a_pass_seals_what_a_failed_change_left_open() -> None:
    bed = await open_bed()
    log = log_of(bed, FLUSHED)
    await put(log, b"before")
    log.writer.update_settings(SYNCED)  # the job of the change failed
    await bed.store.upkeep.run_pass()
    await until(lambda: log.writer.segment is None)
    await bed.store.close()


async def test_a_put_that_waits_rolls_the_segment_itself() -> None:
    bed = await open_bed()
    log = log_of(bed, FLUSHED)
    await put(log, b"before")
    putting = asyncio.create_task(put(log, b"after"))
    await asyncio.sleep(0)
    bed.store.update_topic(SYNCED)
    assert await putting == 1
    await log.writer.run(lambda: seal_outdated(log.writer))
    segment = log.writer.segment
    assert segment is None or segment.durability is Durability.SYNCED
    await bed.store.close()


async def test_a_copied_tail_survives_a_power_loss_whatever_the_topic_says_by_now() -> None:
    """Synced, then flushed; the server is killed, another one copies the tail, power is lost."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulationLoop)
    disk = SimulatedDisk(loop, random.Random(3))
    storage = MemoryStorage()

    def files(name: str) -> FaultyFileStore:
        return FaultyFileStore(disk, SimulatedProcess(loop, name), FileFaults())

    first = await open_bed(storage, files=files("first"))
    for payload in (b"one", b"two"):
        await put(log_of(first, SYNCED), payload)
    await crash(first)
    second = await open_bed(storage, files=files("second"))
    assert await payloads(log_of(second, FLUSHED)) == [b"one", b"two"]
    await crash(second)
    disk.lose_power()
    third = await open_bed(storage, files=files("third"))
    assert await payloads(log_of(third, FLUSHED)) == [b"one", b"two"]
    assert await put(log_of(third, FLUSHED), b"three") == 2
    await third.store.close()
