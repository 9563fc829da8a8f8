"""Opening and recovery: crashes between any two steps, damage, rolled back coordination."""

import asyncio
import json

import pytest
from tests.unit.log.bed import (
    LIMITS,
    TOPIC,
    Bed,
    block,
    crash,
    log_records,
    open_bed,
    payloads,
    proven_payloads,
    put,
    put_block,
    until,
)
from tests.unit.log.faults import FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.maintenance.verify import LogVerifier
from opentalos.log.manifest.aside import ROOT as ASIDE
from opentalos.log.results import TopicLogSettings
from opentalos.log.segment.format import BLOCK_HEADER_BYTES
from opentalos.model.errors import CorruptLog, OutcomeUnknown, TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import ProducerStamp

LOG_PATH = f"log/{TOPIC.topic_uuid}/0"


def log_files(storage: MemoryStorage) -> list[str]:
    return sorted(
        path for path in storage.files if path.endswith(".log") and not path.startswith(f"{ASIDE}/")
    )


async def faulty_bed(storage: MemoryStorage, steps: Steps) -> Bed:
    return await open_bed(
        storage, files=FaultyFiles(storage, steps), meta=FaultyMeta(storage, steps)
    )


class Writer:
    """Puts numbered blocks until the server stops; remembers what was acknowledged."""

    def __init__(self, first: int) -> None:
        self.number = first
        self.acknowledged: list[tuple[int, bytes]] = []

    async def run(self, bed: Bed, count: int) -> None:
        for _ in range(count):
            payload = b"%05d" % self.number
            self.number += 1
            base = await put(bed.log(), payload)
            self.acknowledged.append((base, payload))


async def no_problems(bed: Bed) -> None:
    """What a crash leaves behind is never a problem."""
    verifier = LogVerifier(bed.files, bed.meta)
    for key in await verifier.partitions():
        async for finding in verifier.check(key, lambda: None):
            assert not finding.problem, finding.text


async def stop_and_check(storage: MemoryStorage, writer: Writer, steps: Steps) -> None:
    """Run a server until it stops, then a sound one: acknowledged is there, once, in order."""
    bed = await faulty_bed(storage, steps)
    running = asyncio.ensure_future(writer.run(bed, 4))
    stopped = asyncio.ensure_future(steps.stopped.wait())
    await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    stopped.cancel()
    await asyncio.gather(running, stopped, return_exceptions=True)
    await crash(bed)
    again = await open_bed(storage)
    await no_problems(again)
    found = await payloads(again.log())
    for base, payload in writer.acknowledged:
        assert found[base] == payload
    assert sorted(found) == found
    assert len(set(found)) == len(found)
    await crash(again)


@pytest.mark.parametrize("torn_bytes", [None, 0, 1, 60, 200, 230])
async def test_a_crash_at_any_step_loses_nothing_acknowledged(torn_bytes: int | None) -> None:
    count = Steps()
    bed = await faulty_bed(MemoryStorage(), count)
    await Writer(0).run(bed, 4)
    await crash(bed)
    for stop_at in range(count.count + 12):
        storage, writer = MemoryStorage(), Writer(0)
        for _ in range(3):
            steps = Steps(stop_at)
            steps.torn_bytes = torn_bytes
            await stop_and_check(storage, writer, steps)


class RollingWriter(Writer):
    """Fills several segments, lets upkeep seal and drop, then closes the server."""

    async def run(self, bed: Bed, count: int) -> None:
        for _ in range(count):
            payload = b"%05d" % self.number * 100
            self.number += 1
            base = await put(bed.log(), payload)
            self.acknowledged.append((base, payload))
        bed.clock.now_ms += 10_000
        await put(bed.log(), b"%05d" % self.number * 100)
        self.number += 1
        for _ in range(3):
            await bed.store.upkeep.run_pass()
            await until(lambda: not bed.store.upkeep._jobs)
        await bed.store.close()


ROLLING = LogLimits(
    segment_bytes_max=1_024,
    index_interval_bytes=512,
    space_reserve_bytes=0,
    idle_seal_s=0.0,
    delete_grace_s=0.0,
    clock_disagree_max_s=1e9,
    close_s=0.01,
)


@pytest.mark.parametrize("torn_bytes", [None, 300])
async def test_a_crash_while_rolling_sealing_or_dropping_loses_nothing(
    torn_bytes: int | None,
) -> None:
    short = TopicLogSettings(TOPIC.topic_uuid, TOPIC.durability, 5.0)

    async def run(storage: MemoryStorage, steps: Steps) -> RollingWriter:
        files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
        bed = await open_bed(storage, files=files, meta=meta, limits=ROLLING)
        bed.log()
        bed.store.update_topic(short)
        writer = RollingWriter(0)
        running = asyncio.ensure_future(writer.run(bed, 5))
        stopped = asyncio.ensure_future(steps.stopped.wait())
        await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        stopped.cancel()
        ended = await asyncio.gather(running, stopped, return_exceptions=True)
        assert steps.stopped.is_set() or ended[0] is None
        await crash(bed)
        return writer

    whole = Steps()
    await run(MemoryStorage(), whole)
    assert whole.count >= 70
    for stop_at in range(whole.count):
        storage, steps = MemoryStorage(), Steps(stop_at)
        steps.torn_bytes = torn_bytes
        writer = await run(storage, steps)
        again = await open_bed(storage, limits=ROLLING)
        await no_problems(again)
        start, end = await again.log().offsets()
        found = await payloads(again.log())
        assert end >= len(writer.acknowledged)
        for base, payload in writer.acknowledged:
            assert base < start or found[base - start] == payload
        assert await put(again.log(), b"on") == end
        await crash(again)


@pytest.fixture
async def crashed() -> MemoryStorage:
    """Storage of a server that was killed after five puts."""
    bed = await open_bed()
    for number in range(5):
        await put(bed.log(), b"payload-%d" % number)
    await crash(bed)
    return bed.storage


async def test_a_torn_tail_is_cut(crashed: MemoryStorage) -> None:
    path = log_files(crashed)[0]
    crashed.files[path].content += b"\x07" * 50
    bed = await open_bed(crashed)
    assert len(await payloads(bed.log())) == 5
    assert await put(bed.log(), b"more") == 5
    await bed.store.close()


async def test_damage_below_the_committed_end_refuses_writes_but_not_reads(
    crashed: MemoryStorage,
) -> None:
    path = log_files(crashed)[0]
    content = crashed.files[path].content
    at = content.index(b"payload-2")
    content[at] ^= 1
    bed = await open_bed(crashed)
    log = bed.log()
    with pytest.raises(CorruptLog, match=f"topic-uuid partition 0.*{path} position .* offset 2"):
        await put(log, b"x")
    with pytest.raises(CorruptLog):
        log.append(block(b"x"), lambda base, error: None)
    below = await log.read(0, messages_max=10, bytes_max=1_000)
    assert [item.payload for item in below.blocks] == [b"payload-0", b"payload-1"]
    with pytest.raises(CorruptLog, match="offset 2"):
        await log.read(2, messages_max=10, bytes_max=1_000)
    behind = await log.read(3, messages_max=10, bytes_max=1_000)
    assert [item.payload for item in behind.blocks] == [b"payload-3"]
    # The last group was acknowledged, but nothing behind it says so: no client may reset on that.
    with pytest.raises(CorruptLog, match="offset 2"):
        await log.read(5, messages_max=10, bytes_max=1_000)
    assert len(content) == len(crashed.files[path].content)
    other = bed.log(1)
    assert await put(other, b"fine") == 0
    await bed.store.close()


async def test_damage_in_the_last_group_refuses_writes_but_not_reads(
    crashed: MemoryStorage,
) -> None:
    # Nothing behind the last block proves that it was committed, but no crash leaves all of it.
    content = crashed.files[log_files(crashed)[0]].content
    content[content.index(b"payload-4")] ^= 1
    bed = await open_bed(crashed)
    assert len(await proven_payloads(bed.log())) == 4
    with pytest.raises(CorruptLog, match=r"offset 4: .* and perhaps this block"):
        await put(bed.log(), b"x")
    with pytest.raises(CorruptLog, match="offset 4"):
        await bed.log().read(5, messages_max=10, bytes_max=1_000)
    await bed.store.close()


async def test_a_damaged_segment_header_refuses_the_partition(crashed: MemoryStorage) -> None:
    crashed.files[log_files(crashed)[0]].content[9] ^= 1
    bed = await open_bed(crashed)
    with pytest.raises(CorruptLog, match="position 0"):
        await put(bed.log(), b"x")
    await bed.store.close()


async def test_a_missing_segment_file_is_named(crashed: MemoryStorage) -> None:
    path = log_files(crashed)[0]
    del crashed.files[path]
    bed = await open_bed(crashed)
    with pytest.raises(CorruptLog, match=path):
        await put(bed.log(), b"x")
    with pytest.raises(CorruptLog, match=path):
        await bed.log().read(0, messages_max=1, bytes_max=1)
    await bed.store.close()


async def test_rolled_back_coordination_is_refused(crashed: MemoryStorage) -> None:
    older = crashed.records[LOG_PATH]
    kept = older.record
    bed = await open_bed(crashed)
    await put(bed.log(), b"new")
    await crash(bed)
    crashed.records[LOG_PATH].record = kept
    again = await open_bed(crashed)
    with pytest.raises(CorruptLog, match="rolled back"):
        await put(again.log(), b"x")
    await again.store.close()


async def test_orphans_of_smaller_epochs_are_deleted(crashed: MemoryStorage) -> None:
    path = log_files(crashed)[0]
    orphan = path.replace("-1.log", "-0.log")
    crashed.files[orphan] = type(crashed.files[path])(bytearray(b"junk"))
    bed = await open_bed(crashed)
    await put(bed.log(), b"x")
    await until(lambda: orphan not in crashed.files)
    await bed.store.close()


async def test_no_put_waits_until_an_orphan_is_fenced(crashed: MemoryStorage) -> None:
    path = log_files(crashed)[0]
    for number in range(3):
        orphan = path.replace("-1.log", "-0.log").replace("/0/0", f"/0/{number}")
        crashed.files[orphan] = type(crashed.files[path])(bytearray(b"junk"))
    bed = await open_bed(crashed)
    fenced, real = asyncio.Event(), bed.files.delete
    asked: list[str] = []

    async def delete(path: str) -> None:
        asked.append(path)
        await fenced.wait()
        await real(path)

    bed.files.delete = delete  # type: ignore[method-assign]
    await put(bed.log(), b"x")
    assert len(asked) <= 1
    fenced.set()
    await until(lambda: len(log_files(crashed)) == 2)
    await bed.store.close()


async def test_a_clean_close_needs_no_recovery() -> None:
    bed = await open_bed()
    await put(bed.log(), b"a")
    await bed.store.close()
    steps = Steps()
    called: list[str] = []
    steps.script = lambda name, path, after: called.append(name)
    again = await faulty_bed(bed.storage, steps)
    assert await put(again.log(), b"b") == 1
    assert "recover" not in called
    assert await payloads(again.log()) == [b"a", b"b"]
    await again.store.close()


async def test_an_untouched_partition_has_no_file_and_no_record() -> None:
    steps = Steps()
    storage = MemoryStorage()
    bed = await faulty_bed(storage, steps)
    for partition in range(100):
        bed.log(partition)
    assert steps.count == 0
    assert await bed.log(7).offsets() == (0, 0)
    assert not storage.files
    assert not log_records(storage)
    await bed.store.close()


async def test_an_opened_but_empty_log_leaves_no_segment_behind() -> None:
    bed = await open_bed()
    stamp = ProducerStamp(1, 0, 5)  # a gap: refused, so nothing is written
    with pytest.raises(TalosError):
        await put_block(bed.log(), block(b"x", producer=stamp))
    await bed.store.close()
    manifest = json.loads(bed.storage.records[LOG_PATH].record.value)
    assert manifest["segments"] == []


async def test_the_copied_tail_survives_a_second_crash() -> None:
    bed = await open_bed()
    for number in range(3):
        await put(bed.log(), b"%d" % number)
    await crash(bed)
    for _ in range(3):
        again = await open_bed(bed.storage)
        assert await payloads(again.log()) == [b"0", b"1", b"2"]
        await crash(again)


async def test_an_unknown_registration_is_resolved_by_reading() -> None:
    storage, steps = MemoryStorage(), Steps()
    bed = await faulty_bed(storage, steps)
    failing = [2]

    def lose_answers(name: str, path: str, after: bool) -> None:
        if name == "replace" and after and failing[0]:
            failing[0] -= 1
            raise OutcomeUnknown("answer lost")

    steps.script = lose_answers
    assert await put(bed.log(), b"a") == 0
    assert bed.store.counters.openings == 1
    assert await payloads(bed.log()) == [b"a"]
    await bed.store.close()


async def test_blocks_of_every_size_survive_a_crash() -> None:
    bed = await open_bed(limits=LIMITS)
    sizes = [0, 1, 511, 512, 70_000, 300_000, 1_000_000, 3]
    for size in sizes:
        await put(bed.log(), b"z" * size)
    assert BLOCK_HEADER_BYTES > 64
    await crash(bed)
    again = await open_bed(bed.storage)
    assert [len(payload) for payload in await payloads(again.log())] == sizes
    await again.store.close()
