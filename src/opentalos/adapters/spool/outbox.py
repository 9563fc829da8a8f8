"""Outbox: publishes events to a topic in order; keeps them in a spool while it is unavailable."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from opentalos.adapters.io_threads import IoThreads
from opentalos.adapters.spool.spool import Batch, Spool
from opentalos.model.errors import OutcomeUnknown, TalosError

PUT_BYTES: Final = 256 << 10  # of one put, unless one event is larger
PUT_EVENTS: Final = 500  # of one put
PENDING_MAX: Final = 20_000  # events in memory that wait for the disk or a put under way
_CLOSE_S: Final = 0.3  # to write what is left to the disk
_LINE_S: Final = 60.0  # between two log lines about puts that fail

_log = logging.getLogger(__name__)

Put = Callable[[Sequence[bytes]], Awaitable[None]]


class SpoolFigures(NamedTuple):
    """Events waiting now, and lost since the start."""

    bytes_count: int
    dropped: int
    corrupt: int


class Outbox:
    """``offer`` returns at once; a task publishes, and retries with the next offer.

    A put that failed or whose outcome is unknown is repeated, so an event may be stored twice, with
    the same key and content.
    """

    def __init__(self, spool: Spool, put: Put, *, what: str = "measurements") -> None:
        self._spool, self._put, self._what = spool, put, what
        self._threads = IoThreads("spool", threads=1, threads_max=1)
        self._pending: deque[bytes] = deque()
        self._putting: list[bytes] = []  # taken from ``pending``, and not known to be stored
        self._dropped = 0  # in memory
        self._offered = asyncio.Event()
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._logged_s = float("-inf")

    @property
    def figures(self) -> SpoolFigures:
        """What waits and what was lost."""
        spool = self._spool
        return SpoolFigures(spool.bytes_count, spool.dropped + self._dropped, spool.corrupt)

    async def start(self) -> None:
        """Open the spool; what it has from a former time goes first. Raises: ConfigError."""
        await self._threads.run(self._spool.open)
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._offered.set()

    def offer(self, events: Sequence[bytes]) -> None:
        """Take events for the queue; the oldest in memory go when they are too many."""
        self._pending.extend(events)
        while len(self._pending) > PENDING_MAX:
            self._pending.popleft()
            self._dropped += 1
        self._idle.clear()
        self._offered.set()

    async def close(self, timeout_s: float, last: Sequence[bytes] = ()) -> None:
        """Put what is there within ``timeout_s``; keep the rest on disk, and ``last`` behind it."""
        if self._task is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._pending.extend(last)
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._keep()
                await self._threads.run(self._spool.close)
        except (TimeoutError, TalosError, OSError) as error:
            reason = str(error) or "timeout"
            _log.warning(
                "could not store %d %s, dropping them: %s", len(self._pending), self._what, reason
            )
        await self._threads.close(deadline_s=_CLOSE_S)

    async def _run(self) -> None:
        while True:
            await self._offered.wait()
            self._offered.clear()
            try:
                while await self._step():
                    pass
            except Exception:  # the task's root: later events must be published
                _log.exception("could not publish events; retrying with the next ones")
            self._idle.set()

    async def _step(self) -> bool:
        """One put; False: nothing is left, or the queue takes nothing now."""
        if self._putting or not self._spool.empty:
            return await self._replay()
        if not self._pending:
            return False
        self._putting = self._first()
        if not await self._taken(self._putting):
            await self._keep()
            return False
        self._putting = []
        return True

    async def _replay(self) -> bool:
        await self._keep()
        batch: Batch | None = await self._threads.run(self._spool.read, PUT_BYTES, PUT_EVENTS)
        if batch is None:
            return True
        if not await self._taken(batch.events):
            return False
        await self._threads.run(self._spool.drop, batch)
        return True

    async def _keep(self) -> None:
        """Move what is in memory to the disk."""
        events = [*self._putting, *self._pending]
        if events:
            self._putting = []
            self._pending.clear()
            await self._threads.run(self._spool.append, events)

    def _first(self) -> list[bytes]:
        events: list[bytes] = []
        size = 0
        while self._pending:
            size += len(self._pending[0])
            if events and (size > PUT_BYTES or len(events) >= PUT_EVENTS):
                break
            events.append(self._pending.popleft())
        return events

    async def _taken(self, events: Sequence[bytes]) -> bool:
        try:
            await self._put(events)
        except TalosError as error:
            now_s = asyncio.get_running_loop().time()
            if now_s - self._logged_s > _LINE_S:
                self._logged_s = now_s
                unknown = isinstance(error, OutcomeUnknown)
                outcome = "outcome unknown: " if unknown else ""
                _log.warning(
                    "could not publish %s, keeping them on disk: %s%s", self._what, outcome, error
                )
            return False
        return True
