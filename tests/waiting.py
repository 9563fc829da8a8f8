"""The one way in which tests wait: for something that is named, and with no number at the call.

A wait ends as soon as it holds, so its limit only ends one that hangs. The limit is the same for
all and grows with ``scale()``: what this machine needs now for work that a quiet one does in a
known time. ``WaitEnded`` is the only failure that a slow machine may cause, and the only one for
which ``scripts/run_lanes.py`` repeats a test; so a wait asks for what must come, never for a wrong
value to go away.

What is about time itself runs in virtual time. Where a real process must see real time pass, such
as a session that lapses while it is paused, a test says so with ``elapse``.
"""

import asyncio
import functools
import inspect
import os
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar, overload

T = TypeVar("T")

LIMIT_S: Final = 120.0  # of one wait on a quiet machine: above the start of a cluster, 60 s
POLL_S: Final = 0.02
POLL_S_MAX: Final = 0.25  # a wait that lasts asks less often, since what it asks costs time, too
POLL_GROWTH: Final = 1.1
MOMENT_S: Final = 0.3  # in which something that must not happen would have happened
SCALE: Final = "OPENTALOS_WAIT_SCALE"  # the processes of a session share what it measured
SCALE_MAX: Final = 8.0
WORK_S: Final = 0.07  # of ``_work`` on two quiet cores of 2024
SAMPLES: Final = 3
SHOWN_CHARACTERS: Final = 2_000  # of what a program said that did not end


class WaitEnded(AssertionError):
    """What was waited for did not come within the limit."""


def _work() -> float:
    """Seconds that a fixed piece of work takes now."""
    began = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number & 7
    assert total
    return time.perf_counter() - began


@functools.cache
def scale() -> float:
    """How much slower than a quiet one this machine was when the session began: 1 to 8."""
    given = os.environ.get(SCALE)
    if given is None:
        measured = sorted(_work() for _ in range(SAMPLES))[SAMPLES // 2] / WORK_S
        given = os.environ[SCALE] = f"{min(max(measured, 1.0), SCALE_MAX):.2f}"
    return float(given)


def limit_s() -> float:
    """For the time limit of a foreign call: a socket, a client, a program."""
    return LIMIT_S * scale()


def _ended(what: str, took_s: float, state: Callable[[], object] | None) -> WaitEnded:
    seen = "" if state is None else f"; instead: {state()}"
    return WaitEnded(f"not after {took_s:.0f} s: {what}{seen}")


class _Polls:
    """The pauses of one wait, and when it is over."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._pause_s = POLL_S

    @property
    def took_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def over(self) -> bool:
        return self.took_s > limit_s()

    def pause_s(self) -> float:
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * POLL_GROWTH, POLL_S_MAX)
        return pause_s


def eventually(
    what: str, until: Callable[[], T | None], *, state: Callable[[], object] | None = None
) -> T:
    """Wait until it returns something true, and return that.

    An error of ``until`` passes through: it may check that what it waits for can still come.

    Args:
        what: a claim, such as "the group settles", for the failure.
        state: what to show of the world if it does not.
    Raises: WaitEnded.
    """
    polls = _Polls()
    while not (found := until()):
        if polls.over:
            raise _ended(what, polls.took_s, state)
        time.sleep(polls.pause_s())
    return found


@overload
async def eventually_async(
    what: str,
    until: Callable[[], Awaitable[T | None]],
    *,
    state: Callable[[], object] | None = None,
) -> T: ...
@overload
async def eventually_async(
    what: str, until: Callable[[], T | None], *, state: Callable[[], object] | None = None
) -> T: ...
async def eventually_async(
    what: str, until: Callable[[], Any], *, state: Callable[[], object] | None = None
) -> Any:
    """``eventually`` in a loop; ``until`` may be a coroutine function."""
    polls = _Polls()
    while True:
        found = until()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        if polls.over:
            raise _ended(what, polls.took_s, state)
        await asyncio.sleep(polls.pause_s())


def answering(call: Callable[[], T], *not_yet: type[Exception]) -> Callable[[], T | None]:
    """A condition for ``eventually``: None as long as ``call`` raises one of these errors."""

    def until() -> T | None:
        try:
            return call()
        except not_yet:
            return None

    return until


def stays(what: str, holds: Callable[[], object]) -> None:
    """Claim that it holds for a moment: for what must not happen, where nothing says it will not.

    Raises: AssertionError, never WaitEnded.
    """
    end = time.monotonic() + MOMENT_S * scale()
    while True:
        assert holds(), f"no longer: {what}"
        if time.monotonic() > end:
            return
        time.sleep(POLL_S)


async def stays_async(what: str, holds: Callable[[], Any]) -> None:
    """``stays`` in a loop; ``holds`` may be a coroutine function."""
    end = time.monotonic() + MOMENT_S * scale()
    while True:
        held = holds()
        if inspect.isawaitable(held):
            held = await held
        assert held, f"no longer: {what}"
        if time.monotonic() > end:
            return
        await asyncio.sleep(POLL_S)


def elapse(why: str, seconds: float) -> None:
    """Let real time pass, because a real process must see it pass: ``why`` says what it sees.

    A test that needs this to be long enough waits for the effect instead, with ``eventually``.
    """
    assert why
    time.sleep(seconds)


async def elapse_async(why: str, seconds: float) -> None:
    """``elapse`` in a loop."""
    assert why
    await asyncio.sleep(seconds)


@contextmanager
def _as_wait(what: str) -> Iterator[None]:
    """The end of a limit below is the end of a wait."""
    began = time.monotonic()
    try:
        yield
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        said = [error.stdout, error.stderr] if isinstance(error, subprocess.TimeoutExpired) else []
        shown = "".join(str(part)[-SHOWN_CHARACTERS:] for part in said if part)
        raise WaitEnded(f"not after {time.monotonic() - began:.0f} s: {what}\n{shown}") from error


@asynccontextmanager
async def within_limit(what: str) -> AsyncIterator[None]:
    """Bound what is awaited inside. Raises: WaitEnded."""
    with _as_wait(what):
        async with asyncio.timeout(limit_s()):
            yield


def completed(
    command: Sequence[str | Path], *, check: bool = False, **given: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, by default with its output as text. Raises: WaitEnded.

    Args: given: as of ``subprocess.run``.
    """
    if not {"stdout", "stderr", "capture_output"} & given.keys():
        given["capture_output"] = True
    with _as_wait(f"{Path(command[0]).name} ends"):
        done = subprocess.run(command, timeout=limit_s(), check=False, **{"text": True, **given})
    if check:
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stderr}"
    return done


def ended(process: "subprocess.Popen[Any]", what: str = "") -> int:
    """Wait for a process that ends by itself; its exit status. Raises: WaitEnded."""
    with _as_wait(what or f"process {process.pid} ends"):
        return process.wait(limit_s())
