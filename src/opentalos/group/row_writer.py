"""RowWriter: writes rows of groups by compare-and-set, in batches.

The coordinator and the directory hand it writes that decide at their commit point; while one call
to the store is in flight, further writes queue for the next.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
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

BATCH_ROWS_MAX = 512  # rows of one call
QUEUE_MAX = 20_000  # writes that wait; above it they are refused
CONFLICT_ATTEMPTS_MAX = 3  # decisions of one write, after others changed its row
UNKNOWN_ATTEMPTS_MAX = 5  # identical repeats of a write whose outcome is unknown
UNKNOWN_PAUSE_S = 0.05  # before the first repeat; doubles
WRITE_ID_BYTES = 12
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


class RowWriter:
    """All writes of the table ``groups``; one task, each row has at most one write in flight.

    A write waits in the queue, is decided, is in flight, and ends as written, refused, not done or
    unknown. Writes of different rows go to the store in one batch; those of a row that is in flight
    wait in order, so each decides on what the one before has stored. A conflict reads the row
    again and decides again, a bounded number of times. An unknown outcome is repeated identically,
    under the same write id; if it stays unknown, the row is read again before its next use.
    """

    def __init__(self, rows: RowStore, clock: Clock) -> None:
        self._rows, self._clock = rows, clock
        self._queue: deque[_Queued] = deque()
        self._flight: list[_Queued] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def write(self, write: Write) -> bool:
        """Return True once written, False if ``decide`` found nothing to write.

        Raises: whatever ``decide`` raises, Unavailable: not done; OutcomeUnknown: the identical
            write was repeated without success, and the row is read again before it is used.
        """
        if self._closed:
            raise StoreUnavailable("the coordinator is closed")
        if len(self._queue) >= QUEUE_MAX:
            raise ExcessivePending(f"{len(self._queue)} checkpoint writes wait already")
        queued = _Queued(write, asyncio.get_running_loop().create_future())
        self._queue.append(queued)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="group row writer")
        return await queued.done

    async def close(self) -> None:
        """Refuse new writes and finish the others; after ``CLOSE_S`` they are abandoned.

        What was in flight then is unknown, what was queued is not done.
        """
        self._closed = True
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=CLOSE_S)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._queue:
                self._flight = self._take()
                await self._refresh()
                self._decide()
                if self._flight:
                    await self._store()
        finally:
            # Only a cancelled task gets here with work left.
            for queued in self._flight:
                queued.fail(OutcomeUnknown("the write did not return"))
            for queued in self._queue:
                queued.fail(StoreUnavailable("stopped before this write"))
            self._flight = []
            self._queue.clear()

    def _take(self) -> list[_Queued]:
        """The oldest writes of distinct rows; those of a row that is taken wait in order."""
        taken: list[_Queued] = []
        rows: set[bytes] = set()
        waiting: deque[_Queued] = deque()
        while self._queue and len(taken) < BATCH_ROWS_MAX:
            queued = self._queue.popleft()
            key = queued.write.entry.key
            if key in rows:
                waiting.append(queued)
            else:
                rows.add(key)
                taken.append(queued)
        waiting.extend(self._queue)
        self._queue = waiting
        return taken

    async def _refresh(self) -> None:
        stale = [queued for queued in self._flight if queued.write.entry.stale]
        if not stale:
            return
        try:
            rows = await self._rows.get(TABLE, [queued.write.entry.key for queued in stale])
            for queued, row in zip(stale, rows, strict=True):
                entry = queued.write.entry
                before = entry.version
                entry.load(row)
                queued.write.reread(entry.version != before)
        except TalosError as error:
            self._flight = [queued for queued in self._flight if queued not in stale]
            for queued in stale:
                queued.fail(StoreUnavailable(f"the row could not be read: {error}"))

    def _decide(self) -> None:
        writing: list[_Queued] = []
        for queued in self._flight:
            try:
                value = queued.write.decide()
            except TalosError as error:
                queued.fail(error)
                continue
            if value is None:
                queued.finish(False)
                continue
            entry = queued.write.entry
            if value is READ_AGAIN:
                entry.stale = True
                self._queue.appendleft(queued)
                continue
            queued.value = value
            queued.mutation = RowMutation(
                key=entry.key,
                expected=entry.version,
                write_id=self._clock.token(WRITE_ID_BYTES),
                data={} if value is DELETE else value.cells(),
                delete=value is DELETE,
            )
            writing.append(queued)
        self._flight = writing

    async def _store(self) -> None:
        unknown = self._settle(self._flight, await self._mutate(self._flight), first=True)
        for attempt in range(UNKNOWN_ATTEMPTS_MAX):
            if not unknown:
                break
            self._flight = unknown
            await asyncio.sleep(UNKNOWN_PAUSE_S * 2**attempt)
            unknown = self._settle(unknown, await self._mutate(unknown), first=False)
        for queued in unknown:
            queued.write.entry.stale = True
            queued.fail(OutcomeUnknown("a checkpoint write may or may not have happened"))
        self._flight = []

    async def _mutate(self, batch: list[_Queued]) -> Sequence[int | TalosError]:
        mutations = [queued.mutation for queued in batch if queued.mutation is not None]
        try:
            return await self._rows.mutate_many(TABLE, mutations)
        except TalosError as error:
            return [error] * len(batch)

    def _settle(
        self, batch: list[_Queued], outcomes: Sequence[int | TalosError], *, first: bool
    ) -> list[_Queued]:
        """Report what is known; return what must be repeated identically.

        After an unknown outcome, nothing but success says what happened: a conflict may be due
        to this very write, and a refusal only concerns the repeat.
        """
        unknown: list[_Queued] = []
        for queued, outcome in zip(batch, outcomes, strict=True):
            entry = queued.write.entry
            if isinstance(outcome, int):
                entry.version = ABSENT if queued.value is DELETE else outcome
                entry.value = None if queued.value is DELETE else queued.value
                queued.write.written()
                queued.finish(True)
            elif isinstance(outcome, OutcomeUnknown) or not first:
                unknown.append(queued)
            elif isinstance(outcome, VersionConflict):
                self._decide_again(queued, outcome)
            else:
                queued.fail(outcome)
        return unknown

    def _decide_again(self, queued: _Queued, conflict: VersionConflict) -> None:
        queued.write.entry.stale = True
        queued.conflicts += 1
        if queued.conflicts >= CONFLICT_ATTEMPTS_MAX:
            queued.fail(StoreUnavailable(f"the row changes too often: {conflict}"))
        else:
            self._queue.appendleft(queued)
