"""Segments behind a journal: what commits return, what readers see, how far a recovery finds."""

import asyncio

import pytest
from tests.unit.log.bed import until
from tests.unit.log.faults import FailOnce, FaultyFiles, Steps
from tests.unit.log.journal.journals import (
    HEAD,
    OTHER,
    SEGMENT,
    SIZES,
    Manifests,
    hang,
    held_commits,
    journal_files,
    journaled,
    not_rolled,
    segment,
)

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.log.journal.store import READ_GRACE_S, End, JournaledFiles
from opentalos.log.journal.upkeep import (
    WRITE_OUT_AFTER_S,
    WRITE_OUT_DEADLINE_S,
    WRITES_AT_ONCE,
    JournalUpkeep,
)
from opentalos.model.errors import CorruptLog, Fenced, OutcomeUnknown, WriterDead
from opentalos.model.message import Durability


async def read(files: JournaledFiles, path: str = SEGMENT) -> bytes:
    return await files.read(path, position=0, bytes_max=2_000)


def stored(storage: MemoryStorage, path: str = SEGMENT) -> bytes:
    return bytes(storage.files[path].content)


def upkeep(files: JournaledFiles, needed: set[str] | None = None) -> JournalUpkeep:
    async def is_needed(path: str) -> bool:
        return needed is None or path in needed

    manifests = Manifests(is_needed)
    return JournalUpkeep(
        *(files._files, files, manifests, lambda path: None),
        *(not_rolled, manifests),
    )


async def test_a_small_commit_is_durable_and_readable_before_its_segment_has_it() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file = await segment(files)
    assert await file.commit([b"a", b"b"]) == 6
    assert stored(storage) == HEAD
    assert await read(files) == b"headab"
    assert await files.read(SEGMENT, position=5, bytes_max=1) == b"b"
    successor = journaled(MemoryFileStore(storage), "successor")
    assert await successor.recover_end(SEGMENT, file.journal.name, 1.0) == End(6, 4)
    assert await read(successor) == b"headab"


async def test_only_segments_of_synced_topics_use_the_journal() -> None:
    files = journaled(MemoryFileStore())
    flushed = await files.create(SEGMENT, durability=Durability.FLUSHED)
    index = await files.create("topic/0/x.idx", durability=Durability.SYNCED)
    assert not isinstance(flushed, JournaledFile)
    assert not isinstance(index, JournaledFile)


async def test_a_large_commit_goes_to_its_segment_with_all_that_waits_there() -> None:
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps))
    file = await segment(files)
    await file.commit([b"a"])
    large = bytes(SIZES.direct_bytes_min)
    commits: list[str] = []
    steps.script = lambda name, path, after: commits.append(path) if after else None
    assert await file.commit([large]) == 5 + len(large)
    assert commits[0] == SEGMENT
    assert stored(storage) == HEAD + b"a" + large
    await asyncio.sleep(0)
    found = journaled(MemoryFileStore(storage), "successor")
    end = await found.recover_end(SEGMENT, file.journal.name, 1.0)
    assert end.length == 5 + len(large)


async def test_what_waits_for_a_segment_is_bounded() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file = await segment(files)
    for _ in range(50):
        await file.commit([bytes(30)])
        assert file.unwritten.bytes <= SIZES.write_out_bytes
    assert await read(files) == HEAD + bytes(1_500)


async def test_a_close_writes_what_is_left() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file = await segment(files)
    await file.commit([b"a"])
    assert await file.close() == 5
    assert stored(storage) == b"heada"
    assert files.open == {}
    assert file.journal.idle


async def test_a_commit_of_a_fenced_journal_fails_in_every_segment() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    first, second = await segment(files), await segment(files, OTHER)
    await first.commit([b"a"])
    successor = journaled(MemoryFileStore(storage), "successor")
    await successor.recover_end(SEGMENT, first.journal.name, 1.0)
    for file in (first, second):
        with pytest.raises(OutcomeUnknown):
            await file.commit([b"b"])
        with pytest.raises(WriterDead):
            await file.commit([b"c"])
    third = await segment(files, "topic/2/00000000000000000000-1.log")
    assert third.journal is not first.journal
    assert await third.commit([b"d"]) == 5


async def test_a_segment_that_cannot_be_written_is_recovered_without_a_fence_of_the_journal() -> (
    None
):
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps))
    file, other = await segment(files), await segment(files, OTHER)
    await file.commit([b"a"])
    steps.script = FailOnce("commit", OutcomeUnknown("the disk"), path=SEGMENT)
    with pytest.raises(OutcomeUnknown):
        await file.write_out()
    with pytest.raises(WriterDead):
        await file.commit([b"b"])
    assert await files.recover_end(SEGMENT, file.journal.name, 1.0) == End(5, 4)
    assert await read(files) == b"heada"
    assert await other.commit([b"x"]) == 5  # nobody else notices
    files.settle(SEGMENT)
    assert await read(files) == b"heada"  # for readers under way
    await asyncio.sleep(READ_GRACE_S + 1)
    assert await read(files) == HEAD
    await other.write_out()
    assert file.journal.idle


async def test_a_commit_whose_journal_hangs_gives_the_journal_up_and_is_looked_for() -> None:
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps))
    file = await segment(files)
    await file.commit([b"a"])
    steps.stop_at = steps.count + 1  # after the effect
    task = asyncio.ensure_future(file.commit([b"b"]))
    await steps.stopped.wait()
    steps.stop_at = -1
    assert await files.recover_end(SEGMENT, file.journal.name, 1.0) == End(6, 4)
    assert file.journal.dead is not None
    assert await read(files) == b"headab"
    with pytest.raises(OutcomeUnknown):
        await task


async def test_a_journal_that_failed_disturbs_only_those_whose_group_it_had() -> None:
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps))
    first, other = await segment(files), await segment(files, OTHER)
    await other.commit([b"x"])
    steps.script = FailOnce("commit", OutcomeUnknown("the disk"), path="journal/")
    with pytest.raises(OutcomeUnknown):
        await first.commit([b"a"])
    assert await other.commit([b"y"]) == 6
    assert stored(storage, OTHER) == b"headxy"
    successor = journaled(MemoryFileStore(storage), "successor")
    assert (await successor.recover_end(OTHER, other.journal.name, 1.0)).length == 6
    assert await read(successor, OTHER) == b"headxy"


async def test_a_group_that_waited_for_a_journal_that_hangs_is_written_by_its_segment() -> None:
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps))
    first, other = await segment(files), await segment(files, OTHER)
    steps.stop_at = steps.count
    hangs = asyncio.ensure_future(first.commit([b"a"]))
    await steps.stopped.wait()
    waits = asyncio.ensure_future(other.commit([b"x"]))
    await asyncio.sleep(0)
    steps.stop_at = -1
    await files.recover_end(SEGMENT, first.journal.name, 1.0)
    assert await waits == 5
    assert stored(storage, OTHER) == b"headx"
    with pytest.raises(OutcomeUnknown):
        await hangs


async def test_bytes_that_neither_file_nor_journal_has_are_missed() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file = await segment(files)
    await file.commit([b"a"])
    del storage.files[SEGMENT].content[2:]
    successor = journaled(MemoryFileStore(storage), "successor")
    with pytest.raises(CorruptLog, match="from position 2 on are missing"):
        await successor.recover_end(SEGMENT, file.journal.name, 1.0)


async def test_a_torn_write_behind_the_journal_loses_nothing() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file = await segment(files)
    await file.commit([b"abc"])
    storage.files[SEGMENT].content += b"a\0"  # what a crash left of writing it out
    successor = journaled(MemoryFileStore(storage), "successor")
    assert await successor.recover_end(SEGMENT, file.journal.name, 1.0) == End(7, 4)
    assert await read(successor) == b"headabc"


async def test_a_group_between_two_journaled_ones_is_read_from_the_file() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file = await segment(files)
    await file.commit([b"a"])
    file.journal._notes.clear()
    await file.commit([b"L" * SIZES.direct_bytes_min])
    file.journal._notes.clear()  # as if the server had died before it was noted
    await file.commit([b"z"])
    successor = journaled(MemoryFileStore(storage), "successor")
    whole = b"heada" + b"L" * SIZES.direct_bytes_min + b"z"
    assert await successor.recover_end(SEGMENT, file.journal.name, 1.0) == End(len(whole), 4)
    assert await read(successor) == whole


async def test_upkeep_writes_out_what_waited_long_and_trims() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), bytes_max=400)
    care = upkeep(files)
    file, other = await segment(files), await segment(files, OTHER)
    await file.commit([b"a"])
    await care.run_pass()
    assert stored(storage) == HEAD
    for _ in range(6):
        await other.commit([bytes(20)])
    assert len(journal_files(storage)) > 1
    await care.run_pass()  # the journal is too large, so its oldest groups are written
    assert stored(storage) == b"heada"
    await until(lambda: not any(journal._has_work for journal in files.own.values()))
    await care.run_pass()  # the journal says that they are not needed
    assert "00000001.jnl" not in journal_files(storage)
    await other.commit([b"b"])
    await asyncio.sleep(WRITE_OUT_AFTER_S)
    await care.run_pass()
    assert stored(storage, OTHER).endswith(b"b")


async def test_a_journal_is_not_trimmed_while_a_segment_cannot_be_written() -> None:
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps), bytes_max=400)
    care = upkeep(files)
    file, other = await segment(files), await segment(files, OTHER)
    await file.commit([b"a"])
    for _ in range(6):
        await other.commit([bytes(20)])
    steps.script = FailOnce("commit", OutcomeUnknown("the disk"), path=SEGMENT)
    await care.run_pass()
    assert journal_files(storage)[0] == "00000001.jnl"
    successor = journaled(MemoryFileStore(storage), "successor")
    assert await successor.recover_end(SEGMENT, file.journal.name, 1.0) == End(5, 4)


async def test_a_segment_that_another_server_took_is_forgotten_once_that_has_sealed_it() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file = await segment(files)
    await file.commit([b"a"])
    await MemoryFileStore(storage).recover(SEGMENT, deadline_s=1)
    with pytest.raises(Fenced):
        await file.write_out()
    needed = {SEGMENT}
    care = upkeep(files, needed)
    await care.run_pass()
    assert not file.journal.idle
    needed.clear()
    await care.run_pass()
    assert file.journal.idle


async def test_a_former_journal_is_ended_once_every_segment_in_it_is_sealed() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file, other = await segment(files), await segment(files, OTHER)
    await file.commit([b"a"])
    await other.commit([b"b"])
    successor = journaled(MemoryFileStore(storage), "successor")
    needed = {SEGMENT, OTHER}
    care = upkeep(successor, needed)
    await successor.recover_end(SEGMENT, file.journal.name, 1.0)
    successor.settle(SEGMENT)
    needed.remove(SEGMENT)
    await care.run_pass()
    assert journal_files(storage) != []  # another segment needs it, whoever opens that one
    third = journaled(MemoryFileStore(storage), "third")
    assert await third.recover_end(OTHER, file.journal.name, 1.0) == End(5, 4)
    needed.clear()
    await care.run_pass()
    assert journal_files(storage) == []
    fourth = journaled(MemoryFileStore(storage), "fourth")
    assert (await fourth.recover_end(SEGMENT, file.journal.name, 1.0)).copy_from is None


async def test_a_dead_journal_is_ended_once_its_segments_have_everything() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file = await segment(files)
    await file.commit([b"a"])
    file.journal.fail(OutcomeUnknown("it hangs"))
    care = upkeep(files)
    await care.run_pass()
    assert stored(storage) == b"heada"
    assert journal_files(storage) == []
    assert await files.recover_end(SEGMENT, file.journal.name, 1.0) == End(5, None)


async def test_a_deleted_segment_holds_no_journal_even_if_its_commit_ends_later() -> None:
    files = journaled(MemoryFileStore())
    file = await segment(files)
    task = asyncio.ensure_future(file.commit([b"a"]))
    await asyncio.sleep(0)
    await files.delete(SEGMENT)
    with pytest.raises(OutcomeUnknown):
        await task
    assert file.journal.idle


async def test_a_partition_whose_commit_failed_risks_no_other_ones_groups() -> None:
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps))
    file, other = await segment(files), await segment(files, OTHER)
    file.distrust()
    steps.script = FailOnce("commit", OutcomeUnknown("poison"), path=SEGMENT)
    with pytest.raises(OutcomeUnknown):
        await file.commit([b"poison"])
    assert await other.commit([b"x"]) == 5


async def cancelled_in_flight(file: JournaledFile) -> asyncio.Event:
    """A commit that a job gave up while its frame is being written; the event lets that go on."""
    go = held_commits(file.journal)
    task = asyncio.ensure_future(file.commit([b"a"]))
    await until(lambda: bool(file.journal._in_flight), 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return go


async def test_a_group_given_up_in_flight_is_found_by_its_recovery_or_never_written() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file, other = await segment(files), await segment(files, OTHER)
    await file.commit([b"0"])
    go = await cancelled_in_flight(file)
    waits = asyncio.ensure_future(other.commit([b"x"]))
    await asyncio.sleep(0)
    end = await files.recover_end(SEGMENT, file.journal.name, 1.0)
    go.set()
    assert await waits == 5
    successor = journaled(MemoryFileStore(storage), "successor")
    assert await successor.recover_end(SEGMENT, file.journal.name, 1.0) == end
    assert await read(successor) == await read(files)
    files.settle(SEGMENT)
    await other.write_out()
    assert file.journal.idle


async def test_a_group_given_up_and_written_later_is_found_by_its_recovery() -> None:
    files = journaled(MemoryFileStore())
    file = await segment(files)
    go = await cancelled_in_flight(file)
    go.set()
    await until(lambda: not file.journal._in_flight, 0)
    assert await files.recover_end(SEGMENT, file.journal.name, 1.0) == End(5, 4)
    assert await read(files) == HEAD + b"a"
    files.settle(SEGMENT)
    assert file.journal.idle


async def test_a_group_given_up_in_the_turn_it_is_answered_is_found_and_let_go() -> None:
    files = journaled(MemoryFileStore())
    file = await segment(files)
    await file.commit([b"0"])
    task = asyncio.ensure_future(file.commit([b"a"]))
    await until(lambda: bool(file.journal._in_flight), 0)
    written = file.journal._in_flight[0].written
    await until(written.done, 0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await files.recover_end(SEGMENT, file.journal.name, 1.0) == End(6, 4)
    assert file.journal.dead is None
    files.settle(SEGMENT)
    assert file.journal.idle


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("given_up", [False, True])
async def test_a_group_of_a_deleted_segment_holds_nothing_whatever_becomes_of_it(
    fails: bool, given_up: bool
) -> None:
    files = journaled(MemoryFileStore())
    file = await segment(files)
    go = held_commits(file.journal)
    task = asyncio.ensure_future(file.commit([b"a"]))
    await until(lambda: bool(file.journal._in_flight), 0)
    await files.delete(SEGMENT)
    if given_up:
        task.cancel()
        await asyncio.sleep(0)
    if fails:
        file.journal.fail(OutcomeUnknown("the disk"))
    go.set()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: not file.journal._in_flight, 0)
    assert file.journal.idle
    assert not file.journal._settled


async def test_segments_that_hang_stop_the_upkeep_of_no_other_one() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    care = upkeep(files)
    segments = [await segment(files, f"topic/{at}/00000000000000000000-1.log") for at in range(6)]
    for file in segments:
        await file.commit([b"a"])

    for file in segments[:WRITES_AT_ONCE]:
        file._file.commit = hang  # type: ignore[method-assign, union-attr]
    await asyncio.sleep(WRITE_OUT_AFTER_S)
    await asyncio.wait_for(care.run_pass(), WRITE_OUT_DEADLINE_S + 1)
    assert [file.dead is not None for file in segments] == [True] * 4 + [False] * 2
    for file in segments[WRITES_AT_ONCE:]:
        assert stored(storage, file.path) == HEAD + b"a"
    for file in segments[:WRITES_AT_ONCE]:
        assert await files.recover_end(file.path, file.journal.name, 1.0) == End(5, 4)


async def test_a_journal_that_cannot_be_ended_keeps_no_other_one() -> None:
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps))
    first = await segment(files)
    first.journal.fail(OutcomeUnknown("the disk"))
    second = await segment(files, OTHER)
    await first.close()
    await second.close()
    steps.script = FailOnce("delete", OutcomeUnknown("the disk"), path=first.journal.name)
    await upkeep(files).end_all()
    assert list(files.own) == [first.journal.name]
    assert [path for path in storage.files if second.journal.name in path and ".jnl" in path] == []
