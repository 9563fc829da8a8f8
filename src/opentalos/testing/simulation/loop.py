"""SimulationLoop: an event loop in virtual time whose processes can be paused and crashed.

    loop = SimulationLoop()
    loop.run(scenario())          # returns what the scenario returns, minutes pass in milliseconds

Theory of operation. It is asyncio's selector loop with a selector that never sleeps: a wait for the
next timer advances the clock at once, a wait without a timer is a deadlock and raises. There is no
real I/O and no thread, so a run depends only on the code and its seeds.

A ``SimulatedProcess`` tags every callback that is started through it, by a context variable that
tasks and timers inherit. Its states are running, paused and crashed. While it is paused, the loop
withholds its callbacks and ``resume`` queues them again; after a crash they are dropped, and no
``finally`` of its tasks runs. The loop therefore keeps a reference to every task: the destruction
of a task would run its ``finally`` blocks. At the end of ``run`` all coroutines are closed with the
log disabled.
"""

import asyncio
import heapq
import logging
import random
import selectors
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any, TypeVar

T = TypeVar("T")

START_S = 1_000.0  # the virtual clock's first reading; not 0, so that a missing time is visible
HANDLES_MAX = 300_000  # of one run, thirty times the usual number; more means that the code spins
STEP_S_MAX = 0.05  # processor time of one callback, where a run has any
CLOSE_ATTEMPTS_MAX = 20  # for a crashed coroutine that awaits in its finally blocks
SHOWN_TASKS_MAX = 20  # in the text of a deadlock


class SimulationDeadlock(Exception):
    """No callback is ready and no timer is set: the run would never continue."""


class SimulationRunaway(Exception):
    """A run executed more callbacks than ``HANDLES_MAX``."""


class ProcessState(Enum):
    """What happens to the callbacks of a process."""

    RUNNING = "running"
    PAUSED = "paused"  # withheld until it resumes, as under SIGSTOP
    CRASHED = "crashed"  # dropped permanently


_PROCESS: ContextVar["SimulatedProcess | None"] = ContextVar("simulated_process", default=None)


class SimulatedProcess:
    """Tags the callbacks of one server or client, so that they pause and crash together."""

    def __init__(self, loop: "SimulationLoop", name: str) -> None:
        self.name = name
        self.state = ProcessState.RUNNING
        self.loop = loop
        self._withheld: list[asyncio.Handle] = []
        self._context = copy_context()
        self._context.run(_PROCESS.set, self)

    @property
    def context(self) -> Context:
        """A context for callbacks that belong to this process."""
        return self._context.copy()

    @property
    def crashed(self) -> bool:
        """Whether it has crashed; it never runs again."""
        return self.state is ProcessState.CRASHED

    def create_task(self, coroutine: Coroutine[Any, Any, T], name: str = "") -> asyncio.Task[T]:
        """Start a task of this process; await it from another process only through a future."""
        return self.loop.create_task(
            coroutine, name=f"{self.name}/{name or 'task'}", context=self.context
        )

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        """Run ``callback`` inside this process; withheld while the process is paused."""
        self.loop.call_soon(callback, *args, context=self.context)

    def pause(self) -> None:
        """Withhold all callbacks from now on."""
        if self.state is ProcessState.RUNNING:
            self.state = ProcessState.PAUSED

    def resume(self) -> None:
        """Run the withheld callbacks in their order, and continue."""
        if self.state is ProcessState.PAUSED:
            self.state = ProcessState.RUNNING
            withheld, self._withheld = self._withheld, []
            self.loop.requeue(withheld)

    def crash(self) -> None:
        """Stop permanently; no ``finally`` runs and nothing is closed."""
        self.state = ProcessState.CRASHED
        self._withheld.clear()

    def withhold(self, handle: asyncio.Handle) -> None:
        """Called by the loop for a handle whose process does not run."""
        if self.state is ProcessState.PAUSED:
            self._withheld.append(handle)


def current_process() -> SimulatedProcess | None:
    """The process whose code runs now; None outside of any."""
    return _PROCESS.get()


class _Handle(asyncio.Handle):
    __slots__ = ("_process",)
    _context: Context

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[object, ...],
        loop: "SimulationLoop",
        context: Context | None,
    ) -> None:
        super().__init__(callback, args, loop, context)
        self._process = self._context.get(_PROCESS)

    def _run(self) -> None:
        process = self._process
        if process is None:
            super()._run()
        elif process.state is ProcessState.RUNNING:
            super()._run()
            if process.loop.cpu is not None:
                process.loop.spend(process.loop.cpu)
        else:
            process.withhold(self)


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ("_process",)
    _context: Context
    _scheduled: bool

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[object, ...],
        loop: "SimulationLoop",
        context: Context | None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        self._process = self._context.get(_PROCESS)

    def _run(self) -> None:
        process = self._process
        if process is None or process.state is ProcessState.RUNNING:
            super()._run()
        else:
            process.withhold(self)


class _VirtualSelector(selectors.BaseSelector):
    """Waits by advancing the clock; there are no files to select on."""

    def __init__(self, shuffle: random.Random | None) -> None:
        self.now_s = START_S
        self.loop: SimulationLoop | None = None
        self._shuffle = shuffle

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert self.loop is not None
        if self.loop.handles > HANDLES_MAX:
            raise SimulationRunaway(f"more than {HANDLES_MAX} callbacks by {self.now_s:.3f} s")
        if timeout is None:
            raise SimulationDeadlock(self.loop.describe_pending())
        if timeout > 0:
            self.now_s += timeout
        elif self._shuffle is not None:
            self.loop.shuffle_tasks(self._shuffle)
        return []

    def register(self, *_: object, **__: object) -> selectors.SelectorKey:
        raise NotImplementedError("a simulation has no real files or sockets")

    def unregister(self, *_: object, **__: object) -> selectors.SelectorKey:
        raise NotImplementedError("a simulation has no real files or sockets")

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class SimulationLoop(asyncio.SelectorEventLoop):
    """Virtual time, no I/O, no threads.

    Args: shuffle: if given, task steps that are ready at the same time run in an order drawn
    from it; plain callbacks keep asyncio's order, first in, first out.
    Raises: SimulationDeadlock, SimulationRunaway, out of ``run``.
    """

    _ready: deque[asyncio.Handle]  # asyncio's own queues, unknown to typeshed
    _scheduled: list[asyncio.TimerHandle]
    _clock_resolution: float

    def __init__(self, shuffle: random.Random | None = None) -> None:
        self._virtual = _VirtualSelector(shuffle)
        super().__init__(self._virtual)
        self._virtual.loop = self
        self._clock_resolution = 1e-6
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_swept = 256
        self.handles = 0  # made so far
        self.cpu: random.Random | None = None  # set: callbacks of processes may take time
        self.cpu_share = 0.0  # of them, that do
        self._closing = False
        self.errors: list[str] = []  # unhandled exceptions, in their order
        self.set_task_factory(self._make_task)
        self.set_exception_handler(_note_error)

    def time(self) -> float:
        """Virtual seconds."""
        return self._virtual.now_s

    def process(self, name: str) -> SimulatedProcess:
        """A new process on this loop."""
        return SimulatedProcess(self, name)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run ``main`` to its end, then silently drop all other tasks and close the loop."""
        try:
            return self.run_until_complete(main)
        finally:
            self._close_tasks()
            self.close()

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio."""
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def spend(self, rng: random.Random) -> None:
        """Processor time of the callback that just ran: nothing else ran meanwhile."""
        if rng.random() < self.cpu_share:
            self._virtual.now_s += rng.random() * STEP_S_MAX

    def requeue(self, handles: list[asyncio.Handle]) -> None:
        """Make withheld handles ready again."""
        self._ready.extend(handles)

    def describe_pending(self) -> str:
        """The tasks that wait, for the text of a deadlock."""
        pending = [task for task in self._tasks if not task.done()]
        shown = "; ".join(_describe_task(task) for task in pending[:SHOWN_TASKS_MAX])
        count = f"{len(pending)} task{'s wait' if len(pending) != 1 else ' waits'}"
        return f"{count} and no timer is set: {shown}"

    def shuffle_tasks(self, order: random.Random) -> None:
        """Permute the task steps among the ready handles."""
        ready = self._ready
        if len(ready) < 2:
            return
        positions = [at for at, handle in enumerate(ready) if _is_task_step(handle)]
        if len(positions) > 1:
            steps = [ready[at] for at in positions]
            order.shuffle(steps)
            for at, handle in zip(positions, steps, strict=True):
                ready[at] = handle

    def _call_soon(
        self,
        callback: Callable[..., object],
        args: tuple[object, ...],
        context: Context | None,
    ) -> asyncio.Handle:
        self.handles += 1
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        # The list keeps a crashed process's tasks alive: destroying them runs their finally blocks.
        if len(self._tasks) > self._tasks_swept:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._tasks_swept = 2 * len(self._tasks) + 256
        task: asyncio.Task[T] = asyncio.Task(coroutine, loop=loop, context=context)
        self._tasks.append(task)
        return task

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        if self._closing:
            _close_generator(agen)
        elif not self.is_closed():
            self.call_soon(self.create_task, agen.aclose())

    def _close_tasks(self) -> None:
        logging.disable(logging.CRITICAL)  # code that runs while it is dropped must not log
        self._closing = True
        self.set_exception_handler(lambda loop, context: None)
        try:
            for task in self._tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's switch
                if not task.done():
                    _close_coroutine(task.get_coro())
            self._tasks.clear()
            self._ready.clear()
            self._scheduled.clear()
        finally:
            logging.disable(logging.NOTSET)

    def _make_self_pipe(self) -> None:
        """No pipe: nothing outside wakes the loop."""

    def _close_self_pipe(self) -> None:
        """No pipe."""

    def _write_to_self(self) -> None:
        """No pipe: wake-ups of other threads are ignored, by design."""


def _close_coroutine(coroutine: Any) -> None:
    for _ in range(CLOSE_ATTEMPTS_MAX):
        try:
            coroutine.close()
        except BaseException:  # whatever the dropped code raises while it is closed
            continue
        return


def _close_generator(generator: AsyncGenerator[Any, Any]) -> None:
    closing = generator.aclose()
    try:
        closing.send(None)
        closing.close()
    except BaseException:  # StopIteration, or whatever the dropped code raises
        return


def _is_task_step(handle: asyncio.Handle) -> bool:
    callback = getattr(handle, "_callback", None)
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


def _describe_task(task: asyncio.Task[Any]) -> str:
    coroutine: Any = task.get_coro()
    name = getattr(coroutine, "__qualname__", "?")
    waits: Any = coroutine
    while (inner := getattr(waits, "cr_await", None)) is not None and hasattr(inner, "cr_await"):
        waits = inner
    deepest = getattr(waits, "__qualname__", "?")
    return f"{task.get_name()} in {name} at {deepest}"


def _note_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimulationLoop)
    error, task = context.get("exception"), context.get("task") or context.get("future")
    process = getattr(context.get("handle"), "_process", None) or _PROCESS.get()
    where = process.name if process else "world"
    if isinstance(task, asyncio.Task):
        where = task.get_name()
    shown = str(context.get("message")) + (f": {error!r}" if error is not None else "")
    loop.errors.append(f"{where}: {shown}")
