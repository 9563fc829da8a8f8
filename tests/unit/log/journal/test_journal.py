"""Writing a journal: one commit for many groups, failures, continuing, trimming, fencing."""

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.unit.log.bed import until
from tests.unit.log.faults import FailOnce, FaultyFiles, Steps
from tests.unit.log.journal.journals import (
    NAME,
    OTHER,
    SEGMENT,
    former,
    journal_files,
    open_journal,
)

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.broker.admin.log_files import header_of_cut
from opentalos.log.journal.format import ended_path, file_path
from opentalos.log.journal.former import last_run, read_former
from opentalos.log.journal.journal import NOWHERE, Journal
from opentalos.log.maintenance.stored_journals import Begin
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES
from opentalos.model.errors import (
    CorruptLog,
    Fenced,
    OutcomeUnknown,
    StorageFull,
    StoreUnavailable,
    WriterDead,
)
from opentalos.model.message import Durability

ONE_FRAME = SEGMENT_HEADER_BYTES + 1  # of a file, which then continues in another one


def either(*futures: "asyncio.Future[Any]") -> bool:
    return any(future.done() for future in futures)


async def test_groups_of_many_segments_share_one_commit() -> None:
    storage, steps = MemoryStorage(), Steps()
    journal = await open_journal(FaultyFiles(storage, steps))
    commits: list[str] = []
    steps.script = lambda name, path, after: commits.append(name) if after else None
    numbers = await asyncio.gather(*(journal.append(f"t/{n}/a", 64, b"x") for n in range(50)))
    assert numbers == [1] * 50
    assert commits == ["commit"]
    found = await former(storage)
    assert len(found.segments()) == 50
    assert found.extents("t/7/a").joined() == b"x"


async def test_a_group_is_durable_when_its_append_returns() -> None:
    storage, steps = MemoryStorage(), Steps()
    journal = await open_journal(FaultyFiles(storage, steps))
    stop = steps.count
    steps.stop_at = stop  # before the commit's effect
    task = asyncio.ensure_future(journal.append(SEGMENT, 64, b"x"))
    await steps.stopped.wait()
    assert not task.done()
    assert (await former(storage)).segments() == []


async def test_a_failed_commit_leaves_every_group_unknown_and_the_journal_dead() -> None:
    storage, steps = MemoryStorage(), Steps()
    journal = await open_journal(FaultyFiles(storage, steps))
    steps.script = FailOnce("commit", OutcomeUnknown("lost"), after=True)
    results = await asyncio.gather(
        journal.append(SEGMENT, 64, b"x"), journal.append(OTHER, 64, b"y"), return_exceptions=True
    )
    assert [type(each) for each in results] == [OutcomeUnknown, OutcomeUnknown]
    with pytest.raises(WriterDead):
        journal.append(SEGMENT, 65, b"z")
    assert journal.held(1)  # they may be there, so a recovery has to look
    assert not journal.idle
    found = await former(storage)
    assert found.extents(SEGMENT).joined() == b"x"
    journal.release_doubts(SEGMENT)
    journal.release_doubts(OTHER)
    assert journal.idle


async def test_a_full_store_is_told_as_such() -> None:
    storage, steps = MemoryStorage(), Steps()
    journal = await open_journal(FaultyFiles(storage, steps))
    steps.script = FailOnce("commit", StorageFull("no room"))
    with pytest.raises(StorageFull):
        await journal.append(SEGMENT, 64, b"x")


async def test_a_fenced_journal_acknowledges_nothing_any_more() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage))
    await journal.append(SEGMENT, 64, b"x")
    found = await former(storage)
    for path in (SEGMENT, OTHER):
        with pytest.raises(OutcomeUnknown):
            await journal.append(path, 65, b"y")
    assert isinstance(journal.dead, Fenced)
    assert found.extents(SEGMENT).joined() == b"x"


async def test_a_fence_of_the_last_file_fences_the_journal_while_it_continues() -> None:
    """Whenever the fence comes between the two files, nothing is acknowledged behind it."""
    for stop_at in range(12):
        storage, steps = MemoryStorage(), Steps()
        journal = await open_journal(FaultyFiles(storage, steps), file_bytes_max=ONE_FRAME)
        await journal.append(SEGMENT, 64, b"x")
        steps.stop_at = steps.count + stop_at
        task = asyncio.ensure_future(journal.append(SEGMENT, 65, b"y"))
        stopped = asyncio.ensure_future(steps.stopped.wait())
        await until(partial(either, task, stopped))
        acknowledged = task.done()
        stopped.cancel()
        found = await former(storage)
        if acknowledged:
            assert found.extents(SEGMENT).joined() == b"xy"
        files = MemoryFileStore(storage)
        for number in (1, 2):
            if file_path(NAME, number) in storage.files:
                length = await files.recover(file_path(NAME, number), deadline_s=1)
                assert storage.files[file_path(NAME, number)].fenced or not length
        await journal.stop()
        task.cancel()


async def test_it_continues_in_another_file_and_is_read_as_one() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage), file_bytes_max=200)
    for at in range(9):
        await journal.append(SEGMENT, 64 + at, bytes([at]))
    assert len(journal_files(storage)) > 2
    found = await former(storage)
    assert found.extents(SEGMENT).joined() == bytes(range(9))
    assert found.damage == ""


async def test_only_what_nothing_holds_is_trimmed_and_never_the_last_file() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage), file_bytes_max=ONE_FRAME)
    first = await journal.append(SEGMENT, 64, b"a")
    second = await journal.append(OTHER, 64, b"b")
    third = await journal.append(OTHER, 65, b"c")
    assert (first, second, third) == (1, 2, 3)
    journal.release(second)
    await trim(journal)
    assert len(journal_files(storage)) == 3  # the first is held, and the order is kept
    journal.release(first)
    await journal.trim()
    assert len(journal_files(storage)) == 3  # the journal does not say yet that they are not needed
    await trim(journal)
    assert journal_files(storage)[0] == "00000003.jnl"
    journal.release(third)
    await trim(journal)
    assert "00000003.jnl" not in journal_files(storage)
    assert file_path(NAME, journal.number) in storage.files
    assert (await former(storage)).damage == ""


async def trim(journal: Journal) -> None:
    """Let it say what is not needed, then delete that."""
    await journal.trim()
    await until(lambda: not journal._has_work)
    await journal.trim()


async def test_a_file_that_others_follow_was_used_although_it_is_empty_now() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage), file_bytes_max=ONE_FRAME)
    for at in range(4):
        await journal.append(SEGMENT, 64 + at, b"x")
    del storage.files[file_path(NAME, 1)].content[-5:]  # the record of continuing
    storage.files[file_path(NAME, 2)].content.clear()
    found = await former(storage)
    assert f"{file_path(NAME, 2)} is used, but no record names it" in found.damage


@pytest.mark.parametrize("gone", [(1,), (1, 2), (2,), (1, 2, 3)])
async def test_a_lost_file_is_no_trimmed_one(gone: tuple[int, ...]) -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage), file_bytes_max=ONE_FRAME)
    for at in range(3):
        await journal.append(SEGMENT, 64 + at, b"x")
    await journal.append(OTHER, 64, b"y")
    assert (await former(storage)).damage == ""
    for number in gone:
        del storage.files[file_path(NAME, number)]
    found = await former(storage)
    assert f"{file_path(NAME, max(gone))} is missing" in found.damage
    with pytest.raises(CorruptLog):
        found.extents("topic/2/00000000000000000000-1.log")


async def test_files_that_are_not_needed_may_be_gone_or_back() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage), file_bytes_max=ONE_FRAME)
    for at in range(4):
        await journal.append(OTHER, 64 + at, b"x")
    first = storage.files[file_path(NAME, 1)]
    for number in (1, 2, 3):
        journal.release(number)
    await trim(journal)
    assert file_path(NAME, 3) not in storage.files
    assert (await former(storage)).damage == ""
    storage.files[file_path(NAME, 1)] = first
    assert (await former(storage)).damage == ""


async def test_a_copy_that_is_cut_still_says_which_files_are_needed() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage), file_bytes_max=200)
    for at in range(6):
        await journal.append(OTHER, 64 + at, b"x")
    await journal.append(SEGMENT, 0, b"of a manifest that the copy is too old for")
    last = journal.number
    for number in range(1, last):
        while journal.held(number):
            journal.release(number)
    await trim(journal)
    copied = sorted(path for path in storage.files if path.startswith("journal/"))
    assert copied[0] == file_path(NAME, last)
    found = await former(storage)
    place = found.begins[SEGMENT]
    begin = Begin(SEGMENT, file_path(NAME, place.number), place.position, found.needed)
    content = storage.files[begin.file].content
    del content[begin.position :]
    for path in copied:
        if path > begin.file:
            del storage.files[path]
    assert "is missing" in (await former(storage)).damage
    raw = bytes(content[:SEGMENT_HEADER_BYTES])
    content[:SEGMENT_HEADER_BYTES] = header_of_cut(raw, begin)
    assert (await former(storage)).damage == ""


async def test_a_journal_of_an_earlier_version_does_not_say_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage), file_bytes_max=ONE_FRAME)
    monkeypatch.setattr(journal, "_noted", 0)
    for at in range(3):
        monkeypatch.setattr(journal, "_needed", 0)
        await journal.append(SEGMENT, 64 + at, b"x")
    monkeypatch.setattr(journal, "_noted", 0)
    for number in (1, 2):
        storage.files.pop(file_path(NAME, number))
    assert (await former(storage)).needed == 0


async def test_what_a_segment_holds_itself_is_not_replayed() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage))
    await journal.append(SEGMENT, 64, b"abc")
    await journal.append(SEGMENT, 67, b"de")
    journal.note_written(SEGMENT, 67)
    await journal.append(OTHER, 64, b"x")
    assert (await former(storage)).extents(SEGMENT).start == 67


async def test_an_ended_journal_is_no_missing_one() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage))
    journal.release(await journal.append(SEGMENT, 64, b"x"))
    await journal.end()
    assert journal_files(storage) == []
    assert (await former(storage)).segments() == []
    with pytest.raises(CorruptLog, match="missing"):
        await former(storage, "other-1")


async def test_an_end_that_another_attempt_left_is_made_durable_before_it_counts() -> None:
    storage = MemoryStorage()
    files = MemoryFileStore(storage)
    journal = await open_journal(files)
    await files.create(ended_path(journal.name), durability=Durability.SYNCED)
    await journal.end()
    assert storage.files[ended_path(journal.name)].fenced  # as a recovery leaves it
    assert journal_files(storage) == []


async def test_a_needed_journal_cannot_be_ended() -> None:
    journal = await open_journal(MemoryFileStore())
    await journal.append(SEGMENT, 64, b"x")
    with pytest.raises(ValueError, match="still needed"):
        await journal.end()


async def test_two_successors_find_the_same() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage), file_bytes_max=100)
    for at in range(5):
        await journal.append(SEGMENT, 64 + at, b"x")
    found = await asyncio.gather(former(storage), former(storage))
    assert [each.extents(SEGMENT).joined() for each in found] == [b"xxxxx", b"xxxxx"]


async def test_a_torn_last_frame_is_cut_and_nothing_else() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage))
    await journal.append(SEGMENT, 64, b"kept")
    kept_bytes = len(storage.files[file_path(NAME, 1)].content)
    await journal.append(SEGMENT, 68, b"torn")
    content = bytes(storage.files[file_path(NAME, 1)].content)
    for end in range(kept_bytes, len(content)):
        storage.files[file_path(NAME, 1)].content[:] = content[:end]
        found = await former(storage)
        assert found.damage == ""
        assert found.extents(SEGMENT).joined() == b"kept"


async def test_rot_refuses_the_segments_that_may_have_been_in_it() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage))
    await journal.append(OTHER, 64, b"a")
    before = len(storage.files[file_path(NAME, 1)].content)
    await journal.append(OTHER, 65, b"b")
    await journal.append(SEGMENT, 64, b"x")
    storage.files[file_path(NAME, 1)].content[before + 100] ^= 4
    found = await former(storage)
    assert "damaged" in found.damage
    with pytest.raises(CorruptLog):
        found.extents(OTHER)
    with pytest.raises(CorruptLog):
        found.extents("topic/2/00000000000000000000-1.log")
    assert found.extents(SEGMENT).joined() == b"x"


async def test_rot_of_the_last_frame_is_no_torn_tail() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage))
    await journal.append(SEGMENT, 64, b"acknowledged")
    storage.files[file_path(NAME, 1)].content[-1] ^= 1
    with pytest.raises(CorruptLog):
        (await former(storage)).extents(SEGMENT)


async def test_a_lost_record_of_continuing_is_damage() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage), file_bytes_max=ONE_FRAME)
    await journal.append(SEGMENT, 64, b"a")
    await journal.append(SEGMENT, 65, b"b")
    content = storage.files[file_path(NAME, 1)].content
    del content[-5:]  # as if it had been torn, but the next file is used
    with pytest.raises(CorruptLog):
        (await former(storage)).extents(SEGMENT)


@pytest.mark.parametrize(
    ("numbers", "run"), [([], []), ([3], [3]), ([1, 3, 4], [3, 4]), ([4, 2, 3], [2, 3, 4])]
)
def test_what_a_power_loss_brought_back_is_not_read(numbers: list[int], run: list[int]) -> None:
    assert last_run(numbers) == run


async def test_a_hung_commit_is_given_up_and_its_late_end_counts_for_nothing() -> None:
    storage, steps = MemoryStorage(), Steps()
    journal = await open_journal(FaultyFiles(storage, steps))
    steps.stop_at = steps.count
    in_flight = journal.append(SEGMENT, 64, b"x")
    await steps.stopped.wait()
    waiting = journal.append(OTHER, 64, b"y")
    journal.fail(OutcomeUnknown("it hangs"))
    with pytest.raises(OutcomeUnknown):
        await in_flight
    assert await waiting == NOWHERE
    assert journal.held(1)


async def test_a_group_nobody_waits_for_still_holds_its_file() -> None:
    journal = await open_journal(MemoryFileStore())
    written = journal.append(SEGMENT, 64, b"x")
    await until(lambda: bool(journal._in_flight), 0)
    written.cancel()
    await journal.append(OTHER, 64, b"y")
    journal.release(1)
    assert journal.held(1)
    journal.release_doubts(SEGMENT)
    assert not journal.held(1)


async def test_a_file_that_was_being_made_is_empty() -> None:
    storage = MemoryStorage()
    journal = await open_journal(MemoryFileStore(storage))
    await journal.append(SEGMENT, 64, b"x")
    files = MemoryFileStore(storage)
    await files.create(file_path(NAME, 2), durability=Durability.SYNCED)
    found = await former(storage)
    assert found.damage == ""
    assert found.extents(SEGMENT).joined() == b"x"
    assert len(storage.files[file_path(NAME, 1)].content) > SEGMENT_HEADER_BYTES


@pytest.mark.parametrize("read", [1, 2])
async def test_a_file_deleted_between_its_fence_and_its_reading_is_no_damage(read: int) -> None:
    storage, steps = MemoryStorage(), Steps()
    journal = await open_journal(MemoryFileStore(storage))
    await journal.append(SEGMENT, 0, b"a")
    reads = 0

    def delete(name: str, path: str, after: bool) -> None:
        nonlocal reads
        reads += name == "read"
        if reads == read:
            storage.files.pop(path, None)

    steps.script = delete
    files = FaultyFiles(storage, steps)
    with pytest.raises(StoreUnavailable, match="was trimmed while it was read"):
        await read_former(files, NAME, partial(files.recover, deadline_s=1.0))


async def test_a_stop_in_the_middle_of_continuing_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    for stop_at in range(12):
        steps = Steps()
        journal = await open_journal(FaultyFiles(MemoryStorage(), steps), file_bytes_max=ONE_FRAME)
        await journal.append(SEGMENT, 64, b"x")
        steps.stop_at = steps.count + stop_at
        appended = journal.append(SEGMENT, 65, b"y")
        stopped = asyncio.ensure_future(steps.stopped.wait())
        await until(partial(either, appended, stopped))
        stopped.cancel()
        await journal.stop()
        await asyncio.gather(appended, stopped, return_exceptions=True)
        assert asyncio.all_tasks() == before


async def test_a_journal_that_ends_with_its_server_is_nothing_to_warn_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = await open_journal(MemoryFileStore())
    await journal.close()
    assert not caplog.records
    journal = await open_journal(MemoryFileStore())
    journal.fail(OutcomeUnknown("the disk"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
