"""I/O threads: a queue in, a deque out; hanging threads are replaced.

An executor costs a future, a lock and a wake-up of the loop per job, which adds latency to a group
commit. Source: docs/internals/hot-path.md#rule-3.
"""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any, ParamSpec, TypeVar

from opentalos.adapters.io_crew import Crew, Finished, Outcome, Slot, ThreadCrew
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")

SLOW_JOB_S = 0.002  # mean job time above which threads wait for the store, not for each other
GROWTH_FACTOR = 4  # factor of threads while the store is slow
STALL_S = 0.015  # a longer job is stalled; another thread replaces its thread
HANG_S = 0.05  # a longer job hangs; its file gets separate threads
START_RETRY_S = 0.1  # between tries to start a thread after the system refused one
NO_THREAD_S = 1.0  # jobs that no thread can serve are refused after it
YIELD_S = 0.0001  # long enough for the loop to wake up and take the interpreter lock
_MEAN_WEIGHT = 0.1  # of the newest job in the running mean of job times
_log = logging.getLogger(__name__)


class IoThreads:
    """A few threads that run blocking jobs in the order of submission.

    A thread whose job stalls no longer counts and is replaced, up to ``threads_max`` threads in
    total; it counts again when its job ends, and a surplus thread exits. While jobs are slow on
    average, the number of threads grows and none exits, since they wait for the store and not for
    the interpreter. With ``linger_s`` none is kept, but each leaves only after no job needed it for
    so long. If the system gives no more threads, jobs wait for those that exist; without any, they
    are refused as not done. All methods belong to one event loop, the one that submits first.
    """

    def __init__(
        self,
        name: str,
        *,
        threads: int,
        threads_max: int = 32,
        linger_s: float = 0.0,
        unwanted: Callable[[Any], None] = lambda _result: None,
        crew: Crew | None = None,
    ) -> None:
        self._name, self._threads = name, threads
        self._unwanted = unwanted  # gets results whose caller was cancelled
        self._crew: Crew = ThreadCrew() if crew is None else crew
        self._threads_kept = 0 if linger_s else threads
        self._threads_max = max(threads, threads_max)
        self._linger_s = linger_s
        self._linger_timer: asyncio.TimerHandle | None = None
        self._needed = 0  # jobs in flight at most, since idle threads were last dismissed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots: dict[Slot, None] = {}
        self._stalled = self._leaving = self._in_flight = self._started = 0
        self._mean_job_s = 0.0
        self._refused_s = float("-inf")  # when the system last refused a thread
        self._unserved_s = float("inf")  # since when jobs wait although there is no thread
        self._stall_timer: asyncio.TimerHandle | None = None
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self._closed = False
        self._all_left: asyncio.Event | None = None

    @property
    def live(self) -> int:
        """Threads that exist, hanging ones included."""
        return len(self._slots)

    @property
    def full(self) -> bool:
        """Whether a further job would have to wait for one under way."""
        return self._in_flight >= self._threads_max

    def submit(self, work: Callable[..., Any], args: tuple[Any, ...], finished: Finished) -> None:
        """Run ``work(*args)`` on a thread, then call ``finished`` on the loop, exactly once.

        Raises: StoreUnavailable: closed, or no thread can be started; not done.
        """
        if self._closed:
            raise StoreUnavailable(f"{self._name} is closed")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._crew.open(self._loop, self._done, self._left)
        if self._in_flight >= len(self._slots) - self._leaving:
            self._grow(needed=not self._slots)
        self._crew.put((work, args, finished))
        self._in_flight += 1
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

    def yield_lock(self) -> None:
        """Let the loop have the interpreter lock; called by a job on its thread."""
        sleep(YIELD_S)

    async def close(self, *, deadline_s: float) -> bool:
        """Finish what was submitted, then end the threads.

        Returns: False: a job still hangs after the deadline; its caller gets OutcomeUnknown.
        """
        self._closed = True
        self._all_left = asyncio.Event()
        for _ in self._slots:  # also for exiting threads; a surplus token is harmless
            self._leaving += 1
            self._crew.dismiss()
        if not self._slots:
            self._crew.close()
            self._all_left.set()
        try:
            async with asyncio.timeout(deadline_s):
                await self._all_left.wait()
        except TimeoutError:
            _log.warning(
                "closing I/O threads with hanging jobs",
                extra={"threads": self._name, "jobs": self._in_flight},
            )
        for timer in (self._stall_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        for future in self._waiting:
            if not future.done():
                future.set_exception(OutcomeUnknown(f"{self._name}: closed while a job hung"))
        return not self._slots

    def _grow(self, *, needed: bool = False) -> None:
        """Start a thread if more should work. Raises: StoreUnavailable: ``needed``, but refused."""
        slow = self._mean_job_s > SLOW_JOB_S
        wanted = self._threads * GROWTH_FACTOR if slow else self._threads
        working = len(self._slots) - self._stalled - self._leaving
        if working < wanted and len(self._slots) < self._threads_max:
            self._start_thread(needed=needed)

    def _start_thread(self, *, needed: bool = False) -> bool:
        """False: the system gave none, lately or now. Raises: StoreUnavailable: ``needed``."""
        if not needed and monotonic() - self._refused_s < START_RETRY_S:
            return False
        try:
            slot = self._crew.start(f"{self._name}-{self._started + 1}")
        except StoreUnavailable:
            self._refused_s = monotonic()
            if needed:
                raise
            return False
        self._started += 1
        self._slots[slot] = None
        return True

    def _look_for_stalls(self) -> None:
        """Replace stalled threads, one for each waiting job."""
        now_s = monotonic()
        self._stall_timer = None
        newly_stalled = [
            slot for slot in self._slots if not slot.stalled and self._crew.busy_s(slot) > STALL_S
        ]
        for slot in newly_stalled:
            slot.stalled = True
            self._stalled += 1
        waiting = self._in_flight - len(self._slots) + self._leaving
        if newly_stalled and not self._closed:
            for _ in range(min(waiting, self._threads_max - len(self._slots))):
                if not self._start_thread():
                    break
        elif waiting > 0 and not self._closed:
            self._grow()  # in place of a thread that the system refused earlier
        self._refuse_unserved(now_s)
        if self._in_flight and self._loop is not None:
            self._stall_timer = self._loop.call_later(STALL_S / 2, self._look_for_stalls)

    def _refuse_unserved(self, now_s: float) -> None:
        """Refuse what waits although there is no thread and none could be started for a while."""
        if self._slots or not self._in_flight:
            self._unserved_s = float("inf")
            return
        self._unserved_s = min(self._unserved_s, now_s)
        if now_s - self._unserved_s < NO_THREAD_S:
            return
        error = StoreUnavailable(f"{self._name}: no thread can be started")
        while self._in_flight:
            job = self._crew.withdraw()
            if job is None:
                return
            self._in_flight -= 1
            job[2](None, error, 0.0)

    def _done(self, slot: Slot, finished: Finished, outcome: Outcome) -> None:
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
        if self._linger_s:
            self._needed = max(self._needed, self._in_flight + 1)  # one job has just ended
            self._dismiss_later()
            return
        if self._mean_job_s > SLOW_JOB_S and self._in_flight:
            return
        needed = max(self._threads_kept, min(self._in_flight, self._threads))
        for _ in range(len(self._slots) - self._stalled - self._leaving - needed):
            self._leaving += 1
            self._crew.dismiss()

    def _dismiss_later(self) -> None:
        if self._linger_timer is None and not self._closed and self._loop is not None:
            self._linger_timer = self._loop.call_later(self._linger_s, self._dismiss_idle)

    def _dismiss_idle(self) -> None:
        """Let those leave that were idle since the last time."""
        self._linger_timer = None
        needed = max(self._threads_kept, self._needed, self._in_flight)
        self._needed = self._in_flight
        for _ in range(len(self._slots) - self._leaving - needed):
            self._leaving += 1
            self._crew.dismiss()
        if len(self._slots) - self._leaving > self._threads_kept:
            self._dismiss_later()

    def _left(self, slot: Slot) -> None:
        del self._slots[slot]
        self._stalled -= slot.stalled
        self._leaving -= 1
        if self._in_flight > len(self._slots) - self._leaving:
            self._grow()  # the bound kept a replacement from being started earlier
            if self._closed:
                self._crew.dismiss()
        if not self._slots and self._all_left is not None:
            self._crew.close()
            self._all_left.set()
