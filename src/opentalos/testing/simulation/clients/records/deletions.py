"""An administrator that deletes the beginnings of logs, as DeleteRecords does."""

from typing import Final

from opentalos.testing.simulation.clients.message_clients import OWNER, Client, LiveTopic
from opentalos.testing.simulation.world.world import World

ALL: Final = -1  # the offset that means everything there is
ALL_OF_IT: Final = 0.15  # of deletions leave nothing
REPEATED: Final = 0.2  # of deletions are of what was deleted before


class Deleter(Client):
    """Deletes a part of a log from time to time."""

    def __init__(self, world: World, name: str, *topics: list[LiveTopic]) -> None:
        super().__init__(world, name)
        self._lists = topics  # others replace topics in them

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(6)
            topics = [each for some in self._lists for each in some if each.owner == OWNER]
            topic = self.rng.choice(topics)
            await self._delete(topic, self.rng.randrange(topic.partitions))

    async def _delete(self, topic: LiveTopic, partition: int) -> None:
        server = await self.server(topic, partition)
        reached, before = topic.reached.get(partition, 0), topic.deleted_below.get(partition, 0)
        offset = self.rng.randint(min(before, reached), reached)
        if self.rng.random() < REPEATED:
            offset = self.rng.randint(0, before)
        elif self.rng.random() < ALL_OF_IT:
            offset = ALL
        operation = self.world.recorder.invoke(
            self.name, "trim", topic=topic.resource, partition=partition, offset=offset,
            server=server.name,
        )  # fmt: skip
        start = await self.ask(
            server,
            operation,
            lambda broker: broker.record_deletion.delete(OWNER, topic.resource, partition, offset),
        )
        if start is not None:
            self.world.recorder.ok(operation, start=start)
            topic.deleted_below[partition] = max(before, start)
