"""LongWork: work whose amount callers decide, done so that it does not hold up the event loop.

Readers of single messages and the gateways use it. Such work takes turns: a few at a time,
callers served in rotation, so one caller's work delays its own. A turn does what Python does in
short pieces with ``pause`` between them, or on a thread with ``in_pieces`` where it cannot return
in between; what compiled code does without the interpreter lock runs on a thread. Each pass of the
loop runs one piece of those that pause, whose turn ever it is, and waits for at most one of each
thread.
"""

import asyncio
import itertools
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from opentalos.model.errors import ExcessivePending, Unavailable
from opentalos.ports.offload import Offload

_TENANT: ContextVar[str] = ContextVar("opentalos_works_for", default="")  # of a task

S = TypeVar("S")
T = TypeVar("T")

TURNS_MAX = 2  # at once; as many as there are threads
SHORT_ITEMS = 256  # topics or partitions: so few take less than 1 ms to convert
BEGUN_AT_ONCE = 16  # tasks, whose first steps are run in one pass of the loop
# Of the loop, between two pieces. An answer takes several passes in a row, each of which would have
# a piece in it; a pass with nothing to do takes some microseconds.
PASSES_BETWEEN = 2
SHORT_BYTES = 32 << 10  # work on fewer bytes needs no turn; it takes less than 1 ms


@dataclass(slots=True)
class LongWorkCounters:
    """Since the start."""

    turns: int = 0
    pauses: int = 0
    off_loop: int = 0  # calls on threads
    rejected: int = 0


class Turn:
    """The right to work; valid inside ``LongWork.turn``."""

    def __init__(
        self, offload: Offload | None, counters: LongWorkCounters, pieces: "_Pieces", caller: str
    ) -> None:
        self._offload, self._counters, self._pieces = offload, counters, pieces
        self._caller = caller
        self.job: asyncio.Task[Any] | None = None  # on a thread

    async def off_loop(self, work: Callable[..., T], *args: Any) -> T:
        """Run compiled code on a thread. If the caller is cancelled, the turn lasts until its end,
        so cancelled calls cannot pile up work."""
        self._counters.off_loop += 1
        if self._offload is None:
            return work(*args)
        job = self.job = asyncio.get_running_loop().create_task(_run(self._offload, work, args))
        return await asyncio.shield(job)

    async def in_pieces(self, work: Callable[[Callable[[], None]], T]) -> T:
        """Run Python code that calls its argument after each piece of about 1 ms.

        A recursive codec cannot return to the loop in between. So it runs on a thread, and lets the
        loop have the interpreter lock after each piece.
        """
        offload, pieces = self._offload, 0

        def pause() -> None:
            nonlocal pieces
            pieces += 1
            if offload is not None:
                offload.yield_lock()

        try:
            return await self.off_loop(work, pause)
        finally:
            self._counters.pauses += pieces

    async def pause(self) -> None:
        """Let the loop do other work; call it after each piece of about 1 ms."""
        self._counters.pauses += 1
        await self._pieces.next(_TENANT.get() or self._caller)


def work_for(tenant: str) -> None:
    """What this task does from now on is a call of this tenant. Gateways say so: whoever pauses
    deep below them does not know it."""
    _TENANT.set(tenant)


class _Pieces:
    """Lets one piece run in each pass of the loop; tenants are served in rotation, so one with a
    thousand calls gets as much as one with a single call."""

    def __init__(self) -> None:
        # At most one of each call.
        self._due: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._scheduled = False

    async def next(self, tenant: str) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        due = self._due.get(tenant)
        if due is None:
            due = self._due[tenant] = deque()
        due.append(mine)
        if not self._scheduled:
            self._schedule()
        await mine

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._pass, PASSES_BETWEEN)

    def _pass(self, wait: int) -> None:
        if wait:
            asyncio.get_running_loop().call_soon(self._pass, wait - 1)
            return
        self._scheduled = False
        while self._due:
            tenant, due = self._due.popitem(last=False)
            first = due.popleft()
            if due:
                self._due[tenant] = due
            if not first.done():  # else it was cancelled
                first.set_result(None)
                break
        if self._due:
            self._schedule()


class LongWork:
    """Admits ``TURNS_MAX`` turns; the callers that wait are served in rotation.

    Args: offload: None: compiled code runs on the loop, as simulations need it.
    """

    def __init__(self, offload: Offload | None, waiting_max: int) -> None:
        self._offload, self._waiting_max = offload, waiting_max
        self._free = TURNS_MAX
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._freeing: set[asyncio.Task[Any]] = set()
        self._pieces = _Pieces()
        self.counters = LongWorkCounters()

    @property
    def waiting(self) -> int:
        """Calls that wait for a turn."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, caller: str, *, patient: bool = False) -> AsyncIterator[Turn]:
        """A turn of this caller.

        Args:   patient: it is bounded elsewhere how many of the caller's calls wait.
        Raises: ExcessivePending: too many of the caller's calls wait already.
        """
        await self._take(_TENANT.get() or caller, patient=patient)  # all of a tenant count as one
        self.counters.turns += 1
        turn = Turn(self._offload, self.counters, self._pieces, caller)
        try:
            yield turn
        finally:
            if turn.job is not None and not turn.job.done():
                turn.job.add_done_callback(self._end_late)
            else:
                self._give()

    async def each(
        self,
        caller: str,
        items: Sequence[S],
        convert: Callable[[S], T],
        *,
        weight: Callable[[S], int] | None = None,
    ) -> list[T]:
        """Convert items one by one; many of them in pieces.

        Args: weight: as how many items one counts, such as its number of columns; None: as one.
        """
        pieces = _pieces_of(items, weight)
        first = next(pieces, ())
        if len(first) == len(items):
            return [convert(item) for item in first]
        converted: list[T] = []
        async with self.turn(caller, patient=True) as turn:
            for piece in itertools.chain((first,), pieces):
                converted += [convert(item) for item in piece]
                await turn.pause()
        return converted

    async def pieces(
        self, items: Sequence[S], size: int = SHORT_ITEMS
    ) -> AsyncIterator[Sequence[S]]:
        """So many items at a time, with a pause in between; for work that waits for others."""
        if len(items) <= size:
            yield items
            return
        for start in range(0, len(items), size):
            if start:
                await self.pause()
            yield items[start : start + size]

    async def gather(
        self, works: Sequence[Coroutine[Any, Any, T]], begun: int = BEGUN_AT_ONCE
    ) -> list[T]:
        """Run all at the same time, but begin so many in one pass of the loop.

        Raises: what the first of them raised that did, once all have ended.
        """
        tasks: list[asyncio.Task[T]] = []
        outcomes: list[T] = []
        failed: Exception | None = None
        try:
            async for some in self.pieces(works, begun):
                tasks += [asyncio.ensure_future(work) for work in some]
            for task in tasks:
                try:
                    outcomes.append(await task)
                except Exception as error:
                    failed = failed or error
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            for work in works[len(tasks) :]:
                work.close()
            raise
        if failed is not None:
            raise failed
        return outcomes

    async def pause(self) -> None:
        """Like ``Turn.pause``, for work that waits for others in between and so takes no turn."""
        self.counters.pauses += 1
        await self._pieces.next(_TENANT.get())

    def free(self, work: Callable[[], object]) -> None:
        """Run a short call that frees memory on a thread, without waiting for it."""
        if self._offload is None:
            work()
            return
        task = asyncio.get_running_loop().create_task(_freed(self._offload, work))
        self._freeing.add(task)  # at most one for each turn that ended
        task.add_done_callback(self._freeing.discard)

    async def _take(self, caller: str, *, patient: bool) -> None:
        if self._free:
            self._free -= 1
            return
        queue = self._waiting.setdefault(caller, deque())
        if len(queue) >= self._waiting_max and not patient:
            self.counters.rejected += 1
            raise ExcessivePending(
                f"calls of {caller} that wait to be decoded: limit {self._waiting_max} "
                "([message] decodes_waiting_max); retry later"
            )
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._give()  # it was this call's turn
            else:
                self._leave(caller, mine)
            raise

    def _leave(self, caller: str, mine: asyncio.Future[None]) -> None:
        queue = self._waiting.get(caller)
        if queue is not None and mine in queue:
            queue.remove(mine)
            if not queue:
                del self._waiting[caller]

    def _give(self) -> None:
        """End a turn: the next caller's first call is served, and the caller goes to the end."""
        while self._waiting:
            caller, queue = self._waiting.popitem(last=False)
            first = queue.popleft()
            if queue:
                self._waiting[caller] = queue
            if not first.done():
                first.set_result(None)
                return
        self._free += 1

    def _end_late(self, job: "asyncio.Task[Any]") -> None:
        if not job.cancelled():
            job.exception()  # its caller is gone
        self._give()


def _pieces_of(items: Sequence[S], weight: Callable[[S], int] | None) -> Iterator[Sequence[S]]:
    """Runs of items that weigh ``SHORT_ITEMS`` together, or one item that weighs more."""
    if weight is None:
        for start in range(0, len(items), SHORT_ITEMS):
            yield items[start : start + SHORT_ITEMS]
        return
    start = total = 0
    for index, item in enumerate(items):
        weighs = max(1, weight(item))
        if index > start and total + weighs > SHORT_ITEMS:
            yield items[start:index]
            start, total = index, 0
        total += weighs
    if start < len(items):
        yield items[start:]


async def _run(offload: Offload, work: Callable[..., T], args: tuple[Any, ...]) -> T:
    return await offload.run(work, *args)


async def _freed(offload: Offload, work: Callable[[], object]) -> None:
    try:
        await offload.run(work)
    except Unavailable:
        work()  # the server stops
