"""The event loop thread behind all synchronous objects of a process."""

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

from opentalos.sdk.errors import ClientClosed, ConnectFailed, TalosError

_T = TypeVar("_T")
_Owner = TypeVar("_Owner")
_EXIT_S: Final = 5.0  # limit for closing all open objects at interpreter exit


class LoopThread:
    """A daemon thread that runs an event loop; ``shared`` returns that of the process.

    A forked child starts its own with its first call: the parent's thread does not exist there,
    and its loop is not touched. At interpreter exit, objects registered with ``close_at_exit``
    are closed, then the loop stops.
    """

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _shared: ClassVar["LoopThread | None"] = None
    _inherited: ClassVar[
        list["LoopThread"]
    ] = []  # the parent's, in a forked child; never finalised there

    def __init__(self, name: str = "opentalos-sdk") -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._open: dict[int, tuple[Any, Callable[[Any], Coroutine[Any, Any, None]]]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        try:
            self._thread.start()
        except (RuntimeError, MemoryError) as error:
            self.loop.close()
            raise ConnectFailed(
                f"cannot start thread {name}: {error}; raise the limit of processes (ulimit -u)"
            ) from error

    @classmethod
    def shared(cls) -> "LoopThread":
        """The loop thread of this process, started by the first call.

        Raises: ConnectFailed: the system gives no thread now; a later call tries again.
        """
        found = cls._shared
        if found is not None and found.here:
            return found
        with cls._lock:
            if cls._shared is None or not cls._shared.here:
                cls._shared = cls()
            return cls._shared

    @classmethod
    def _after_fork(cls) -> None:
        """In a forked child: another thread may have held the lock; the loop's thread is gone."""
        cls._lock = threading.Lock()
        if cls._shared is not None:
            cls._inherited.append(cls._shared)
            cls._shared = None

    @classmethod
    def _at_exit(cls) -> None:
        found = cls._shared
        if found is not None and found.here:
            found.end()

    @property
    def here(self) -> bool:
        """Whether it was started in this process."""
        return self._pid == os.getpid()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(_cancel_rest())
        finally:
            self.loop.close()

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> "Future[_T]":
        """Start a coroutine on the loop; the future gets its result.

        Raises: ClientClosed: the interpreter is shutting down and the loop has stopped.
        """
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        except RuntimeError as error:
            coroutine.close()
            raise ClientClosed("call failed: the interpreter is shutting down") from error

    def run(self, coroutine: Coroutine[Any, Any, _T], timeout_s: float | None = None) -> _T:
        """Run a coroutine on the loop and wait for it.

        A KeyboardInterrupt in the waiting thread, or a timeout, cancels the coroutine: the
        outcome of its writes is unknown.

        Raises: TimeoutError; RuntimeError: called on the loop thread, where it would deadlock;
        what the coroutine raises.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(
                "blocking SDK call on the SDK's own event loop thread; use opentalos.sdk.aio there"
            )
        future = self.submit(coroutine)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise

    def close_at_exit(
        self, owner: _Owner, close: Callable[[_Owner], Coroutine[Any, Any, None]]
    ) -> None:
        """Await ``close(owner)`` at interpreter exit, in reverse order of registration, unless
        ``close_soon`` did so before."""
        self._open[id(owner)] = owner, close

    def close_soon(self, owner: object) -> None:
        """Start closing what ``close_at_exit`` registered, without waiting; from any thread, also
        from a finaliser. No effect if it is closed, or belongs to a parent process."""
        if self.here:
            with suppress(RuntimeError):  # the loop has stopped and closed everything
                self.loop.call_soon_threadsafe(self._start_closing, owner)

    def _start_closing(self, owner: object) -> None:
        found = self._open.pop(id(owner), None)
        if found is not None:
            task = self.loop.create_task(found[1](owner))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def end(self) -> None:
        """Close what is registered, then stop the loop and its thread, within a time limit."""
        if self._thread.is_alive():
            with suppress(TimeoutError):
                self.run(self._close_all(), _EXIT_S)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_EXIT_S)

    async def _close_all(self) -> None:
        while self._open or self._closing:
            if self._closing:  # what is closing may need what is still open
                await asyncio.wait(self._closing)
                continue
            owner, close = self._open.popitem()[1]
            with suppress(TalosError):
                await close(owner)


async def _cancel_rest() -> None:
    """Cancel remaining tasks, so that none is destroyed while pending."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LoopThread._after_fork)
atexit.register(LoopThread._at_exit)
