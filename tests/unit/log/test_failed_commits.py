"""A commit that fails: what each waiter gets, and what happens to the blocks."""

import asyncio

import pytest
from tests.unit.log.bed import LIMITS, Answers, Bed, block, crash, open_bed, payloads, put, until
from tests.unit.log.faults import FailOnce, FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.model.errors import (
    CorruptLog,
    ExcessivePending,
    OutcomeUnknown,
    PartitionNotServing,
    StorageFull,
    StoreUnavailable,
    TalosError,
)
from opentalos.model.limits import LogLimits


async def settled(bed: Bed) -> None:
    """Wait until nothing of partition 0 waits; delays run in real time but are short."""
    await until(lambda: not bed.log().writer.busy())


async def faulty_bed(limits: LogLimits = LIMITS) -> tuple[Bed, Steps]:
    storage, steps = MemoryStorage(), Steps()
    files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
    return await open_bed(storage, files=files, meta=meta, limits=limits), steps


def fail_block_commits(steps: Steps, error: Exception, *, after: bool, times: int = 1) -> None:
    """Fail the next commit of an existing segment, but not those that make a new one."""
    steps.script = FailOnce("commit", error, after=after, times=times)


@pytest.mark.parametrize("after", [False, True])
async def test_blocks_of_a_failed_commit_are_stored_once_and_acknowledged(after: bool) -> None:
    bed, steps = await faulty_bed()
    log, answers = bed.log(), Answers()
    await put(log, b"first")
    fail_block_commits(steps, OutcomeUnknown("sync failed"), after=after)
    log.append(block(b"in flight"), answers)
    await asyncio.sleep(0)
    for number in range(3):
        log.append(block(b"%d" % number), answers)
    await settled(bed)
    assert answers.got == [(1, None), (2, None), (3, None), (4, None)]
    assert await payloads(log) == [b"first", b"in flight", b"0", b"1", b"2"]
    assert bed.store.counters.reopens == 1
    await bed.store.close()


@pytest.mark.parametrize("after", [False, True])
async def test_a_failed_commit_acknowledges_nothing(after: bool) -> None:
    bed, steps = await faulty_bed()
    log, answers, queued = bed.log(), Answers(), Answers()
    await put(log, b"first")
    fail_block_commits(steps, OutcomeUnknown("dead disk"), after=after, times=100)
    log.append(block(b"in flight"), answers)
    await asyncio.sleep(0)
    log.append(block(b"queued"), queued)
    await settled(bed)
    # What the fenced file does not hold was not done; what it holds may become visible.
    expected: type[TalosError] = OutcomeUnknown if after else PartitionNotServing
    assert [type(error) for error in answers.errors] == [expected]
    assert [type(error) for error in queued.errors] == [PartitionNotServing]
    assert (await log.read(0, messages_max=9, bytes_max=99)).range.next == 1
    steps.script = None
    await put(log, b"later")
    assert await payloads(log) == [b"first", *([b"in flight"] if after else []), b"later"]
    await bed.store.close()


async def test_a_group_in_flight_is_unknown_if_another_owner_came() -> None:
    bed, steps = await faulty_bed()
    log, answers = bed.log(), Answers()
    await put(log, b"first")
    other = await open_bed(bed.storage)
    await put(other.log(), b"other")
    steps.script = None
    log.append(block(b"late"), answers)
    await settled(bed)
    assert [type(error) for error in answers.errors] == [OutcomeUnknown]
    assert b"late" not in await payloads(log)
    await other.store.close()
    await bed.store.close()


async def test_a_waiter_that_raises_harms_no_other() -> None:
    bed, _ = await faulty_bed()
    log, answers = bed.log(), Answers()
    await put(log, b"open")

    def broken(base: int, error: TalosError | None) -> None:
        raise RuntimeError("connection is gone")

    for number in range(4):
        log.append(block(b"%d" % number), broken if number % 2 else answers)
    await settled(bed)
    assert answers.bases == [1, 3]
    assert bed.store.counters.waiter_failures == 2
    assert await put(log, b"on") == 5
    await bed.store.close()


async def test_a_waiter_is_never_called_inside_append() -> None:
    bed, _ = await faulty_bed()
    answers = Answers()
    bed.log().append(block(b"a"), answers)
    assert not answers.got
    await settled(bed)
    assert answers.bases == [0]
    await bed.store.close()


async def test_no_space_refuses_puts_and_serves_reads_until_space_is_back() -> None:
    bed, _ = await faulty_bed(LogLimits(space_reserve_bytes=1_000))
    files = bed.files
    assert isinstance(files, FaultyFiles)
    log = bed.log()
    await put(log, b"kept")
    files.free_bytes = 999
    await bed.store.upkeep.measure_space()
    assert not bed.store.writable()
    with pytest.raises(StorageFull, match="999 bytes"):
        log.append(block(b"x"), Answers())
    assert await payloads(log) == [b"kept"]
    files.free_bytes = 1_001
    await bed.store.upkeep.measure_space()
    assert await put(log, b"again") == 1
    await bed.store.close()


async def test_what_is_written_counts_against_the_free_space_at_once() -> None:
    storage = MemoryStorage(capacity_bytes=20_000)
    bed = await open_bed(storage, limits=LogLimits(space_reserve_bytes=10_000))
    while bed.store.writable():
        await put(bed.log(), b"z" * 1_000)
    assert 20_000 - storage.used_bytes > 8_000
    await bed.store.close()


async def test_a_full_disk_during_a_commit_is_refused_and_heals() -> None:
    bed, steps = await faulty_bed(LogLimits(space_reserve_bytes=1, group_commit=False))
    log, flight, queued = bed.log(), Answers(), Answers()
    await put(log, b"first")
    fail_block_commits(steps, StorageFull("ENOSPC"), after=False, times=100)
    log.append(block(b"in flight"), flight)
    log.append(block(b"queued"), queued)
    await settled(bed)
    assert [type(error) for error in (*flight.errors, *queued.errors)] == [StorageFull] * 2
    files = bed.files
    assert isinstance(files, FaultyFiles)
    files.free_bytes = 0
    await bed.store.upkeep.measure_space()
    assert not bed.store.writable()
    steps.script = files.free_bytes = None
    await bed.store.upkeep.measure_space()
    assert await put(log, b"later") == 1
    assert await payloads(log) == [b"first", b"later"]
    await bed.store.close()


async def test_a_limit_of_one_file_does_not_make_the_server_full() -> None:
    """A quota or EFBIG has the same error as a full disk; only a measurement shows which it is."""
    bed, steps = await faulty_bed(LogLimits(space_reserve_bytes=1, group_commit=False))
    refused = Answers()
    fail_block_commits(steps, StorageFull("EFBIG"), after=False, times=100)
    bed.log(0).append(block(b"too large"), refused)
    await settled(bed)
    assert [type(error) for error in refused.errors] == [StorageFull]
    steps.script = None
    assert bed.store.writable()
    assert await put(bed.log(1), b"another partition") == 0
    await bed.store.upkeep.measure_space()
    assert bed.store.writable()
    await bed.store.close()


async def test_pending_bytes_are_bounded_per_partition_and_server() -> None:
    limits = LogLimits(
        group_bytes_max=3_000,  # a topic may have so much whatever the others have
        pending_bytes_max=3_000,
        pending_bytes_total_max=4_000,
        space_reserve_bytes=0,
    )
    bed, _ = await faulty_bed(limits)
    answers = Answers()
    bed.log(0).append(block(b"z" * 1_500), answers)
    with pytest.raises(ExcessivePending, match="partition 0"):
        bed.log(0).append(block(b"z" * 1_500), answers)
    bed.log(1).append(block(b"z" * 1_000), answers)
    with pytest.raises(ExcessivePending, match="server"):
        bed.log(2).append(block(b"z" * 1_500), answers)
    await until(lambda: len(answers.got) >= 2)
    assert answers.bases == [0, 0]
    assert await put(bed.log(2), b"z" * 1_500) == 0
    await bed.store.close()


async def test_a_failed_registration_acknowledges_nothing_until_it_is_known() -> None:
    bed, steps = await faulty_bed()
    answers = Answers()
    steps.script = FailOnce("replace", StoreUnavailable("down"), times=100)
    bed.log().append(block(b"a"), answers)
    await settled(bed)
    assert [type(error) for error in answers.errors] == [PartitionNotServing]
    steps.script = None
    assert await put(bed.log(), b"b") == 0
    await bed.store.close()


async def test_a_failed_roll_reopens_and_accepts_writes() -> None:
    limits = LogLimits(segment_bytes_max=1_024, space_reserve_bytes=0, index_interval_bytes=512)
    for name in ("create", "commit", "close", "replace"):
        for after in (False, True):
            bed, steps = await faulty_bed(limits)
            log = bed.log()
            await put(log, b"z" * 1_200)
            steps.script = FailOnce(name, OutcomeUnknown("lost"), after=after)
            assert [await put(log, b"%d" % number) for number in range(3)] == [1, 2, 3]
            assert [payload[:1] for payload in await payloads(log)] == [b"z", b"0", b"1", b"2"]
            await bed.store.close()
            again = await open_bed(bed.storage)
            assert len(await payloads(again.log())) == 4
            await again.store.close()


async def test_close_commits_what_is_queued_and_refuses_the_rest() -> None:
    bed, _ = await faulty_bed()
    log, answers = bed.log(), Answers()
    for number in range(5):
        log.append(block(b"%d" % number), answers)
    closing = asyncio.ensure_future(bed.store.close())
    await asyncio.sleep(0)
    with pytest.raises(PartitionNotServing):
        log.append(block(b"late"), answers)
    await closing
    assert answers.bases == [0, 1, 2, 3, 4]


async def test_close_is_bounded_and_settles_everyone() -> None:
    bed, steps = await faulty_bed(LogLimits(space_reserve_bytes=0, close_s=0.05))
    log, flight, queued = bed.log(), Answers(), Answers()
    await put(log, b"first")
    steps.stop_at = 0  # storage hangs from now on
    log.append(block(b"in flight"), flight)
    await asyncio.sleep(0)
    log.append(block(b"queued"), queued)
    await bed.store.close()
    assert [type(error) for error in flight.errors] == [OutcomeUnknown]
    assert [type(error) for error in queued.errors] == [PartitionNotServing]


async def test_a_registration_that_fails_leaves_no_file_open() -> None:
    bed, steps = await faulty_bed()
    closed: list[str] = []
    answers = iter([None, StoreUnavailable("down"), None, None])

    def script(name: str, path: str, after: bool) -> None:
        if name == "close" and after:
            closed.append(path)
        if name == "replace" and not after and (error := next(answers)) is not None:
            raise error

    steps.script = script
    assert await put(bed.log(), b"a") == 0
    assert closed == ["topic-uuid/0/00000000000000000000-1.log"]
    steps.script = None
    await bed.store.close()


async def test_opening_gives_up_when_its_time_is_over() -> None:
    bed, steps = await faulty_bed(
        LogLimits(space_reserve_bytes=0, recover_deadline_s=0.0, reopen_attempts_max=1_000)
    )
    answers = Answers()
    steps.script = FailOnce("create", StoreUnavailable("down"), times=1_000)
    bed.log().append(block(b"a"), answers)
    await settled(bed)
    assert [type(error) for error in answers.errors] == [PartitionNotServing]
    await bed.store.close()


async def test_a_closed_store_opens_nothing_any_more() -> None:
    first = await open_bed()
    await put(first.log(), b"a")
    await crash(first)
    bed = await open_bed(first.storage)
    await bed.store.close()
    before = dict(bed.storage.files)
    with pytest.raises(PartitionNotServing):
        await bed.log().read(0, messages_max=1, bytes_max=1)
    assert bed.storage.files == before
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("log-")]


async def test_storage_that_lost_acknowledged_bytes_is_refused_and_no_offset_is_reused() -> None:
    bed, steps = await faulty_bed()
    log, answers = bed.log(), Answers()
    await put(log, b"first")
    kept = len(bed.storage.files["topic-uuid/0/00000000000000000000-1.log"].content)
    for number in range(3):
        await put(log, b"%d" % number)
    bed.storage.files["topic-uuid/0/00000000000000000000-1.log"].content[kept:] = b""
    fail_block_commits(steps, OutcomeUnknown("disk trouble"), after=False)
    log.append(block(b"late"), answers)
    await settled(bed)
    assert [type(error) for error in answers.errors] == [OutcomeUnknown]
    with pytest.raises(CorruptLog, match=r"ends at offset 1, .* below 4 was acknowledged"):
        log.append(block(b"x"), answers)
    await bed.store.close()
