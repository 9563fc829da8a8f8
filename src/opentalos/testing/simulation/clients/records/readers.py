"""Readers of blocks of several formats: whole blocks, by Fetch, or message by message."""

from collections.abc import Sequence
from typing import Final

from opentalos.broker.broker import Broker
from opentalos.broker.messaging.plain_messages import Bounds, PlainMessages, Spot
from opentalos.broker.messaging.reading.fetches import (
    FetchBounds,
    FetchedPlace,
    FetchPlace,
    MessageRun,
)
from opentalos.model.errors import TalosError
from opentalos.model.identity import Permission
from opentalos.testing.simulation.clients import payload
from opentalos.testing.simulation.clients.message_clients import (
    GET_BYTES,
    Client,
    LiveTopic,
    decode_blocks,
)
from opentalos.testing.simulation.history import Operation
from opentalos.testing.simulation.world.server import ServerLost, SimulatedServer, UnansweredBug
from opentalos.testing.simulation.world.world import World

FETCH_WAIT_S: Final = 0.1
FAR: Final = 0.15  # of reads are anywhere in the log

Blocks = list[tuple[int, list[str | None]]]


class RecordReader(Client):
    """Follows all partitions of the topics in each of the three ways, in turn as drawn."""

    def __init__(self, world: World, name: str, topics: list[LiveTopic]) -> None:
        super().__init__(world, name)
        self.topics = topics
        self._positions: dict[tuple[str, int], int] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(0.3)
            topic = self.rng.choice(self.topics)
            partition = self.rng.randrange(topic.partitions)
            server = await self.server(topic, partition)
            chance = self.rng.random()
            if chance < 0.4:
                await self._fetch(server, topic)
            elif chance < 0.8:
                await self._read_messages(server, topic, partition)
            else:
                await self._read_blocks(server, topic, partition)

    def _position(self, topic: LiveTopic, partition: int) -> int:
        if self.rng.random() < FAR:
            return self.rng.randint(0, topic.reached.get(partition, 0) + 1)
        return self._positions.get((topic.resource, partition), 0)

    async def _read_blocks(self, server: SimulatedServer, topic: LiveTopic, partition: int) -> None:
        offset = self._position(topic, partition)
        read, result = await self.get(server, topic, partition, offset)
        await self._note(server, topic, read, decode_blocks(result) if result else [])

    async def _read_messages(
        self, server: SimulatedServer, topic: LiveTopic, partition: int
    ) -> None:
        """One page of decoded messages, as REST gives them."""
        offset = self._position(topic, partition)
        read = self._begin(server, topic, partition, offset)
        bounds = Bounds(self.rng.choice([1, 3, 20]), GET_BYTES)

        async def page(broker: Broker) -> PlainMessages:
            spot = Spot(partition, offset)
            return await broker.plain_messages.get_anywhere(
                self.caller(topic), topic.resource, spot, bounds
            )

        found = await self.ask(server, read, page)
        if found is not None:
            blocks: Blocks = [
                (each.offset, [payload.decode_one(each.message.data)]) for each in found.messages
            ]
            self.world.recorder.ok(read, blocks=blocks)
            await self._note(server, topic, read, blocks)
        else:
            await self._note(server, topic, read, [])

    async def _fetch(self, server: SimulatedServer, topic: LiveTopic) -> None:
        """All partitions in one call, as consumers of Kafka read them."""
        partitions = range(topic.partitions)
        offsets = [self._position(topic, partition) for partition in partitions]
        reads = [self._begin(server, topic, *each) for each in enumerate(offsets)]
        bytes_max = self.rng.choice([1, 300, GET_BYTES])

        async def fetch(broker: Broker) -> Sequence[FetchedPlace]:
            found = broker.context.topic(self.caller(topic), Permission.GET_MESSAGE, topic.resource)
            places = [FetchPlace(found, *each, bytes_max) for each in enumerate(offsets)]
            bounds = FetchBounds(1, GET_BYTES, FETCH_WAIT_S)
            fetches = broker.reads.fetches
            return (await fetches.fetch(self.caller(topic), places, bounds)).places

        try:
            found = await server.call("fetch", fetch, timeout_s=self.world.config.call_s)
        except (TalosError, ServerLost, UnansweredBug) as error:
            for read in reads:
                self.record_failure(read, error)
            return
        filled = any(place.parts for place in found)
        for read, place in zip(reads, found, strict=True):
            if place.error is not None:
                self.record_failure(read, place.error)
            elif place.opening and not place.parts:
                self.world.recorder.fail(read, "the partition has just arrived")
            elif filled and not place.parts:
                self.world.recorder.fail(read, "others may have filled the answer")
            else:
                self.world.recorder.ok(read, blocks=decoded(place))
        for read, place in zip(reads, found, strict=True):
            await self._note(server, topic, read, decoded(place))

    def _begin(
        self, server: SimulatedServer, topic: LiveTopic, partition: int, offset: int
    ) -> Operation:
        return self.world.recorder.invoke(
            self.name, "read", topic=topic.resource, partition=partition, offset=offset,
            server=server.name,
        )  # fmt: skip

    async def _note(
        self, server: SimulatedServer, topic: LiveTopic, read: Operation, blocks: Blocks
    ) -> None:
        """Continue behind what was read, or where the log begins now."""
        partition = read.args["partition"]
        key = (topic.resource, partition)
        if blocks:
            self._positions[key] = blocks[-1][0] + len(blocks[-1][1])
            topic.reached[partition] = max(topic.reached.get(partition, 0), self._positions[key])
        elif read.error.startswith("OffsetOutOfRange"):
            found = await self.range(server, topic, partition)
            if found is not None:
                self._positions[key] = found.start


def decoded(place: FetchedPlace) -> Blocks:
    """What was read, as an operation's result has it."""
    blocks: Blocks = []
    for part in place.parts:
        if isinstance(part, MessageRun):
            ids = [payload.decode_one(message.data) for message in part.messages]
            blocks.append((part.base_offset, ids))
        else:
            blocks.append((part.base_offset, payload.decode(bytes(part.payload), part.messages)))
    return blocks
