"""A server with late segments has few files open, however many partitions it has."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.log.bed import TOPIC, Bed, open_bed, payloads, put, until
from tests.unit.log.faults import FaultyFiles, FaultyMeta, Steps
from tests.unit.log.journal.journals import (
    LEFT,
    OTHER,
    SEGMENT,
    Manifests,
    hang,
    journaled,
    not_rolled,
    ours,
    segment,
)
from tests.unit.log.journal.test_late import LARGE, LATE, segments
from tests.unit.log.journal.test_log_with_journal import findings, manifest

from opentalos.adapters.memory import MemoryAppendFile, MemoryFileStore, MemoryStorage
from opentalos.log.journal.slots import (
    DEAD_HELD_S,
    HANGS_S,
    FileMaker,
    FileSlots,
    SlottedFile,
    Standing,
    create_slotted,
)
from opentalos.log.journal.upkeep import JournalUpkeep
from opentalos.model.errors import (
    AlreadyExists,
    NotOwner,
    OutcomeUnknown,
    StoreUnavailable,
    WriterDead,
)
from opentalos.model.message import Durability, PartitionKey

FEW = replace(LATE, journal_files_open_max=2)


class CountedFiles(Steps):
    """How many segments are open at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.closed: list[str] = []
        self.script = self.count_open

    def count_open(self, name: str, path: str, after: bool) -> None:
        if path.endswith(".log") and after:
            self.now += (name == "create") - (name == "close")
            self.most = max(self.most, self.now)
            if name == "close":
                self.closed.append(path)


class SlowIndexes(MemoryFileStore):
    """A store that takes a second to make a side index, and a tenth of that for a segment."""

    async def create(self, path: str, *, durability: Durability) -> MemoryAppendFile:
        await asyncio.sleep(1.0 if path.endswith(".idx") else 0.1)
        return await super().create(path, durability=durability)


async def counted_bed(steps: Steps) -> Bed:
    storage = MemoryStorage()
    files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
    return await open_bed(storage, limits=FEW, files=files, meta=meta)


async def test_who_waits_for_a_slot_asks_for_room_and_comes_in_order() -> None:
    asked: list[int] = []
    slots = FileSlots(1, lambda: asked.append(1))
    await slots.take()
    assert (slots.free, asked) == (False, [])
    got: list[str] = []

    async def take(name: str) -> None:
        await slots.take()
        got.append(name)

    waiting = [asyncio.ensure_future(take(name)) for name in "ab"]
    await asyncio.sleep(0)
    assert (got, asked) == ([], [1, 1])
    slots.give_back()
    await until(lambda: got == ["a"])
    slots.give_back()
    await asyncio.gather(*waiting)
    assert got == ["a", "b"]


async def test_a_slot_comes_back_whatever_becomes_of_the_file() -> None:
    slots = FileSlots(1, lambda: None)
    steps = Steps()
    files = FaultyFiles(MemoryStorage(), steps)
    file = await create_slotted(files, "a", Durability.SYNCED, slots)
    await file.close()
    await file.close()
    assert slots.used == 0
    with pytest.raises(AlreadyExists):
        await create_slotted(files, "a", Durability.SYNCED, slots)
    assert slots.used == 0
    dead = await create_slotted(files, "b", Durability.SYNCED, slots)

    def fail(name: str, path: str, after: bool) -> None:
        raise OutcomeUnknown(name)

    steps.script = fail
    with pytest.raises(OutcomeUnknown):
        await dead.commit([b"x"])
    assert slots.used == 1
    await asyncio.sleep(DEAD_HELD_S + 0.1)
    assert slots.free
    with pytest.raises(OutcomeUnknown):
        await dead.close()
    assert slots.used == 0


async def test_a_call_that_hangs_holds_no_slot() -> None:
    slots = FileSlots(1, lambda: None)
    files = MemoryFileStore(MemoryStorage())
    file = await create_slotted(files, "a", Durability.SYNCED, slots)
    assert isinstance(file, SlottedFile)
    assert file._file is not None
    file._file.commit = hang  # type: ignore[method-assign]
    commit = asyncio.ensure_future(file.commit([b"x"]))
    await asyncio.sleep(HANGS_S + 0.1)
    assert slots.free
    commit.cancel()
    await asyncio.sleep(DEAD_HELD_S + 0.1)
    await file.close()
    assert slots.used == 0


async def test_a_roll_and_a_commit_of_a_segment_share_one_slot() -> None:
    slots = FileSlots(1, lambda: None)

    async def standing(path: str) -> Standing:
        return Standing.OURS

    files = MemoryFileStore(MemoryStorage())
    other = await create_slotted(files, "a", Durability.SYNCED, slots)
    maker = FileMaker(files, "b", slots, (standing, LEFT.append))
    rolls, makes = asyncio.ensure_future(maker.reserve()), asyncio.ensure_future(maker.make(False))
    await asyncio.sleep(0)
    makes.cancel()
    await other.close()
    await rolls
    assert slots.used == 1
    maker.drop()
    assert slots.used == 0
    await (await maker.make(False)).close()
    assert slots.used == 0


async def test_large_puts_to_many_partitions_have_few_files_open() -> None:
    steps = CountedFiles()
    bed = await counted_bed(steps)
    for number in range(3):
        await asyncio.gather(*(put(bed.log(at), b"%d" % number + LARGE) for at in range(12)))
    assert 0 < steps.most <= 2
    for at in range(12):
        found = await payloads(bed.log(at))
        assert [payload[:1] for payload in found] == [b"0", b"1", b"2"]
    await bed.store.close()
    assert steps.most <= 2
    assert len(steps.closed) >= 12
    assert not [finding for finding in await findings(bed) if finding.problem]


async def test_a_segment_that_is_rolled_in_the_background_needs_no_epoch_and_no_put() -> None:
    bed = await open_bed(limits=FEW)
    await put(bed.log(), b"0")
    former = bed.log().writer.segment
    assert former is not None
    epoch = bed.log().epoch
    await bed.store._roll_segment(former.view.path)
    assert segments(bed.storage) == [former.view.path]
    rows = manifest(bed.storage).segments
    assert [(row.base_offset, row.next_offset) for row in rows] == [(0, 1), (1, None)]
    assert manifest(bed.storage).late
    await bed.store._roll_segment(former.view.path)  # it is not the open one any more
    assert await put(bed.log(), b"1") == 1
    assert (bed.log().epoch, await payloads(bed.log())) == (epoch, [b"0", b"1"])


async def test_a_partition_that_was_given_up_and_has_no_puts_gives_its_slot_to_others() -> None:
    """Its commit failed, for example since no journal could be made, and no put opens it again."""
    bed = await open_bed(limits=FEW)
    for at in range(2):
        await put(bed.log(at), LARGE)
    slots = bed.store._context.journaled.slots
    assert not slots.free
    for at in range(2):
        bed.log(at).writer.write_failed(OutcomeUnknown("no journal"))
    async with asyncio.timeout(5.0):
        await slots.take()
    slots.give_back()
    await until(lambda: not any(bed.log(at).writer.abandoned for at in range(2)))
    for at in range(2):
        assert await put(bed.log(at), b"1") == 1


async def test_after_an_outage_of_the_storage_commits_go_to_the_journal_again() -> None:
    """A commit failed and so did openings, which is no reason to suspect the partition's blocks."""
    steps = CountedFiles()
    bed = await counted_bed(steps)
    await put(bed.log(), b"0")
    openings = bed.store.counters.openings

    def away(name: str, path: str, after: bool) -> None:
        raise StoreUnavailable("the storage is away")

    steps.script = away
    waiting = asyncio.ensure_future(put(bed.log(), b"1"))
    await until(lambda: bed.store.counters.openings > openings + 1)
    steps.script = steps.count_open
    await asyncio.gather(waiting, return_exceptions=True)
    await put(bed.log(), b"2")
    assert (segments(bed.storage), bed.store.counters.commit_failures) == ([], 1)


async def test_large_puts_go_to_the_journal_while_the_coordination_is_away() -> None:
    """To make a file the manifest must be read; a commit that fails costs the partition until the
    coordination is back."""
    steps = CountedFiles()
    bed = await counted_bed(steps)
    await put(bed.log(), b"0")

    def away(name: str, path: str, after: bool) -> None:
        if name in ("get", "put"):
            raise StoreUnavailable("no connection to ZooKeeper")
        steps.count_open(name, path, after)

    steps.script = away
    bed.store._context.journaled.slots.steady = lambda: False
    assert await put(bed.log(), LARGE) == 1
    assert await put(bed.log(), LARGE) == 2
    assert segments(bed.storage) == []


async def test_a_segment_of_an_idle_partition_is_sealed_and_without_messages_dropped() -> None:
    bed = await open_bed(limits=FEW)
    for at in range(2):
        await put(bed.log(at), b"0")
    await asyncio.sleep(11)
    idle = bed.log().writer.segment
    assert idle is not None
    await bed.store._roll_segment(idle.view.path)
    assert bed.log().writer.segment is None
    assert manifest(bed.storage).unsealed is None
    busy = bed.log(1).writer.segment
    assert busy is not None
    bed.log(1).writer.last_put_s = asyncio.get_running_loop().time()
    await bed.store._roll_segment(busy.view.path)
    empty = bed.log(1).writer.segment
    assert empty is not None
    assert not empty.has_messages
    await bed.store._roll_segment(empty.view.path)
    assert [row.next_offset for row in manifest(bed.storage, 1).segments] == [1]
    assert len(segments(bed.storage)) == 2
    assert await put(bed.log(1), b"1") == 1


async def test_small_puts_beyond_the_bound_of_a_partition_are_rolled_out() -> None:
    bed = await open_bed(limits=FEW)
    payload = bytes(len(LARGE) - 1_000)
    for _ in range(6):
        await put(bed.log(), payload)
    await until(lambda: len(manifest(bed.storage).segments) > 1)
    assert segments(bed.storage)
    assert len(await payloads(bed.log())) == 6


async def test_a_full_journal_is_trimmed_although_no_segment_has_a_file() -> None:
    bed = await open_bed(limits=replace(FEW, journal_bytes_max=8 << 10))
    for _ in range(30):
        await asyncio.gather(*(put(bed.log(at), bytes(200)) for at in range(5)))
        await asyncio.sleep(0.2)
    await asyncio.sleep(3)
    journals = sum(
        len(file.content) for path, file in bed.storage.files.items() if path.endswith(".jnl")
    )
    assert journals < 16 << 10
    for at in range(5):
        assert len(await payloads(bed.log(at))) == 30


async def test_each_file_that_gets_a_slot_gives_it_to_the_next_without_the_upkeep() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), late=ours, files_open_max=1)
    closes: list[asyncio.Task[int]] = []
    files.roll_soon = lambda path: closes.append(asyncio.create_task(files.open[path].close()))
    paths = [SEGMENT.replace("/0/", f"/{number}/") for number in range(4)]
    several = [await segment(files, path) for path in paths]
    async with asyncio.timeout(1.0):
        await asyncio.gather(*(file.write_out() for file in several))
    await asyncio.gather(*closes)
    assert segments(storage) == sorted(paths)


async def test_a_pass_of_the_upkeep_does_not_wait_for_slots() -> None:
    files = journaled(MemoryFileStore(MemoryStorage()), late=ours, files_open_max=1)
    file = await segment(files)
    await files.slots.take()
    writing = asyncio.create_task(file.write_out())
    await asyncio.sleep(0.1)
    file.journal.fail(OutcomeUnknown("it hangs"))

    async def needed(path: str) -> bool:
        return True

    manifests = Manifests(needed)
    care = JournalUpkeep(
        *(files._files, files, manifests, lambda path: None),
        *(not_rolled, manifests),
    )
    async with asyncio.timeout(0.1):
        await care.run_pass()
    files.slots.give_back()
    await writing
    await care.close()


async def test_a_commit_to_a_dead_journal_does_not_wait_for_a_slot() -> None:
    """The partition opens again, which needs no file."""
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), late=ours, files_open_max=1)
    file = await segment(files)
    await files.slots.take()
    file.journal.fail(OutcomeUnknown("it hangs"))
    async with asyncio.timeout(0.1):
        with pytest.raises(WriterDead):
            await file.commit([b"a"])
    assert segments(storage) == []


async def test_a_segment_given_up_while_it_waits_makes_no_file() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), late=ours, files_open_max=1)
    file = await segment(files)
    await files.slots.take()
    writing = asyncio.create_task(file.write_out())
    await asyncio.sleep(0.1)
    file.give_up(OutcomeUnknown("the partition is opened again"))
    files.slots.give_back()
    with pytest.raises(WriterDead):
        await writing
    assert (segments(storage), files.slots.used) == ([], 0)


async def test_a_segment_that_is_given_up_keeps_no_slot_until_somebody_closes_it() -> None:
    """Its partition closes it when it has opened again, and that may need a slot itself."""
    files = journaled(MemoryFileStore(MemoryStorage()), late=ours, files_open_max=1)
    file = await segment(files)
    await file.write_out()
    assert not files.slots.free
    file.give_up(OutcomeUnknown("the partition is opened again"))
    await until(lambda: files.slots.used == 0)
    with pytest.raises(WriterDead):
        await file.close()
    assert files.slots.used == 0


async def test_a_segment_that_is_given_up_while_its_file_is_made_keeps_no_slot() -> None:
    going = asyncio.Event()

    async def late(path: str) -> Standing:
        await going.wait()
        return Standing.OURS

    files = journaled(MemoryFileStore(MemoryStorage()), late=late, files_open_max=1)
    file = await segment(files)
    writing = asyncio.create_task(file.write_out())
    await asyncio.sleep(0.1)
    file.give_up(OutcomeUnknown("the partition is opened again"))
    going.set()
    with pytest.raises(WriterDead):
        await writing
    await until(lambda: files.slots.used == 0)


async def test_who_waits_for_a_slot_is_not_referred_to_a_segment_that_was_given_up() -> None:
    """Nobody can roll it, so no other one would ever give its slot back."""
    files = journaled(MemoryFileStore(MemoryStorage()), late=ours, files_open_max=2)
    rolled: list[str] = []
    files.roll_soon = rolled.append
    dead, busy = await segment(files), await segment(files, OTHER)
    for file in (dead, busy):
        await file.write_out()
    await dead._turn.acquire()  # its close hangs
    dead.give_up(OutcomeUnknown("the partition is opened again"))
    waiting = asyncio.create_task(files.slots.take())
    await asyncio.sleep(0)
    assert rolled == [OTHER]
    dead._turn.release()
    await waiting


async def test_segments_handed_off_do_not_wait_for_side_indexes_of_each_other() -> None:
    storage = MemoryStorage()
    bed = await open_bed(storage, limits=FEW, files=SlowIndexes(storage))
    for at in range(24):
        await put(bed.log(at), b"%d" % at)
    error = NotOwner("moved", "other:1")
    keys = [PartitionKey(TOPIC.topic_uuid, at) for at in range(24)]
    async with asyncio.timeout(2.0):
        await asyncio.gather(*(bed.store.hand_off(key, error) for key in keys))
    assert all(manifest(storage, at).end_state for at in range(24))
    successor = await open_bed(storage, limits=FEW)
    for at in range(24):
        assert await put(successor.log(at), b"next") == 1


def maker_of(slots: FileSlots) -> FileMaker:
    asked = (ours, LEFT.append)
    return FileMaker(MemoryFileStore(MemoryStorage()), "b", slots, asked)


async def test_who_comes_when_a_slot_was_just_taken_does_not_hold_the_loop() -> None:
    """The slot is there, but what notes that has not run: to ask for it again would never end."""
    maker = maker_of(FileSlots(1, lambda: None))
    first = asyncio.ensure_future(maker.reserve())
    for _ in range(2):  # the wait begins, and ends
        await asyncio.sleep(0)
    assert maker._taking is not None
    assert maker._taking.done()
    await maker.reserve()
    await first
    assert maker.at_once


async def test_who_comes_when_a_wait_was_just_cancelled_waits_anew() -> None:
    slots = FileSlots(1, lambda: None)
    maker = maker_of(slots)
    await slots.take()
    first = asyncio.ensure_future(maker.reserve())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    second = asyncio.ensure_future(maker.reserve())
    await asyncio.sleep(0)
    slots.give_back()
    await second
    assert slots.used == 1
    maker.drop()
    assert slots.used == 0


async def test_a_side_index_does_not_wait_for_ever() -> None:
    """Its task takes the room of those that close files, which give slots back."""
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), late=ours, files_open_max=1)
    await files.slots.take()
    async with asyncio.timeout(10.0):
        with pytest.raises(StoreUnavailable):
            await files.create("topic/0/0-1.idx", durability=Durability.SYNCED)
    assert (files.slots.used, dict(storage.files)) == (1, {})
    files.slots.give_back()
    await files.create("topic/0/0-1.idx", durability=Durability.SYNCED)
