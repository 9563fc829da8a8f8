"""Sends the batches of a producer, one in flight per partition, until their outcome is known."""

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from opentalos.model.errors import (
    NotSupported,
    OutcomeUnknown,
    PartitionNotExist,
    RequestError,
    SequenceGap,
    TalosError,
    TopicNotExist,
    Unavailable,
)
from opentalos.model.message import PRODUCER_ID_MAX, ProducerStamp
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.core.blocks import encode_records
from opentalos.sdk.core.producer.accumulator import Accumulator, Batch
from opentalos.sdk.core.producer.settings import ProducerSettings
from opentalos.sdk.core.values import Compression, MessageBlock, TopicRef
from opentalos.sdk.errors import ClientClosed
from opentalos.wire._generated.topic import TOPIC_SERVICE
from opentalos.wire.message import MessageFormatError

TOPIC_REFRESH_S: Final = 180.0  # how often the topic is looked up, as in the Java client
RENEWALS_MAX: Final = 3  # per batch: consecutive lookups of the topic, or new epochs
AFTER_BUG_S: Final = 1.0  # after an unexpected error; then continue
ATTEMPT_S_MIN: Final = 0.1  # for a batch whose deadline passed while it waited
_OUR_SERVERS: Final = "opentalos "  # prefix of their version
_SLOW: Final = frozenset((Compression.GZIP, Compression.ZSTD))  # takes milliseconds per batch

# Takes a batch with its outcome: base offset or None, and the error. It runs the callbacks and
# finishes the batch.
Settle = Callable[[Batch, int | None, TalosError | None], None]

_log = logging.getLogger("opentalos.sdk.producer")


@dataclass(slots=True)
class _SequenceState:
    """Epoch and next sequence number of an idempotent producer in one partition."""

    resource: str
    epoch: int = 0
    sequence: int = 0  # of the next message

    def next_epoch(self) -> None:
        """The next sequence is unknown: start a new epoch, which fences puts in flight."""
        self.epoch += 1
        self.sequence = 0


class Sender:
    """Belongs to the loop of ``start``; ``TalosProducer`` documents the guarantees."""

    def __init__(
        self, client: Client, topic: str, accumulator: Accumulator, settle: Settle
    ) -> None:
        self._client, self._name, self._accumulator = client, topic, accumulator
        self._settings: ProducerSettings = accumulator.settings
        self._settle = settle
        self._id: int | None = None  # None: not idempotent, at-least-once delivery
        self._sequences: dict[int, _SequenceState] = {}
        self._sending: dict[asyncio.Task[None], Batch] = {}
        self._slots = asyncio.Semaphore(self._settings.requests_max)
        self._wake = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None  # lookup of the topic
        self._ref: TopicRef | None = None
        self._refreshed_s = 0.0

    async def start(self) -> None:
        """Look up the topic and start sending. Raises: TopicNotExist, NotSupported and others."""
        await self._refresh()
        if self._settings.idempotent is not False and await self._deduplicates():
            self._id = secrets.randbelow(PRODUCER_ID_MAX) + 1
        self._pump = asyncio.create_task(self._run())

    async def _deduplicates(self) -> bool:
        found = await self._client.call(TOPIC_SERVICE, "getServiceVersion", None)
        if (found.details or "").startswith(_OUR_SERVERS):
            return True
        text = f"no idempotent puts: server {found.details or 'of unknown version'} lacks them"
        if self._settings.idempotent is True:
            raise NotSupported(text)
        _log.warning("%s; messages of topic %s may be stored twice", text, self._name)
        return False

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
            base_offset = await self._put(batch)
        except _Moved:
            self._accumulator.move(batch)
            return
        except TalosError as error:
            failure = error
        self._accumulator.release(batch)
        self._settle(batch, base_offset, failure)

    async def _encoded(self, batch: Batch) -> MessageBlock:
        """Raises: MessageFormatError: one of the messages has a field of a wrong type or size."""
        compression = self._settings.compression
        try:
            if compression in _SLOW:
                return await asyncio.to_thread(encode_records, batch.messages, compression)
            return encode_records(batch.messages, compression)
        except (TypeError, ValueError, AttributeError) as error:
            raise MessageFormatError(f"a message cannot be encoded: {error}") from error

    async def _put(self, batch: Batch) -> int | None:
        """Put until stored. Returns: the base offset. Raises: the final error; _Moved."""
        renewals = 0
        while True:
            state = self._sequence_of(batch.partition)
            try:
                base_offset = await self._attempts(batch, state)
            except SequenceGap:  # the server no longer knows this producer
                state.next_epoch()
                if renewals == RENEWALS_MAX:
                    raise
            except (TopicNotExist, PartitionNotExist):
                known = self._topic.resource, self._topic.partitions
                await self._refresh()
                if batch.partition >= self._topic.partitions:
                    if batch.keyed:
                        raise
                    raise _Moved from None
                if renewals == RENEWALS_MAX or known == (
                    self._topic.resource,
                    self._topic.partitions,
                ):
                    raise
            except (RequestError, Unavailable):
                raise
            except BaseException:  # unknown outcome, bug or cancellation: it may be stored
                state.next_epoch()
                raise
            else:
                state.sequence += batch.block.messages if batch.block else 0
                return base_offset
            renewals += 1

    async def _attempts(self, batch: Batch, state: _SequenceState) -> int | None:
        """Put until the deadline; without idempotence, also retry after an unknown outcome."""
        assert batch.block is not None
        stamp = None
        if self._id is not None:
            stamp = ProducerStamp(self._id, state.epoch, state.sequence)
        loop = asyncio.get_running_loop()
        deadline_s = batch.born_s + self._settings.delivery_deadline_s
        deadline_s = max(deadline_s, loop.time() + ATTEMPT_S_MIN)
        unknown: OutcomeUnknown | None = None
        while True:
            left_s = deadline_s - loop.time()
            try:
                reply = await self._client.put(
                    self._topic, batch.partition, batch.block, stamp=stamp, deadline_s=left_s
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
            else:
                return reply.base_offset

    def _sequence_of(self, partition: int) -> _SequenceState:
        state = self._sequences.get(partition)
        if state is None:
            state = self._sequences[partition] = _SequenceState(self._topic.resource)
        elif state.resource != self._topic.resource:  # recreated: it knows no producer
            state.resource = self._topic.resource
            state.next_epoch()
        return state

    # --- topic ----------------------------------------------------------------------------------

    @property
    def _topic(self) -> TopicRef:
        assert self._ref is not None
        return self._ref

    async def _refresh(self) -> None:
        self._ref = await self._client.topic(self._name, refresh=True)
        self._accumulator.partitions = self._ref.partitions
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
