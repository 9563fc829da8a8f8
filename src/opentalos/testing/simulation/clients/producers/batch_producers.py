"""Producers that repeat whole batches, as the tasks of a Spark stream do.

The producer id is the same in all batches and the epoch is the batch's number, so a batch that is
repeated, by a later attempt or by an attempt that was assumed dead, has the same stamps.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from opentalos.model.message import ProducerStamp
from opentalos.testing.simulation.clients.message_clients import RETRY_S, LiveTopic, Producer
from opentalos.testing.simulation.clients.topics.one_topic import one_topic_workload
from opentalos.testing.simulation.world.world import World

PRODUCERS: Final = 3
FIRST_ID = 1_000  # apart from the ids of other producers
BLOCKS = (1, 2, 7, 12)  # of a batch; some are more than the log remembers of a producer
REPLAYED = 0.4  # of finished batches are sent again, as after a lost commit of the driver
LATE = 0.4  # of batches: an attempt of the preceding one is still sending

_Batch = Sequence[Sequence[str]]  # ids, block by block


class BatchProducer(Producer):
    """One task: writes to one partition, and repeats a batch if one of its puts fails."""

    def __init__(self, world: World, name: str, topics: list[LiveTopic], producer_id: int) -> None:
        super().__init__(world, name, topics)
        self._id = producer_id

    async def run(self) -> None:
        """Until cancelled."""
        topic = self.rng.choice(self.topics)
        partition = self.rng.randrange(topic.partitions)
        before: _Batch = []
        epoch = 0
        while True:
            epoch += 1
            batch = [self.new_ids() for _ in range(self.rng.choice(BLOCKS))]
            late = before if self.rng.random() < LATE else []
            await asyncio.gather(
                self._until_done(topic, partition, epoch, batch),
                self._attempt(topic, partition, epoch - 1, late),
            )
            before = batch

    async def _until_done(
        self, topic: LiveTopic, partition: int, epoch: int, batch: _Batch
    ) -> None:
        attempt = 0
        while not await self._attempt(topic, partition, epoch, batch, repeated=attempt > 0):
            attempt += 1
            await asyncio.sleep(RETRY_S)
        if self.rng.random() < REPLAYED:
            await self._attempt(topic, partition, epoch, batch, repeated=True)

    async def _attempt(
        self,
        topic: LiveTopic,
        partition: int,
        epoch: int,
        batch: _Batch,
        *,
        repeated: bool = True,
    ) -> bool:
        """Send its blocks in order; False: one of them failed, or its outcome is unknown."""
        sequence = 0
        for ids in batch:
            await self.think()
            block = self.block(ids, ProducerStamp(self._id, epoch, sequence, repeated))
            server = await self.server(topic, partition)
            put = await self.put(server, topic, partition, [block], idempotent=True)
            if not put.ok:
                return False
            sequence += len(ids)
        return True


async def batch_workload(world: World) -> None:
    """See one_topic_workload."""
    await one_topic_workload(
        world,
        lambda topics: [
            BatchProducer(world, f"task{n}", topics, FIRST_ID + n) for n in range(PRODUCERS)
        ],
    )
