"""OffsetQueries: offsets by time and by epoch, for clients that ask the server of a partition."""

import math
from collections.abc import AsyncIterator
from typing import NamedTuple

from opentalos.broker.cluster.ownership import NO_EPOCH
from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.block_reader import Part, Reader
from opentalos.broker.messaging.messages import MessageService
from opentalos.catalog.topics.topic import Topic
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import PartitionNotExist
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import OffsetRange, PayloadFormat, StoredBlock
from opentalos.wire.message.compression import DECODED_BYTES_MAX
from opentalos.wire.message.kafka_batch import read_head
from opentalos.wire.message.kafka_format import WRAPPER_BYTES

PIECE_MESSAGES = 500  # decoded at once
SEARCHED_BYTES_MAX = 1 << 20  # by create time, of one partition and call
SEARCHED_MESSAGE_BYTES = 32  # that a message counts beside its block's bytes
SEARCHED_MESSAGES = 1_000  # read at once


class TimedOffset(NamedTuple):
    """A message's offset and create time (Unix ms)."""

    offset: int
    time_ms: int


class EpochEnd(NamedTuple):
    """A leader epoch and the offset after its last message; NO_EPOCH: none is known."""

    epoch: int
    offset: int


class OffsetQueries:
    """Answers for partitions that this server serves; each method authorizes."""

    def __init__(self, context: BrokerContext, messages: MessageService) -> None:
        self._context, self._messages = context, messages

    async def retained(self, caller: Principal, resource: str, partition: int) -> OffsetRange:
        """Retained durable offsets. Raises: NotOwner, PartitionNotServing, CorruptLog."""
        return await self._log(caller, resource, partition)[1].offsets()

    async def start(self, caller: Principal, resource: str, partition: int) -> int:
        """The first retained offset, also of a damaged log. Raises: as ``retained``."""
        return (await self._log(caller, resource, partition)[1].proven()).start

    async def at_time(
        self, caller: Principal, resource: str, partition: int, time_ms: int
    ) -> TimedOffset | None:
        """The first message created at that time or later; None: there is none.

        Blocks are found by the time at which they were stored, which no create time should exceed.
        From the first one on, the create times of ``SEARCHED_BYTES_MAX`` decide. Where all of them
        are earlier, it is the first message that was stored at that time or later.
        """
        topic, log = self._log(caller, resource, partition)
        reader = self._messages.reader(caller, topic, partition)
        offset, left_bytes = await log.offset_at(time_ms), SEARCHED_BYTES_MAX
        first: TimedOffset | None = None
        many = 1  # the first block has it nearly always
        while left_bytes > 0:
            blocks = (await log.read(offset, messages_max=many, bytes_max=left_bytes)).blocks
            for block in blocks:
                if first is None:
                    first = TimedOffset(block.base_offset, _created_ms(block, block.create_ms))
                found = await self._created_since(reader, block, time_ms)
                if found is not None:
                    return found
                left_bytes -= len(block.payload) + SEARCHED_MESSAGE_BYTES * block.messages
            if not blocks:
                return None
            offset, many = blocks[-1].next_offset, SEARCHED_MESSAGES
        return first

    async def _created_since(
        self, reader: Reader, block: StoredBlock, time_ms: int
    ) -> TimedOffset | None:
        """The block's first message created at that time or later."""
        if newest_ms(block) < time_ms:
            return None
        async for offset, created_ms in self._create_times(reader, block):
            if created_ms >= time_ms:
                return TimedOffset(offset, created_ms)
        return None

    async def newest(self, caller: Principal, resource: str, partition: int) -> TimedOffset | None:
        """The message of the last block that was created last; None: there is no message."""
        topic, log = self._log(caller, resource, partition)
        start, end = await log.offsets()
        found = await log.read(end - 1, messages_max=1, bytes_max=1) if end > start else None
        if found is None or not found.blocks:
            return None
        reader = self._messages.reader(caller, topic, partition)
        newest: TimedOffset | None = None
        async for offset, created_ms in self._create_times(reader, found.blocks[0]):
            if newest is None or created_ms > newest.time_ms:
                newest = TimedOffset(offset, created_ms)
        return newest

    async def _create_times(
        self, reader: Reader, block: StoredBlock
    ) -> AsyncIterator[tuple[int, int]]:
        """Offset and create time (Unix ms) of each message of a block."""
        offset = block.base_offset
        while offset < block.next_offset:
            part = Part(offset, PIECE_MESSAGES, DECODED_BYTES_MAX)
            messages = await self._context.blocks.read(reader, block, part)
            for index, message in enumerate(messages, offset):
                yield index, _created_ms(block, message.create_ms)
            offset += max(1, len(messages))

    async def end_of_epoch(
        self, caller: Principal, resource: str, partition: int, epoch: int
    ) -> EpochEnd:
        """Where the log of a reader ends that has read in this leader epoch.

        Nothing that was read is taken back, whoever leads: so it is where the log ends now. A
        reader that is beyond knows that messages were lost (by a loss of power, of a topic that is
        only flushed).
        """
        topic, log = self._log(caller, resource, partition)
        offsets = await log.offsets()
        if not 0 <= epoch <= self._context.epochs.of(topic.uuid):
            return EpochEnd(NO_EPOCH, NO_EPOCH)
        return EpochEnd(epoch, offsets.next)

    async def expect(self, caller: Principal, resource: str, partition: int, epoch: int) -> None:
        """Make sure that this server leads in the epoch that a client knows; negative: none.

        Raises: NotOwner, LeaderEpochFenced, LeaderEpochUnknown.
        """
        if epoch < 0:
            return
        topic = self._context.topic(caller, Permission.GET_MESSAGE, resource)
        await self._context.epochs.confirm(topic.uuid, epoch)
        _, log = self._log(caller, resource, partition)
        self._context.epochs.check(log.key, epoch)

    def _log(self, caller: Principal, resource: str, partition: int) -> tuple[Topic, PartitionLog]:
        topic = self._context.topic(caller, Permission.GET_MESSAGE, resource)
        if not 0 <= partition < topic.consumer_partitions:
            raise PartitionNotExist(f"topic {topic.name} has no partition {partition}")
        return topic, self._context.partition_log(topic, partition)


def newest_ms(block: StoredBlock) -> float:
    """A time (Unix ms) that no message of the block was created after; infinite: not known."""
    if block.format != PayloadFormat.KAFKA:
        return math.inf
    newest = read_head(memoryview(block.payload)[WRAPPER_BYTES:]).max_ms
    return newest if newest > 0 else block.append_ms


def _created_ms(block: StoredBlock, message_ms: int | None) -> int:
    times = (message_ms or 0, block.create_ms, block.append_ms)
    return next((time_ms for time_ms in times if time_ms > 0), 0)
