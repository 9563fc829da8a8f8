"""The states of one opening of a table shard, as data. Sans-io.

``shard.py`` executes: it reports each event here, reads what the new state permits and acts on it.
All transitions are in this module, and no other module writes a state. The rules keep two promises
about a shard that several servers may believe they own: a message that was published is never
overtaken by an older one of its row (the epoch of the claim fences former owners), and a mutation
that was acknowledged reaches every stream (pending cells are read before the shard serves).

An opening ends in one of two final states and is never revived: the next mutation, or the follower
of ``shards.py``, makes a new opening, which claims a larger epoch and reads what this one left.
"""

from enum import Enum
from typing import Final


class State(Enum):
    """What an opening is doing. The value describes the state."""

    OPENING = "Refreshes the table's record and checks that this server owns the shard."
    CLAIMING = "Raises the epoch in the shard's record. Only tables with streams are claimed."
    READING = "Reads the pending cells of the shard's range and publishes what it finds."
    SERVING = "Writes groups of mutations, publishes their changes, clears cells, issues marks."
    LEAVING = "Serves for a bounded time while it publishes and clears what is left."
    RELEASING = "Waits for the group being written, then removes its name from the record."
    FENCED = "Another server owns the shard, or a transition was illegal. Final."
    CLOSED = "Left, idle, failed, or closed because its table or its session is gone. Final."


class Event(Enum):
    """What happened. The value describes the event."""

    NO_STREAMS = "The table has no stream, so there is nothing to claim."
    STREAMS = "The table has a stream and this opening has no claim yet."
    CLAIMED = "The shard's record has this server's name and a larger epoch."
    PENDING_READ = "The outbox has every pending cell of the range."
    LEAVE = "Another server is to own the shard, or this server stops."
    DRAINED = "Everything is published and cleared, or the time for it is over."
    RELEASED = "The record no longer has this server's name, or could not be changed."
    FENCE = "The record or a log shows that another server has claimed the shard."
    FAIL = "A step failed, or the outcome of a write is unknown."
    CLOSE = "The table was dropped, the session lapsed, or the shard was idle."


_S, _E = State, Event

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (_S.OPENING, _E.NO_STREAMS): _S.SERVING,
    (_S.OPENING, _E.STREAMS): _S.CLAIMING,
    (_S.OPENING, _E.LEAVE): _S.CLOSED,
    (_S.OPENING, _E.FAIL): _S.CLOSED,
    (_S.OPENING, _E.CLOSE): _S.CLOSED,
    (_S.CLAIMING, _E.CLAIMED): _S.READING,
    (_S.CLAIMING, _E.LEAVE): _S.CLOSED,
    (_S.CLAIMING, _E.FAIL): _S.CLOSED,
    (_S.CLAIMING, _E.CLOSE): _S.CLOSED,
    (_S.READING, _E.PENDING_READ): _S.SERVING,
    (_S.READING, _E.LEAVE): _S.CLOSED,
    (_S.READING, _E.FENCE): _S.FENCED,
    (_S.READING, _E.FAIL): _S.CLOSED,
    (_S.READING, _E.CLOSE): _S.CLOSED,
    (_S.SERVING, _E.STREAMS): _S.CLAIMING,  # the table's first stream
    (_S.SERVING, _E.LEAVE): _S.LEAVING,
    (_S.SERVING, _E.FENCE): _S.FENCED,
    (_S.SERVING, _E.FAIL): _S.CLOSED,
    (_S.SERVING, _E.CLOSE): _S.CLOSED,
    (_S.LEAVING, _E.STREAMS): _S.CLOSED,  # it may not write without a claim any more
    (_S.LEAVING, _E.DRAINED): _S.RELEASING,
    (_S.LEAVING, _E.FENCE): _S.FENCED,
    (_S.LEAVING, _E.FAIL): _S.CLOSED,
    (_S.LEAVING, _E.CLOSE): _S.CLOSED,
    (_S.RELEASING, _E.RELEASED): _S.CLOSED,
    (_S.RELEASING, _E.FAIL): _S.CLOSED,  # a write may be on its way: the name stays
}

FINAL: Final = frozenset({State.FENCED, State.CLOSED})

# Mutations that arrive are queued: while the shard opens they wait for it.
ACCEPTS: Final = frozenset(
    {State.OPENING, State.CLAIMING, State.READING, State.SERVING, State.LEAVING}
)
# Groups are written to rows and index entries, and marks are issued.
WRITES: Final = frozenset({State.SERVING, State.LEAVING})
# Blocks are put into the topics of streams, and the epoch may be raised again.
PUBLISHES: Final = frozenset({State.READING, State.SERVING, State.LEAVING})


class IllegalTransition(RuntimeError):
    """An event in a state that does not expect it: a defect of the server."""


class ShardLife:
    """The state of one opening, and the epoch of its claim.

    ``accepts``, ``writes`` and ``publishes`` are what the state permits, as attributes, because a
    put checks ``accepts``. An illegal event fences the shard before it raises: whatever the defect
    is, this opening then accepts, writes and publishes nothing more, and the next one finds in the
    rows what it did.
    """

    __slots__ = ("accepts", "epoch", "publishes", "state", "writes")

    def __init__(self) -> None:
        self.epoch = 0  # of the claim; 0: none yet
        self._enter(State.OPENING)

    def on(self, event: Event) -> State:
        """Take the transition of ``event``. Raises: IllegalTransition: the state is FENCED."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            raise self._fenced(f"event {event.name} in state {self.state.name}")
        self._enter(state)
        return state

    def claimed(self, epoch: int) -> State:
        """The record has this server's name. Raises: IllegalTransition: the state is FENCED."""
        self._raise_epoch(epoch)
        return self.on(Event.CLAIMED)

    def renewed(self, epoch: int) -> None:
        """The record has a larger epoch. Raises: IllegalTransition: the state is FENCED."""
        if not self.publishes:
            raise self._fenced(f"epoch raised in state {self.state.name}")
        self._raise_epoch(epoch)

    def at(self, state: State) -> bool:
        """Whether this is the state now; it may change with every await."""
        return self.state is state

    @property
    def stopped(self) -> bool:
        """Nothing is accepted, written or published any more."""
        return not self.accepts

    def _raise_epoch(self, epoch: int) -> None:
        if epoch <= self.epoch:
            raise self._fenced(f"epoch {epoch} claimed after epoch {self.epoch}")
        self.epoch = epoch

    def _enter(self, state: State) -> None:
        self.state = state
        self.accepts = state in ACCEPTS
        self.writes = state in WRITES
        self.publishes = state in PUBLISHES

    def _fenced(self, why: str) -> IllegalTransition:
        self._enter(State.FENCED)
        return IllegalTransition(why)
