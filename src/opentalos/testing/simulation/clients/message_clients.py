"""Clients of the simulated world: each call is recorded with its outcome."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from opentalos.broker.broker import Broker
from opentalos.broker.messaging.messages import GetQuery, GetResult, PutTarget
from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.model.identity import Principal
from opentalos.model.message import MessageBlock, OffsetRange, ProducerStamp
from opentalos.model.names import uuid_of
from opentalos.testing.simulation.clients import payload
from opentalos.testing.simulation.history import Operation
from opentalos.testing.simulation.world.server import ServerLost, SimulatedServer, UnansweredBug
from opentalos.testing.simulation.world.world import World

T = TypeVar("T")

RETRY_S = 0.3  # between two attempts of a call
GET_BYTES = 4 << 10
SAME_PUT_TRIES_MAX = 12  # then a producer abandons the put

OWNER = Principal(id="alice", number=11)
STRANGER = Principal(id="mallory", number=66)
NEIGHBOUR = Principal(id="bob", number=12)


@dataclass(slots=True, eq=False)
class LiveTopic:
    """A topic as the clients know it."""

    resource: str
    name: str
    partitions: int
    flushed: bool
    deleted: bool = False
    owner: Principal = OWNER
    reached: dict[int, int] = field(default_factory=dict)  # next offsets that readers saw
    addresses: dict[int, str] = field(default_factory=dict)  # by the last schedule info
    deleted_below: dict[int, int] = field(default_factory=dict)  # as a deletion's reply said

    @property
    def uuid(self) -> str:
        """The uuid, which no other topic ever has."""
        return uuid_of(self.resource)


class Actor(Protocol):
    """A client that runs until it is cancelled."""

    name: str

    async def run(self) -> None: ...


class Client:
    """One client process: its name in the history, its random numbers, its calls."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.rng: random.Random = world.rng(name)
        self.principal: Principal | None = None  # None: the owner of each topic
        self._payloads = world.rng(f"{name} payloads")

    def caller(self, topic: LiveTopic) -> Principal:
        """Who calls about a topic."""
        return self.principal or topic.owner

    async def think(self, factor: float = 1.0) -> None:
        """Pause between two calls."""
        mean_s = self.world.config.think_s * factor
        await asyncio.sleep(mean_s * (0.1 + 1.8 * self.rng.random()))

    async def server(self, topic: LiveTopic | None = None, partition: int = 0) -> SimulatedServer:
        """The server for the next call, about a partition if one is given; waits for a server."""
        while True:
            address = topic.addresses.get(partition, "") if topic is not None else ""
            server = self.world.pick(self.rng, address)
            if server is not None:
                return server
            await asyncio.sleep(RETRY_S * self.rng.random())

    async def ask(
        self,
        server: SimulatedServer,
        operation: Operation,
        make: Callable[[Broker], Coroutine[Any, Any, T]],
    ) -> T | None:
        """Call the server and record a failure; the caller records a success with its result."""
        try:
            return await server.call(operation.action, make, timeout_s=self.world.config.call_s)
        except (TalosError, ServerLost, UnansweredBug) as error:
            self.record_failure(operation, error)
            return None

    def record_failure(self, operation: Operation, error: Exception) -> None:
        """Record the operation as failed or unknown, depending on the error."""
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, TalosError) and not isinstance(error, OutcomeUnknown):
            self.world.recorder.fail(operation, text)
        else:
            self.world.recorder.unknown(operation, text)

    # --- messages ------------------------------------------------------------------------------

    async def put(
        self,
        server: SimulatedServer,
        topic: LiveTopic,
        partition: int,
        blocks: Sequence[MessageBlock],
        **args: Any,
    ) -> Operation:
        """One put of blocks made by ``block``."""
        ids = [each for block in blocks for each in payload.decode(block.payload, block.messages)]
        operation = self.world.recorder.invoke(
            self.name,
            "put",
            topic=topic.resource,
            partition=partition,
            ids=ids,
            server=server.name,
            tenant=topic.owner.id,
            **args,
        )
        caller = self.caller(topic) if args.get("granted", True) else STRANGER
        blocks = [block._replace(principal=caller.number) for block in blocks]
        try:
            target = PutTarget(topic.resource, partition)
            base = await server.put(caller, target, blocks, timeout_s=self.world.config.call_s)
        except (TalosError, ServerLost, UnansweredBug) as error:
            self.record_failure(operation, error)
        else:
            self.world.recorder.ok(operation, **({"offset": base} if base >= 0 else {}))
        return operation

    def block(self, ids: Sequence[str], stamp: ProducerStamp | None = None) -> MessageBlock:
        """A block whose payload names its messages."""
        return MessageBlock(payload.encode(ids, self.filler()), len(ids), producer=stamp)

    def filler(self) -> bytes:
        """What follows the names in a payload."""
        config, rng = self.world.config, self._payloads
        filler_bytes = self.rng.randrange(config.filler_bytes_max)
        return payload.filler(rng.choice(config.payloads), filler_bytes, rng)

    async def get(
        self,
        server: SimulatedServer,
        topic: LiveTopic,
        partition: int,
        offset: int,
        **args: Any,
    ) -> tuple[Operation, GetResult | None]:
        """One read, recorded with the messages of its reply."""
        operation = self.world.recorder.invoke(
            self.name,
            "read",
            topic=topic.resource,
            partition=partition,
            offset=offset,
            server=server.name,
            **args,
        )
        caller = self.caller(topic) if args.get("granted", True) else STRANGER
        messages_max = self.rng.choice([1, 3, 20])
        query = GetQuery(topic.resource, partition, offset, messages_max, GET_BYTES)
        result = await self.ask(server, operation, lambda broker: _get(broker, caller, query))
        if result is not None:
            self.world.recorder.ok(operation, blocks=decode_blocks(result), behind=result.unhandled)
            if result.blocks:
                reached = result.blocks[-1].next_offset
                topic.reached[partition] = max(topic.reached.get(partition, 0), reached)
        return operation, result

    async def range(
        self, server: SimulatedServer, topic: LiveTopic, partition: int, **args: Any
    ) -> OffsetRange | None:
        """One query of the retained offsets."""
        return (await self.asked_range(server, topic, partition, **args))[1]

    async def asked_range(
        self, server: SimulatedServer, topic: LiveTopic, partition: int, **args: Any
    ) -> tuple[Operation, OffsetRange | None]:
        """The same, with the operation."""
        operation = self.world.recorder.invoke(
            self.name,
            "range",
            topic=topic.resource,
            partition=partition,
            server=server.name,
            **args,
        )
        found = await self.ask(
            server,
            operation,
            lambda broker: broker.messages.offsets(self.caller(topic), topic.resource, partition),
        )
        if found is not None:
            self.world.recorder.ok(operation, start=found.start, next=found.next)
        return operation, found


async def _get(broker: Broker, caller: Principal, query: GetQuery) -> GetResult:
    cached = broker.messages.get_cached(caller, query)
    return cached if cached is not None else await broker.messages.get(caller, query)


def decode_blocks(result: GetResult) -> list[tuple[int, list[str | None]]]:
    """Offsets and ids in the form of the history."""
    return [
        (block.base_offset, payload.decode(bytes(block.payload), block.messages))
        for block in result.blocks
    ]


class Producer(Client):
    """Sends blocks to the topic's partitions; it repeats some unknown puts and abandons others."""

    def __init__(self, world: World, name: str, topics: list[LiveTopic]) -> None:
        super().__init__(world, name)
        self.topics = topics
        self._sent = 0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think()
            topic = self.rng.choice(self.topics)
            partition = self.rng.randrange(topic.partitions)
            count = self.rng.choice([1, 1, 1, 2, 3])
            blocks = [self.block(self.new_ids()) for _ in range(count)]
            for _ in range(self.rng.choice([1, 3])):
                server = await self.server(topic, partition)
                put = await self.put(server, topic, partition, blocks)
                if put.ok or topic.deleted:
                    break
                await asyncio.sleep(RETRY_S)

    def new_ids(self) -> list[str]:
        """Ids of the next messages."""
        first = self._sent
        self._sent += self.rng.choice([1, 1, 2, 5])
        return [f"{self.name}.{number}" for number in range(first, self._sent)]


class IdempotentProducer(Producer):
    """Writes to one partition and repeats each put until it knows the outcome."""

    def __init__(self, world: World, name: str, topics: list[LiveTopic], producer_id: int) -> None:
        super().__init__(world, name, topics)
        self._id, self._epoch = producer_id, 0
        self._twice = world.rng(f"{name} twice")

    async def run(self) -> None:
        """Until cancelled; after an abandoned put it continues with a new epoch."""
        while True:
            topic = self.rng.choice(self.topics)
            await self._session(topic, self.rng.randrange(topic.partitions))
            self._epoch += 1

    async def _session(self, topic: LiveTopic, partition: int) -> None:
        sequence = 0
        while not topic.deleted and self.rng.random() < 0.97:
            await self.think()
            ids = self.new_ids()
            stamp = ProducerStamp(self._id, self._epoch, sequence)
            block = self.block(ids, stamp)
            for _ in range(SAME_PUT_TRIES_MAX):
                put = await self._try(topic, partition, block)
                if put.ok or put.error.startswith(("SequenceGap", "ProducerFenced")):
                    break
                block = block._replace(producer=stamp._replace(repeated=True))
                await asyncio.sleep(RETRY_S)
            if not put.ok:
                return
            sequence += len(ids)
            if self.rng.random() < 0.1:  # a late duplicate of an acknowledged put
                block = block._replace(producer=stamp._replace(repeated=True))
                await self.put(await self.server(), topic, partition, [block], idempotent=True)

    async def _try(self, topic: LiveTopic, partition: int, block: MessageBlock) -> Operation:
        """One put, or the same put twice at once; one success is enough."""
        server = await self.server(topic, partition)
        first = self.put(server, topic, partition, [block], idempotent=True)
        if self._twice.random() >= self.world.config.put_twice:
            return await first
        assert block.producer is not None
        again = block._replace(producer=block.producer._replace(repeated=True))
        second = self.put(server, topic, partition, [again], idempotent=True)
        puts = await asyncio.gather(first, second)
        return next((put for put in puts if put.ok), puts[0])


class Reader(Client):
    """Follows every partition of the topics, and sometimes reads anywhere."""

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
            if self.rng.random() < 0.1:
                reached = topic.reached.get(partition, 0)
                offset = self.rng.randint(-1, reached + 2)
                await self.get(await self.server(), topic, partition, offset)
            elif self.rng.random() < 0.1:
                await self.range(await self.server(), topic, partition)
            else:
                await self._follow(topic, partition)

    async def _follow(self, topic: LiveTopic, partition: int) -> None:
        key = (topic.resource, partition)
        server = await self.server(topic, partition)
        read, result = await self.get(server, topic, partition, self._positions.get(key, -1))
        if result is not None and result.blocks:
            self._positions[key] = result.blocks[-1].next_offset
        elif read.error.startswith("OffsetOutOfRange"):
            self._positions[key] = -1


class Stranger(Client):
    """A caller without any permission, who must learn nothing."""

    def __init__(self, world: World, name: str, topics: list[LiveTopic]) -> None:
        super().__init__(world, name)
        self.topics = topics

    async def run(self) -> None:
        """Until cancelled."""
        number = 0
        while True:
            await self.think(8)
            topic = self.rng.choice(self.topics)
            server = await self.server()
            if self.rng.random() < 0.5:
                await self.get(server, topic, 0, -1, granted=False)
            else:
                number += 1
                block = self.block([f"{self.name}.{number}"])
                await self.put(server, topic, 0, [block], granted=False)
