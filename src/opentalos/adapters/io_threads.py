"""I/O threads: a queue in, a deque out; hanging threads are replaced.

An executor costs a future, a lock and a wake-up of the loop per job, which adds latency to a group
commit. Source: docs/internals/hot-path.md#rule-3.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from opentalos.adapters.loop_outbox import LoopOutbox
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")
Finished = Callable[[Any, BaseException | None, float], None]  # result, error, seconds; on the loop

SLOW_JOB_S = 0.002  # mean job time above which threads wait for the store, not for each other
GROWTH_FACTOR = 4  # factor of threads while the store is slow
STALL_S = 0.015  # a longer job is stalled; another thread replaces its thread
HANG_S = 0.05  # a longer job hangs; its file gets separate threads
_MEAN_WEIGHT = 0.1  # of the newest job in the running mean of job times
_log = logging.getLogger(__name__)
_Job = tuple[Callable[..., Any], tuple[Any, ...], Finished]


class _Slot:
    """One thread, as the loop sees it."""

    __slots__ = ("stalled", "started_s")

    def __init__(self) -> None:
        self.started_s = 0.0  # of the job under way; 0 while idle
        self.stalled = False  # another thread stands in for it until its job ends


class IoThreads:
    """A few daemon threads that run blocking jobs in the order of submission.

    A thread whose job stalls no longer counts and is replaced, up to ``threads_max`` threads in
    total; it counts again when its job ends, and a surplus thread exits. While jobs are slow on
    average, the number of threads grows and none exits, since they wait for the store and not for
    the interpreter. All methods belong to one event loop, the one that submits first.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        threads_max: int = 32,
        threads_kept: int | None = None,
        unwanted: Callable[[Any], None] = lambda _result: None,
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self._name, self._threads = name, threads
        self._unwanted = unwanted  # gets results whose caller was cancelled
        self._leave = leave  # called on a thread before it exits
        self._threads_kept = threads if threads_kept is None else threads_kept
        self._threads_max = max(threads, threads_max)
        self._inbox: SimpleQueue[_Job | None] = SimpleQueue()
        self._outbox: LoopOutbox | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: dict[_Slot, None] = {}
        self._stalled = self._leaving = self._in_flight = self._started = 0
        self._mean_job_s = 0.0
        self._stall_timer: asyncio.TimerHandle | None = None
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._closed = False
        self._all_left: asyncio.Event | None = None

    @property
    def live(self) -> int:
        """Threads that exist, hanging ones included."""
        return len(self._slots)

    def submit(self, work: Callable[..., Any], args: tuple[Any, ...], finished: Finished) -> None:
        """Run ``work(*args)`` on a thread, then call ``finished`` on the loop, exactly once.

        Raises: StoreUnavailable: closed; not done.
        """
        if self._closed:
            raise StoreUnavailable(f"{self._name} is closed")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._outbox = LoopOutbox(self._loop)
        self._in_flight += 1
        self._inbox.put((work, args, finished))
        if self._in_flight > len(self._slots) - self._leaving:
            self._grow()
        if self._stall_timer is None:
            self._stall_timer = self._loop.call_later(STALL_S / 2, self._look_for_stalls)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await ``work`` done on a thread. A cancelled caller does not stop the thread."""
        assert not kwargs, "jobs take positional arguments"
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def finished(result: T, error: BaseException | None, _seconds: float) -> None:
            if future.done():
                self._unwanted(result)
            elif error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.submit(work, args, finished)
        self._waiting[future] = None
        try:
            return await future
        finally:
            del self._waiting[future]

    async def close(self, *, deadline_s: float) -> bool:
        """Finish what was submitted, then end the threads.

        Returns: False: a job still hangs after the deadline; its caller gets OutcomeUnknown.
        """
        self._closed = True
        self._all_left = asyncio.Event()
        for _ in self._slots:  # also for exiting threads; a surplus token is harmless
            self._leaving += 1
            self._inbox.put(None)
        if not self._slots:
            self._all_left.set()
        try:
            async with asyncio.timeout(deadline_s):
                await self._all_left.wait()
        except TimeoutError:
            _log.warning(
                "closing I/O threads with hanging jobs",
                extra={"threads": self._name, "jobs": self._in_flight},
            )
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        for future in self._waiting:
            if not future.done():
                future.set_exception(OutcomeUnknown(f"{self._name}: closed while a job hung"))
        return not self._slots

    def _grow(self) -> None:
        slow = self._mean_job_s > SLOW_JOB_S
        wanted = self._threads * GROWTH_FACTOR if slow else self._threads
        working = len(self._slots) - self._stalled - self._leaving
        if working < wanted and len(self._slots) < self._threads_max:
            self._start_thread()

    def _start_thread(self) -> None:
        slot = _Slot()
        self._slots[slot] = None
        self._started += 1
        name = f"{self._name}-{self._started}"
        threading.Thread(target=self._serve, args=(slot,), name=name, daemon=True).start()

    def _look_for_stalls(self) -> None:
        """Replace stalled threads, one for each waiting job."""
        now_s = monotonic()
        self._stall_timer = None
        newly_stalled = [
            slot
            for slot in self._slots
            if slot.started_s and now_s - slot.started_s > STALL_S and not slot.stalled
        ]
        for slot in newly_stalled:
            slot.stalled = True
            self._stalled += 1
        if newly_stalled and not self._closed:
            waiting = self._in_flight - len(self._slots) + self._leaving
            for _ in range(min(waiting, self._threads_max - len(self._slots))):
                self._start_thread()
        if self._in_flight and self._loop is not None:
            self._stall_timer = self._loop.call_later(STALL_S / 2, self._look_for_stalls)

    def _serve(self, slot: _Slot) -> None:
        """A thread's loop. An idle thread keeps no reference to a job, which has message bytes."""
        outbox = self._outbox
        assert outbox is not None
        while (job := self._inbox.get()) is not None:
            work, args, finished = job
            started_s = slot.started_s = monotonic()
            try:
                result, error = work(*args), None
            except BaseException as caught:  # the thread's root; passed to the submitter
                result, error = None, caught
            slot.started_s = 0.0
            outbox.post(self._done, slot, finished, (result, error, monotonic() - started_s))
            del job, work, args, finished, result, error
        try:
            self._leave()
        finally:
            outbox.post(self._left, slot)

    def _done(
        self, slot: _Slot, finished: Finished, outcome: tuple[Any, BaseException | None, float]
    ) -> None:
        """On the loop."""
        result, error, seconds = outcome
        if slot.stalled:
            slot.stalled = False
            self._stalled -= 1
        self._in_flight -= 1
        self._mean_job_s += (min(seconds, STALL_S) - self._mean_job_s) * _MEAN_WEIGHT
        if len(self._slots) > self._threads_kept:
            self._shrink()
        finished(result, error, seconds)

    def _shrink(self) -> None:
        if self._mean_job_s > SLOW_JOB_S and self._in_flight:
            return
        needed = max(self._threads_kept, min(self._in_flight, self._threads))
        for _ in range(len(self._slots) - self._stalled - self._leaving - needed):
            self._leaving += 1
            self._inbox.put(None)

    def _left(self, slot: _Slot) -> None:
        del self._slots[slot]
        self._stalled -= slot.stalled
        self._leaving -= 1
        if self._in_flight > len(self._slots) - self._leaving:
            self._grow()  # the bound kept a replacement from being started earlier
            if self._closed:
                self._inbox.put(None)
        if not self._slots and self._all_left is not None:
            self._all_left.set()
