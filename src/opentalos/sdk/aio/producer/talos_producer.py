"""The buffering producer for asyncio: batches messages by partition and sends in background."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from opentalos.sdk.aio.connection.client import Client, attach
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
from opentalos.sdk.core.producer.put_arguments import portions, rows_of, watch_of
from opentalos.sdk.core.producer.settings import OnError, OnSuccess, ProducerSettings
from opentalos.sdk.core.values import Message
from opentalos.sdk.errors import BufferFull, ClientClosed, TalosError


class TalosProducer:
    """Batches messages by partition and sends the batches in the background.

    A message is stored when its ``on_success`` is called, not when ``put`` returns. Messages that
    are not flushed are lost if the process dies: call ``flush`` where it matters and ``close`` at
    the end. Messages of one partition are stored in the order of their puts.

    Puts are retried until their outcome is known or the delivery deadline passes. An OpenTalos
    server stores each message once (idempotent puts). With ``idempotent=False``, or with another
    server, delivery is at least once, and batches may be reordered after a broken connection.

    Each message ends in exactly one call of ``on_success(message, partition, offset)`` or
    ``on_error(message, error, outcome)``; for rows of an Arrow table, the row numbers replace the
    message. Callbacks run on the event loop and must not block it; their errors are logged. A
    message that cannot be encoded fails its whole batch.

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
        self.settings = ProducerSettings() if settings is None else settings
        self._accumulator = Accumulator(self.settings, time.monotonic, random.random)
        self._accumulator.on_progress = self._progressed
        self._sender = Sender(self._client, topic, self._accumulator, self._settle)
        self._starting = asyncio.Lock()
        self._started = False
        self._closed = False
        self._progress = asyncio.Event()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

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

        Raises: BufferFull, RequestTooLarge, ClientClosed: the message was not buffered; the first
        put also raises the errors of looking up the topic.
        """
        if not self._started:
            await self._start()
        taken = message_of(message, self._client.now_ms())
        watch = watch_of(on_success, on_error)
        await self._add(size_of(taken, watch), partial(self._accumulator.add, taken, watch))

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
        on_success: OnSuccess | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Buffer the rows of an Arrow table or record batch; see ``opentalos.sdk.arrow``.

        Callbacks are called once per block. Rows with a partition_key go to its partition.

        Raises: as ``put``, possibly after some blocks were buffered; BadRequest: wrong columns.
        """
        if not self._started:
            await self._start()
        watch, now_ms = watch_of(on_success, on_error), self._client.now_ms()
        for rows in rows_of(table, self.settings, self._accumulator.partitions, now_ms):
            size = len(rows.block.payload) + MESSAGE_BYTES
            await self._add(size, partial(self._accumulator.add_block, *rows, watch))

    async def flush(self) -> None:
        """Send all buffered messages, and wait until each one has its outcome."""
        ticket = self._accumulator.flush()
        self._sender.wake()
        while not self._accumulator.wait_until_done(ticket, 0.0):
            await self._next_progress()

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most ``timeout_s`` (None: ``settings.close_s``), then abandon the rest:
        ``on_error`` reports whether it was in flight. Closes the client, unless it is shared.
        """
        if self._closed:
            return
        self._closed = True
        self._accumulator.close()
        allowed_s = self.settings.close_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(allowed_s):
                await self.flush()
        except TimeoutError:
            pass
        finally:
            await self._sender.stop()
            if self._owned:
                await self._client.close()

    # --- inside ---------------------------------------------------------------------------------

    async def _start(self) -> None:
        async with self._starting:
            if self._closed:
                raise ClientClosed("the producer is closed")
            if not self._started:
                await self._sender.start()
                self._started = True

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
        try:
            batch.call_back(base_offset, error)
        finally:
            self._accumulator.finish(batch)
