"""Flushed segments that are late: what is synced all the same, and when they get a file."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
from tests.unit.log.bed import LIMITS, Bed, crash, open_bed, payloads, put, until
from tests.unit.log.journal.journals import (
    HEAD,
    NAME,
    OTHER,
    SEGMENT,
    former,
    held_commits,
    journal_files,
    journaled,
    open_journal,
    ours,
)
from tests.unit.log.journal.test_late import LARGE, LATE, segments

from opentalos.adapters.memory import MemoryAppendFile, MemoryFileStore, MemoryStorage
from opentalos.log.journal.format import file_path
from opentalos.log.journal.journal import Journal
from opentalos.log.journal.journaled_file import BUSY_COMMITS, BUSY_S, JournaledFile
from opentalos.log.journal.store import JournaledFiles
from opentalos.log.partition.jobs import seal
from opentalos.log.results import TopicLogSettings
from opentalos.log.segment.damage import PAGE_BYTES
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES, read_header
from opentalos.log.segment.merged_file import write_merged
from opentalos.model.errors import OutcomeUnknown
from opentalos.model.message import Durability, PartitionKey

SYNCED, FLUSHED = Durability.SYNCED, Durability.FLUSHED
TOPIC = TopicLogSettings("flushed-uuid", FLUSHED, 86_400.0)
FEW = replace(LATE, journal_files_open_max=2)
GAP_S = 2 * BUSY_S


class NotedFiles(MemoryFileStore):
    """Notes how durable each commit of a file is."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage)
        self.commits: dict[str, list[Durability]] = {}

    async def create(self, path: str, *, durability: Durability) -> MemoryAppendFile:
        file = await super().create(path, durability=durability)
        commit, commits = file.commit, self.commits.setdefault(path, [])
        of_file = durability

        async def noted(
            chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
        ) -> int:
            first = not commits
            length = await commit(chunks, durability=durability)
            commits.append(SYNCED if first else durability or of_file)
            return length

        file.commit = noted  # type: ignore[method-assign]
        return file

    def of_journals(self) -> list[Durability]:
        """Of the last journal's file."""
        return self.commits[max(path for path in self.commits if path.endswith(".jnl"))]


async def flushed_file(files: JournaledFiles, path: str = SEGMENT) -> JournaledFile:
    file = await files.create(path, durability=FLUSHED)
    assert isinstance(file, JournaledFile)
    assert await file.commit([HEAD]) == len(HEAD)
    return file


async def hurry(file: JournaledFile, data: bytes = b"x") -> None:
    """So many small commits one after the other that the segment counts as busy."""
    for _ in range(BUSY_COMMITS + 1):
        await file.commit([data])


async def flushed_bed(storage: MemoryStorage | None = None, files: int = 6) -> Bed:
    return await open_bed(storage, limits=replace(LATE, journal_files_open_max=files))


async def puts(bed: Bed, partitions: int, number: int) -> None:
    logs = [bed.store.partition(TOPIC, at) for at in range(partitions)]
    await asyncio.gather(*(put(log, b"%d-%d" % (at, number)) for at, log in enumerate(logs)))


# --- how durable a frame is ---------------------------------------------------------------------


async def test_a_frame_is_flushed_only_if_each_group_in_it_may_be() -> None:
    files = NotedFiles(MemoryStorage())
    journal = await open_journal(files)
    await journal.append(SEGMENT, 4, b"a", synced=False)
    assert files.of_journals() == [SYNCED, FLUSHED]
    await asyncio.gather(
        journal.append(SEGMENT, 5, b"b", synced=False), journal.append(OTHER, 0, b"c")
    )
    journal.note_written(SEGMENT, 5)
    await until(lambda: len(files.of_journals()) == 4)
    assert files.of_journals() == [SYNCED, FLUSHED, SYNCED, SYNCED]
    await journal.close()


async def test_the_record_that_a_journal_continues_elsewhere_is_synced() -> None:
    files = NotedFiles(MemoryStorage())
    journal = await open_journal(files, file_bytes_max=200)
    while len(files.commits) < 2:
        await journal.append(SEGMENT, 0, bytes(50), synced=False)
    first = files.commits[file_path(NAME, 1)]
    assert first == [SYNCED, *[FLUSHED] * (len(first) - 2), SYNCED]
    await journal.close()


async def test_a_frame_says_below_which_record_all_was_synced() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage))
    for synced in (False, False, True, False):
        await journal.append(SEGMENT, 0, b"a", synced=synced)
    raw, at = bytes(storage.files[file_path(NAME, 1)].content), SEGMENT_HEADER_BYTES
    found = []
    while at < len(raw):
        header = read_header(raw, at)
        found.append((header.base_offset, header.committed))
        at += header.block_bytes
    assert found == [(0, 0), (2, 0), (3, 0), (4, 4)]
    await journal.close()


async def test_the_first_group_of_a_flushed_segment_is_synced() -> None:
    files = NotedFiles(MemoryStorage())
    file = await flushed_file(journaled(files, late=ours))
    await file.commit([b"a"])
    assert file.late
    assert files.of_journals() == [SYNCED, SYNCED, FLUSHED]


# --- what a loss of power leaves ----------------------------------------------------------------


async def lost_page(synced: Sequence[bool], flip: bool = False) -> tuple[MemoryStorage, Journal]:
    """A journal of groups of two pages, of whose second one a page is gone or a bit has flipped."""
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage))
    ends = []
    for number, must in enumerate(synced):
        path = (SEGMENT, OTHER)[number % 2]
        await journal.append(path, number // 2 * 1_024, bytes([65 + number]) * 1_024, synced=must)
        ends.append(journal.total_bytes)
    await journal.close()
    content = storage.files[file_path(NAME, 1)].content
    page = -(-ends[0] // PAGE_BYTES) * PAGE_BYTES
    if flip:
        content[page] ^= 1
    else:
        content[page : page + PAGE_BYTES] = bytes(PAGE_BYTES)
    return storage, journal


async def test_frames_behind_a_lost_flushed_one_are_left_out_without_damage() -> None:
    storage, _ = await lost_page([True, False, False, False])
    found = await former(storage)
    assert found.damage == ""
    assert found.segments() == [SEGMENT]
    assert found.extents(SEGMENT).end == 1_024


async def test_a_whole_frame_whose_sync_did_not_return_proves_nothing() -> None:
    storage, _ = await lost_page([True, False, True])
    found = await former(storage)
    assert found.damage == ""
    assert found.extents(SEGMENT).end == 1_024


@pytest.mark.parametrize(
    ("synced", "flip"),
    [
        ([True, False, True, False], False),
        ([True, True, True], False),
        ([True, False, False], True),
    ],
)
async def test_a_bad_frame_is_damage_if_it_was_synced_or_no_page_is_missing(
    synced: list[bool], flip: bool
) -> None:
    storage, _ = await lost_page(synced, flip)
    assert "damaged" in (await former(storage)).damage


async def test_synced_groups_stay_whatever_became_of_flushed_ones_behind() -> None:
    storage, _ = await lost_page([True, False, False, False, False])
    cut = storage.files[file_path(NAME, 1)]
    found = await former(storage)
    assert found.extents(SEGMENT).bytes == 1_024
    assert len(cut.content) > 4 * 1_024  # the file itself stays as it is


# --- which of them have a file ------------------------------------------------------------------


async def test_without_late_segments_a_flushed_one_has_no_part_in_a_journal() -> None:
    files = journaled(MemoryFileStore(MemoryStorage()))
    assert not isinstance(await files.create(SEGMENT, durability=FLUSHED), JournaledFile)


async def test_a_busy_flushed_segment_takes_a_free_slot_and_keeps_to_its_file() -> None:
    storage = MemoryStorage()
    files = NotedFiles(storage)
    store = journaled(files, late=ours, files_open_max=1)
    file = await flushed_file(store)
    await hurry(file)
    assert not file.late
    await asyncio.sleep(60.0)
    frames = len(files.of_journals())
    assert not file.may_join(1)
    await file.commit([b"y"])
    assert len(files.of_journals()) == frames
    assert files.commits[SEGMENT][-1] is FLUSHED
    assert bytes(storage.files[SEGMENT].content) == HEAD + b"x" * (BUSY_COMMITS + 1) + b"y"
    other = await flushed_file(store, OTHER)
    await hurry(other)  # no slot is free, and it waits for none
    assert other.late
    assert other.may_join(1)


async def test_the_first_commit_of_a_file_takes_along_what_waits_in_the_journal() -> None:
    storage = MemoryStorage()
    files = NotedFiles(storage)
    file = await flushed_file(journaled(files, late=ours))
    await file.commit([b"a"])
    assert await file.commit([LARGE]) == 5 + len(LARGE)
    assert files.commits[SEGMENT] == [SYNCED]
    assert bytes(storage.files[SEGMENT].content) == HEAD + b"a" + LARGE
    assert file.oldest is None


async def test_a_quiet_flushed_segment_makes_no_file() -> None:
    storage = MemoryStorage()
    file = await flushed_file(journaled(MemoryFileStore(storage), late=ours))
    for _ in range(3 * BUSY_COMMITS):
        await asyncio.sleep(GAP_S)
        assert file.may_join(1)
        await file.commit([b"x"])
    await asyncio.sleep(GAP_S)
    await hurry(file)
    await asyncio.sleep(GAP_S)  # busy once, and then quiet again
    assert file.may_join(1)
    assert segments(storage) == []


async def test_a_busy_segment_that_is_to_be_rolled_takes_no_slot() -> None:
    storage = MemoryStorage()
    file = await flushed_file(journaled(MemoryFileStore(storage), late=ours))
    file.rolling = True
    await hurry(file)
    assert segments(storage) == []
    assert file.may_join(1)


async def test_many_that_turn_busy_at_once_share_the_free_slots_and_none_waits() -> None:
    storage = MemoryStorage()
    store = journaled(MemoryFileStore(storage), late=ours, files_open_max=2)
    made = [await flushed_file(store, f"topic/{at}/00000000000000000000-1.log") for at in range(6)]
    async with asyncio.timeout(GAP_S):
        await asyncio.gather(*(hurry(file) for file in made))
    assert sum(not file.late for file in made) == 2
    assert store.slots.used == 2


async def test_a_slot_that_a_dead_segment_reserved_comes_back() -> None:
    store = journaled(MemoryFileStore(MemoryStorage()), late=ours, files_open_max=1)
    file = await flushed_file(store)
    assert file._maker is not None
    assert file._maker.reserve_free()
    assert store.slots.used == 1
    file.give_up(OutcomeUnknown("the disk"))
    assert store.slots.used == 0


# --- whole logs ---------------------------------------------------------------------------------


async def test_many_quiet_flushed_partitions_survive_a_kill_without_a_file() -> None:
    bed = await flushed_bed()
    for number in range(3):
        await puts(bed, 20, number)
        await asyncio.sleep(GAP_S)
    assert segments(bed.storage) == []
    await crash(bed)
    again = await flushed_bed(bed.storage)
    for at in range(20):
        log = again.store.partition(TOPIC, at)
        assert await payloads(log) == [b"%d-%d" % (at, number) for number in range(3)]
    await again.store.close()
    assert len(segments(bed.storage)) == 20
    assert journal_files(bed.storage) == []


async def test_quiet_flushed_partitions_join_frames_without_a_lane() -> None:
    bed = await flushed_bed()
    await puts(bed, 8, 0)
    await asyncio.sleep(5.0)  # the end marks go through lanes
    segment = bed.store.partition(TOPIC, 0).writer.segment
    assert segment is not None
    assert isinstance(segment.file, JournaledFile)
    journal = segment.file.journal
    go = held_commits(journal)
    first = asyncio.ensure_future(put(bed.store.partition(TOPIC, 0), b"0-1"))
    await until(lambda: bool(journal._in_flight))
    rest = [asyncio.ensure_future(put(bed.store.partition(TOPIC, at), b"1")) for at in range(1, 8)]
    await until(lambda: len(journal._joined) == 7)
    assert all(lane.busy is None for lane in bed.store._context.lanes.active)
    frames = journal._place.counters.frames
    go.set()
    assert await asyncio.gather(first, *rest) == [1] * 8
    assert journal._place.counters.frames - frames == 2
    await bed.store.close()


async def test_busy_flushed_partitions_survive_a_kill_with_their_files() -> None:
    bed = await flushed_bed(files=2)
    for number in range(2 * BUSY_COMMITS):
        await puts(bed, 5, number)
    assert len(segments(bed.storage)) == 2
    await crash(bed)
    again = await flushed_bed(bed.storage, files=2)
    for at in range(5):
        log = again.store.partition(TOPIC, at)
        assert await payloads(log) == [b"%d-%d" % (at, number) for number in range(number + 1)]
    await again.store.close()


async def test_a_topic_that_turns_synced_seals_what_was_flushed_before_the_next_answer() -> None:
    storage = MemoryStorage()
    files = NotedFiles(storage)
    bed = await open_bed(storage, limits=FEW, files=files)
    log = bed.store.partition(TOPIC, 0)
    await put(log, b"a")
    await asyncio.sleep(GAP_S)
    await put(log, b"b")
    assert files.of_journals()[-1] is FLUSHED
    bed.store.update_topic(replace(TOPIC, durability=SYNCED))
    await put(log, b"c")
    assert files.of_journals()[-1] is SYNCED
    assert files.commits[segments(storage)[0]] == [SYNCED]  # the old one, sealed with all it had
    assert await payloads(log) == [b"a", b"b", b"c"]
    await put(log, b"d")
    assert files.of_journals()[-1] is SYNCED
    await bed.store.close()


async def test_a_merge_writes_its_file_itself() -> None:
    bed = await open_bed(limits=replace(LIMITS, journal="on", journal_files_open_max=2))
    context, key = bed.store._context, PartitionKey("topic-uuid", 0)
    log = bed.log()
    for payload in (b"a", b"b"):
        await put(log, payload)
        await log.writer.run(partial(seal, log.writer))
    run = log.writer.versioned.manifest.sealed
    merged = await write_merged(context, key, 9, run)
    assert (len(run), merged.segment.path(key) in context.journaled.open) == (2, False)
    assert merged.segment.path(key) in bed.storage.files
    await bed.store.close()
