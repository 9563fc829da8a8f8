"""Groups that frames of the journal take without a lane: what they cost, and how they fail."""

import asyncio

import pytest
from tests.unit.log.bed import TOPIC, Answers, Bed, block, crash, payloads, put, until
from tests.unit.log.faults import FailOnce, Steps
from tests.unit.log.journal.journals import held_commits
from tests.unit.log.journal.test_log_with_journal import JOURNALED, journaled_bed

from opentalos.log.journal.journal import ANSWERED_AT_ONCE, Journal
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.log.partition.state import State
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.segment.writer import Group, OpenSegment
from opentalos.model.errors import NotOwner, OutcomeUnknown, TalosError
from opentalos.model.message import PartitionKey, ProducerStamp


def file_of(bed: Bed, partition: int = 0) -> JournaledFile:
    segment = bed.log(partition).writer.segment
    assert segment is not None
    assert isinstance(segment.file, JournaledFile)
    return segment.file


async def opened(partitions: int, steps: Steps | None = None) -> tuple[Bed, Journal]:
    bed = await journaled_bed(steps=steps)
    for at in range(partitions):
        await put(bed.log(at), b"first")
    await until(lambda: not bed.store._context.lanes.depth())
    return bed, file_of(bed).journal


async def test_one_frame_takes_what_waits_of_all_partitions_when_it_begins() -> None:
    bed, journal = await opened(20)
    go, answers = held_commits(journal), Answers()
    bed.log(0).append(block(b"a"), answers)
    await until(lambda: bool(journal._in_flight))
    for number in range(3):  # each group grows until the next frame begins
        for at in range(1, 20):
            bed.log(at).append(block(b"%d" % number), answers)
        await asyncio.sleep(0.01)
    lanes = bed.store._context.lanes
    assert all(lane.busy is None for lane in lanes.active)
    assert lanes.depth() == 20
    frames, commits = journal._place.counters.frames, bed.store.counters.commits
    go.set()
    await until(lambda: len(answers.got) == 58)
    assert answers.errors == []
    assert journal._place.counters.frames - frames == 2
    assert bed.store.counters.commits - commits == 20
    await crash(bed)
    again = await journaled_bed(bed.storage)
    for at in range(1, 20):
        assert await payloads(again.log(at)) == [b"first", b"0", b"1", b"2"]
    await again.store.close()


async def test_a_frame_that_fails_is_stored_once_by_the_openings() -> None:
    steps = Steps()
    bed, journal = await opened(3, steps)
    steps.script = FailOnce("commit", OutcomeUnknown("the disk"), path=".jnl")
    bases = await asyncio.gather(*(put(bed.log(at), b"more") for at in range(3)))
    assert bases == [1, 1, 1]
    assert journal.dead is not None
    for at in range(3):
        assert await payloads(bed.log(at)) == [b"first", b"more"]
    await bed.store.close()


async def test_what_waits_for_a_frame_of_a_journal_that_dies_goes_to_the_segments() -> None:
    bed, journal = await opened(2)
    held_commits(journal)
    stuck = asyncio.ensure_future(put(bed.log(0), b"stuck"))
    await until(lambda: bool(journal._in_flight))
    joined = asyncio.ensure_future(put(bed.log(1), b"joined"))
    await until(lambda: bool(journal._joined))
    epoch = bed.log(1).epoch
    journal.fail(OutcomeUnknown("the disk"))
    assert await joined == 1
    assert bed.log(1).epoch == epoch  # it was not written, so nothing is recovered
    assert await stuck == 1
    await bed.store.close()


async def test_a_partition_that_left_meanwhile_disturbs_nobody_in_its_frame() -> None:
    bed, journal = await opened(3)
    go, answers, others = held_commits(journal), Answers(), Answers()
    for at, waiter in ((0, others), (1, answers), (2, others)):
        bed.log(at).append(block(b"more"), waiter)
    await until(lambda: len(journal._in_flight) == 3)
    left = bed.log(1).writer
    bed.store.drop(PartitionKey(TOPIC.topic_uuid, 1), NotOwner("taken"))
    assert [type(error) for error in answers.errors] == [OutcomeUnknown]
    go.set()
    await until(lambda: len(others.got) == 2)
    assert others.errors == []
    assert len(answers.got) == 1
    assert left.state is State.FENCED
    assert not left.busy()
    await bed.store.close()


async def test_a_hanging_frame_is_given_up_by_those_that_only_wait_for_the_next() -> None:
    bed, journal = await opened(2)
    held_commits(journal)
    bed.log(0).append(block(b"stuck"), Answers())
    await until(lambda: bool(journal._in_flight))
    bed.store.drop(PartitionKey(TOPIC.topic_uuid, 0), NotOwner("taken"))  # it gives nothing up
    assert await put(bed.log(1), b"joined") == 1
    assert journal.dead is not None
    assert bed.store.counters.hung_commits == 1
    await bed.store.close()


async def test_an_error_in_one_member_reaches_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed, journal = await opened(3)
    go, answers = held_commits(journal), [Answers() for _ in range(3)]
    for at, waiter in enumerate(answers):
        bed.log(at).append(block(b"more"), waiter)
    await until(lambda: len(journal._in_flight) == 3)
    writer = bed.log(1).writer

    real = PartitionWriter._committed

    def committed(self: PartitionWriter, segment: OpenSegment, group: Group) -> None:
        if self is writer and segment.file.journal is journal:  # type: ignore[attr-defined]
            raise RuntimeError("a defect")
        real(self, segment, group)

    monkeypatch.setattr(PartitionWriter, "_committed", committed)
    go.set()
    await until(lambda: all(waiter.got for waiter in answers))
    assert answers[0].bases == answers[2].bases == [1]
    await bed.store.close()


async def test_a_group_of_duplicates_only_is_answered_without_a_frame() -> None:
    bed, journal = await opened(1)
    stamped = block(b"once", producer=ProducerStamp(7, 0, 0))
    answers = Answers()
    bed.log().append(stamped, answers)
    await until(lambda: len(answers.got) == 1)
    frames = journal._place.counters.frames
    bed.log().append(stamped, answers)
    await until(lambda: len(answers.got) == 2)
    assert answers.bases == [1, 1]
    assert journal._place.counters.frames == frames
    assert await put(bed.log(), b"next") == 2
    await bed.store.close()


async def test_a_large_frame_is_answered_in_several_turns_of_the_loop() -> None:
    partitions = ANSWERED_AT_ONCE + 10
    bed, journal = await opened(partitions)
    answers, turns = Answers(), [0]

    def turn() -> None:
        turns[0] += 1
        if len(seen) < partitions:
            asyncio.get_running_loop().call_soon(turn)

    seen: list[int] = []

    def waiter(base: int, error: TalosError | None) -> None:
        answers(base, error)
        seen.append(turns[0])

    for at in range(partitions):
        bed.log(at).append(block(b"more"), waiter)
    asyncio.get_running_loop().call_soon(turn)
    await until(lambda: len(seen) == partitions, 0)
    assert answers.errors == []
    assert seen.count(seen[0]) == ANSWERED_AT_ONCE
    assert journal.dead is None
    await bed.store.close()


async def test_a_segment_that_is_due_is_rolled_by_a_lane() -> None:
    bed, _ = await opened(1)
    path = file_of(bed).path
    while file_of(bed).path == path:
        await put(bed.log(), bytes(40_000))
    assert bed.store.counters.rolls == 1
    assert file_of(bed).length < JOURNALED.segment_bytes_max
    await bed.store.close()
