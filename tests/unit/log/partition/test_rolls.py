"""Rolls: the put that meets one waits for two steps, and a crash in between loses nothing."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.log.bed import LIMITS, TOPIC, Bed, block, crash, open_bed, payloads, put, until
from tests.unit.log.faults import FailOnce, FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.maintenance.verify import LogVerifier
from opentalos.log.manifest.aside import ROOT as ASIDE
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.segment import writer as segment_writer
from opentalos.model.errors import (
    OutcomeUnknown,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
)
from opentalos.model.message import Durability, PartitionKey

KEY = PartitionKey(TOPIC.topic_uuid, 0)
LOG_PATH = f"log/{TOPIC.topic_uuid}/0"
STEP_S = 0.010  # of every call of the slow stores
PUT = b"%05d" * 15  # ten of them fill a segment, the ninth makes the next file
CRASH_PUTS = 24  # two rolls
SMALL = replace(LIMITS, segment_bytes_max=2_048, index_interval_bytes=512, close_s=0.01)


class SlowSteps(Steps):
    """Every call takes a while, so that what waits for what can be measured."""

    async def step(self, name: str, path: str, after: bool) -> None:
        if not after and not path.endswith(".idx"):
            await asyncio.sleep(STEP_S)
        await super().step(name, path, after)


async def bed_of(steps: Steps, storage: MemoryStorage | None = None) -> Bed:
    storage = storage or MemoryStorage()
    files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
    return await open_bed(storage, files=files, meta=meta, limits=SMALL)


def body(number: int) -> bytes:
    return PUT % ((number,) * 15)


async def put_timed(bed: Bed, number: int) -> float:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    assert await put(bed.log(), body(number)) == number
    return loop.time() - began_s


def manifest_of(storage: MemoryStorage) -> Manifest:
    return Manifest.decode(storage.records[LOG_PATH].record.value)


def unnamed(storage: MemoryStorage) -> list[str]:
    """Segment files that the manifest does not name."""
    named = [segment.path(KEY) for segment in manifest_of(storage).segments]
    left = [path for path in storage.files if path not in named]
    return [path for path in left if path.endswith(".log") and not path.startswith(f"{ASIDE}/")]


async def prepared(bed: Bed, first: int = 0) -> int:
    """Put until the next file is there; how many puts there were."""
    number = first
    writer = bed.log().writer
    while writer.segment is None or writer.segment.next_file is None:
        assert await put(bed.log(), body(number)) == number
        number += 1
    await until(lambda: bool(unnamed(bed.storage)))
    return number


async def test_a_put_that_rolls_waits_for_one_commit_and_one_change() -> None:
    bed = await bed_of(SlowSteps())
    plain_s: list[float] = []
    rolls_s: list[float] = []
    for number in range(60):
        rolls = bed.store.counters.rolls
        took_s = await put_timed(bed, number)
        (rolls_s if bed.store.counters.rolls > rolls else plain_s).append(took_s)
        await asyncio.sleep(10 * STEP_S)
    assert len(rolls_s) >= 3
    assert max(plain_s[1:]) == pytest.approx(STEP_S)
    assert max(rolls_s) == pytest.approx(2 * STEP_S)  # create, two commits, close and CAS: 5
    assert await payloads(bed.log()) == [body(number) for number in range(60)]
    await bed.store.close()


async def test_a_put_rolls_a_thin_file_once() -> None:
    bed = await bed_of(Steps())
    for number in range(3):
        assert await put(bed.log(), body(number)) == number
    segment = bed.log().writer.segment
    assert segment is not None
    segment.file.thin = True  # type: ignore[misc]
    for number in range(3, 6):
        assert await put(bed.log(), body(number)) == number
    counters = bed.store.counters
    assert (counters.rolls, counters.thin_rolls, counters.reopens) == (1, 1, 0)
    assert [each.base_offset for each in manifest_of(bed.storage).segments] == [0, 3]
    assert await payloads(bed.log()) == [body(number) for number in range(6)]
    await bed.store.close()


async def test_a_roll_does_not_wait_for_a_next_file_that_hangs() -> None:
    steps = Steps()
    bed = await bed_of(steps)
    hanging = asyncio.Event()
    real = bed.files.create

    async def create(path: str, *, durability: Durability) -> object:
        if "/n" in path:
            await hanging.wait()
        return await real(path, durability=durability)

    bed.files.create = create  # type: ignore[method-assign, assignment]
    for number in range(40):
        assert await put(bed.log(), body(number)) == number
    assert bed.store.counters.rolls >= 2
    assert all(not segment.number for segment in manifest_of(bed.storage).segments)
    hanging.set()
    await until(lambda: bed.store._context.files_ahead == 0 or not unnamed(bed.storage))
    await bed.store.close()
    assert unnamed(bed.storage) == []


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_file_ahead_that_hangs_or_fails_by_a_defect_keeps_no_place(
    hangs: bool, caplog: pytest.LogCaptureFixture
) -> None:
    bed = await bed_of(Steps())
    real = bed.files.create

    async def create(path: str, *, durability: Durability) -> object:
        if "/n" in path and hangs:
            await asyncio.Event().wait()
        if "/n" in path:
            raise ValueError("a defect")
        return await real(path, durability=durability)

    bed.files.create = create  # type: ignore[method-assign, assignment]
    number = 0
    while not bed.store.counters.rolls:
        assert await put(bed.log(), body(number)) == number
        number += 1
    assert bed.store._context.files_ahead == 0
    assert ("a defect" in caplog.text) is not hangs
    await bed.store.close()


async def test_a_file_ahead_of_a_topic_that_another_server_deletes_is_deleted() -> None:
    bed = await bed_of(Steps())
    other = await open_bed(bed.storage, limits=SMALL)
    real, held = bed.files.create, asyncio.Event()

    async def create(path: str, *, durability: Durability) -> object:
        if "/n" in path:
            await held.wait()
        return await real(path, durability=durability)

    bed.files.create = create  # type: ignore[method-assign, assignment]
    number = 0
    while not bed.store._context.files_ahead:
        assert await put(bed.log(), body(number)) == number
        number += 1
    await other.store.delete_topic(TOPIC.topic_uuid, 1)
    held.set()
    await until(lambda: bool(bed.storage.files))
    bed.store.forget_topic(TOPIC.topic_uuid)
    await until(lambda: not bed.storage.files)
    await bed.store.close()
    await other.store.close()


async def test_a_file_that_is_not_needed_is_deleted() -> None:
    bed = await bed_of(Steps())
    count = await prepared(bed)
    bed.store.update_topic(replace(TOPIC, durability=Durability.FLUSHED))
    assert await put(bed.log(), body(count)) == count
    await until(lambda: not unnamed(bed.storage))
    segment = bed.log().writer.segment
    assert segment is not None
    assert segment.durability is Durability.FLUSHED
    await prepared(bed, count + 1)
    await bed.store.close()
    assert unnamed(bed.storage) == []
    assert bed.store._context.files_ahead == 0


async def test_files_made_ahead_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_writer, "FILES_AHEAD_MAX", 0)
    bed = await bed_of(Steps())
    for number in range(40):
        assert await put(bed.log(), body(number)) == number
    assert bed.store.counters.rolls >= 2
    assert all(not segment.number for segment in manifest_of(bed.storage).segments)
    await bed.store.close()


async def test_an_orphan_made_ahead_is_deleted_by_the_next_owner() -> None:
    bed = await bed_of(Steps())
    count = await prepared(bed)
    await crash(bed)
    (orphan,) = unnamed(bed.storage)
    again = await bed_of(Steps(), bed.storage)
    assert await put(again.log(), body(count)) == count
    await until(lambda: orphan not in bed.storage.files)
    assert await payloads(again.log()) == [body(number) for number in range(count + 1)]
    await again.store.close()


@pytest.mark.parametrize(
    ("name", "after"), [("commit", False), ("commit", True), ("close", True), ("replace", False)]
)
async def test_a_roll_that_fails_stores_its_group_once(name: str, after: bool) -> None:
    steps = Steps()
    bed = await bed_of(steps)
    count = await prepared(bed)
    steps.script = FailOnce(name, OutcomeUnknown("no answer"), after=after)
    for number in range(count, count + 5):
        assert await put(bed.log(), body(number)) == number
    assert steps.script.times == 0
    assert await payloads(bed.log()) == [body(number) for number in range(count + 5)]
    await bed.store.close()


async def test_a_change_with_an_unknown_outcome_that_was_made_keeps_the_group() -> None:
    steps = Steps()
    bed = await bed_of(steps)
    count = await prepared(bed)
    script = FailOnce("replace", OutcomeUnknown("no answer"), after=True)
    reads = FailOnce("get", StoreUnavailable("away"))

    def both(name: str, path: str, after: bool) -> None:
        script(name, path, after)
        if not script.times:
            reads(name, path, after)

    steps.script = both
    for number in range(count, count + 5):
        assert await put(bed.log(), body(number)) == number
    assert reads.times == 0
    assert await payloads(bed.log()) == [body(number) for number in range(count + 5)]
    await bed.store.close()


async def _puts(bed: Bed, acknowledged: list[int]) -> None:
    for number in range(CRASH_PUTS):
        await put(bed.log(), body(number))
        acknowledged.append(number)


async def _stopped_run(steps: Steps) -> tuple[Bed, list[int]]:
    acknowledged: list[int] = []
    bed = await bed_of(steps)
    running = asyncio.ensure_future(_puts(bed, acknowledged))
    stopped = asyncio.ensure_future(steps.stopped.wait())
    await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    stopped.cancel()
    await asyncio.gather(running, stopped, return_exceptions=True)
    await crash(bed)
    return bed, acknowledged


def _window(storage: MemoryStorage) -> str:
    """What a crash left of a roll."""
    manifest = manifest_of(storage)
    if any(storage.files[path].content for path in unnamed(storage)):
        return "committed, not named"
    if unnamed(storage):
        return "made ahead"
    named = [segment for segment in manifest.segments if segment.number]
    return "named" if named else "none"


@pytest.mark.parametrize("torn_bytes", [None, 0, 70, 300])
async def test_a_crash_in_every_window_of_a_roll_loses_nothing(torn_bytes: int | None) -> None:
    whole = Steps()
    await _stopped_run(whole)
    windows: set[str] = set()
    for stop_at in range(2, whole.count):
        steps = Steps(stop_at)
        steps.torn_bytes = torn_bytes
        bed, acknowledged = await _stopped_run(steps)
        if LOG_PATH not in bed.storage.records:
            continue
        windows.add(_window(bed.storage))
        again = await open_bed(bed.storage, limits=SMALL)
        verifier = LogVerifier(again.files, again.meta)
        async for finding in verifier.check(KEY, lambda: None):
            assert not finding.problem, finding.text
        found = await payloads(again.log())
        assert found[: len(acknowledged)] == [body(number) for number in acknowledged]
        assert len(found) <= len(acknowledged) + 1
        assert await put(again.log(), b"on") == len(found)
        await until(lambda bed=bed: not unnamed(bed.storage), 1.0)  # type: ignore[misc]
        await crash(again)
    assert windows == {"none", "made ahead", "committed, not named", "named"}


def _rows(value: bytes) -> Sequence[int]:
    return [len(row) for row in json.loads(value)["segments"]]


def test_a_manifest_names_a_number_only_where_there_is_one() -> None:
    plain = Manifest(epoch=3, segments=(Segment(0, 1, 10, 900, 5), Segment(10, 3)))
    assert _rows(plain.encode()) == [5, 5]
    assert b'"version":1' in plain.encode()
    numbered = Manifest(epoch=3, segments=(Segment(0, 1, 10, 900, 5), Segment(10, 3, number=77)))
    assert _rows(numbered.encode()) == [5, 6]
    assert b'"version":2' in numbered.encode()
    assert Manifest.decode(numbered.encode()) == numbered
    assert numbered.segments[1].path(KEY) == f"{KEY.topic_uuid}/0/n77-3.log"
    gone = replace(numbered, segments=(Segment(0, 1, 10, 900, 5, 9),)).dropped(1)
    assert gone.state_of == (0, 1, 9)
    assert Manifest.decode(gone.encode()) == gone
    assert b'"version":2' in gone.encode()


async def test_a_block_that_waits_at_a_roll_joins_its_group() -> None:
    bed = await bed_of(Steps())
    count = await prepared(bed)
    answers: list[int] = []
    while not answers or answers[-1] < count + 30:
        for number in range(count, count + 31):
            bed.log().append(block(body(number)), lambda base, error: answers.append(base))
        await until(lambda: bool(answers) and answers[-1] >= count + 30)
    assert answers == list(range(count, count + 31))
    await bed.store.close()


class HeldChange(Steps):
    """Holds a change of the manifest after its effect."""

    def __init__(self) -> None:
        super().__init__()
        self.armed = False
        self.reached, self.released = asyncio.Event(), asyncio.Event()

    async def step(self, name: str, path: str, after: bool) -> None:
        if self.armed and (name, after) == ("replace", True):
            self.reached.set()
            await self.released.wait()


@pytest.mark.parametrize("deletes", [True, False])
async def test_a_partition_dropped_while_a_roll_changed_its_manifest(deletes: bool) -> None:
    """The manifest names the new file by then, so its next owner or a deletion finds it."""
    steps = HeldChange()
    bed = await bed_of(steps)
    other = await open_bed(bed.storage, limits=SMALL)
    count = await prepared(bed)
    steps.armed = True
    answers: list[TalosError | None] = []
    while not steps.reached.is_set():
        bed.log().append(block(body(count)), lambda base, error: answers.append(error))
        await asyncio.sleep(0.01)
        count += 1
    writer = bed.log().writer
    assert unnamed(bed.storage) == []
    writer.drop(PartitionNotServing("another server owns the partition"))
    if deletes:
        await other.store.delete_topic(TOPIC.topic_uuid, 1)
    steps.released.set()
    await until(lambda: not writer.busy())
    assert isinstance(answers[-1], OutcomeUnknown)
    if deletes:
        await until(lambda: not bed.storage.files)
    else:
        assert await payloads(other.log()) == [body(number) for number in range(count)]
    await bed.store.close()
    await other.store.close()


async def test_a_roll_whose_topic_another_server_deletes_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segment_writer, "FILES_AHEAD_MAX", 0)
    bed = await bed_of(Steps())
    other = await open_bed(bed.storage, limits=SMALL)
    real = bed.files.create

    async def create(path: str, *, durability: Durability) -> object:
        if bed.store.counters.commits:
            await other.store.delete_topic(TOPIC.topic_uuid, 1)
            bed.store.forget_topic(TOPIC.topic_uuid)
        return await real(path, durability=durability)

    bed.files.create = create  # type: ignore[method-assign, assignment]
    with pytest.raises(PartitionNotServing, match="is gone"):  # noqa: PT012 - one of them rolls
        for number in range(40):
            await put(bed.log(), body(number))
    await until(lambda: not bed.storage.files)
    await bed.store.close()
    await other.store.close()
