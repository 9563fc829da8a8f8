"""Sends a producer's batches: one at a time to each partition, repeated until their outcome."""

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

TOPIC_REFRESH_S: Final = 180.0  # how often the number of partitions is looked up, as in Java
RENEWALS_MAX: Final = 3  # of one batch: looks at the topic, or new epochs, in a row
AFTER_BUG_S: Final = 1.0  # then sending goes on
ATTEMPT_S_MIN: Final = 0.1  # a batch whose deadline passed while it waited gets so long
_OUR_SERVERS: Final = "opentalos "  # how their version begins
_SLOW: Final = frozenset((Compression.GZIP, Compression.ZSTD))  # milliseconds for a batch

# Takes a batch that has its outcome: base offset or None, and the error. It has to tell whoever
# watches it and to finish it.
Settle = Callable[[Batch, int | None, TalosError | None], None]

_log = logging.getLogger("opentalos.sdk.producer")


@dataclass(slots=True)
class _SequenceState:
    """What an idempotent producer has stored in one partition of one topic."""

    resource: str
    epoch: int = 0
    sequence: int = 0  # of the next message

    def next_epoch(self) -> None:
        """It is not known which sequence is next: begin anew, and fence what is on its way."""
        self.epoch += 1
        self.sequence = 0


class Sender:
    """Belongs to the loop of ``start``; see TalosProducer for what it promises."""

    def __init__(
        self, client: Client, topic: str, accumulator: Accumulator, settle: Settle
    ) -> None:
        self._client, self._name, self._accumulator = client, topic, accumulator
        self._settings: ProducerSettings = accumulator.settings
        self._settle = settle
        self._id: int | None = None  # None: at least once
        self._sequences: dict[int, _SequenceState] = {}
        self._sending: dict[asyncio.Task[None], Batch] = {}
        self._slots = asyncio.Semaphore(self._settings.requests_max)
        self._wake = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None  # at the topic
        self._ref: TopicRef | None = None
        self._refreshed_s = 0.0

    async def start(self) -> None:
        """Look the topic up and begin to send. Raises: TopicNotExist, NotSupported and others."""
        await self._refresh()
        if self._settings.idempotent is not False and await self._deduplicates():
            self._id = secrets.randbelow(PRODUCER_ID_MAX) + 1
        self._pump = asyncio.create_task(self._run())

    async def _deduplicates(self) -> bool:
        found = await self._client.call(TOPIC_SERVICE, "getServiceVersion", None)
        if (found.details or "").startswith(_OUR_SERVERS):
            return True
        text = f"the server ({found.details or 'no OpenTalos'}) cannot tell repeated puts"
        if self._settings.idempotent is True:
            raise NotSupported(text)
        _log.warning("%s: messages of %s may be stored twice", text, self._name)
        return False

    def wake(self) -> None:
        """Look at the accumulator; to be called on the loop."""
        self._wake.set()

    async def stop(self) -> None:
        """Send nothing more: what is on its way is unknown, what still waits is not done."""
        await _end([task for task in (self._pump, self._refreshing) if task is not None])
        await _end(list(self._sending))
        self._accumulator.flush()
        while ready := self._accumulator.due()[0]:
            for partition in ready:
                batch = self._accumulator.take(partition)
                if batch is not None:
                    unsent = ClientClosed("the producer was closed before it was sent")
                    self._accumulator.release(batch)
                    self._settle(batch, None, unsent)

    # --- when -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._step()
            except Exception:
                _log.exception("looking for what to send failed unexpectedly")
                await asyncio.sleep(AFTER_BUG_S)

    async def _step(self) -> None:
        """Begin to send all that is due, or wait until something may be."""
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
            error: TalosError = OutcomeUnknown("the producer was closed while it was on its way")
        elif task.exception() is None:
            return
        else:
            error = OutcomeUnknown(f"sending broke: {task.exception()!r}")
            _log.error("sending a batch failed unexpectedly", exc_info=task.exception())
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
        """The base offset once it is stored. Raises: what it ends with; _Moved."""
        renewals = 0
        while True:
            state = self._sequence_of(batch.partition)
            try:
                base_offset = await self._attempts(batch, state)
            except SequenceGap:  # the log has lost or forgotten this producer
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
            except BaseException:  # unknown, a bug or the end: it may be stored
                state.next_epoch()
                raise
            else:
                state.sequence += batch.block.messages if batch.block else 0
                return base_offset
            renewals += 1

    async def _attempts(self, batch: Batch, state: _SequenceState) -> int | None:
        """Put until the deadline; without de-duplication an unknown attempt is followed by more."""
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
        elif state.resource != self._topic.resource:  # made anew: it knows no producer
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
            _log.warning("the partitions of %s could not be looked up: %s", self._name, error)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Moved(Exception):
    """The batch's partition is gone, and its messages have others."""
