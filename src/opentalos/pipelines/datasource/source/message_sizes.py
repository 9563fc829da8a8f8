"""How large the messages of each partition are, learned from samples.

Servers know how many messages wait, not their sizes, and tasks cannot report what they read to the
driver. So the driver fetches the first waiting messages of each partition and takes their mean size
for those that follow.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from opentalos.model.errors import TalosError
from opentalos.model.message import OffsetRange, StoredBlock
from opentalos.model.names import ResourceName
from opentalos.pipelines.datasource.source.next_batch import Place
from opentalos.sdk import TopicRef
from opentalos.sdk.aio import Client
from opentalos.sdk.core.blocks import decode_block_records
from opentalos.wire.message import decompress, is_kafka_block

SAMPLE_BYTES: Final = 64 << 10  # of a fetch; a block is not cut, so one may be larger
SAMPLE_MESSAGES: Final = 2_000
SAMPLES_MAX: Final = 64  # of one trigger; the other partitions have their turn in later ones
_AT_ONCE: Final = 8  # fetches of samples
_DEADLINE_S: Final = 5.0  # of a sample: the batch does not depend on it


class MessageSizes:
    """Mean sizes of messages, of the partitions of one query. Belongs to one loop."""

    def __init__(self) -> None:
        self._known: dict[Place, int] = {}  # bytes
        self._sampled: dict[Place, int] = {}  # in which call
        self._calls = 0

    async def learn(self, client: Client, waiting: Mapping[Place, OffsetRange]) -> None:
        """Sample the first messages of ``waiting``; forget all other partitions.

        At most ``SAMPLES_MAX`` partitions, those first whose sample is the oldest. A sample that
        fails leaves what was known: whoever reads the messages reports what is wrong.
        """
        self._calls += 1
        self._known = {place: size for place, size in self._known.items() if place in waiting}
        self._sampled = {place: at for place, at in self._sampled.items() if place in waiting}
        chosen = sorted(waiting, key=lambda place: self._sampled.get(place, 0))[:SAMPLES_MAX]
        turns = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(
            *(self._sample(client, place, waiting[place].start, turns) for place in chosen)
        )

    def sizes(self, waiting: Mapping[Place, OffsetRange], unknown: int) -> dict[Place, int]:
        """Bytes of a message of each partition, above 0.

        Where nothing is known, the largest known size; ``unknown`` if there is none.
        """
        largest = max(self._known.values(), default=unknown)
        return {place: self._known.get(place, largest) for place in waiting}

    async def _sample(
        self, client: Client, place: Place, offset: int, turns: asyncio.Semaphore
    ) -> None:
        resource, partition = place
        ref = TopicRef(ResourceName.parse(resource).topic, resource, partition + 1)
        self._sampled[place] = self._calls
        async with turns:
            try:
                reply = await client.fetch(
                    ref,
                    partition,
                    offset,
                    messages_max=SAMPLE_MESSAGES,
                    bytes_max=SAMPLE_BYTES,
                    deadline_s=_DEADLINE_S,
                )
                found = mean_size(reply.blocks)
            except TalosError:
                return
        if found:
            self._known[place] = found


def mean_size(blocks: list[StoredBlock]) -> int:
    """Mean bytes of a message, decompressed, rounded up; 0 without messages.

    Raises: MessageFormatError: a block is damaged.
    """
    messages = sum(block.messages for block in blocks)
    total = sum(map(_decompressed_bytes, blocks))
    return max(1, -(-total // messages)) if messages > 0 else 0


def _decompressed_bytes(block: StoredBlock) -> int:
    payload = decompress(bytes(block.payload), block.compression)
    if not is_kafka_block(payload):
        return len(payload)
    records = decode_block_records("", 0, block, block.base_offset)  # compressed within
    return sum(len(record.data) + len(record.partition_key or "") for record in records)
