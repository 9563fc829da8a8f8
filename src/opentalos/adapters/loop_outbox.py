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
        calls = self._calls
        while calls:
            call, args = calls.popleft()
            complete(call, *args)


def complete(call: Callable[..., None], *args: Any) -> None:
    """Run ``call(*args)``, the root of a completion: its error must not lose the others."""
    try:
        call(*args)
    except Exception:
        _log.exception("completion of a job failed with an internal error")
