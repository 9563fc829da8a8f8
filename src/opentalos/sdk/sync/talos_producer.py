"""The buffering producer for synchronous code.

Hand-written: a put takes a lock and appends, without entering the event loop. The sender runs on
the loop thread, callbacks in a thread of this producer.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Self

from opentalos.sdk.core.blocks import message_of
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.producer.accumulator import MESSAGE_BYTES, size_of
from opentalos.sdk.core.producer.put_arguments import portions, rows_of, watch_into, watch_of
from opentalos.sdk.core.producer.settings import (
    OnError,
    OnRowsError,
    OnRowsSuccess,
    OnSuccess,
    ProducerSettings,
    Undelivered,
)
from opentalos.sdk.core.values import Message, Stored
from opentalos.sdk.errors import BufferFull, ClientClosed, DeliveryFailed
from opentalos.sdk.sync.client import Client, attach
from opentalos.sdk.sync.producer_core import Core


class TalosProducer:
    """Batches messages by partition and sends the batches in the background.

    Delivery and order are as for ``opentalos.sdk.aio.TalosProducer``. Any thread may use it, also
    in a forked child, which starts with an empty buffer: the parent sends what the parent put.
    Messages that are not flushed are lost if the process dies. A producer that was not closed logs
    a warning and sends what it has: at the exit of the interpreter for ten seconds at most.

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
        self._core: Core | None = None  # of this process, made with the first put
        self._forget_core: Callable[[], object] = _nothing  # nobody has to close it any more
        self._starting = threading.Lock()
        self._closed = False
        _alive.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except DeliveryFailed:
            if kind is None:
                raise

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

        Args: on_success: called with the message, its partition, and its own offset, also within a
        batch; None if the server does not report offsets, as official ones; on_error: called
        instead with the message, the error and whether the message may be stored.

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

    def send_and_wait(self, message: Message | bytes) -> Stored:
        """Put one message without lingering, and wait until it is stored.

        Calls at the same time share batches. If it is cancelled, the message may still be stored.

        Raises: as ``put``; the error that ``on_error`` would get; RuntimeError: called inside a
        callback, where it would deadlock.
        """
        core = self._core or self._start()
        core.callbacks.refuse_inside("send_and_wait")
        ended: Future[Stored] = Future()
        on_success, on_error = watch_into(ended.set_result, ended.set_exception)
        self.put(message, on_success=on_success, on_error=on_error)
        core.accumulator.flush()
        core.wake()
        return ended.result()

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
        on_success: OnRowsSuccess | None = None,
        on_error: OnRowsError | None = None,
    ) -> None:
        """Buffer the rows of an Arrow table or record batch; see ``opentalos.sdk.arrow``.

        Callbacks are called once per block. Rows with a partition_key go to its partition.

        Raises: as ``put``, possibly after some blocks were buffered; BadRequest: wrong columns.
        """
        core = self._core or self._start()
        watch = watch_of(on_success, on_error)
        into = core.accumulator
        for rows in rows_of(table, self.settings, into.partitioner, into.partitions, core.now_ms()):
            try:
                if core.accumulator.add_block(*rows, watch):
                    core.wake()
            except BufferFull:
                size = len(rows.block.payload) + MESSAGE_BYTES
                self._wait(core, size, partial(core.accumulator.add_block, *rows, watch))

    def flush(self, timeout_s: float | None = None) -> None:
        """Send all buffered messages; wait until each has its outcome and its callback returned.

        Raises: DeliveryFailed: messages without ``on_error`` failed since the last flush;
        TimeoutError; RuntimeError: called inside a callback, where it would deadlock.
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
        core.failures.raise_new()

    def close(self, timeout_s: float | None = None) -> Undelivered:
        """Flush for at most ``timeout_s`` (None: ``settings.close_s``), then abandon the rest:
        ``on_error`` reports whether it was in flight. Closes the client, unless it is shared.

        Returns: how many messages it abandoned.
        Raises:  DeliveryFailed: messages without ``on_error`` failed since the last flush; the
                 producer is closed. ``with`` raises it unless its block raised. RuntimeError:
                 called inside a callback, where it would deadlock.
        """
        core = self._core
        if core is not None:
            core.callbacks.refuse_inside("close")
        with self._starting:
            if self._closed:
                return Undelivered()
            self._closed = True
            core, self._core = self._core, None
        left = Undelivered()
        try:
            if core is not None:
                self._forget_core()
                left = core.close(self.settings.close_s if timeout_s is None else timeout_s)
        finally:
            if self._owned:
                self._client.close()
        if core is not None:
            core.failures.raise_new()
        return left

    # --- inside ---------------------------------------------------------------------------------

    def _start(self) -> Core:
        with self._starting:
            if self._closed:
                raise ClientClosed("the producer is closed")
            if self._core is None:
                core = Core(self._client, self._topic, self.settings)
                finalizer = weakref.finalize(self, core.abandoned)
                finalizer.atexit = False  # the core itself is closed at the exit
                self._forget_core = finalizer.detach
                self._core = core
            return self._core

    def _wait(self, core: Core, size: int, add: Callable[[], bool]) -> None:
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
        self._core = None
        self._forget_core()
        self._starting = threading.Lock()


def _nothing() -> None:
    """There is no core yet."""


_alive: "weakref.WeakSet[TalosProducer]" = weakref.WeakSet()


def _after_fork() -> None:
    for producer in list(_alive):
        producer._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
