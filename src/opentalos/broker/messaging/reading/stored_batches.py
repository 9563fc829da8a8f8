"""StoredBatches: which blocks that clients of Talos stored are sound batches of Kafka.

Nothing was proven when they were stored, and what they cost to prove their sender decides. So it is
done in pieces or on a thread, charged as other decompression is, and once for each block.
"""

from collections import OrderedDict
from typing import Final

from opentalos.broker.long_work import LongWork
from opentalos.broker.messaging.block_reader import Reader
from opentalos.model.message import StoredBlock
from opentalos.wire.kafka.records import (
    EASY_BYTES,
    is_stored_batch_now,
    seems_batch,
    stored_batch_bytes,
)
from opentalos.wire.message.kafka_batch import HEAD
from opentalos.wire.message.kafka_format import WRAPPER_BYTES

KNOWN_MAX: Final = 4_096  # blocks, the ones last asked for; half a KB each

# Topic, partition, offset, messages, bytes, and the head with the checksum.
_Key = tuple[str, int, int, int, int, bytes]


class StoredBatches:
    """Remembers what it found: a block does not change."""

    def __init__(self, work: LongWork) -> None:
        self._work, self._spent = work, 0
        self._known: OrderedDict[_Key, bool] = OrderedDict()

    @staticmethod
    def may_be(block: StoredBlock) -> bool:
        """Whether a block is worth asking for; hot path."""
        return not block.compression and seems_batch(block.payload)

    async def holds(self, reader: Reader, block: StoredBlock) -> bool:
        """Whether it is a batch of so many records as the block has messages."""
        payload = block.payload
        head = bytes(payload[: WRAPPER_BYTES + HEAD.size])
        place = (reader.topic_uuid, reader.partition, block.base_offset)
        key = (*place, block.messages, len(payload), head)
        known = self._known.get(key)
        if known is None:
            known, cost = is_stored_batch_now(payload, block.messages)
            self._spent += cost
            if self._spent > EASY_BYTES:
                self._spent = 0
                await self._work.pause()
        if known is None:
            async with self._work.turn(reader.caller, patient=True) as turn:
                known = self._known.get(key)  # others may have asked for it too
                if known is None:
                    size = await turn.off_loop(stored_batch_bytes, payload, block.messages)
                    reader.charge(max(0, size - len(payload)))
                    known = size > 0
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return known
