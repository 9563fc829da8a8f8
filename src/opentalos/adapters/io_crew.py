"""Crews: the threads behind IoThreads. IoThreads decides how many there are, a crew runs them."""

import asyncio
from collections.abc import Callable
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Protocol

from opentalos.adapters.loop_outbox import LoopOutbox
from opentalos.adapters.thread_start import start_thread

Finished = Callable[[Any, BaseException | None, float], None]  # result, error, seconds; on the loop
Outcome = tuple[Any, BaseException | None, float]  # what a Finished is called with
Job = tuple[Callable[..., Any], tuple[Any, ...], Finished]


class Slot:
    """One thread, as the loop sees it."""

    __slots__ = ("number", "stalled", "started_s")

    def __init__(self, number: int) -> None:
        self.number = number
        self.started_s = 0.0  # of the job under way; 0 while idle; kept by Python's threads only
        self.stalled = False  # another thread stands in for it until its job ends


Done = Callable[[Slot, Finished, Outcome], None]
Left = Callable[[Slot], None]


class Crew(Protocol):
    """Threads that take jobs from one queue, in order. All methods belong to the loop's thread."""

    def open(self, loop: asyncio.AbstractEventLoop, done: Done, left: Left) -> None:
        """Call ``done`` on the loop when a job ended, and ``left`` when a thread did."""
        ...

    def start(self, name: str) -> Slot:
        """Start a thread. Raises: StoreUnavailable: the system gives none now."""
        ...

    def put(self, job: Job) -> None:
        """Queue a job."""
        ...

    def dismiss(self) -> None:
        """Let one thread end after the jobs that were queued before."""
        ...

    def withdraw(self) -> Job | None:
        """Take a job back that no thread has begun; None: there is none, or a dismissal."""
        ...

    def busy_s(self, slot: Slot) -> float:
        """How long its job has been under way; 0: idle."""
        ...

    def close(self) -> None:
        """All threads have left, and none will be started."""
        ...


class ThreadCrew:
    """Python's own daemon threads, which run any callable. ``leave``: called by each at its end."""

    def __init__(self, leave: Callable[[], None] = lambda: None) -> None:
        self._leave = leave
        self._inbox: SimpleQueue[Job | None] = SimpleQueue()
        self._outbox: LoopOutbox | None = None
        self._done: Done | None = None
        self._left: Left | None = None
        self._started = 0

    def open(self, loop: asyncio.AbstractEventLoop, done: Done, left: Left) -> None:
        """See Crew."""
        self._outbox, self._done, self._left = LoopOutbox(loop), done, left

    def start(self, name: str) -> Slot:
        """See Crew."""
        slot = Slot(self._started)
        start_thread(name, self._serve, slot)
        self._started += 1
        return slot

    def put(self, job: Job) -> None:
        """See Crew."""
        self._inbox.put(job)

    def dismiss(self) -> None:
        """See Crew."""
        self._inbox.put(None)

    def withdraw(self) -> Job | None:
        """See Crew."""
        try:
            return self._inbox.get_nowait()
        except Empty:
            return None

    def busy_s(self, slot: Slot) -> float:
        """See Crew."""
        started_s = slot.started_s
        return monotonic() - started_s if started_s else 0.0

    def close(self) -> None:
        """See Crew."""

    def _serve(self, slot: Slot) -> None:
        """A thread's loop. An idle thread keeps no reference to a job, which has message bytes."""
        outbox, done, left = self._outbox, self._done, self._left
        assert outbox is not None
        assert done is not None
        assert left is not None
        while (job := self._inbox.get()) is not None:
            work, args, finished = job
            started_s = slot.started_s = monotonic()
            try:
                result, error = work(*args), None
            except BaseException as caught:  # the thread's root; passed to the submitter
                result, error = None, caught
            slot.started_s = 0.0
            outbox.post(done, slot, finished, (result, error, monotonic() - started_s))
            del job, work, args, finished, result, error
        try:
            self._leave()
        finally:
            outbox.post(left, slot)
