"""The states of a partition's writing side, and every transition between them. No I/O, no asyncio.

``PartitionLifecycle`` holds the state; only it and its subclass ``PartitionWriter`` move it. Jobs,
the opening, the upkeep and the broker call the writer's methods, which are named after the events
below. This module decides what is legal; the writer executes. Promises: only a state that allows
``COMMITTED`` acknowledges (I1, I2), and only a readable state shows a high watermark (I4).

The life of a partition on one server: it is unopened until its manifest was read, sealed while no
file is open, and open while a segment takes commits. Rolling and sealing are steps of an open
partition. Whatever fails leads to "must reopen", never back to open: the next put claims the next
epoch and recovers the last segment from storage.

Four events end that life, and nothing leads back; a partition that returns to this server gets a
new writer. While it is handed off or deleted, puts are refused at once, but steps that are under
way still end and what was queued is still committed, so these states do not tell a rolling from a
sealing partition. A fenced partition takes no result of a step: the writer drops such a result
without an event, so an event there other than a failure is illegal.
"""

from enum import Enum
from typing import Final


class State(Enum):
    """What the partition's writing side is doing. The value describes the state."""

    UNOPENED = "The manifest is not known; reads and puts load it first."
    SEALED = "The manifest is known and no file is open; the next put opens the log."
    RECOVERING = "The next epoch is claimed and the end of the log is not known yet; reads wait."
    REOPENING = "The next epoch is claimed; reads up to the known high watermark continue."
    OPEN = "A segment takes commits."
    ROLLING = (
        "The next segment takes a group while the old one is sealed; no manifest names it yet."
    )
    SEALING = "The segment is being sealed without a successor; puts are queued."
    MUST_REOPEN = "A file failed or was given up; the next step claims the next epoch and recovers."
    DAMAGED = "Acknowledged messages are damaged; valid blocks can be read, nothing is written."
    BROKEN = "The log cannot be read to its end; reads and puts get the reason."
    HANDING_OFF = "Another server is to own the partition; what was queued is committed and sealed."
    HANDED_OFF = "Nothing of the partition is open here; its next owner may open it."
    DELETING = "The topic is being deleted; the deletion runs after the current step."
    DELETED = "The files and the manifest are gone."
    FENCED = (
        "Every waiter was answered; another server may own the partition, nothing changes here."
    )


class Event(Enum):
    """What happens. The value describes the event; "begins" events come before the first effect."""

    ADOPTED = "A manifest without an unsealed segment was read or claimed."
    CHANGED = "The manifest is not the one that was known."
    CLAIM = "Begins: the next epoch of the manifest, with this server as the owner."
    READABLE = "An opening found damage and which valid blocks can still be read."
    OPENED = "A new segment is registered in the manifest."
    OPEN_FAILED = "An opening ended without a segment; it may be tried again."
    OPEN_DAMAGED = "An opening found that acknowledged messages are damaged."
    COMMIT = "Begins: one group goes to the segment's file."
    COMMITTED = "A group is durable: show it to readers and acknowledge it."
    ROLL = "Begins: one group goes to the next segment's file while the old segment is sealed."
    ROLLED = "The manifest names the next segment."
    SEAL = "Begins: close the segment, queue drained, and name its end in the manifest."
    SEALED = "The manifest names the end of the last segment."
    DISCARD = "A segment without messages has an outdated durability."
    WRITE_FAILED = "A commit, roll, seal or drop failed; the file is dead."
    GIVEN_UP = "A commit or roll hangs: its file is never trusted again, whatever it does."
    ABORTED = "A step raised an unexpected error, or the server stopped."
    HAND_OFF = "Another server is to own the partition: puts are refused from now on."
    DELETE = "The topic is to be deleted: puts are refused from now on."
    DELETED = "The files and the manifest were deleted."
    DROP = "Stop at once: the group in flight is unknown, the queue is not done."


INITIAL: Final = State.UNOPENED

# Readers get durable messages up to the high watermark, which is known.
READABLE: Final = frozenset(
    (
        State.SEALED,
        State.REOPENING,
        State.OPEN,
        State.ROLLING,
        State.SEALING,
        State.MUST_REOPEN,
        State.DAMAGED,
    )
)
# The high watermark is the end of the log: no group of an unknown outcome may lie beyond it.
END_CERTAIN: Final = frozenset((State.SEALED, State.OPEN, State.ROLLING, State.SEALING))

# Neither puts nor reads are served here any more.
GONE: Final = frozenset(
    (State.HANDING_OFF, State.HANDED_OFF, State.DELETING, State.DELETED, State.FENCED)
)


def _from(*states: State, to: State, on: Event) -> dict[tuple[State, Event], State]:
    return {(state, on): to for state in states}


def _stays(*states: State, on: Event) -> dict[tuple[State, Event], State]:
    return {(state, on): state for state in states}


_S, _E = State, Event
_IDLE = (_S.UNOPENED, _S.SEALED, _S.MUST_REOPEN)  # an opening may begin
_OPENING = (_S.RECOVERING, _S.REOPENING)
_WRITING = (_S.OPEN, _S.ROLLING, _S.SEALING)
_UNUSABLE = (_S.DAMAGED, _S.BROKEN)
_LEAVING = (_S.HANDING_OFF, _S.DELETING)
_LIVE = (*_IDLE, *_OPENING, *_WRITING, *_UNUSABLE)

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    # Without a file. A log whose opening failed may be adopted: its former owner sealed it.
    **_from(*_IDLE, on=_E.ADOPTED, to=_S.SEALED),
    (_S.BROKEN, _E.ADOPTED): _S.DAMAGED,  # what the manifest names may still be read
    **_stays(*_LEAVING, _S.HANDED_OFF, on=_E.ADOPTED),
    **_from(_S.SEALED, _S.MUST_REOPEN, on=_E.CHANGED, to=_S.UNOPENED),
    # Opening. A server that hands off or was fenced claims no epoch; a deletion that waits for its
    # turn lets the blocks that were queued before it be stored.
    (_S.UNOPENED, _E.CLAIM): _S.RECOVERING,
    **_from(_S.SEALED, _S.MUST_REOPEN, on=_E.CLAIM, to=_S.REOPENING),
    (_S.DELETING, _E.CLAIM): _S.DELETING,
    **_from(*_OPENING, on=_E.READABLE, to=_S.REOPENING),
    **_stays(*_LEAVING, on=_E.READABLE),
    **_from(*_OPENING, on=_E.OPENED, to=_S.OPEN),
    **_stays(*_LEAVING, on=_E.OPENED),
    (_S.RECOVERING, _E.OPEN_FAILED): _S.UNOPENED,
    (_S.REOPENING, _E.OPEN_FAILED): _S.MUST_REOPEN,
    **_stays(*_IDLE, *_LEAVING, _S.HANDED_OFF, on=_E.OPEN_FAILED),
    **_from(_S.UNOPENED, _S.RECOVERING, on=_E.OPEN_DAMAGED, to=_S.BROKEN),
    **_from(_S.SEALED, _S.MUST_REOPEN, _S.REOPENING, on=_E.OPEN_DAMAGED, to=_S.DAMAGED),
    **_stays(*_LEAVING, _S.HANDED_OFF, on=_E.OPEN_DAMAGED),
    # Writing.
    **_stays(_S.OPEN, *_LEAVING, on=_E.COMMIT),
    **_stays(_S.OPEN, *_LEAVING, on=_E.COMMITTED),
    (_S.OPEN, _E.ROLL): _S.ROLLING,
    (_S.ROLLING, _E.ROLLED): _S.OPEN,
    (_S.OPEN, _E.SEAL): _S.SEALING,
    (_S.SEALING, _E.SEALED): _S.SEALED,
    (_S.HANDING_OFF, _E.SEALED): _S.HANDED_OFF,
    (_S.DELETING, _E.SEALED): _S.DELETING,
    **_stays(*_LEAVING, on=_E.ROLL),
    **_stays(*_LEAVING, on=_E.ROLLED),
    **_stays(*_LEAVING, on=_E.SEAL),
    # Failures lead back to storage, never back to open.
    (_S.OPEN, _E.DISCARD): _S.MUST_REOPEN,
    **_stays(*_LEAVING, on=_E.DISCARD),
    **_from(*_WRITING, on=_E.WRITE_FAILED, to=_S.MUST_REOPEN),
    **_stays(*_LEAVING, on=_E.WRITE_FAILED),
    **_from(_S.OPEN, _S.ROLLING, on=_E.GIVEN_UP, to=_S.MUST_REOPEN),
    **_stays(*_LEAVING, on=_E.GIVEN_UP),
    (_S.RECOVERING, _E.ABORTED): _S.UNOPENED,
    **_from(_S.REOPENING, *_WRITING, on=_E.ABORTED, to=_S.MUST_REOPEN),
    **_stays(*_IDLE, *_UNUSABLE, *_LEAVING, on=_E.ABORTED),
    **_stays(_S.HANDED_OFF, _S.DELETED, _S.FENCED, on=_E.ABORTED),
    # The end on this server.
    **_from(_S.UNOPENED, _S.SEALED, _S.DELETED, on=_E.HAND_OFF, to=_S.HANDED_OFF),
    **_from(
        *(_S.MUST_REOPEN, *_OPENING, *_WRITING, *_UNUSABLE, _S.DELETING),
        on=_E.HAND_OFF,
        to=_S.HANDING_OFF,
    ),
    **_from(*_LIVE, _S.DELETING, _S.DELETED, on=_E.DELETE, to=_S.DELETING),
    **_from(_S.DELETING, _S.DELETED, on=_E.DELETED, to=_S.DELETED),
    **_from(_S.HANDING_OFF, _S.HANDED_OFF, on=_E.DELETED, to=_S.HANDED_OFF),
    **_from(*(*_LIVE, *_LEAVING, _S.HANDED_OFF, _S.DELETED), on=_E.DROP, to=_S.FENCED),
}


class IllegalTransition(RuntimeError):
    """A step tried what its state forbids: a defect, found before the step had an effect.

    It is no ``TalosError``, so no caller takes it for a planned outcome. The task that runs the
    step logs it and fails the partition as after any unexpected error: what was in flight is
    unknown, what was queued is not done, and the next put starts from storage. Tests and the
    simulation fail on the log record.
    """


def next_state(state: State, event: Event) -> State:
    """The state that follows. Raises: IllegalTransition: the pair is not in the table."""
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise IllegalTransition(f"event {event.name} in state {state.name}")
    return following
