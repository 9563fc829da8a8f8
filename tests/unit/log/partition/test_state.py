"""The partition's transition table: what is illegal raises, and what the table promises."""

import pytest
from tests.unit.log.bed import TOPIC, Answers, block, open_bed, payloads, put, until
from tests.unit.matrix import matrix

from opentalos.log.partition.state import (
    END_CERTAIN,
    GONE,
    INITIAL,
    READABLE,
    TRANSITIONS,
    Event,
    IllegalTransition,
    State,
    next_state,
)
from opentalos.log.partition.writer import PartitionWriter
from opentalos.model.errors import NotOwner, OutcomeUnknown, PartitionNotServing
from opentalos.model.message import PartitionKey

KEY = PartitionKey(TOPIC.topic_uuid, 0)
ILLEGAL = [
    (state, event) for state in State for event in Event if (state, event) not in TRANSITIONS
]
BEGINNINGS = (Event.CLAIM, Event.COMMIT, Event.ROLL, Event.SEAL)


@matrix(("state", "event"), ILLEGAL)
def test_a_pair_that_the_table_does_not_have_raises(state: State, event: Event) -> None:
    with pytest.raises(IllegalTransition, match=f"event {event.name} in state {state.name}"):
        next_state(state, event)


def test_every_state_can_be_reached() -> None:
    reached, found = {INITIAL}, [INITIAL]
    while found:
        source = found.pop()
        for (state, _), following in TRANSITIONS.items():
            if state is source and following not in reached:
                reached.add(following)
                found.append(following)
    assert reached == set(State)


def test_every_event_is_taken_somewhere() -> None:
    assert {event for _, event in TRANSITIONS} == set(Event)


def test_nothing_leads_back_from_a_partition_that_left() -> None:
    assert {to for (state, _), to in TRANSITIONS.items() if state in GONE} <= GONE


def test_a_fenced_partition_begins_and_acknowledges_nothing() -> None:
    allowed = {event for state, event in TRANSITIONS if state is State.FENCED}
    assert allowed == {Event.ABORTED}


def test_only_a_partition_that_may_commit_acknowledges() -> None:
    def states(event: Event) -> set[State]:
        return {state for state, taken in TRANSITIONS if taken is event}

    assert states(Event.COMMITTED) == states(Event.COMMIT)
    assert states(Event.COMMIT) == {State.OPEN, State.HANDING_OFF, State.DELETING}


def test_a_failure_never_leads_to_an_open_segment() -> None:
    failures = {Event.WRITE_FAILED, Event.ABORTED, Event.OPEN_FAILED, Event.OPEN_DAMAGED}
    followers = {to for (_, event), to in TRANSITIONS.items() if event in failures}
    assert not followers & {State.OPEN, State.ROLLING, State.SEALING}


def test_an_end_that_is_certain_is_readable() -> None:
    assert END_CERTAIN < READABLE
    assert not READABLE & GONE


def forced(writer: PartitionWriter, state: State) -> None:
    """Put a writer into a state that its events did not lead to."""
    writer._enter(state)


@pytest.mark.parametrize("state", [State.UNOPENED, State.SEALING, State.MUST_REOPEN])
async def test_a_commit_in_a_wrong_state_acknowledges_nothing_and_recovers(
    state: State, caplog: pytest.LogCaptureFixture
) -> None:
    bed = await open_bed()
    log, answers = bed.log(), Answers()
    await put(log, b"first")
    forced(log.writer, state)
    log.append(block(b"second"), answers)
    await until(lambda: bool(answers.got))
    assert "IllegalTransition" in caplog.text
    # The step before the commit left the block in the queue: not done, or stored by the reopening.
    assert answers.got == [(1, None)] or isinstance(answers.errors[0], PartitionNotServing)
    stored = [b"first", *([b"second"] if answers.bases else [])]
    await put(log, b"third")
    assert await payloads(log) == [*stored, b"third"]
    await bed.store.close()


async def test_an_acknowledgement_in_a_wrong_state_is_unknown_and_heals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed = await open_bed()
    log, answers = bed.log(), Answers()
    await put(log, b"first")
    real = PartitionWriter._committed

    def in_a_wrong_state(self: PartitionWriter, segment: object, group: object) -> None:
        forced(self, State.RECOVERING)
        real(self, segment, group)  # type: ignore[arg-type]  # whatever the writer gave

    with monkeypatch.context() as patch:
        patch.setattr(PartitionWriter, "_committed", in_a_wrong_state)
        log.append(block(b"second"), answers)
        await until(lambda: bool(answers.got))
    await put(log, b"third")
    assert not answers.bases
    assert [type(error) for error in answers.errors] == [OutcomeUnknown]
    assert await payloads(log) == [b"first", b"second", b"third"]
    await bed.store.close()


async def test_a_job_in_a_wrong_state_is_not_done_and_heals() -> None:
    bed = await open_bed()
    log = bed.log()

    async def seal_nothing() -> None:
        log.writer.begin_seal()

    with pytest.raises(PartitionNotServing, match="event SEAL in state UNOPENED"):
        await log.writer.run(seal_nothing)
    assert await put(log, b"first") == 0
    await bed.store.close()


async def test_a_log_accepts_puts_until_its_partition_leaves() -> None:
    bed = await open_bed()
    log = bed.log()
    assert log.accepts() is None
    await put(log, b"first")
    assert log.accepts() is None
    await bed.store.hand_off(KEY, NotOwner("served by s2", "s2:1"))
    refusal = log.accepts()
    assert isinstance(refusal, NotOwner)
    assert refusal.address == "s2:1"
    with pytest.raises(NotOwner):
        log.append(block(b"late"), Answers())
    assert log.writer.state is State.FENCED
    await until(lambda: not log.writer.busy())
    assert bed.log() is not log  # a partition that comes back gets another log
    await bed.store.close()


async def test_a_deleted_partition_is_not_opened_again() -> None:
    bed = await open_bed()
    log = bed.log()
    await put(log, b"first")
    await bed.store.delete_topic(TOPIC.topic_uuid, 1)
    assert log.writer.state is State.DELETED
    for beginning in BEGINNINGS:
        with pytest.raises(IllegalTransition):
            log.writer._move(beginning)
    assert isinstance(log.accepts(), PartitionNotServing)
    assert not bed.storage.files
    await bed.store.close()
