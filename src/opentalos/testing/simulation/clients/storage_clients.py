"""Clients of the storage worlds: a neighbour, senders of poison, and changes of durability."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from opentalos.broker.broker import Broker
from opentalos.broker.values import AttributeChange, Topic
from opentalos.testing.simulation.clients.message_clients import (
    NEIGHBOUR,
    RETRY_S,
    Client,
    LiveTopic,
    Producer,
)
from opentalos.testing.simulation.history import Operation
from opentalos.testing.simulation.stores.troubles import POISONS
from opentalos.testing.simulation.world.world import World

Altering = Coroutine[Any, Any, Topic]

BURST = 12  # blocks that a crowd sends to one partition at once
CHANGES_FACTOR = 2.0  # think times between two changes of durability


class Neighbour(Producer):
    """Another tenant, whose own topics have no faults."""

    async def run(self) -> None:
        """Until cancelled."""
        mine = [topic for topic in self.topics if topic.owner == NEIGHBOUR]
        while True:
            await self.think(0.5)
            topic = self.rng.choice(mine)
            partition = self.rng.randrange(topic.partitions)
            server = await self.server(topic, partition)
            await self.put(server, topic, partition, [self.block(self.new_ids())])


class Poisoner(Producer):
    """Sends messages that storage never takes, each several times; nothing else may suffer."""

    async def run(self) -> None:
        """Until cancelled."""
        number = 0
        while True:
            await self.think(6)
            topic = self.rng.choice([each for each in self.topics if each.owner != NEIGHBOUR])
            partition = self.rng.randrange(topic.partitions)
            number += 1
            block = self.block([f"{self.rng.choice(POISONS)}.{self.name}.{number}"])
            for _ in range(self.rng.choice([1, 2])):
                server = await self.server(topic, partition)
                await self.put(server, topic, partition, [block], poisonous=True)
                await asyncio.sleep(RETRY_S)


class Crowd(Producer):
    """Sends bursts to every partition, and does not wait for the replies of the slow ones."""

    async def run(self) -> None:
        """Until cancelled."""
        under_way: dict[asyncio.Task[Operation], None] = {}
        try:
            while True:
                await self.think()
                topic = self.rng.choice([each for each in self.topics if each.owner != NEIGHBOUR])
                server = await self.server(topic, 0)
                for partition in range(topic.partitions):
                    for _ in range(self.rng.randint(0, BURST)):
                        blocks = [self.block(self.new_ids())]
                        put = asyncio.create_task(
                            self.put(server, topic, partition, blocks), name=self.name
                        )
                        under_way[put] = None
                        put.add_done_callback(under_way.pop)
        finally:
            for put in under_way:
                put.cancel()


class DurabilityChanger(Client):
    """Switches topics between ``synced`` and ``flushed`` under load."""

    def __init__(self, world: World, name: str, topics: list[LiveTopic]) -> None:
        super().__init__(world, name)
        self.topics = topics

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(CHANGES_FACTOR)
            topic = self.rng.choice(self.topics)
            durability = self.rng.choice(["synced", "flushed"])
            server = await self.server(topic)
            operation = self.world.recorder.invoke(
                self.name, "alter", topic=topic.resource, durability=durability
            )
            change = AttributeChange(attributes={"durability": durability})
            if await self.ask(server, operation, _alter(topic, change)) is not None:
                self.world.recorder.ok(operation)


def _alter(topic: LiveTopic, change: AttributeChange) -> Callable[[Broker], Altering]:
    return lambda broker: broker.topics.change_attribute(topic.owner, topic.resource, change)
