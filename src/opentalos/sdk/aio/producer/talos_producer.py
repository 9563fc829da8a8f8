"""The buffering producer for asyncio: batches messages by partition and sends in background."""

import asyncio
import atexit
import logging
import os
import random
import time
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.aio.producer.failures import Failures
from opentalos.sdk.aio.producer.sender import Sender
from opentalos.sdk.core.blocks import message_of
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.producer.accumulator import (
    MESSAGE_BYTES,
    Accumulator,
    Batch,
    Watch,
    size_of,
)
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
from opentalos.sdk.errors import BufferFull, ClientClosed, DeliveryFailed, TalosError

_log = logging.getLogger("opentalos.sdk.producer")


class TalosProducer:
    """Batches messages by partition and sends the batches in the background.

    A message is stored when its ``on_success`` is called or ``flush`` has returned, not when
    ``put`` returns. Messages that are not flushed are lost if the process or the event loop ends:
    call ``flush`` where it matters and ``close`` at the end; a producer that was not closed logs
    what is lost. Messages of one partition are stored in the order of their puts.

    Puts are retried until their outcome is known or the delivery deadline passes. An OpenTalos
    server stores each message once (idempotent puts). With ``idempotent=False``, or with another
    server, delivery is at least once, and batches may be reordered after a broken connection.

    Each message ends in exactly one call of ``on_success(message, partition, offset)`` or
    ``on_error(message, error, outcome)``; for rows of an Arrow table, the row numbers replace the
    message. If a message without ``on_error`` fails, the failure is logged, and the next ``flush``
    or ``close`` raises DeliveryFailed. Callbacks run on the event loop and must not block it; their
    errors are logged. A message that cannot be encoded fails its whole batch.

    The first put looks up the topic. Puts to a deleted topic fail; if it is recreated, they go to
    the new one. Messages without a key go round-robin to the partitions, batch by batch.

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
        self._accumulator = Accumulator(self.settings, time.monotonic, random.random)
        self._accumulator.on_progress = self._progressed
        self._sender = Sender(self._client, topic, self._accumulator, self._settle)
        self._failures = Failures(topic, time.monotonic)
        self._starting = asyncio.Lock()
        self._started = False
        self._closed = False
        self._progress = asyncio.Event()
        self._pid = os.getpid()
        _alive.add(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            await self.close()
        except DeliveryFailed:
            if kind is None:
                raise

    def __del__(self) -> None:
        if getattr(self, "_started", False):
            self._warn_if_lost()

    @property
    def buffered_bytes(self) -> int:
        """Bytes of messages without an outcome; at most ``settings.waiting_bytes_max``."""
        return self._accumulator.bytes_count

    async def put(
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
        if not self._started:
            await self._start()
        taken = message_of(message, self._client.now_ms())
        watch = watch_of(on_success, on_error)
        await self._add(size_of(taken, watch), partial(self._accumulator.add, taken, watch))

    async def send_and_wait(self, message: Message | bytes) -> Stored:
        """Put one message without lingering, and wait until it is stored.

        Calls at the same time share batches. If it is cancelled, the message may still be stored.

        Raises: as ``put``; the error that ``on_error`` would get.
        """
        ended: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()

        def succeed(stored: Stored) -> None:
            if not ended.done():  # it was cancelled
                ended.set_result(stored)

        def fail(error: TalosError) -> None:
            if not ended.done():
                ended.set_exception(error)

        on_success, on_error = watch_into(succeed, fail)
        await self.put(message, on_success=on_success, on_error=on_error)
        self._accumulator.flush()
        self._sender.wake()
        return await ended

    async def put_many(
        self,
        messages: Sequence[Message | bytes],
        *,
        on_success: OnSuccess | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Buffer messages in order; faster than ``put`` for each.

        Raises: as ``put``. With when_full "raise" none is buffered then, with "block" some may be.
        """
        if not self._started:
            await self._start()
        watch = watch_of(on_success, on_error)
        for part in portions(messages, self._client.now_ms(), self.settings):
            await self._add_part(part, watch)

    async def put_arrow(
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
        if not self._started:
            await self._start()
        watch, now_ms = watch_of(on_success, on_error), self._client.now_ms()
        into = self._accumulator
        for rows in rows_of(table, self.settings, into.partitioner, into.partitions, now_ms):
            size = len(rows.block.payload) + MESSAGE_BYTES
            await self._add(size, partial(self._accumulator.add_block, *rows, watch))

    async def flush(self) -> None:
        """Send all buffered messages, and wait until each one has its outcome.

        Raises: DeliveryFailed: messages without ``on_error`` failed since the last flush.
        """
        await self._send_all()
        self._failures.raise_new()

    async def close(self, timeout_s: float | None = None) -> Undelivered:
        """Flush for at most ``timeout_s`` (None: ``settings.close_s``), then abandon the rest:
        ``on_error`` reports whether it was in flight. Closes the client, unless it is shared.

        Returns: how many messages it abandoned.
        Raises:  DeliveryFailed: messages without ``on_error`` failed since the last flush; the
                 producer is closed. ``async with`` raises it unless its block raised.
        """
        if self._closed:
            return Undelivered()
        self._closed = True
        self._accumulator.close()
        allowed_s = self.settings.close_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(allowed_s):
                await self._send_all()
        except TimeoutError:
            pass
        finally:
            ended = self._failures.total
            await self._sender.stop()
            if self._owned:
                await self._client.close()
        self._failures.raise_new()
        return self._failures.total.since(ended)

    # --- inside ---------------------------------------------------------------------------------

    async def _start(self) -> None:
        async with self._starting:
            if self._closed:
                raise ClientClosed("the producer is closed")
            if not self._started:
                await self._sender.start()
                self._started = True

    async def _send_all(self) -> None:
        ticket = self._accumulator.flush()
        self._sender.wake()
        while not self._accumulator.wait_until_done(ticket, 0.0):
            await self._next_progress()

    async def _add_part(self, part: list[Message], watch: Watch | None) -> None:
        size = sum([size_of(message, watch) for message in part])
        await self._add(size, partial(self._accumulator.add_all, part, watch))

    async def _add(self, size: int, add: Callable[[], bool]) -> None:
        """Add, waiting for space if ``when_full`` is "block"."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self.settings.block_s_max
        while True:
            try:
                if add():
                    self._sender.wake()
                return
            except BufferFull:
                left_s = until_s - loop.time()
                if self.settings.when_full == "raise" or left_s <= 0:
                    raise
            self._accumulator.flush()  # send batches that linger, to free space
            self._sender.wake()
            try:
                await asyncio.wait_for(self._next_progress(), left_s)
            except TimeoutError:
                continue

    async def _next_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    def _progressed(self) -> None:
        self._progress.set()

    def _settle(self, batch: Batch, base_offset: int | None, error: TalosError | None) -> None:
        self._failures.note(batch, error)
        try:
            batch.call_back(base_offset, error)
        finally:
            self._accumulator.finish(batch)

    def _warn_if_lost(self) -> None:
        """Log what an unclosed producer loses: its event loop has ended, so it cannot send it."""
        lost = 0 if self._closed or self._pid != os.getpid() else self._accumulator.unfinished
        self._closed = True
        if lost:
            _log.error(
                "messages lost: the producer was not closed: topic=%s messages=%d; use async with "
                "or await close()",
                self._topic, lost,
            )  # fmt: skip


_alive: "weakref.WeakSet[TalosProducer]" = weakref.WeakSet()


@atexit.register
def _warn_at_exit() -> None:
    for producer in list(_alive):
        producer._warn_if_lost()
