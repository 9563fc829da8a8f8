"""A tenant that was granted another tenant's topics and uses the same names there.

Its producer ids and its groups have the names of the owner's, which must not notice.
"""

import asyncio
from collections.abc import Sequence

from opentalos.broker.broker import Broker
from opentalos.model.errors import TalosError
from opentalos.model.identity import Grantee, GrantType, Permission
from opentalos.model.message import ProducerStamp
from opentalos.testing.simulation.clients.group_clients import Worker
from opentalos.testing.simulation.clients.message_clients import (
    NEIGHBOUR,
    RETRY_S,
    Client,
    LiveTopic,
    Producer,
)
from opentalos.testing.simulation.world.server import ServerLost, UnansweredBug
from opentalos.testing.simulation.world.world import World

GRANTED = Permission.PUT_MESSAGE | Permission.GET_MESSAGE
SAME_IDS = 0.6  # of blocks have an id that one of the owner's producers has
IDS = 12  # further ids, more than a small table keeps


async def share_with_neighbour(client: Client, topic: LiveTopic) -> None:
    """Grant the neighbour puts and reads; retry while faults prevent it."""
    grantee = Grantee(GrantType.DEVELOPER, NEIGHBOUR.id)

    async def grant(broker: Broker) -> None:
        await broker.permissions.set_permission(topic.owner, topic.resource, grantee, GRANTED)

    while True:
        server = await client.server()
        try:
            await server.call("grant", grant, timeout_s=client.world.config.call_s)
        except (TalosError, ServerLost, UnansweredBug):
            await asyncio.sleep(RETRY_S)
        else:
            return


class SameGroup(Worker):
    """A worker of the neighbour in a group with the name of one of the owner's."""

    def __init__(self, world: World, name: str, group: str, topics: list[LiveTopic]) -> None:
        super().__init__(world, name, group, topics)
        self.principal = NEIGHBOUR


def sharing_clients(
    world: World, groups: Sequence[str], topics: list[LiveTopic]
) -> "list[SameGroup | SameIds]":
    """The neighbour's clients."""
    workers = [SameGroup(world, f"same-{group}", group, topics) for group in groups]
    return [SameIds(world, "same", topics), *workers]


class SameIds(Producer):
    """Puts of the neighbour with the producer ids of the owner's producers, and many others.

    Each block is the first of an epoch that its id did not have before, so all are new. None is
    sent again.
    """

    def __init__(self, world: World, name: str, topics: list[LiveTopic]) -> None:
        super().__init__(world, name, topics)
        self.principal = NEIGHBOUR
        self._epochs: dict[tuple[LiveTopic, int, int], int] = {}

    async def run(self) -> None:
        """Until cancelled."""
        owned = self.world.config.producers
        while True:
            await self.think(0.5)
            topic = self.rng.choice(self.topics)
            partition = self.rng.randrange(topic.partitions)
            first = 1 if self.rng.random() < SAME_IDS else owned + 1
            producer_id = self.rng.randrange(first, owned + (IDS if first > 1 else 0) + 1)
            key = topic, partition, producer_id
            epoch = self._epochs[key] = self._epochs.get(key, -1) + 1
            block = self.block(self.new_ids(), ProducerStamp(producer_id, epoch, 0))
            server = await self.server(topic, partition)
            await self.put(server, topic, partition, [block])
