"""Idempotent producers as Kafka's clients have them, and one that sends Talos messages.

A batch is stored as the Produce request stores it: checked, wrapped, and put by the same operation.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from opentalos.model.message import MessageBlock, PayloadFormat, ProducerStamp
from opentalos.testing.simulation.clients import payload
from opentalos.testing.simulation.clients.message_clients import (
    RETRY_S,
    SAME_PUT_TRIES_MAX,
    LiveTopic,
    Producer,
)
from opentalos.testing.simulation.history import Operation
from opentalos.testing.simulation.world.bounds import HIGH_SEQUENCE
from opentalos.testing.simulation.world.world import World
from opentalos.wire.kafka.records import prove_now, read_batch
from opentalos.wire.message import Message, encode_messages
from opentalos.wire.message.kafka_batch import HEAD, BatchHead, set_crc
from opentalos.wire.message.kafka_format import SEQUENCE_MASK, encode_kafka_batch

IN_FLIGHT_MAX: Final = 5  # batches of one partition, as Kafka allows
WRAPS: Final = 0.5  # of producers: their sequences begin again at 0 within the run
FIRST_ID: Final = 500  # apart from the ids of other producers
ENDS: Final = 0.03  # of rounds: a new epoch begins
LATE: Final = 0.1  # of rounds: an acknowledged batch arrives once more
CREATE_MS: Final = 1_700_000_000_000


class _Batch(NamedTuple):
    number: int  # in its lane
    ids: Sequence[str]
    block: MessageBlock


class KafkaProducer(Producer):
    """Has several batches in flight; what failed is sent again, unchanged and in its order."""

    def __init__(self, world: World, name: str, topics: list[LiveTopic], producer_id: int) -> None:
        super().__init__(world, name, topics)
        self._id, self._epoch = producer_id, 0
        self._first = HIGH_SEQUENCE if world.rng(f"{name} first").random() < WRAPS else 0

    async def run(self) -> None:
        """Until cancelled; after an abandoned batch it continues with a new epoch."""
        while True:
            topic = self.rng.choice(self.topics)
            await self._session(topic, self.rng.randrange(topic.partitions))
            self._epoch += 1

    async def _session(self, topic: LiveTopic, partition: int) -> None:
        place, window = (topic, partition), list[_Batch]()
        number, sequence, tries = 0, self._first, 0
        last: _Batch | None = None
        while tries < SAME_PUT_TRIES_MAX and self.rng.random() >= ENDS:
            await self.think(0.5)
            failed = len(window)
            for _ in range(self.rng.randint(0 if failed else 1, IN_FLIGHT_MAX - failed)):
                window.append(self._batch(number, sequence))
                number += 1
                sequence = (sequence + len(window[-1].ids)) & SEQUENCE_MASK
            # Some clients send all at once again, others wait for the first.
            alone = failed > 1 and self.rng.random() < 0.5
            late = [last] if last is not None and self.rng.random() < LATE else []
            outcomes = await self._send(place, window[: 1 if alone else None], late)
            if _is_fatal(outcomes[0]):
                return
            done = {put.args["number"] for put in outcomes if put.ok}
            acked = [batch for batch in window if batch.number in done]
            last = acked[-1] if acked else last
            window = [batch for batch in window if batch.number not in done]
            tries = 0 if acked else tries + 1
            if window:
                await asyncio.sleep(RETRY_S)

    async def _send(
        self, place: tuple[LiveTopic, int], batches: Sequence[_Batch], late: Sequence[_Batch]
    ) -> list[Operation]:
        """Send batches over one connection, in order; those that come late may meet anything."""
        server = await self.server(*place)
        lane = f"{self.name}.{self._epoch}"
        puts = [
            self.put(
                server, *place, [batch.block], idempotent=True, lane=lane, number=batch.number,
                pipelined=batch is not batches[0],
            )
            for batch in (*batches, *late)
        ]  # fmt: skip
        outcomes = await asyncio.gather(*puts)
        return outcomes[: len(batches)]

    def _batch(self, number: int, sequence: int) -> _Batch:
        ids = self.new_ids()
        messages = [
            Message(payload.encode([each], self.filler()), create_ms=CREATE_MS) for each in ids
        ]
        batch = encode_kafka_batch(messages, sequence)
        head = BatchHead._make(HEAD.unpack_from(batch))
        HEAD.pack_into(batch, 0, *head._replace(producer_id=self._id, producer_epoch=self._epoch))
        set_crc(batch)
        received = read_batch(batch)
        assert prove_now(received)
        head = received.head
        block = MessageBlock(
            received.payload,
            head.records,
            create_ms=head.first_ms,
            format=PayloadFormat.KAFKA,
            producer=ProducerStamp(head.producer_id, head.producer_epoch, head.sequence),
        )
        return _Batch(number, ids, block)


def _is_fatal(put: Operation) -> bool:
    """Whether the first batch of all that are outstanding is refused for good."""
    return put.error.startswith(("SequenceGap", "ProducerFenced"))


class TalosProducer(Producer):
    """Puts blocks of Talos messages that every reader of the topic can decode."""

    def block(self, ids: Sequence[str], stamp: ProducerStamp | None = None) -> MessageBlock:
        """A block whose messages name themselves."""
        messages = [Message(payload.encode([each], self.filler())) for each in ids]
        return MessageBlock(encode_messages(messages), len(ids), producer=stamp)
