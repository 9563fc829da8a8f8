"""Runs callbacks of the asyncio consumer in the application's thread, while that waits."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from opentalos.sdk.core.consumer.settings import Callbacks, PartitionCallback
from opentalos.sdk.sync.loop_thread import LoopThread

_LOG = logging.getLogger("opentalos.sdk.consumer")
_T = TypeVar("_T")
_Call = Callable[[], object]


class UserThread:
    """Waits for the consumer in the application's thread, and runs partition callbacks there.

    A callback may therefore block and use the consumer, while the event loop keeps running.

    Args: wait_s: a revocation waits this long for its callback to run in this thread.
    """

    def __init__(self, thread: LoopThread, wait_s: float) -> None:
        self._thread, self._wait_s = thread, wait_s
        self._changed = threading.Condition()
        self._calls: deque[_Call] = deque()

    def wait(self, coroutine: Coroutine[Any, Any, _T], *, to_its_end: bool = False) -> _T:
        """Wait for a coroutine and return its result.

        Args:    to_its_end: an error of a callback does not cancel the coroutine.
        Raises:  the error of a callback, else that of the coroutine.
        """
        future = self._thread.submit(coroutine)
        future.add_done_callback(self._wake)
        failure: Exception | None = None
        try:
            while (call := self._next(future)) is not None:
                try:
                    call()
                except Exception as error:
                    if not to_its_end:
                        raise
                    failure = failure or error
        except BaseException:
            future.cancel()
            raise
        if failure is not None:
            raise failure
        return future.result()

    def _next(self, future: "Future[Any]") -> _Call | None:
        with self._changed:
            self._changed.wait_for(lambda: self._calls or future.done())
            return self._calls.popleft() if self._calls else None

    def _wake(self, _: object = None) -> None:
        with self._changed:
            self._changed.notify_all()

    def callbacks(self, given: Callbacks) -> Callbacks:
        """The callbacks to pass to the asyncio consumer."""
        return Callbacks(
            on_assigned=self._in_user_thread(given.on_assigned),
            on_revoked=self._in_user_thread(given.on_revoked, awaited=True),
            on_lost=self._in_user_thread(given.on_lost),
        )

    def _in_user_thread(
        self, callback: PartitionCallback | None, *, awaited: bool = False
    ) -> PartitionCallback | None:
        if callback is None:
            return None

        async def run_in_user_thread(partitions: Sequence[int]) -> None:
            called: Future[None] = Future()

            def call() -> None:
                try:
                    callback(partitions)
                finally:
                    called.set_result(None)

            with self._changed:
                self._calls.append(call)
                self._changed.notify_all()
            if awaited:
                _, late = await asyncio.wait([asyncio.wrap_future(called)], timeout=self._wait_s)
                if late:
                    _LOG.warning(
                        "partitions revoked before on_revoked ran: the application thread is busy"
                    )

        return run_in_user_thread
