"""How much work one step of an event loop does, counted and not timed.

A step is one ``asyncio.Handle._run``: until it returns, the loop serves nobody else. What counts is
calls of Python and C functions on the thread that entered ``LoopSteps``; a step of the same code on
the same data always has the same number. A C call over large data counts as one.
"""

import asyncio
import contextvars
import functools
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, NamedTuple, Self

CALLS_MAX = 7_000  # of one step, which take about 1 ms
BUSIEST = 5  # functions that are shown of a step


class Share(NamedTuple):
    """The part of a step that one function had, without what it called in Python."""

    calls: int
    function: str  # module and qualified name

    def __str__(self) -> str:
        return f"{self.function} {self.calls}"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the loop."""

    calls: int = 0
    callback: str = ""  # the function that the loop called; of a task, its coroutine
    label: str = ""  # what the caller had set when the step began
    busiest: tuple[Share, ...] = ()

    def __str__(self) -> str:
        shares = ", ".join(map(str, self.busiest))
        return f"{self.label or 'a step'}: {self.calls} calls in {self.callback} ({shares})"


class LoopSteps:
    """Counts the calls of each step inside ``with``, and remembers the largest.

    Enter it on the loop's thread, before or while the loop runs. The step that is running then is
    not counted, so requests are prepared before their label is set.
    """

    def __init__(self) -> None:
        self.label = ""
        self.count = 0  # steps
        self.largest = Step()
        self.by_label: dict[str, Step] = {}  # the largest of each label
        self._calls: Counter[CodeType] = Counter()
        self._thread = 0
        self._run: Any = None

    def __enter__(self) -> Self:
        self._thread = threading.get_ident()
        self._run = run = asyncio.events.Handle._run
        step = self._step

        def counted(handle: asyncio.Handle) -> None:
            step(handle, run)

        setattr(asyncio.events.Handle, "_run", counted)  # noqa: B010 - a method is replaced
        return self

    def __exit__(self, *_: object) -> None:
        setattr(asyncio.events.Handle, "_run", self._run)  # noqa: B010
        self._thread = 0  # the step that leaves this block is not counted
        sys.setprofile(None)

    @asynccontextmanager
    async def labelled(self, label: str) -> AsyncIterator[None]:
        """Count what runs inside under this label, from a step of its own."""
        before, self.label = self.label, label
        await asyncio.sleep(0)
        try:
            yield
        finally:
            self.label = before
            await asyncio.sleep(0)

    def cut(self, name: str) -> None:
        """End the current piece: what follows in this step counts as a step of its own.

        For a stand-in of threads, which do in one step what a server does beside its loop.
        """
        profile = sys.getprofile()
        sys.setprofile(None)
        self._note(self._calls.total(), name, self.label)
        self._calls.clear()
        sys.setprofile(profile)

    def table(self) -> str:
        """The largest step of each label, the largest of all first."""
        steps = sorted(self.by_label.values(), key=lambda step: (-step.calls, step.label))
        return "\n".join(map(str, steps))

    def _step(self, handle: asyncio.Handle, run: Any) -> None:
        if threading.get_ident() != self._thread:
            run(handle)
            return
        self._calls.clear()
        label, callback = self.label, getattr(handle, "_callback", None)
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            run(handle)
        finally:
            sys.setprofile(before)
        if self._thread:
            self._note(self._calls.total(), callback, label)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" or event == "c_call":
            self._calls[frame.f_code] += 1

    def _note(self, calls: int, callback: object, label: str) -> None:
        self.count += 1
        known = self.by_label.get(label)
        if known is None or calls > known.calls:
            shares = tuple(
                Share(count, _name_of(code)) for code, count in self._calls.most_common(BUSIEST)
            )
            step = self.by_label[label] = Step(calls, _callback_name(callback), label, shares)
            if calls > self.largest.calls:
                self.largest = step


class Beside:
    """In place of threads: each piece of what they do counts as a step."""

    def __init__(self, steps: LoopSteps) -> None:
        self._steps = steps

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        self._steps.cut("the loop")
        found = work(*args)
        self.yield_lock()
        return found

    def yield_lock(self) -> None:
        self._steps.cut("a thread")


def works_for() -> str:
    """The tenant for which the task that asks works."""
    found = {var.name: value for var, value in contextvars.copy_context().items()}
    return str(found.get("opentalos_works_for", ""))


def _name_of(code: CodeType) -> str:
    return f"{code.co_filename.rpartition('/')[2].removesuffix('.py')}.{code.co_qualname}"


def _callback_name(callback: object) -> str:
    if isinstance(callback, str):
        return callback
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        coroutine = task.get_coro()
        return f"task {getattr(coroutine, '__qualname__', repr(coroutine))}"
    while isinstance(callback, functools.partial):
        callback = callback.func
    return str(getattr(callback, "__qualname__", repr(callback)))
