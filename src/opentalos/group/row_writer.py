"""RowWriter: writes rows of groups by compare-and-set, in batches.

The coordinator and the directory hand it writes that decide at their commit point; while one call
to the store is in flight, further writes queue for the next. A call that stalls no longer counts:
one slow row holds up no other group.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from opentalos.group.row_format import TABLE
from opentalos.model.errors import (
    ExcessivePending,
    OutcomeUnknown,
    StoreUnavailable,
    TalosError,
    VersionConflict,
)
from opentalos.ports.clock import Clock
from opentalos.ports.row_store import ABSENT, Row, RowMutation, RowStore

_LOG = logging.getLogger("opentalos.group")
BATCH_ROWS_MAX = 128  # rows of one call, which take 1 to 2 ms of the loop
QUEUE_MAX = 20_000  # writes that wait; above it they are refused
ROW_QUEUE_MAX = 1_000  # of them for one row, so that one that hangs refuses no other
CONFLICT_ATTEMPTS_MAX = 3  # decisions of one write, after others changed its row
UNKNOWN_ATTEMPTS_MAX = 5  # identical repeats of a write whose outcome is unknown
UNKNOWN_PAUSE_S = 0.05  # before the first repeat; doubles
WRITE_ID_BYTES = 12
STALL_S = 0.05  # a longer call is stalled; another one may begin beside it
CALLS_MAX = 32  # at once, all but one of them stalled; a hanging row occupies one
CLOSE_S = 1.0  # a store that hangs must not keep the server from ending


class RowValue(Protocol):
    """A row's content."""

    def cells(self) -> Mapping[bytes, bytes]: ...


V = TypeVar("V", bound=RowValue)
DELETE = object()  # a decision: remove the row
READ_AGAIN = object()  # a decision: read the row first, then decide again


@dataclass(slots=True, eq=False)
class RowEntry(Generic[V]):
    """This server's copy of one row. ``stale``: read it again before the next decision."""

    key: bytes
    decode: Callable[[Mapping[bytes, bytes]], V]
    version: int = ABSENT
    value: V | None = None
    stale: bool = False

    def load(self, row: Row | None) -> None:
        """Take over what the store has."""
        self.version = row.version if row else ABSENT
        self.value = self.decode(row.cells) if row else None
        self.stale = False

    def see(self, row: Row | None) -> bool:
        """Take over what a read found, unless it is older than a write that has returned since;
        True if another server has changed the row."""
        if row is None:
            self.stale = self.stale or self.version != ABSENT
            return False
        newer = row.version > self.version
        if newer:
            self.load(row)
        elif row.version == self.version:
            self.stale = False
        return newer


class Write(Protocol):
    """One intended write; ``decide`` runs at the commit point, when the row is not in flight.

    ``decide`` returns the new value, DELETE, READ_AGAIN (at most once), or None for nothing to
    write; it may raise to refuse. ``written`` runs once the store has it, before the next write of
    the row decides; ``reread`` when the copy was read again, with whether the row had changed.
    """

    @property
    def entry(self) -> RowEntry[Any]: ...
    def decide(self) -> Any: ...
    def written(self) -> None: ...
    def reread(self, changed: bool) -> None: ...


@dataclass(slots=True, eq=False)
class _Queued:
    write: Write
    done: "asyncio.Future[bool]"
    conflicts: int = 0
    mutation: RowMutation | None = None
    value: Any = None

    def finish(self, written: bool) -> None:
        if not self.done.done():
            self.done.set_result(written)

    def fail(self, error: TalosError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class _Call:
    """A task that calls the store, batch after batch, and the writes that it has taken."""

    __slots__ = ("began_s", "flight", "stalled")

    def __init__(self) -> None:
        self.began_s = 0.0  # loop time at which the batch was taken
        self.flight: list[_Queued] = []
        self.stalled = False


class RowWriter:
    """All writes of a table, usually ``groups``; each row has at most one write in flight.

    A write waits in the queue of its row, is decided, is in flight, and ends as written, refused,
    not done or unknown. Writes of different rows go to the store in one batch; those of a row that
    is in flight wait in order, so each decides on what the one before has stored. A conflict reads
    the row again and decides again, a bounded number of times. An unknown outcome is repeated
    identically, under the same write id; if it stays unknown, the row is read again before its next
    use.

    One call is in flight while the store is quick, so batches grow with the load. A call that takes
    longer than ``STALL_S`` keeps its rows, and another one takes what waits.
    """

    def __init__(
        self,
        rows: RowStore,
        clock: Clock,
        table: str = TABLE,
        conflicts_max: int = CONFLICT_ATTEMPTS_MAX,
    ) -> None:
        self._rows, self._clock = rows, clock
        self._table, self._conflicts_max = table, conflicts_max
        self._waiting: dict[bytes, deque[_Queued]] = {}  # by row, also of those in flight
        self._ready: deque[bytes] = (
            deque()
        )  # rows with waiting writes and none in flight, each once
        self._count = 0  # of waiting writes
        self._calls: dict[asyncio.Task[None], _Call] = {}
        self._stall_timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def write(self, write: Write) -> bool:
        """Return True once written, False if ``decide`` found nothing to write.

        Raises: whatever ``decide`` raises, Unavailable: not done; OutcomeUnknown: the identical
            write was repeated without success, and the row is read again before it is used.
        """
        if self._closed:
            raise StoreUnavailable("the coordinator is closed")
        if self._count >= QUEUE_MAX:
            raise ExcessivePending(f"{self._count} checkpoint writes wait already")
        key = write.entry.key
        of_row = self._waiting.get(key)
        if of_row is not None and len(of_row) >= ROW_QUEUE_MAX:
            raise ExcessivePending(f"{len(of_row)} writes of this checkpoint wait already")
        queued = _Queued(write, asyncio.get_running_loop().create_future())
        if of_row is None:
            of_row = self._waiting[key] = deque()
            self._ready.append(key)
        of_row.append(queued)
        self._count += 1
        self._begin()
        return await queued.done

    async def close(self) -> None:
        """Refuse new writes and finish the others; after ``CLOSE_S`` they are abandoned.

        What was in flight then is unknown, what was queued is not done.
        """
        self._closed = True
        if self._calls:
            await asyncio.wait(list(self._calls), timeout=CLOSE_S)
        self._ready.clear()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        for task in list(self._calls):
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for of_row in self._waiting.values():
            for queued in of_row:
                queued.fail(StoreUnavailable("stopped before this write"))
        self._waiting.clear()
        self._count = 0

    # --- calls ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Start a call for what is ready, unless one is about to take it; look again later."""
        if not self._ready:
            return
        loop = asyncio.get_running_loop()
        due_s = [call.began_s + STALL_S for call in self._calls.values() if not call.stalled]
        if due_s:
            if self._stall_timer is None:
                self._stall_timer = loop.call_at(max(due_s), self._look_for_stalls)
        elif len(self._calls) < CALLS_MAX:
            call = _Call()
            call.began_s = loop.time()
            task = loop.create_task(self._run(call), name="group row writer")
            self._calls[task] = call
            task.add_done_callback(self._ended)

    def _look_for_stalls(self) -> None:
        self._stall_timer = None
        now_s = asyncio.get_running_loop().time()
        for call in self._calls.values():
            call.stalled = call.stalled or now_s >= call.began_s + STALL_S
        self._begin()

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._calls[task]
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("writing rows of consumer groups failed", exc_info=task.exception())
        if not self._closed:
            self._begin()

    async def _run(self, call: _Call) -> None:
        try:
            while self._ready and not call.stalled:
                call.flight = self._take()
                call.began_s = asyncio.get_running_loop().time()
                await self._refresh(call)
                self._decide(call)
                if call.flight:
                    await self._store(call)
        finally:
            # Only a cancelled task gets here with work left.
            for queued in call.flight:
                queued.fail(OutcomeUnknown("the write did not return"))
            self._release(call.flight)
            call.flight = []

    def _take(self) -> list[_Queued]:
        """The oldest write of each row that is ready."""
        taken: list[_Queued] = []
        while self._ready and len(taken) < BATCH_ROWS_MAX:
            taken.append(self._waiting[self._ready.popleft()].popleft())
        self._count -= len(taken)
        return taken

    def _release(self, ended: Iterable[_Queued]) -> None:
        """Nothing of these rows is in flight any more; what waits for them is ready."""
        for queued in ended:
            key = queued.write.entry.key
            of_row = self._waiting.get(key)
            if of_row:
                self._ready.append(key)
            elif of_row is not None:
                del self._waiting[key]

    def _again(self, queued: _Queued) -> None:
        """Decide once more, before the other writes of the row."""
        queued.write.entry.stale = True
        self._waiting[queued.write.entry.key].appendleft(queued)
        self._count += 1

    async def _refresh(self, call: _Call) -> None:
        stale = [queued for queued in call.flight if queued.write.entry.stale]
        if not stale:
            return
        try:
            rows = await self._rows.get(self._table, [queued.write.entry.key for queued in stale])
            for queued, row in zip(stale, rows, strict=True):
                entry = queued.write.entry
                before = entry.version
                entry.load(row)
                queued.write.reread(entry.version != before)
        except TalosError as error:
            call.flight = [queued for queued in call.flight if queued not in stale]
            for queued in stale:
                queued.fail(StoreUnavailable(f"the row could not be read: {error}"))
            self._release(stale)

    def _decide(self, call: _Call) -> None:
        writing: list[_Queued] = []
        ended: list[_Queued] = []
        for queued in call.flight:
            try:
                value = queued.write.decide()
            except TalosError as error:
                queued.fail(error)
                ended.append(queued)
                continue
            if value is None or value is READ_AGAIN:
                ended.append(queued)
                if value is None:
                    queued.finish(False)
                else:
                    self._again(queued)
                continue
            entry = queued.write.entry
            queued.value = value
            queued.mutation = RowMutation(
                key=entry.key,
                expected=entry.version,
                write_id=self._clock.token(WRITE_ID_BYTES),
                data={} if value is DELETE else value.cells(),
                delete=value is DELETE,
            )
            writing.append(queued)
        call.flight = writing
        self._release(ended)

    async def _store(self, call: _Call) -> None:
        self._settle_all(call, await self._mutate(call.flight), first=True)
        for attempt in range(UNKNOWN_ATTEMPTS_MAX):
            if not call.flight:
                return
            await asyncio.sleep(UNKNOWN_PAUSE_S * 2**attempt)
            self._settle_all(call, await self._mutate(call.flight), first=False)
        for queued in call.flight:
            queued.write.entry.stale = True
            queued.fail(OutcomeUnknown("a checkpoint write may or may not have happened"))
        unknown, call.flight = call.flight, []
        self._release(unknown)

    async def _mutate(self, batch: list[_Queued]) -> Sequence[int | TalosError]:
        mutations = [queued.mutation for queued in batch if queued.mutation is not None]
        try:
            return await self._rows.mutate_many(self._table, mutations)
        except TalosError as error:
            return [error] * len(batch)

    def _settle_all(
        self, call: _Call, outcomes: Sequence[int | TalosError], *, first: bool
    ) -> None:
        """Report what is known; what must be repeated identically stays in flight."""
        batch, call.flight = call.flight, []
        ended: list[_Queued] = []
        for queued, outcome in zip(batch, outcomes, strict=True):
            settled = self._settle(queued, outcome, first=first)
            (ended if settled else call.flight).append(queued)
        self._release(ended)
        self._begin()

    def _settle(self, queued: _Queued, outcome: int | TalosError, *, first: bool) -> bool:
        """Report an outcome; False: unknown, to be repeated identically.

        After an unknown outcome, nothing but success says what happened: a conflict may be due
        to this very write, and a refusal only concerns the repeat.
        """
        entry = queued.write.entry
        if isinstance(outcome, int):
            entry.version = ABSENT if queued.value is DELETE else outcome
            entry.value = None if queued.value is DELETE else queued.value
            queued.write.written()
            queued.finish(True)
        elif isinstance(outcome, OutcomeUnknown) or not first:
            return False
        elif isinstance(outcome, VersionConflict):
            self._decide_again(queued, outcome)
        else:
            queued.fail(outcome)
        return True

    def _decide_again(self, queued: _Queued, conflict: VersionConflict) -> None:
        queued.conflicts += 1
        if queued.conflicts >= self._conflicts_max:
            queued.write.entry.stale = True
            queued.fail(StoreUnavailable(f"the row changes too often: {conflict}"))
        else:
            self._again(queued)
