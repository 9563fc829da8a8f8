"""Consumers of Kafka in a cluster: they learn who leads in which epoch, and name it when they read.

They remember the newest epoch, as Kafka's clients do. Some reads go to another server than the one
that leads: a client may hold a connection to a former leader, which must not answer in an epoch
that it does not lead.
"""

from typing import Final, NamedTuple

from opentalos.broker.broker import Broker
from opentalos.broker.messaging.reading.fetches import FetchBounds, FetchedPlace, FetchPlace
from opentalos.model.errors import TalosError
from opentalos.model.identity import Permission
from opentalos.testing.simulation.clients.message_clients import GET_BYTES, Client, LiveTopic
from opentalos.testing.simulation.clients.records.readers import decoded
from opentalos.testing.simulation.world.server import ServerLost, SimulatedServer, UnansweredBug
from opentalos.testing.simulation.world.world import World

ASKS: Final = 0.4  # of turns are questions who leads
OLDER: Final = 0.1  # of reads name an epoch from before
NOBODY: Final = -1


class _Fetched(NamedTuple):
    host: str  # which server answered
    place: FetchedPlace


class LeaderFollower(Client):
    """Asks any server who leads, and reads from any server in the newest epoch it has heard of."""

    def __init__(self, world: World, name: str, topics: list[LiveTopic]) -> None:
        super().__init__(world, name)
        self.topics = topics
        self._epochs: dict[str, int] = {}  # by resource

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(0.3)
            topic = self.rng.choice(self.topics)
            server = await self.server(topic, self.rng.randrange(topic.partitions))
            if topic.resource not in self._epochs or self.rng.random() < ASKS:
                await self._ask(server, topic)
            else:
                await self._read(server, topic)

    async def _ask(self, server: SimulatedServer, topic: LiveTopic) -> None:
        operation = self.world.recorder.invoke(
            self.name, "leaders", topic=topic.resource, server=server.name
        )

        async def leaders(broker: Broker) -> tuple[str, int, list[str]]:
            nodes = broker.kafka_nodes
            names = {node.number: node.name for node in nodes.nodes()}
            epoch, numbers = nodes.leaders(topic.uuid, topic.partitions)
            return broker.context.config.server, epoch, [names.get(each, "") for each in numbers]

        found = await self.ask(server, operation, leaders)
        if found is not None:
            host, epoch, names = found
            self.world.recorder.ok(operation, by=host, epoch=epoch, leaders=names)
            if epoch != NOBODY:
                self._epochs[topic.resource] = max(epoch, self._epochs.get(topic.resource, epoch))

    async def _read(self, server: SimulatedServer, topic: LiveTopic) -> None:
        partition = self.rng.randrange(topic.partitions)
        offset = self.rng.randint(0, topic.reached.get(partition, 0))
        epoch = self._epochs[topic.resource] - (self.rng.random() < OLDER)
        read = self.world.recorder.invoke(
            self.name, "read", topic=topic.resource, partition=partition, offset=offset,
            server=server.name, epoch=epoch,
        )  # fmt: skip

        async def fetch(broker: Broker) -> _Fetched:
            found = broker.context.topic(self.caller(topic), Permission.GET_MESSAGE, topic.resource)
            place = FetchPlace(found, partition, offset, GET_BYTES, epoch)
            bounds, fetches = FetchBounds(1, GET_BYTES, 0.0), broker.reads.fetches
            fetched = await fetches.fetch(self.caller(topic), [place], bounds)
            return _Fetched(broker.context.config.server, fetched.places[0])

        try:
            host, place = await server.call("fetch", fetch, timeout_s=self.world.config.call_s)
        except (TalosError, ServerLost, UnansweredBug) as error:
            self.record_failure(read, error)
            return
        if place.error is not None:
            self.record_failure(read, place.error)
        elif place.opening:
            self.world.recorder.fail(read, "the partition has just arrived")
        else:
            self.world.recorder.ok(read, blocks=decoded(place), by=host)
