"""Sends the batches of a producer, one in flight per partition, until their outcome is known."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from opentalos.model.errors import OutcomeUnknown, PartitionNotExist, TalosError, TopicNotExist
from opentalos.model.message import ProducerStamp
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.producer.idempotent_put import deduplicates, new_producer_id, put_once
from opentalos.sdk.core.blocks import encode_records
from opentalos.sdk.core.producer.accumulator import Accumulator, Batch
from opentalos.sdk.core.producer.key_spread import KeySpread
from opentalos.sdk.core.producer.partitioner import partitioner_of
from opentalos.sdk.core.producer.sequences import Sequences
from opentalos.sdk.core.producer.settings import ProducerSettings
from opentalos.sdk.core.trace_hooks import sending
from opentalos.sdk.core.values import Compression, MessageBlock, PutReply, TopicRef
from opentalos.sdk.errors import ClientClosed
from opentalos.wire.message import MessageFormatError

TOPIC_REFRESH_S: Final = 180.0  # how often the topic is looked up, as in the Java client
LOOKUPS_MAX: Final = 3  # of the topic, for one batch
AFTER_BUG_S: Final = 1.0  # after an unexpected error; then continue
ATTEMPT_S_MIN: Final = 0.1  # for a batch whose deadline passed while it waited
_SLOW: Final = frozenset((Compression.GZIP, Compression.ZSTD))  # takes milliseconds per batch

# Takes a batch with its outcome: base offset or None, and the error. It runs the callbacks and
# finishes the batch.
Settle = Callable[[Batch, int | None, TalosError | None], None]

_log = logging.getLogger("opentalos.sdk.producer")


class Sender:
    """Belongs to the loop of ``start``; ``TalosProducer`` documents the guarantees."""

    def __init__(
        self, client: Client, topic: str, accumulator: Accumulator, settle: Settle
    ) -> None:
        self._client, self._name, self._accumulator = client, topic, accumulator
        self._settings: ProducerSettings = accumulator.settings
        self._settle = settle
        self._sequences: Sequences | None = None  # None: at-least-once delivery
        self._sending: dict[asyncio.Task[None], Batch] = {}
        self._slots = asyncio.Semaphore(self._settings.requests_max)
        self._wake = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None  # lookup of the topic
        self._ref: TopicRef | None = None
        self._refreshed_s = 0.0
        self._spread: KeySpread | None = None  # None: not started

    async def start(self) -> None:
        """Look up the topic and start sending. Raises: TopicNotExist, NotSupported and others."""
        await self._refresh()
        if await deduplicates(self._client, self._name, self._settings.idempotent):
            self._sequences = Sequences(new_producer_id())
        self._spread = KeySpread(self._name, asyncio.get_running_loop().time)
        self._pump = asyncio.create_task(self._run())

    def wake(self) -> None:
        """Check the accumulator; call it on the loop."""
        self._wake.set()

    async def stop(self) -> None:
        """Stop sending: batches in flight end as unknown, waiting ones as not done."""
        await _end([task for task in (self._pump, self._refreshing) if task is not None])
        await _end(list(self._sending))
        self._accumulator.flush()
        while ready := self._accumulator.due()[0]:
            for partition in ready:
                batch = self._accumulator.take(partition)
                if batch is not None:
                    unsent = ClientClosed("not sent: the producer was closed")
                    self._accumulator.release(batch)
                    self._settle(batch, None, unsent)
        if self._spread is not None:
            self._spread.end(self._topic.partitions)

    # --- when -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._step()
            except Exception:
                _log.exception("producer loop failed unexpectedly")
                await asyncio.sleep(AFTER_BUG_S)

    async def _step(self) -> None:
        """Send all batches that are due, or wait until one may be."""
        loop = asyncio.get_running_loop()
        self._wake.clear()
        ready, next_s = self._accumulator.due()
        for partition in ready:
            await self._slots.acquire()
            batch = self._accumulator.take(partition)
            if batch is None:
                self._slots.release()
                continue
            task = loop.create_task(self._deliver(batch))
            self._sending[task] = batch
            task.add_done_callback(self._sent)
        if loop.time() > self._refreshed_s + TOPIC_REFRESH_S:
            self._refreshed_s = loop.time()
            self._refreshing = loop.create_task(self._refresh_if_possible())
        if not ready:
            await self._sleep(None if next_s is None else next_s - loop.time())

    async def _sleep(self, timeout_s: float | None) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _sent(self, task: asyncio.Task[None]) -> None:
        batch = self._sending.pop(task)
        self._slots.release()
        self._wake.set()
        if task.cancelled():
            error: TalosError = OutcomeUnknown(
                "the producer was closed while the put was in flight"
            )
        elif task.exception() is None:
            return
        else:
            error = OutcomeUnknown(f"put failed unexpectedly: {task.exception()}")
            _log.error("put failed unexpectedly", exc_info=task.exception())
        self._accumulator.release(batch)
        self._settle(batch, None, error)

    # --- one batch ------------------------------------------------------------------------------

    async def _deliver(self, batch: Batch) -> None:
        base_offset, failure = None, None
        try:
            if batch.block is None:
                batch.block = await self._encoded(batch)
            with sending(self._name, batch.partition, batch.messages):
                base_offset = await self._put(batch)
        except _Moved:
            self._accumulator.move(batch)
            return
        except TalosError as error:
            failure = error
        if failure is None and self._spread is not None:
            self._spread.count(batch, self._topic.partitions)
        self._accumulator.release(batch)
        self._settle(batch, base_offset, failure)

    async def _encoded(self, batch: Batch) -> MessageBlock:
        """Raises: MessageFormatError: one of the messages has a field of a wrong type or size."""
        compression = self._settings.compression
        try:
            if compression in _SLOW:
                try:
                    return await asyncio.to_thread(encode_records, batch.messages, compression)
                except RuntimeError:  # no new threads at interpreter shutdown
                    pass
            return encode_records(batch.messages, compression)
        except (TypeError, ValueError, AttributeError) as error:
            raise MessageFormatError(f"a message cannot be encoded: {error}") from error

    async def _put(self, batch: Batch) -> int | None:
        """Put until stored. Returns: the base offset. Raises: the final error; _Moved."""
        lookups = 0
        while True:
            try:
                return (await self._put_to_topic(batch)).base_offset
            except (TopicNotExist, PartitionNotExist):
                known = self._topic.resource, self._topic.partitions
                await self._refresh()
                if batch.partition >= self._topic.partitions:
                    if batch.keyed:
                        raise
                    raise _Moved from None
                if lookups == LOOKUPS_MAX or known == (
                    self._topic.resource,
                    self._topic.partitions,
                ):
                    raise
            lookups += 1

    async def _put_to_topic(self, batch: Batch) -> PutReply:
        topic = self._topic
        put = partial(self._attempts, batch, topic)
        if self._sequences is None:
            return await put(None)
        return await put_once(self._sequences, topic.resource, batch.partition, batch.count, put)

    async def _attempts(
        self, batch: Batch, topic: TopicRef, stamp: ProducerStamp | None
    ) -> PutReply:
        """Put until the deadline; without idempotence, also retry after an unknown outcome."""
        assert batch.block is not None
        loop = asyncio.get_running_loop()
        deadline_s = batch.born_s + self._settings.delivery_deadline_s
        deadline_s = max(deadline_s, loop.time() + ATTEMPT_S_MIN)
        unknown: OutcomeUnknown | None = None
        while True:
            left_s = deadline_s - loop.time()
            try:
                return await self._client.put(
                    topic, batch.partition, batch.block, stamp=stamp, deadline_s=left_s
                )
            except OutcomeUnknown as error:
                unknown = error
                pause_s = self._client.config.backoff_s
                if stamp is not None or deadline_s - loop.time() < pause_s + ATTEMPT_S_MIN:
                    raise
                await asyncio.sleep(pause_s)
            except TalosError as error:
                if unknown is None:
                    raise
                raise OutcomeUnknown(f"{unknown}; then {error}") from error

    # --- topic ----------------------------------------------------------------------------------

    @property
    def _topic(self) -> TopicRef:
        assert self._ref is not None
        return self._ref

    async def _refresh(self) -> None:
        self._ref = await self._client.topic(self._name, refresh=True)
        self._accumulator.partitions = self._ref.partitions
        if self._settings.partitioner is None:
            self._accumulator.partitioner = partitioner_of(self._ref.partitioning)
        self._refreshed_s = asyncio.get_running_loop().time()

    async def _refresh_if_possible(self) -> None:
        try:
            await self._refresh()
        except TalosError as error:
            _log.warning("topic lookup failed: topic=%s error=%s", self._name, error)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Moved(Exception):
    """The partition of the batch is gone; its messages move to other partitions."""
