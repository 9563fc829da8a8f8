"""Small sealed segments are merged: nothing of the log changes but the number of its segments."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.log.bed import (
    LIMITS,
    TOPIC,
    Bed,
    block,
    crash,
    open_bed,
    payloads,
    put,
    put_block,
    until,
)
from tests.unit.log.faults import FailOnce, FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.maintenance.merge import mergeable
from opentalos.log.maintenance.verify import LogVerifier
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.metering.meter import Mark
from opentalos.log.partition.jobs import seal
from opentalos.log.partition.queue import Job
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.segment.format import BLOCK_HEADER_BYTES
from opentalos.log.segment.reader import Wanted
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable
from opentalos.model.limits import LogLimits
from opentalos.model.message import PartitionKey, ProducerStamp, StoredBlock

KEY = PartitionKey(TOPIC.topic_uuid, 0)
LOG_PATH = f"log/{TOPIC.topic_uuid}/0"
SMALL = replace(
    LIMITS,
    merge_segments_min=4,
    segment_bytes_max=16 << 10,
    index_interval_bytes=512,
    delete_grace_s=20.0,
)


async def sealed(bed: Bed, partition: int = 0) -> None:
    writer = bed.log(partition).writer

    async def job() -> None:
        await seal(writer)

    await writer.run(job)
    await until(lambda: not writer.busy())


async def many_segments(bed: Bed, count: int, first: int = 0) -> None:
    """One put and one announcement of a producer per segment; times and producers differ."""
    for number in range(first, first + count):
        bed.clock.now_ms += 1_000
        stamp = ProducerStamp(7, 1, number * 3)
        await put_block(bed.log(), block(b"%05d" % number * 4, 3, stamp))
        await put(bed.log(), b"-%05d" % number)
        await sealed(bed)


async def merged(bed: Bed) -> None:
    """Let the upkeep merge until nothing is left to merge."""
    await bed.store.upkeep.run_pass()
    await until(lambda: not bed.store.upkeep.merger.busy)


async def blocks(bed: Bed) -> list[StoredBlock]:
    found: list[StoredBlock] = []
    log = bed.log()
    offset, end = await log.offsets()
    while offset < end:
        result = await log.read(offset, messages_max=1_000, bytes_max=1)
        found += result.blocks
        offset = result.blocks[-1].next_offset
    return found


def manifest_of(storage: MemoryStorage) -> Manifest:
    return Manifest.decode(storage.records[LOG_PATH].record.value)


async def findings(bed: Bed) -> list[str]:
    verifier = LogVerifier(bed.files, bed.meta)
    return [item.text async for item in verifier.check(KEY, lambda: None)]


async def test_many_partitions_at_a_small_cap_keep_small_manifests() -> None:
    limits = replace(SMALL, segments_open_max=24, retention_interval_s=1e9, delete_grace_s=0.0)
    bed = await open_bed(limits=limits)
    partitions, largest = 28, 0
    for number in range(90):
        for partition in range(partitions):
            assert await put(bed.log(partition), b"%05d" % number) == number
        for partition in range(partitions):
            await sealed(bed, partition)
        if number % 5 == 0:
            await merged(bed)
            for partition in range(partitions):
                manifest = bed.log(partition).writer.versioned.manifest
                largest = max(largest, len(manifest.segments))
    assert bed.store.counters.seals >= 2_500
    assert largest < 24
    for partition in range(partitions):
        assert await payloads(bed.log(partition)) == [b"%05d" % number for number in range(90)]
    await bed.store.close()


async def test_a_merge_changes_nothing_that_readers_or_producers_see() -> None:
    bed = await open_bed(limits=SMALL)
    await many_segments(bed, 12)
    log = bed.log()
    before, stats = await blocks(bed), await log.stats()
    times = [await log.offset_at(item.append_ms) for item in before]
    assert len(manifest_of(bed.storage).segments) == 12
    await merged(bed)
    manifest = manifest_of(bed.storage)
    assert len(manifest.segments) == 1
    assert bed.store.counters.merges == 1
    assert bed.store.counters.segments_merged == 12
    assert await blocks(bed) == before
    assert [await log.offset_at(item.append_ms) for item in before] == times
    assert manifest.segments[0].last_append_ms == before[-1].append_ms
    await asyncio.sleep(SMALL.delete_grace_s)
    await bed.store.upkeep.run_pass()
    assert [path for path in bed.storage.files if path.endswith(".log")] == [
        manifest.segments[0].path(KEY)
    ]
    assert await findings(bed) == []
    assert await blocks(bed) == before
    again_block = block(b"again", 3, ProducerStamp(7, 1, 33))
    assert await put_block(log, again_block) == 44  # stored before, and still known
    await bed.store.close()
    again = await open_bed(bed.storage, limits=SMALL)
    assert await blocks(again) == before
    assert await put_block(again.log(), again_block) == 44
    after = await again.log().stats()
    assert after.total_bytes == stats.total_bytes + BLOCK_HEADER_BYTES  # the close's end mark
    assert await findings(again) == []
    await again.store.close()


async def test_a_reader_of_the_former_segments_goes_on() -> None:
    bed = await open_bed(limits=SMALL)
    await many_segments(bed, 6)
    before = await blocks(bed)
    manifest = bed.log().writer.versioned.manifest
    view = await bed.store._context.views.get(KEY, manifest.segments[2])
    await merged(bed)
    reader = bed.log()._reader(view)
    found = await reader.collect(Wanted(manifest.segments[2].base_offset, 100, 1 << 20))
    assert found == [item for item in before if item.base_offset in (8, 11)]
    await bed.store.close()


@pytest.mark.parametrize("at", [70, 200, -30])
async def test_damage_stops_the_merge_of_its_segment_only(at: int) -> None:
    bed = await open_bed(limits=SMALL)
    await many_segments(bed, 14)
    before = await blocks(bed)
    unsound = manifest_of(bed.storage).segments[5]
    bed.storage.files[unsound.path(KEY)].content[at] ^= 1
    for _ in range(3):
        await merged(bed)
    manifest = manifest_of(bed.storage)
    assert [row for row in manifest.segments if row == unsound] == [unsound]
    assert len(manifest.segments) == 3
    assert bed.store.counters.merge_failures == 1
    bed.storage.files[unsound.path(KEY)].content[at] ^= 1
    assert await blocks(bed) == before
    await bed.store.close()


async def test_an_opening_in_between_gives_the_merge_up() -> None:
    bed = await open_bed(limits=SMALL)
    await many_segments(bed, 6)
    before = await blocks(bed)

    async def opened_first(self: PartitionWriter, job: Job) -> None:
        patch.undo()
        await put(bed.log(), b"opened")
        await self.run(job)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartitionWriter, "run", opened_first)
        await merged(bed)
    assert bed.store.counters.merges == 0
    assert (await blocks(bed))[:-1] == before
    await merged(bed)
    assert bed.store.counters.merges == 1
    assert (await blocks(bed))[:-1] == before
    await bed.store.close()


@pytest.mark.parametrize("after", [False, True])
async def test_a_change_that_fails_leaves_a_sound_log(after: bool) -> None:
    steps, storage = Steps(), MemoryStorage()
    bed = await open_bed(
        storage, limits=SMALL, files=FaultyFiles(storage, steps), meta=FaultyMeta(storage, steps)
    )
    await many_segments(bed, 6)
    before = await blocks(bed)
    change = FailOnce("replace", OutcomeUnknown("no answer"), after=after)
    reads = FailOnce("get", StoreUnavailable("away"))

    def script(name: str, path: str, after: bool) -> None:
        change(name, path, after)
        if not change.times:
            reads(name, path, after)

    steps.script = script
    await bed.store.upkeep.run_pass()
    await until(lambda: not bed.store.upkeep.merger.busy)
    steps.script = None
    assert bed.store.counters.merge_failures == 1
    assert len(manifest_of(storage).segments) == (1 if after else 6)
    assert await blocks(bed) == before
    assert await put(bed.log(), b"on") == 24
    await merged(bed)
    assert (await blocks(bed))[:-1] == before
    assert [text for text in await findings(bed) if "orphan" not in text] == []
    await bed.store.close()


async def test_retention_decided_before_a_merge_drops_nothing_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first segment has expired; after the merge it is one with others that have not."""
    bed = await open_bed(limits=replace(SMALL, retention_interval_s=1e9))
    await many_segments(bed, 8)
    before, writer, upkeep = await blocks(bed), bed.log().writer, bed.store.upkeep
    writer.update_settings(replace(TOPIC, retention_s=200.0))
    bed.clock.now_ms = writer.versioned.manifest.segments[0].last_append_ms + 200_500
    changing, go_on, real = asyncio.Event(), asyncio.Event(), bed.meta.replace

    async def held(path: str, value: bytes, expected: int) -> int:
        if path == LOG_PATH:
            changing.set()
            await go_on.wait()
        return await real(path, value, expected)

    monkeypatch.setattr(bed.meta, "replace", held)
    upkeep.merger.offer(writer)
    await changing.wait()
    await upkeep.run_pass()
    go_on.set()
    await until(lambda: not writer.busy() and not upkeep.merger.busy)
    assert bed.store.counters.merges == 1
    assert bed.store.counters.segments_dropped == 0
    assert await blocks(bed) == before
    await bed.store.close()


async def test_a_crash_at_any_step_of_a_merge_loses_nothing() -> None:
    whole = Steps()
    await _stopped_merge(whole)
    began = None
    for stop_at in range(whole.count):
        steps = Steps(stop_at)
        bed = await _stopped_merge(steps)
        if bed is None:
            continue
        began = stop_at if began is None else began
        again = await open_bed(bed.storage, limits=SMALL)
        assert [text for text in await findings(again) if "orphan" not in text] == []
        assert await payloads(again.log()) == [
            payload for n in range(5) for payload in (b"%05d" % n * 4, b"-%05d" % n)
        ]
        assert await put(again.log(), b"on") == 20
        await merged(again)
        assert [text for text in await findings(again) if "orphan" not in text] == []
        await crash(again)
    assert began is not None
    assert whole.count - began > 10


async def _stopped_merge(steps: Steps) -> Bed | None:
    """A server that stops at a step of the merge; None: it would stop before."""
    stop_at, steps.stop_at = steps.stop_at, -1
    storage = MemoryStorage()
    bed = await open_bed(
        storage, limits=SMALL, files=FaultyFiles(storage, steps), meta=FaultyMeta(storage, steps)
    )
    await many_segments(bed, 5)
    if 0 <= stop_at < steps.count:
        await crash(bed)
        return None
    steps.stop_at = stop_at
    running = asyncio.ensure_future(merged(bed))
    stopped = asyncio.ensure_future(steps.stopped.wait())
    await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    stopped.cancel()
    await asyncio.gather(running, stopped, return_exceptions=True)
    await crash(bed)
    return bed


async def test_a_merge_that_meets_the_end_of_the_server_stops() -> None:
    bed = await open_bed(limits=SMALL)
    await many_segments(bed, 6)
    bed.store.upkeep.merger.offer(bed.log().writer)
    await bed.store.close()
    assert len(manifest_of(bed.storage).segments) == 6
    again = await open_bed(bed.storage, limits=SMALL)
    assert len(await blocks(again)) == 12
    await again.store.close()


async def test_the_mark_of_metering_stays() -> None:
    bed = await open_bed(limits=SMALL)
    await many_segments(bed, 6)
    writer = bed.log().writer
    marked = replace(writer.versioned.manifest, metered=Mark(9, 5, 0))
    writer.manifest_replaced(
        await bed.store._context.manifests.change(KEY, writer.versioned, marked)
    )
    await merged(bed)
    manifest = manifest_of(bed.storage)
    assert len(manifest.segments) == 1
    assert manifest.metered == Mark(9, 5, 0)
    await bed.store.close()


def _manifest(*sizes: int, step_ms: int = 0) -> Manifest:
    rows = [Segment(n, 1, n + 1, size, n * step_ms) for n, size in enumerate(sizes)]
    return Manifest(epoch=1, segments=tuple(rows))


LIMIT = LogLimits(segment_bytes_max=1_024, merge_segments_min=3)


@pytest.mark.parametrize(
    ("manifest", "first", "count"),
    [
        (_manifest(9, 9), 0, 0),
        (_manifest(9, 9, 9), 0, 3),
        (_manifest(900, 9, 9, 9, 900), 1, 3),
        (_manifest(500, 9, 9, 9), 1, 3),  # the large one would be copied for little
        (_manifest(500, 300, 200, 9), 0, 4),
        (_manifest(500, 300, 300, 9, 9), 1, 4),  # bounded in all
        (_manifest(513, 513, 513), 0, 0),
        (_manifest(9, 9, 9, 9, 9, step_ms=10), 0, 5),
        (_manifest(9, 9, 9, 9, 9, step_ms=3_000), 0, 4),  # spans 10 s of the retention of 80 s
        (_manifest(9, 9, 9, 9, 9, step_ms=6_000), 0, 0),
    ],
)
def test_which_run_is_merged(manifest: Manifest, first: int, count: int) -> None:
    settings = replace(TOPIC, retention_s=80.0)
    run = mergeable(manifest, settings, LIMIT)
    assert run == manifest.segments[first : first + count]
    assert mergeable(manifest, settings, replace(LIMIT, merge_segments_min=0)) == ()
    assert mergeable(replace(manifest, handed_over=True), settings, LIMIT) == ()


def test_an_unsealed_segment_is_never_merged() -> None:
    manifest = _manifest(9, 9).registered(Segment(2, 1))
    assert mergeable(manifest, TOPIC, LIMIT) == ()


def test_a_block_is_copied_few_times_in_its_life() -> None:
    """Thousands of seals: the manifest stays short and the copied bytes stay in proportion."""
    limits = LogLimits(segment_bytes_max=1 << 20, merge_segments_min=8)
    manifest, copied, longest = Manifest(), 0, 0
    for number in range(5_000):
        row = Segment(number, 1, number + 1, 300)
        manifest = replace(manifest, segments=(*manifest.segments, row))
        run = mergeable(manifest, TOPIC, limits)
        if run:
            total = sum(segment.bytes for segment in run)
            copied += total
            whole = Segment(run[0].base_offset, 1, run[-1].next_offset, total)
            merged_manifest = manifest.merged(run, whole)
            assert merged_manifest is not None
            manifest = merged_manifest
        longest = max(longest, len(manifest.segments))
    assert longest < 100
    assert copied < 5_000 * 300 * 12


def test_a_run_that_is_gone_is_not_replaced() -> None:
    manifest = _manifest(9, 9, 9, 9)
    whole = Segment(1, 1, 4, 27)
    assert manifest.dropped(2).merged(manifest.segments[1:4], whole) is None
    replaced = manifest.merged(manifest.segments[1:4], whole)
    assert replaced is not None
    assert Manifest.decode(replaced.encode()) == replaced


async def test_nothing_is_merged_into_the_space_reserve() -> None:
    bed = await open_bed(limits=replace(SMALL, space_reserve_bytes=1 << 20))
    await many_segments(bed, 6)
    context = bed.store._context
    for free_bytes in ((1 << 20) - 1, (1 << 20) + 2 * SMALL.segment_bytes_max - 1):
        context.note_space(free_bytes)
        await merged(bed)
        assert bed.store.counters.merges == 0
    context.note_space((1 << 20) + 2 * SMALL.segment_bytes_max)
    await merged(bed)
    assert bed.store.counters.merges == 1
    await bed.store.close()


async def test_a_merge_that_a_deletion_overtakes_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another server deletes the topic between the copy and the change of the manifest."""
    bed = await open_bed(limits=SMALL)
    await many_segments(bed, 6)
    other = await open_bed(bed.storage, limits=SMALL)
    real, before = bed.meta.replace, set(bed.storage.files)
    made = list[str]()

    async def deleted_first(path: str, value: bytes, expected: int) -> int:
        if path == LOG_PATH:
            monkeypatch.undo()
            new = {name: file for name, file in bed.storage.files.items() if name not in before}
            made.extend(new)
            await other.store.delete_topic(TOPIC.topic_uuid, 1)
            bed.storage.files.update(new)  # as if the deletion had listed the files before
        return await real(path, value, expected)

    monkeypatch.setattr(bed.meta, "replace", deleted_first)
    await merged(bed)
    assert len(made) == 2
    assert not bed.storage.files
    await other.store.close()
    await bed.store.close()


@pytest.mark.parametrize("call", ["read", "create", "replace"])
async def test_a_call_that_hangs_stops_the_merges_of_its_partition_only(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = await open_bed(limits=replace(SMALL, close_s=0.1))
    await many_segments(bed, 6)
    for _ in range(6):
        await put(bed.log(1), b"x")
        await sealed(bed, 1)
    store = bed.meta if call == "replace" else bed.files
    real, prefix = getattr(store, call), LOG_PATH if call == "replace" else LOG_PATH[4:] + "/"

    async def hangs(path: str, *args: object, **named: object) -> object:
        if path.startswith(prefix):
            await asyncio.get_running_loop().create_future()
        return await real(path, *args, **named)

    monkeypatch.setattr(store, call, hangs)
    merger = bed.store.upkeep.merger
    merger.offer(bed.log(0).writer)
    merger.offer(bed.log(1).writer)
    await asyncio.sleep(130.0)
    assert bed.store.counters.merges == 1
    assert len(bed.log(1).writer.versioned.manifest.segments) == 1
    assert not merger.busy
    merger.offer(bed.log(0).writer)
    assert not merger.busy  # it is left alone for a while
    await bed.store.close()
