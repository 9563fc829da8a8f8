"""Copies one partition, each message once, however often the copy is killed.

Blocks are put as they were stored. A put carries the migration's producer id, and as its sequence
number the offset that the block must get. So the target stores a block only as the next one after
what it has: a put of a killed run that arrives late is either the same block or refused. A run
needs nothing but the target's end to continue.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from opentalos.cli.migrate.sides import Sides, at
from opentalos.cli.migrate.state_file import CopiedPartition
from opentalos.model.errors import BadRequest, SequenceGap
from opentalos.sdk.core.blocks import decode_block_records, encode_records
from opentalos.sdk.core.values import (
    Compression,
    FetchReply,
    Message,
    MessageBlock,
    ProducerStamp,
    StoredBlock,
    TopicRef,
)
from opentalos.sdk.errors import PositionExpired

FETCH_MESSAGES: Final = 20_000  # the servers' limit of a get
FETCH_BYTES: Final = 2 << 20  # of one get; with PARTITIONS_AT_ONCE it bounds the memory
PARTITIONS_AT_ONCE: Final = 8
_GAPS_MAX: Final = 3  # in a row, without any progress of the target's end


class Pace:
    """At most so many bytes per second over all partitions. None: no limit."""

    def __init__(
        self, bytes_per_s: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._clock = bytes_per_s, clock
        self._free_s = clock()  # when what was charged so far has passed

    def charge(self, bytes_count: int) -> float:
        """Seconds to wait before these bytes may pass."""
        if self._rate is None:
            return 0.0
        now_s = self._clock()
        begin_s = max(now_s, self._free_s)
        self._free_s = begin_s + bytes_count / self._rate
        return begin_s - now_s


@dataclass(slots=True)
class PartitionCopy:
    """One partition on its way.

    Args: producer_id: see ``producer_id_of``; save: makes the partition's state durable, called
    before the first put of a run of offsets; copied: called with the messages of each put.
    """

    sides: Sides
    source: TopicRef
    target: TopicRef
    partition: int
    producer_id: int
    state: CopiedPartition
    pace: Pace
    save: Callable[[], None]
    copied: Callable[[int], None]

    async def run(self) -> int:
        """Copy what the source has now. Returns: how many messages.

        Raises: BadRequest: another program writes to the target, or it lost messages; TalosError.
        """
        name, number = self.source.name, self.partition
        with at("source", self.sides.source, name):
            there = (await self.sides.source.offsets(self.source, [number]))[number]
        begin = end = await self._target_end()
        if end < self.state.copied:
            raise BadRequest(
                f"partition {number} of topic {name} at the target ends at {end}, but "
                f"{self.state.copied} messages were copied; the target lost messages, or --state "
                "belongs to another migration"
            )
        gaps, offset = 0, max(there.start, self._source_offset(end, there.start))
        while offset < there.next:
            stored = await self._copy_some(offset, end, there.next)
            gaps = 0 if stored > end else gaps + 1
            if gaps > _GAPS_MAX:
                raise BadRequest(
                    f"partition {number} of topic {name} at the target refuses the next message: "
                    "it does not know this migration as a producer; use the key that began it"
                )
            end = stored
            offset = self._source_offset(end, there.start)
        self.state.copied = end
        return end - begin

    def _source_offset(self, end: int, start: int) -> int:
        return self.state.map.source_of(end) if self.state.map.runs else start

    async def _target_end(self) -> int:
        with at("target", self.sides.target, self.source.name):
            found = await self.sides.target.offsets(self.target, [self.partition])
        return found[self.partition].next

    async def _copy_some(self, offset: int, end: int, goal: int) -> int:
        """Copy the blocks of one get. Returns: the target's end."""
        async for first, block in self._blocks(offset, goal):
            known = self.state.map
            self.state.map = known.joined(first, end)
            if self.state.map is not known:
                self.save()
            if pause_s := self.pace.charge(len(block.payload)):
                await asyncio.sleep(pause_s)
            try:
                await self._put(block, end)
            except SequenceGap:
                # A put of a run that was killed arrived meanwhile, with other bounds.
                return await self._target_end()
            end += block.messages
            self.state.copied = end
            self.copied(block.messages)
        return end

    async def _put(self, block: MessageBlock, end: int) -> None:
        stamp = ProducerStamp(self.producer_id, 0, end)
        with at("target", self.sides.target, self.source.name):
            reply = await self.sides.target.put(self.target, self.partition, block, stamp=stamp)
        if reply.base_offset is not None and 0 <= reply.base_offset != end:
            raise BadRequest(
                f"another program writes to partition {self.partition} of topic {self.source.name} "
                f"at the target: a message got offset {reply.base_offset}, not {end}; stop its "
                "producers, delete the topic there, and pass a new --state"
            )

    async def _blocks(self, offset: int, goal: int) -> AsyncIterator[tuple[int, MessageBlock]]:
        """The blocks of one get, with the offset of the first message."""
        reply = await self._fetch(offset, goal)
        for stored in reply.blocks:
            if stored.next_offset <= offset:
                continue
            first = max(offset, stored.base_offset)
            yield first, block_from(self.source.name, self.partition, stored, first)
            offset = stored.next_offset

    async def _fetch(self, offset: int, goal: int) -> FetchReply:
        for _ in range(2):  # retention may pass the offset, and then the next one: try again later
            try:
                with at("source", self.sides.source, self.source.name):
                    reply = await self.sides.source.fetch(
                        self.source, self.partition, offset,
                        messages_max=min(FETCH_MESSAGES, goal - offset), bytes_max=FETCH_BYTES,
                    )  # fmt: skip
            except PositionExpired as error:
                if error.retained is None or error.retained.start <= offset:
                    raise
                offset = error.retained.start
                if offset >= goal:
                    return FetchReply([], 0)
            else:
                if not reply.blocks:
                    break
                return reply
        raise PositionExpired(self.source.name, self.partition, offset, None)


def block_from(topic: str, partition: int, stored: StoredBlock, first: int) -> MessageBlock:
    """The block as its producer sent it, from the message at offset ``first`` on.

    A whole block keeps its bytes. The rest of one, whose beginning is not retained, is encoded
    again as V3, with the same messages.
    """
    if first == stored.base_offset:
        return MessageBlock(
            bytes(stored.payload), stored.messages, stored.compression, stored.create_ms,
            stored.format, extras=stored.extras,
        )  # fmt: skip
    records = decode_block_records(topic, partition, stored, first)
    messages = [
        Message(
            record.data, record.partition_key, record.sequence_number, record.create_ms,
            message_type=record.message_type, schema_fingerprint=record.schema_fingerprint,
            tag=record.tag, traceparent=record.traceparent,
        )
        for record in records
    ]  # fmt: skip
    return encode_records(messages, Compression(stored.compression))
