"""The buffering producer for synchronous code.

Hand-written: a put takes a lock and appends, without entering the event loop. The sender runs on
the loop thread, callbacks in a thread of this producer.
"""

import asyncio
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

CALLBACKS_S_MAX: Final = 5.0  # close waits this long for callbacks to return

_log = logging.getLogger("opentalos.sdk.producer")
_START_RETRY_S = 1.0  # between tries to start the thread of callbacks


class TalosProducer:
    """Batches messages by partition and sends the batches in the background.

    Delivery and order are as for ``opentalos.sdk.aio.TalosProducer``. Any thread may use it, also
    in a forked child, which starts with an empty buffer: the parent sends what the parent put.
    Messages that are not flushed are lost if the process dies or exits without ``close``.

    Callbacks run one after the other in a thread of this producer. A callback that blocks delays
    only later callbacks, whose messages stay in the buffer meanwhile. Inside a callback, a put
    never waits for space, and ``flush`` and ``close`` raise RuntimeError.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
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
        """Bytes of messages without an outcome; at most ``settings.waiting_bytes_max``."""
        return 0 if self._core is None else self._core.accumulator.bytes_count

    def put(
        self,
        message: Message | bytes,
        *,
        on_success: OnSuccess | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Buffer one message; waits for space in the buffer if ``when_full`` is "block".

        Raises: BufferFull, RequestTooLarge, ClientClosed: the message was not buffered; the first
        put also raises the errors of looking up the topic.
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
        """Buffer messages in order; faster than ``put`` for each.

        Raises: as ``put``. With when_full "raise" none is buffered then, with "block" some may be.
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

        Callbacks are called once per block. Rows with a partition_key go to its partition.

        Raises: as ``put``, possibly after some blocks were buffered; BadRequest: wrong columns.
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
        """Send all buffered messages; wait until each has its outcome and its callback returned.

        Raises: TimeoutError; RuntimeError: called inside a callback, where it would deadlock.
        """
        core = self._core
        if core is None:
            return
        core.callbacks.refuse_inside("flush")
        ticket = core.accumulator.flush()
        core.wake()
        if not core.accumulator.wait_until_done(ticket, timeout_s):
            raise TimeoutError(
                f"flush timed out after {timeout_s} s: messages are still unsent; call flush again"
            )

    def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most ``timeout_s`` (None: ``settings.close_s``), then abandon the rest:
        ``on_error`` reports whether it was in flight. Closes the client, unless it is shared.
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
        """Add once there is space. Raises: BufferFull: not allowed to wait, or timed out."""
        until_s = time.monotonic() + self.settings.block_s_max
        waits = self.settings.when_full == "block" and not core.callbacks.inside
        while True:
            core.accumulator.flush()  # send batches that linger, to free space
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
        """In a forked child: use nothing of the parent's buffer, thread or locks."""
        if self._core is not None:
            _inherited.append(self._core)
            self._core = None
        self._starting = threading.Lock()


class _Core(NamedTuple):
    """The parts that belong to one process: buffer, sender on the loop thread, callbacks."""

    thread: LoopThread
    accumulator: Accumulator
    sender: Sender
    callbacks: "_Callbacks"
    now_ms: Callable[[], int]

    def wake(self) -> None:
        """Wake the sender. Raises: ClientClosed: the interpreter is shutting down."""
        try:
            self.thread.loop.call_soon_threadsafe(self.sender.wake)
        except RuntimeError as error:
            raise ClientClosed("put failed: the interpreter is shutting down") from error

    def close(self, timeout_s: float) -> None:
        """See TalosProducer."""
        self.accumulator.close()
        ticket = self.accumulator.flush()
        self.wake()
        self.accumulator.wait_until_done(ticket, timeout_s)
        self.thread.run(self.sender.stop())
        if not self.accumulator.wait_until_done(ticket, CALLBACKS_S_MAX):
            _log.error("producer callbacks did not return within %g s", CALLBACKS_S_MAX)
        self.callbacks.close()


async def _open(thread: LoopThread, client: Client, topic: str, accumulator: Accumulator) -> _Core:
    asynchronous = client.on(thread)
    callbacks = _Callbacks(accumulator)
    sender = Sender(asynchronous, topic, accumulator, callbacks.settle)
    await sender.start()
    return _Core(thread, accumulator, sender, callbacks, asynchronous.now_ms)


_Settled = tuple[Batch, int | None, TalosError | None]


class _Callbacks:
    """One daemon thread that runs callbacks, started with the first batch that has any.

    Its queue is bounded by the buffer: a batch counts until its callbacks have returned.
    """

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
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


_alive: "weakref.WeakSet[TalosProducer]" = weakref.WeakSet()
_inherited: list[_Core] = []  # the parent's, in a forked child; never finalised there


def _after_fork() -> None:
    for producer in list(_alive):
        producer._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
