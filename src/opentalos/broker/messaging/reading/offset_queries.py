"""OffsetQueries: offsets by time and by epoch, for clients that ask the server of a partition."""

from typing import NamedTuple

from opentalos.broker.cluster.ownership import NO_EPOCH
from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.block_reader import Part
from opentalos.broker.messaging.messages import MessageService
from opentalos.catalog.topics.topic import Topic
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import PartitionNotExist
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import OffsetRange, StoredBlock
from opentalos.wire.message.compression import DECODED_BYTES_MAX

PIECE_MESSAGES = 500  # decoded at once


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
        """Retained durable offsets. Raises: NotOwner, PartitionNotServing."""
        return await self._log(caller, resource, partition)[1].offsets()

    async def at_time(
        self, caller: Principal, resource: str, partition: int, time_ms: int
    ) -> TimedOffset | None:
        """A message such that none before it has been stored at that time or later.

        Blocks are found by the time at which they were stored, which no create time should exceed.
        In the first one found it is the first message created at that time or later; if there is
        none, the first of the block.
        """
        topic, log = self._log(caller, resource, partition)
        block = await self._block(log, await log.offset_at(time_ms))
        if block is None:
            return None
        first: TimedOffset | None = None
        reader = self._messages.reader(caller, topic, partition)
        offset = block.base_offset
        while offset < block.next_offset:
            part = Part(offset, PIECE_MESSAGES, DECODED_BYTES_MAX)
            messages = await self._context.blocks.read(reader, block, part)
            for index, message in enumerate(messages, offset):
                created_ms = message.create_ms or block.create_ms or block.append_ms
                if created_ms >= time_ms:
                    return TimedOffset(index, created_ms)
                first = first or TimedOffset(index, created_ms)
            offset += max(1, len(messages))
        return first

    async def newest(self, caller: Principal, resource: str, partition: int) -> TimedOffset | None:
        """The last message and the time at which it was stored; None: there is none."""
        _, log = self._log(caller, resource, partition)
        start, end = await log.offsets()
        block = await self._block(log, end - 1) if end > start else None
        return None if block is None else TimedOffset(end - 1, block.append_ms)

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

    async def _block(self, log: PartitionLog, offset: int) -> StoredBlock | None:
        found = await log.read(offset, messages_max=1, bytes_max=1)
        return found.blocks[0] if found.blocks else None
