"""Passes results of adapter threads to the loop: a deque, and one wake-up per burst."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)


class LoopOutbox:
    """Calls handed over by any thread run on the loop, in the order in which they were posted.

    ``call_soon_threadsafe`` per completion would write to the loop's self-pipe each time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False

    def post(self, call: Callable[..., None], *args: Any) -> None:
        """Run ``call(*args)`` on the loop soon. From any thread; never raises."""
        self._calls.append((call, args))
        if not self._woken:
            self._woken = True
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop closed while the job hung; no caller is left
                _log.debug("a job ended after its loop was closed")

    def _drain(self) -> None:
        # Lowered first: what comes in after the loop below saw an empty deque must wake again.
        self._woken = False
        complete_all(self._loop, self._calls)


def complete_all(
    loop: asyncio.AbstractEventLoop, calls: deque[tuple[Callable[..., None], tuple[Any, ...]]]
) -> None:
    """Run the calls, also those that are added meanwhile.

    A server handles signals between callbacks. In a program that does not, Ctrl-C may interrupt one
    of the calls: the others then run when the loop runs again, as it does to end its tasks.
    """
    try:
        while calls:
            call, args = calls.popleft()
            complete(call, *args)
    except BaseException:
        if calls:
            loop.call_soon(complete_all, loop, calls)
        raise


def complete(call: Callable[..., None], *args: Any) -> None:
    """Run ``call(*args)``, the root of a completion: its error must not lose the others."""
    try:
        call(*args)
    except Exception:
        _log.exception("completion of a job failed with an internal error")
