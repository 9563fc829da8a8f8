"""Puts that are collected and sent in the background, for asyncio."""

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
    """Collects messages by partition and sends them as blocks: quick for many small ones.

    A message is stored when its ``on_success`` is called, not when ``put`` returns. What a killed
    process has put and not flushed is lost; so ``flush`` where it counts, and ``close`` at the end.
    Messages of one partition are stored in the order of their puts. Against an OpenTalos server
    each is stored once, though a put is repeated until its outcome is known or its deadline has
    passed; other servers may store it twice. With ``idempotent=False`` or such a server, a block
    may also be stored behind the next one after its connection broke.

    A message that cannot be encoded, such as one with a number above 64 bits, fails its block.
    Every message ends in one call of ``on_success(message, partition, offset)`` or
    ``on_error(message, error, outcome)``; for rows of a table their numbers stand for the message.
    They are called on the loop and must not block it; one that raises is logged.

    The first put looks the topic up. A topic that is deleted fails what is put, one that is made
    anew gets it. Messages without a key go to the partitions in turns, block by block.

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
        """Bytes of messages without an outcome; ``settings.waiting_bytes_max`` at most."""
        return self._accumulator.bytes_count

    async def put(
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
        """Take all messages, in order, as ``put`` for each but quicker.

        Raises: as ``put``. With when_full "raise" none was taken then, else maybe the first ones.
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

        The callbacks are called once for each block. Rows with a partition_key go where it says.

        Raises: as ``put``, maybe after the first blocks were taken; BadRequest: no such table.
        """
        if not self._started:
            await self._start()
        watch, now_ms = watch_of(on_success, on_error), self._client.now_ms()
        for rows in rows_of(table, self.settings, self._accumulator.partitions, now_ms):
            size = len(rows.block.payload) + MESSAGE_BYTES
            await self._add(size, partial(self._accumulator.add_block, *rows, watch))

    async def flush(self) -> None:
        """Send everything that was put before, and wait until each message has its outcome."""
        ticket = self._accumulator.flush()
        self._sender.wake()
        while not self._accumulator.wait_until_done(ticket, 0.0):
            await self._next_progress()

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush for at most ``timeout_s`` (None: the settings' ``close_s``), then give up what is
        left: its ``on_error`` says whether it was on its way. Closes the client if it is its own.
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
        """Add at once or as soon as there is room, as the settings say."""
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
            self._accumulator.flush()  # what waits to be shared makes the room
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
