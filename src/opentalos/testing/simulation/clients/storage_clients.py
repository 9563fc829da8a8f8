"""Clients of the storage worlds: a neighbour, senders of poison, readers of ends, and others."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from opentalos.broker.broker import Broker
from opentalos.broker.messaging.messages import GetQuery
from opentalos.broker.values import AttributeChange, Topic
from opentalos.testing.simulation.clients.message_clients import (
    GET_BYTES,
    NEIGHBOUR,
    RETRY_S,
    Client,
    LiveTopic,
    Producer,
)
from opentalos.testing.simulation.history import Operation
from opentalos.testing.simulation.stores.troubles import POISONS
from opentalos.testing.simulation.world.server import SimulatedServer
from opentalos.testing.simulation.world.world import World

Altering = Coroutine[Any, Any, Topic]

BURST = 12  # blocks that a crowd sends to one partition at once
CHANGES_FACTOR = 2.0  # think times between two changes of durability

OFFSET_END = -2
UNKNOWN = -1  # the answer says nothing about the end
LATER_MS = 86_400_000
TIME, LAG, LAST, RANGE = "time", "lag", "last", "range"


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


class EndReader(Client):
    """Asks in every way where a log ends; all must know it, or say that they do not.

    By the offsets, by a time that has not come, by the lag of a group, by a read at the end.
    """

    def __init__(
        self, world: World, name: str, groups: Sequence[str], topics: list[LiveTopic]
    ) -> None:
        super().__init__(world, name)
        self.groups, self.topics = groups, topics

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(0.5)
            topic = self.rng.choice(self.topics)
            partition = self.rng.randrange(topic.partitions)
            server, by = await self.server(), self.rng.choice([TIME, LAG, LAST, RANGE])
            if by == RANGE:
                await self.range(server, topic, partition)
            else:
                await self._ask(server, topic, partition, by)

    async def _ask(
        self, server: SimulatedServer, topic: LiveTopic, partition: int, by: str
    ) -> None:
        group = self.rng.choice(self.groups)
        operation = self.world.recorder.invoke(
            self.name,
            "end",
            topic=topic.resource,
            partition=partition,
            by=by,
            server=server.name,
        )

        async def end(broker: Broker) -> int:
            if by == TIME:
                later_ms = server.clock.wall_ms() + LATER_MS
                return await broker.messages.offset_at(
                    topic.owner, topic.resource, partition, later_ms
                )
            if by == LAST:
                query = GetQuery(topic.resource, partition, OFFSET_END, 1, GET_BYTES)
                found = await broker.messages.get(topic.owner, query)
                return found.blocks[0].base_offset if found.blocks else UNKNOWN
            units = await broker.metrics.consume_unit(topic.owner, group, topic.resource)
            unit = next((each for each in units if each.partition == partition), None)
            lag = None if unit is None else unit.lag
            return UNKNOWN if unit is None or lag is None else max(unit.checkpoint + 1, 0) + lag

        following = await self.ask(server, operation, end)
        if following is None:
            return
        if following == UNKNOWN:
            self.world.recorder.fail(operation, "not known")
        else:
            self.world.recorder.ok(operation, next=following)
