"""Retention, idle sealing, deleting, and what earlier runs left."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.log.bed import (
    TOPIC,
    Answers,
    Bed,
    block,
    crash,
    log_records,
    open_bed,
    payloads,
    put,
    put_block,
    until,
)
from tests.unit.log.faults import FailOnce, FaultyFile, FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.maintenance import upkeep
from opentalos.log.maintenance.retention import Retained, droppable
from opentalos.log.maintenance.room import IDLE_S
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import NOTHING, ManifestStore
from opentalos.log.partition.jobs import drop
from opentalos.log.results import TopicLogSettings
from opentalos.model.errors import (
    OffsetOutOfRange,
    OutcomeUnknown,
    PartitionNotServing,
    SequenceGap,
    StoreUnavailable,
)
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability, PartitionKey, ProducerStamp

LIMITS = LogLimits(
    segment_bytes_max=1_024,
    index_interval_bytes=512,
    space_reserve_bytes=0,
    delete_grace_s=0.0,
    idle_seal_s=0.0,
    clock_disagree_max_s=1e9,
)


async def run_pass(bed: Bed) -> None:
    """One pass of upkeep with all the jobs it started."""
    await bed.store.upkeep.run_pass()
    await until(lambda: not bed.store.upkeep._jobs)


async def filled(count: int, limits: LogLimits = LIMITS) -> Bed:
    bed = await open_bed(limits=limits)
    for number in range(count):
        bed.clock.now_ms += 1_000
        await put(bed.log(), b"%04d" % number * 50)
    return bed


def segment_files(storage: MemoryStorage) -> list[str]:
    return sorted(path for path in storage.files if path.endswith(".log"))


def test_only_whole_expired_segments_are_dropped() -> None:
    manifest = Manifest(
        segments=(
            Segment(0, 1, 10, 100, 1_000),
            Segment(10, 1, 20, 100, 2_000),
            Segment(20, 1, 30, 100, 3_000),
            Segment(30, 1),
        )
    )
    day = TopicLogSettings("t", Durability.SYNCED, 10.0)
    for now_ms, expected in ((11_000, 0), (11_001, 1), (12_001, 2), (99_000, 3)):
        assert droppable(manifest, day, Retained(now_ms, 50, -1)) == expected
    for bytes_max, expected in ((350, 0), (250, 1), (249, 1), (151, 1), (150, 2), (0, 3)):
        small = TopicLogSettings("t", Durability.SYNCED, 1e6, bytes_max)
        assert droppable(manifest, small, Retained(5_000, 50, -1)) == expected
    for metered, expected in ((-1, 3), (0, 0), (19, 1), (20, 2), (30, 3)):
        assert droppable(manifest, day, Retained(99_000, 0, metered)) == expected


async def test_expired_segments_go_manifest_first_and_files_follow() -> None:
    bed = await filled(20)
    log, before = bed.log(), segment_files(bed.storage)
    bed.store.update_topic(TopicLogSettings(TOPIC.topic_uuid, Durability.SYNCED, 10.0))
    await run_pass(bed)  # seals the idle one
    await run_pass(bed)
    start, end = await log.offsets()
    assert 0 < start <= 10
    assert end == 20
    with pytest.raises(OffsetOutOfRange):
        await log.read(start - 1, messages_max=1, bytes_max=1)
    await run_pass(bed)
    after = segment_files(bed.storage)
    assert after == before[-len(after) :]
    assert len(after) < len(before)
    assert len(await payloads(log)) == end - start
    stats = await log.stats()
    assert (stats.retained_messages, stats.total_messages) == (end - start, 20)
    assert stats.total_bytes > stats.retained_bytes / 2
    await bed.store.close()


async def test_everything_may_expire_while_offsets_and_producers_continue() -> None:
    bed = await filled(5)
    producer = ProducerStamp(3, 2, 0)
    await put_block(bed.log(), block(b"x", producer=producer))
    bed.clock.now_ms += 100_000
    bed.store.update_topic(TopicLogSettings(TOPIC.topic_uuid, Durability.SYNCED, 10.0))
    for _ in range(3):
        await run_pass(bed)
    assert await bed.log().offsets() == (6, 6)
    assert not segment_files(bed.storage)
    await bed.store.close()
    again = await open_bed(bed.storage, limits=LIMITS)
    assert await again.log().offsets() == (6, 6)
    assert await put_block(again.log(), block(b"x", producer=producer)) == 5
    assert (await again.log().stats()).total_messages == 6
    await again.store.close()
    third = await open_bed(bed.storage, limits=LIMITS)
    assert await put_block(third.log(), block(b"x", producer=producer)) == 5
    assert await put(third.log(), b"y") == 6
    await third.store.close()


async def test_a_state_whose_write_was_cut_is_written_again_before_the_rest_expires() -> None:
    bed = await filled(5)
    await put_block(bed.log(), block(b"x", producer=ProducerStamp(3, 2, 0)))
    bed.clock.now_ms += 100_000
    bed.store.update_topic(TopicLogSettings(TOPIC.topic_uuid, Durability.SYNCED, 10.0))
    recover = bed.files.recover

    async def cutting(path: str, *, deadline_s: float) -> int:
        if path.endswith(".idx"):  # its last write had not ended
            del bed.storage.files[path].content[20:]
        return await recover(path, deadline_s=deadline_s)

    bed.files.recover = cutting  # type: ignore[method-assign]
    for _ in range(3):
        await run_pass(bed)
    assert not segment_files(bed.storage)
    await crash(bed)
    again = await open_bed(bed.storage, limits=LIMITS)
    assert await put_block(again.log(), block(b"x", producer=ProducerStamp(3, 2, 0))) == 5
    assert await put(again.log(), b"y") == 6
    await again.store.close()


async def test_retention_stands_while_the_clocks_disagree() -> None:
    limits = LogLimits(segment_bytes_max=1_024, space_reserve_bytes=0, idle_seal_s=0.0)
    bed = await filled(20, limits)
    bed.store.update_topic(TopicLogSettings(TOPIC.topic_uuid, Durability.SYNCED, 10.0))
    bed.clock.now_ms += 86_400_000
    for _ in range(3):
        await run_pass(bed)
    assert await bed.log().offsets() == (0, 20)
    assert bed.store.counters.retention_standing == 3
    await bed.store.close()


async def test_a_drop_that_fails_is_repeated_and_loses_nothing() -> None:
    storage, steps = MemoryStorage(), Steps()
    bed = await open_bed(
        storage, limits=LIMITS, files=FaultyFiles(storage, steps), meta=FaultyMeta(storage, steps)
    )
    for number in range(20):
        await put(bed.log(), b"%04d" % number * 50)
    bed.clock.now_ms += 100_000
    bed.store.update_topic(TopicLogSettings(TOPIC.topic_uuid, Durability.SYNCED, 10.0))

    def fail(name: str, path: str, after: bool) -> None:
        if name == "replace" and not after:
            raise StoreUnavailable("coordination is down")

    steps.script = fail
    for _ in range(3):
        await run_pass(bed)
    steps.script = None
    assert len(await payloads(bed.log())) == 20
    assert await put(bed.log(), b"more") == 20
    for _ in range(3):
        await run_pass(bed)
    assert (await bed.log().offsets()).start == 20
    await bed.store.close()


async def test_an_idle_partition_is_sealed_and_opens_again() -> None:
    bed = await filled(3)
    await run_pass(bed)
    assert bed.log().writer.segment is None
    assert bed.store.counters.seals == 1
    assert await put(bed.log(), b"again") == 3
    await bed.store.close()


async def test_the_idlest_partition_is_sealed_when_too_many_are_open() -> None:
    bed = await open_bed(limits=LogLimits(segments_open_max=3, space_reserve_bytes=0))
    for partition in range(8):
        await put(bed.log(partition), b"x")
        await until(lambda: not bed.store.upkeep.making_room())
        await asyncio.sleep(IDLE_S)
    opened = [number for number in range(8) if bed.log(number).writer.segment is not None]
    assert opened == [6, 7]  # two were sealed at once, the last time
    assert len(bed.store._context.open_partitions) == 2
    await bed.store.close()


async def test_a_deleted_topic_leaves_nothing_and_its_writer_never_acknowledges() -> None:
    bed = await filled(5)
    other = await open_bed(bed.storage, limits=LIMITS)
    await other.store.delete_topic(TOPIC.topic_uuid, 2)
    assert not bed.storage.files
    assert not log_records(bed.storage)
    answers = Answers()
    bed.log().append(block(b"late"), answers)
    await until(lambda: bool(answers.got))
    assert not answers.bases
    await other.store.delete_topic(TOPIC.topic_uuid, 2)
    await other.store.close()
    await bed.store.close()


async def test_a_topic_deleted_under_its_own_writer_refuses_what_waits() -> None:
    bed = await filled(2)
    log, answers = bed.log(), Answers()
    for _ in range(5):
        log.append(block(b"x"), answers)
    await bed.store.delete_topic(TOPIC.topic_uuid, 1)
    assert len(answers.got) == 5
    with pytest.raises(PartitionNotServing):
        log.append(block(b"x"), answers)
    with pytest.raises(PartitionNotServing):
        await log.read(0, messages_max=1, bytes_max=1)
    assert not bed.storage.files
    await bed.store.close()


async def test_a_deleted_topic_leaves_no_file_open() -> None:
    storage, steps = MemoryStorage(), Steps()
    bed = await open_bed(storage, limits=LIMITS, files=FaultyFiles(storage, steps))
    log, calls = bed.log(), list[str]()
    await put(log, b"a")
    segment = log.writer.segment
    assert segment is not None
    path = segment.view.path
    steps.script = lambda name, of, after: calls.append(name) if of == path and not after else None
    await bed.store.delete_topic(TOPIC.topic_uuid, 1)
    assert calls == ["delete", "close"]
    await bed.store.close()


async def test_a_waiting_reader_of_a_deleted_topic_gets_no_out_of_range() -> None:
    bed = await filled(2)
    log = bed.log()
    held = asyncio.ensure_future(log.read(2, messages_max=1, bytes_max=1, hold_s=5))
    await until(lambda: bool(log.writer.arrivals))
    await bed.store.delete_topic(TOPIC.topic_uuid, 1)
    with pytest.raises(PartitionNotServing, match="being deleted"):
        await held
    await bed.store.close()


async def test_a_pass_learns_of_what_earlier_runs_left() -> None:
    bed = await filled(20)
    await put(bed.log(1), b"unsealed")
    await crash(bed)
    again = await open_bed(bed.storage, limits=LIMITS, clock=bed.clock)
    again.clock.now_ms += 100_000
    again.store.update_topic(TopicLogSettings(TOPIC.topic_uuid, Durability.SYNCED, 10.0))
    for _ in range(6):
        await run_pass(again)
    assert not segment_files(again.storage)
    record = json.loads(again.storage.records[f"log/{TOPIC.topic_uuid}/0"].record.value)
    assert record["start"] == 20
    await again.store.close()


async def test_flushed_pages_lost_by_a_power_loss_end_the_log_earlier() -> None:
    flushed = TopicLogSettings("f", Durability.FLUSHED, 1e6)
    bed = await open_bed()
    for number in range(5):
        await put(bed.store.partition(flushed, 0), b"%04d" % number * 1_000)
    await crash(bed)
    content = bed.storage.files["f/0/00000000000000000000-1.log"].content
    at = content.index(b"0002" * 4) + 500  # a checksum may begin with the last digit
    content[at : at + 1_024] = bytes(1_024)
    again = await open_bed(bed.storage)
    log = again.store.partition(flushed, 0)
    assert await put(log, b"next") == 2
    assert again.store.counters.truncated == 1
    assert len(await payloads(log)) == 3
    await again.store.close()


async def test_upkeep_of_many_partitions_is_bounded_and_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "JOBS_AT_ONCE_MAX", 5)
    monkeypatch.setattr(upkeep, "PARTITIONS_PER_STEP", 2)
    bed = await open_bed(limits=LogLimits(space_reserve_bytes=0, idle_seal_s=0.0))
    for partition in range(40):
        await put(bed.log(partition), b"x")
    most = 0
    passing = asyncio.ensure_future(bed.store.upkeep.run_pass())
    while not passing.done():
        most = max(most, len(bed.store.upkeep._jobs))
        await asyncio.sleep(0)
    assert most <= 5 + 2
    await until(lambda: not bed.store.upkeep._jobs)
    assert bed.store.counters.seals == 40
    await bed.store.close()


METERED = replace(TOPIC, minute_ms=60_000)


def metered_to(bed: Bed, offset: int) -> None:
    """As if every message below ``offset`` were in usage events."""
    meter = bed.store.partition(METERED, 0).writer.meter
    assert meter is not None
    meter.mark = meter.mark._replace(offset=offset)


async def test_retention_waits_for_metering_also_after_a_restart() -> None:
    bed = await open_bed(limits=LIMITS)
    for number in range(20):
        bed.clock.now_ms += 1_000
        await put(bed.store.partition(METERED, 0), b"%04d" % number * 50)
    metered_to(bed, 9)
    await bed.store.close()
    again = await open_bed(bed.storage, limits=LIMITS, clock=bed.clock)
    again.clock.now_ms += 100_000
    log = again.store.partition(METERED, 0)
    again.store.update_topic(replace(METERED, retention_s=10.0))
    await log.offsets()
    for _ in range(3):
        await run_pass(again)
    assert 0 < (await log.offsets()).start <= 9
    metered_to(again, 20)
    for _ in range(3):
        await run_pass(again)
    assert await log.offsets() == (20, 20)
    await again.store.close()


async def test_a_topic_that_was_never_metered_is_metered_from_its_start() -> None:
    bed = await filled(20)
    await bed.store.close()
    again = await open_bed(bed.storage, limits=LIMITS, clock=bed.clock)
    again.clock.now_ms += 100_000
    log = again.store.partition(METERED, 0)
    again.store.update_topic(replace(METERED, retention_s=10.0))
    await log.offsets()
    for _ in range(3):
        await run_pass(again)
    assert await log.offsets() == (0, 20)
    await again.store.close()


async def test_a_writer_that_rolls_during_a_delete_never_acknowledges_after_it() -> None:
    bed = await open_bed(limits=LIMITS)
    await put(bed.log(), b"z" * 1_100)  # the next put rolls
    answers = Answers()

    class Files(FaultyFiles):
        async def list(self, prefix: str) -> Sequence[str]:
            found = await super().list(prefix)
            if prefix == f"{TOPIC.topic_uuid}/0":
                bed.log().append(block(b"meanwhile"), answers)
                await until(lambda: bool(answers.got))
            return found

    other = await open_bed(bed.storage, limits=LIMITS, files=Files(bed.storage, Steps()))
    await other.store.delete_topic(TOPIC.topic_uuid, 1)
    assert not answers.bases
    assert not log_records(bed.storage)
    await other.store.close()
    await bed.store.close()


async def test_a_changed_durability_holds_from_the_next_commit_on() -> None:
    class Files(FaultyFiles):
        async def create(self, path: str, *, durability: Durability) -> FaultyFile:
            file = await super().create(path, durability=durability)
            commit, kind = file.commit, durability

            async def noted(
                chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
            ) -> int:
                commits.append(kind)
                return await commit(chunks, durability=durability)

            file.commit = noted  # type: ignore[method-assign]  # a test double
            return file

    commits: list[Durability] = []
    storage = MemoryStorage()
    bed = await open_bed(storage, files=Files(storage, Steps()))
    flushed = TopicLogSettings(TOPIC.topic_uuid, Durability.FLUSHED, 1e6)
    synced = TopicLogSettings(TOPIC.topic_uuid, Durability.SYNCED, 1e6)
    log = bed.store.partition(flushed, 0)
    await put(log, b"a")
    assert set(commits) == {Durability.FLUSHED}
    bed.store.update_topic(synced)
    commits.clear()
    await put(log, b"b")
    assert set(commits) == {Durability.SYNCED}
    await log.fence_producer(1, 1)
    empty = bed.store.partition(flushed, 1)
    bed.store.update_topic(flushed)
    with pytest.raises(SequenceGap):  # opens the log, writes nothing
        await put_block(empty, block(b"x", producer=ProducerStamp(1, 1, 7)))
    bed.store.update_topic(synced)
    commits.clear()
    await put(empty, b"b")
    assert set(commits) == {Durability.SYNCED}
    assert await payloads(log) == [b"a", b"b"]
    await bed.store.close()


async def test_a_drop_that_meets_an_outage_keeps_the_open_segment() -> None:
    steps, storage = Steps(), MemoryStorage()
    files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
    bed = await open_bed(storage, limits=replace(LIMITS, idle_seal_s=1e9), files=files, meta=meta)
    for number in range(20):
        bed.clock.now_ms += 1_000
        await put(bed.log(), b"%04d" % number * 50)
    writer = bed.log().writer
    segment = writer.segment
    bed.store.update_topic(replace(TOPIC, retention_s=10.0))
    away = FailOnce("replace", StoreUnavailable("away"), path=log_records(storage)[0])
    steps.script = away
    await run_pass(bed)
    assert away.times == 0
    assert writer.segment is segment
    assert await put(bed.log(), b"on") == 20
    assert bed.store.counters.reopens == 0
    await run_pass(bed)
    assert (await bed.log().offsets())[0] > 0
    assert writer.segment is segment
    await bed.store.close()


async def test_an_unknown_change_that_cannot_be_read_back_stays_unknown() -> None:
    steps, storage = Steps(), MemoryStorage()
    manifests = ManifestStore(FaultyMeta(storage, steps), "me")
    key = PartitionKey(TOPIC.topic_uuid, 0)
    change = FailOnce("replace", OutcomeUnknown("no answer"))
    read = FailOnce("get", StoreUnavailable("away"))

    def script(name: str, path: str, after: bool) -> None:
        change(name, path, after)
        read(name, path, after)

    steps.script = script
    with pytest.raises(OutcomeUnknown, match="no answer"):
        await manifests.change(key, NOTHING, Manifest(epoch=1))
    assert read.times == 0


async def test_jobs_that_reach_their_turn_in_an_outage_keep_the_open_segment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The coordination went away between the pass and the job."""
    bed = await filled(20)
    writer = bed.log().writer
    segment, guard = writer.segment, bed.store._context.guard
    manifest = writer.versioned.manifest
    steady = True
    monkeypatch.setattr(guard, "steady", lambda: steady, raising=False)
    await bed.store.upkeep.run_pass()  # starts the job that seals
    assert bed.store.upkeep._jobs
    steady = False
    await until(lambda: not bed.store.upkeep._jobs)
    assert writer.segment is segment
    with pytest.raises(PartitionNotServing, match="coordination"):
        await writer.run(lambda: drop(writer, 1, manifest.sealed[0]))
    assert writer.segment is segment
    assert writer.versioned.manifest == manifest
    await bed.store.close()
