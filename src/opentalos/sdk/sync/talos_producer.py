"""Puts that are collected and sent in the background, for synchronous code."""

import logging
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, Self

from opentalos.sdk.aio.producer.sender import Sender
from opentalos.sdk.core.blocks import message_of
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.producer.accumulator import MESSAGE_BYTES, Accumulator, Batch, size_of
from opentalos.sdk.core.producer.put_arguments import portions, rows_of, watch_of
from opentalos.sdk.core.producer.settings import OnError, OnSuccess, ProducerSettings
from opentalos.sdk.core.values import Message
from opentalos.sdk.errors import BufferFull, ClientClosed, TalosError
from opentalos.sdk.sync.client import Client, attach
from opentalos.sdk.sync.loop_thread import LoopThread

CALLBACKS_S_MAX: Final = 5.0  # close waits so long for callbacks that do not return

_log = logging.getLogger("opentalos.sdk.producer")


class TalosProducer:
    """As ``opentalos.sdk.aio.TalosProducer``; any thread may use it, also in a forked child.

    A put only takes a lock and appends: the loop thread is woken when a block is due. Callbacks run
    in a thread of this producer, one after the other. One that blocks holds up nothing but the
    callbacks behind it; their messages count for the buffer until then. Inside a callback a put
    never waits for room, and flush and close are refused.

    What a killed process has put and not flushed is lost, and so is what is not closed at its end.
    A forked child begins with an empty buffer; what the parent had put, the parent sends.

    Args: client: shared with other objects, or a configuration for a client of its own; topic:
    ``name`` or ``organisation/name``.
    """

    def __init__(
        self,
        client: Client | ClientConfig,
        topic: str,
        settings: ProducerSettings | None = None,
    ) -> None:
        self._client, self._owned = attach(client)
        self._topic = topic
        self.settings = ProducerSettings() if settings is None else settings
        self._core: _Core | None = None  # of this process, made with the first put
        self._starting = threading.Lock()
        self._closed = False
        _alive.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def buffered_bytes(self) -> int:
        """Bytes of messages without an outcome; ``settings.waiting_bytes_max`` at most."""
        return 0 if self._core is None else self._core.accumulator.bytes_count

    def put(
        self,
        message: Message | bytes,
        *,
        on_success: OnSuccess | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Take one message; it waits for room only if the settings say so.

        Raises: BufferFull, RequestTooLarge, ClientClosed: it was not taken; with the first put
        also what looking up the topic raises.
        """
        core = self._core or self._start()
        taken = message_of(message, core.now_ms())
        watch = watch_of(on_success, on_error)
        try:
            if core.accumulator.add(taken, watch):
                core.wake()
        except BufferFull:
            self._wait(core, size_of(taken, watch), partial(core.accumulator.add, taken, watch))

    def put_many(
        self,
        messages: Sequence[Message | bytes],
        *,
        on_success: OnSuccess | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Take all messages, in order, as ``put`` for each but quicker.

        Raises: as ``put``. With when_full "raise" none was taken then, else maybe the first ones.
        """
        core = self._core or self._start()
        watch = watch_of(on_success, on_error)
        for part in portions(messages, core.now_ms(), self.settings):
            try:
                if core.accumulator.add_all(part, watch):
                    core.wake()
            except BufferFull:
                size = sum([size_of(message, watch) for message in part])
                self._wait(core, size, partial(core.accumulator.add_all, part, watch))

    def put_arrow(
        self,
        table: Any,
        *,
        on_success: OnSuccess | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Buffer the rows of an Arrow table or record batch; see ``opentalos.sdk.arrow``.

        The callbacks are called once for each block. Rows with a partition_key go where it says.

        Raises: as ``put``, maybe after the first blocks were taken; BadRequest: no such table.
        """
        core = self._core or self._start()
        watch = watch_of(on_success, on_error)
        for rows in rows_of(table, self.settings, core.accumulator.partitions, core.now_ms()):
            try:
                if core.accumulator.add_block(*rows, watch):
                    core.wake()
            except BufferFull:
                size = len(rows.block.payload) + MESSAGE_BYTES
                self._wait(core, size, partial(core.accumulator.add_block, *rows, watch))

    def flush(self, timeout_s: float | None = None) -> None:
        """Send everything that was put before, and wait until each message has its outcome and its
        callback. Raises: TimeoutError; RuntimeError: inside a callback, which it would wait for.
        """
        core = self._core
        if core is None:
            return
        core.callbacks.refuse_inside("flush")
        ticket = core.accumulator.flush()
        core.wake()
        if not core.accumulator.wait_until_done(ticket, timeout_s):
            raise TimeoutError(f"not everything was stored within {timeout_s} s")

    def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most ``timeout_s`` (None: the settings' ``close_s``), then give up what is
        left: its ``on_error`` says whether it was on its way. Closes the client if it is its own.
        """
        core = self._core
        if core is not None:
            core.callbacks.refuse_inside("close")
        with self._starting:
            if self._closed:
                return
            self._closed = True
            core, self._core = self._core, None
        try:
            if core is not None:
                core.close(self.settings.close_s if timeout_s is None else timeout_s)
        finally:
            if self._owned:
                self._client.close()

    # --- inside ---------------------------------------------------------------------------------

    def _start(self) -> "_Core":
        with self._starting:
            if self._closed:
                raise ClientClosed("the producer is closed")
            if self._core is None:
                thread = LoopThread.shared()
                accumulator = Accumulator(self.settings, time.monotonic, random.random)
                self._core = thread.run(_open(thread, self._client, self._topic, accumulator))
            return self._core

    def _wait(self, core: "_Core", size: int, add: Callable[[], bool]) -> None:
        """Add as soon as there is room. Raises: BufferFull: the settings or time do not allow."""
        until_s = time.monotonic() + self.settings.block_s_max
        waits = self.settings.when_full == "block" and not core.callbacks.inside
        while True:
            core.accumulator.flush()  # what waits to be shared makes the room
            core.wake()
            left_s = until_s - time.monotonic()
            if waits and left_s > 0:
                core.accumulator.wait_for_room(size, left_s)
            try:
                if add():
                    core.wake()
                return
            except BufferFull:
                if not waits or left_s <= 0:
                    raise

    def _after_fork(self) -> None:
        """In the child: nothing of the parent's buffer, thread or locks is used."""
        if self._core is not None:
            _inherited.append(self._core)
            self._core = None
        self._starting = threading.Lock()


class _Core(NamedTuple):
    """What belongs to one process: the buffer, and what empties it on the loop thread."""

    thread: LoopThread
    accumulator: Accumulator
    sender: Sender
    callbacks: "_Callbacks"
    now_ms: Callable[[], int]

    def wake(self) -> None:
        """Let the sender look. Raises: ClientClosed: the interpreter ends."""
        try:
            self.thread.loop.call_soon_threadsafe(self.sender.wake)
        except RuntimeError as error:
            raise ClientClosed("the interpreter ends") from error

    def close(self, timeout_s: float) -> None:
        """See TalosProducer."""
        self.accumulator.close()
        ticket = self.accumulator.flush()
        self.wake()
        self.accumulator.wait_until_done(ticket, timeout_s)
        self.thread.run(self.sender.stop())
        if not self.accumulator.wait_until_done(ticket, CALLBACKS_S_MAX):
            _log.error("callbacks of a producer did not return within %g s", CALLBACKS_S_MAX)
        self.callbacks.close()


async def _open(thread: LoopThread, client: Client, topic: str, accumulator: Accumulator) -> _Core:
    asynchronous = client.on(thread)
    callbacks = _Callbacks(accumulator)
    sender = Sender(asynchronous, topic, accumulator, callbacks.settle)
    await sender.start()
    return _Core(thread, accumulator, sender, callbacks, asynchronous.now_ms)


_Settled = tuple[Batch, int | None, TalosError | None]


class _Callbacks:
    """One daemon thread that calls back; it is started for the first batch that somebody watches.

    Its queue is bounded by the buffer, since a batch counts until its callbacks returned.
    """

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._queue: SimpleQueue[_Settled | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def inside(self) -> bool:
        """Whether this is called by a callback."""
        return threading.current_thread() is self._thread

    def refuse_inside(self, what: str) -> None:
        """Raises: RuntimeError: the call would wait for the callback that makes it."""
        if self.inside:
            raise RuntimeError(f"{what} inside a callback of the same producer")

    def settle(self, batch: Batch, base_offset: int | None, error: TalosError | None) -> None:
        """On the loop: a batch has its outcome."""
        if not batch.watchers:
            self._accumulator.finish(batch)
            return
        self._queue.put((batch, base_offset, error))
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="opentalos-sdk-callbacks", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """End the thread once it has called what it was given."""
        self._queue.put(None)

    def _run(self) -> None:
        while (settled := self._queue.get()) is not None:
            batch, base_offset, error = settled
            try:
                batch.call_back(base_offset, error)
            except BaseException:  # such as SystemExit, which would end the thread
                _log.exception("a callback of a producer tried to end its thread")
            finally:
                self._accumulator.finish(batch)


_alive: "weakref.WeakSet[TalosProducer]" = weakref.WeakSet()
_inherited: list[_Core] = []  # the parent's, in a forked child; kept as they are


def _after_fork() -> None:
    for producer in list(_alive):
        producer._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
