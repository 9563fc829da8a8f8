"""What a synchronous TalosProducer has in one process: buffer, sender, and callbacks.

The sender runs on the loop thread, callbacks in a thread of their own. A core outlives a producer
that was not closed: it sends what is buffered, when the producer is collected or at the exit of
the interpreter.
"""

import asyncio
import atexit
import logging
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Final

from opentalos.sdk.aio.producer.failures import Failures
from opentalos.sdk.aio.producer.sender import Sender
from opentalos.sdk.core.producer.accumulator import Accumulator, Batch
from opentalos.sdk.core.producer.settings import ProducerSettings, Undelivered
from opentalos.sdk.errors import ClientClosed, TalosError
from opentalos.sdk.sync.client import Client
from opentalos.sdk.sync.loop_thread import LoopThread

CALLBACKS_S_MAX: Final = 5.0  # close waits this long for callbacks to return
EXIT_S_MAX: Final = 10.0  # all producers that were not closed send for this long at exit

_log = logging.getLogger("opentalos.sdk.producer")
_START_RETRY_S = 1.0  # between tries to start the thread of callbacks
_POLL_S: Final = 0.05  # while a core without a producer waits for its last batches


class Core:
    """The parts of a producer that belong to one process.

    Open until ``close``, or until what ``abandoned`` started has ended. It keeps the client alive,
    which would close itself otherwise.
    """

    def __init__(self, client: Client, topic: str, settings: ProducerSettings) -> None:
        self.thread = LoopThread.shared()
        self.accumulator = Accumulator(settings, time.monotonic, random.random)
        self.failures = Failures(topic, time.monotonic)
        self.callbacks = Callbacks(self.accumulator, self.failures)
        self._client, self._topic, self._settings = client, topic, settings
        self._closing: asyncio.Task[None] | None = None
        self.now_ms, self._sender = self.thread.run(self._open())
        _cores.add(self)

    async def _open(self) -> tuple[Callable[[], int], Sender]:
        asynchronous = self._client.on(self.thread)
        sender = Sender(asynchronous, self._topic, self.accumulator, self.callbacks.settle)
        await sender.start()
        return asynchronous.now_ms, sender

    def wake(self) -> None:
        """Wake the sender. Raises: ClientClosed: the interpreter is shutting down."""
        try:
            self.thread.loop.call_soon_threadsafe(self._sender.wake)
        except RuntimeError as error:
            raise ClientClosed("put failed: the interpreter is shutting down") from error

    def close(self, timeout_s: float) -> Undelivered:
        """Send for at most ``timeout_s``; return how many messages were abandoned then."""
        _cores.discard(self)
        self.accumulator.close()
        ticket = self.accumulator.flush()
        self.wake()
        self.accumulator.wait_until_done(ticket, timeout_s)
        return self.thread.run(self._stop(ticket))

    async def _stop(self, ticket: int) -> Undelivered:
        ended = self.failures.total
        await self._sender.stop()
        if not await self._wait_until_done(ticket, CALLBACKS_S_MAX):
            _log.error("producer callbacks did not return within %g s", CALLBACKS_S_MAX)
        self.callbacks.close()
        return self.failures.total.since(ended)

    async def _wait_until_done(self, ticket: int, timeout_s: float) -> bool:
        until_s = time.monotonic() + timeout_s
        while not (done := self.accumulator.wait_until_done(ticket, 0.0)):
            if time.monotonic() > until_s:
                break
            await asyncio.sleep(_POLL_S)
        return done

    # --- producers that were not closed ----------------------------------------------------------

    def abandoned(self) -> None:
        """Its producer was collected: close it without waiting. A finaliser may call it."""
        if self.thread.here:
            with suppress(RuntimeError):  # the loop has stopped: the exit has closed everything
                self.thread.loop.call_soon_threadsafe(self._start_closing)

    def _start_closing(self) -> None:
        self._closing = asyncio.get_running_loop().create_task(self._close_abandoned())

    async def _close_abandoned(self) -> None:
        self.warn_unclosed(self._settings.close_s)
        self.accumulator.close()
        ticket = self.accumulator.flush()
        self._sender.wake()
        await self._wait_until_done(ticket, self._settings.close_s)
        self.report_left(await self._stop(ticket))
        _cores.discard(self)

    def warn_unclosed(self, allowed_s: float) -> None:
        """Log that it sends what is buffered, if anything is."""
        waiting = self.accumulator.unfinished
        if waiting:
            _log.warning(
                "producer was not closed, sending its messages: topic=%s messages=%d "
                "timeout_s=%g; use with or call close()",
                self._topic, waiting, allowed_s,
            )  # fmt: skip

    def report_left(self, left: Undelivered) -> None:
        """Log what could not be sent."""
        if any(left):
            _log.error(
                "messages lost: the producer was not closed: topic=%s not_stored=%d unknown=%d",
                self._topic, *left,
            )  # fmt: skip


_Settled = tuple[Batch, int | None, TalosError | None]


class Callbacks:
    """One daemon thread that runs callbacks, started with the first batch that has any.

    Its queue is bounded by the buffer: a batch counts until its callbacks have returned.
    """

    def __init__(self, accumulator: Accumulator, failures: Failures) -> None:
        self._accumulator, self._failures = accumulator, failures
        self._queue: SimpleQueue[_Settled | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def inside(self) -> bool:
        """Whether the caller is a callback."""
        return threading.current_thread() is self._thread

    def refuse_inside(self, what: str) -> None:
        """Raises: RuntimeError: the call would wait for the callback it is called from."""
        if self.inside:
            raise RuntimeError(f"{what} failed: called inside a callback of the same producer")

    def settle(self, batch: Batch, base_offset: int | None, error: TalosError | None) -> None:
        """Called on the loop: a batch has its outcome."""
        self._failures.note(batch, error)
        if not batch.watchers:
            self._accumulator.finish(batch)
            return
        self._queue.put((batch, base_offset, error))
        self._start()

    def _start(self) -> None:
        """On the loop. What is queued waits for a thread if the system gives none now."""
        if self._thread is not None:
            return
        thread = threading.Thread(target=self._run, name="opentalos-sdk-callbacks", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            _log.error("cannot start the thread of producer callbacks, retrying: %s", error)
            asyncio.get_running_loop().call_later(_START_RETRY_S, self._start)
        else:
            self._thread = thread

    def close(self) -> None:
        """Stop the thread after the callbacks that are queued."""
        self._queue.put(None)

    def _run(self) -> None:
        while (settled := self._queue.get()) is not None:
            batch, base_offset, error = settled
            try:
                batch.call_back(base_offset, error)
            except BaseException:  # such as SystemExit, which would end the thread
                _log.exception("producer callback raised an exception that would end its thread")
            finally:
                self._accumulator.finish(batch)


_cores: set[Core] = set()  # of this process
_inherited: list[set[Core]] = []  # the parent's, in a forked child; never finalised there


def _after_fork() -> None:
    global _cores
    _inherited.append(_cores)
    _cores = set()


@atexit.register  # before that of LoopThread, which is registered earlier
def _close_all() -> None:
    until_s = time.monotonic() + EXIT_S_MAX
    left_cores = list(_cores)
    for core in left_cores:
        core.warn_unclosed(EXIT_S_MAX)
        core.accumulator.close()
        core.accumulator.flush()
        core.wake()
    for core in left_cores:
        with suppress(TalosError):
            core.report_left(core.close(max(0.0, until_s - time.monotonic())))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
