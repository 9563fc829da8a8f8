"""Several brokers over one memory storage; a test says who serves what."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.unit.broker.support import World, started
from tests.unit.catalog.support import CountingClock, MovableTime, PlainBox

from opentalos.adapters.memory import MemoryStorage
from opentalos.broker.broker import BrokerConfig
from opentalos.broker.values import Topic
from opentalos.model.errors import NotOwner, PartitionNotServing, TalosError
from opentalos.ports.peers import CallRequest, Forwarded, Reply


class Placed:
    """Who serves which partition number and which group, for all topics; "" is no server."""

    def __init__(self) -> None:
        self.partitions: dict[int, str] = {}
        self.groups: dict[str, str] = {}
        self.shards: dict[int, str] = {}  # by number, of all tables
        self.servers: tuple[str, ...] = ()
        self.leader = "a"

    def of(self, server: str) -> "MovedOwnership":
        return MovedOwnership(self, server)


class MovedOwnership:
    """Ownership as ``Placed`` says; ``behind`` servers learn only when they catch up."""

    def __init__(self, placed: Placed, server: str) -> None:
        self._placed, self._server = placed, server
        self.known: dict[int, str] | None = None  # set: what this server believes
        self.caught_up = 0

    def owner(self, topic_uuid: str, partition: int) -> str:
        known = self._placed.partitions if self.known is None else self.known
        return known.get(partition, "a")

    def check(self, topic_uuid: str, partition: int) -> None:
        owner = self.owner(topic_uuid, partition)
        if not owner:
            raise PartitionNotServing(f"no server serves partition {partition} yet")
        if owner != self._server:
            raise NotOwner(f"partition {partition} is served by {owner}", owner, topic_uuid)

    def check_group(self, group: str) -> None:
        owner = self._placed.groups.get(group, "a")
        if owner != self._server:
            raise NotOwner(f"group {group} is coordinated by {owner}", owner)

    def check_shard(self, table_uuid: str, number: int) -> None:
        owner = self._placed.shards.get(number, "a")
        if owner != self._server:
            raise NotOwner(f"shard {number} is owned by {owner}", owner)

    def others(self) -> Sequence[str]:
        return [name for name in self._placed.servers if name != self._server]

    def addresses(self, topic_uuid: str, partitions: int) -> Sequence[str]:
        return [self.owner(topic_uuid, number) for number in range(partitions)]

    async def catch_up(self, topic_uuid: str) -> None:
        self.caught_up += 1
        self.known = None

    async def settled(self, topic_uuid: str, partitions: int) -> None:
        """Everything is placed at once."""

    def leads(self) -> bool:
        return self._placed.leader == self._server


class DirectPeers:
    """Calls the other broker at once."""

    def __init__(self, servers: Mapping[str, World]) -> None:
        self._servers = servers
        self.asked: list[tuple[str, str]] = []
        self.errors: dict[str, TalosError] = {}  # by address
        self.answers: dict[str, Mapping[str, Any]] = {}  # by address, instead of the broker's
        self.hang = False

    async def ask(self, address: str, request: CallRequest) -> bytes:
        self.asked.append((address, request.call))
        if self.hang:
            await asyncio.Event().wait()
        if address in self.errors:
            raise self.errors[address]
        answer = self.answers.get(address)
        if answer is not None:
            return json.dumps(answer).encode()
        return await self._servers[address].broker.peer_calls.answer(request)

    async def refuses(self, address: str) -> bool:
        return False

    async def forward(self, address: str, request: Forwarded) -> Reply:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


class Several:
    """Brokers by name; everything is placed at ``a`` until a test says otherwise."""

    def __init__(self, servers: Mapping[str, World], placed: Placed) -> None:
        self.servers, self.placed = servers, placed
        placed.servers = tuple(servers)
        self.peers = DirectPeers(servers)
        for name, server in servers.items():
            server.broker.context.ownership = placed.of(name)
            server.broker.context.peers = self.peers

    def __getitem__(self, name: str) -> World:
        return self.servers[name]

    def ownership(self, name: str) -> MovedOwnership:
        found = self.servers[name].broker.context.ownership
        assert isinstance(found, MovedOwnership)
        return found

    def move_group(self, group: str, to: str) -> None:
        """The ring changes, and every server knows at once."""
        self.placed.groups[group] = to
        for name, server in self.servers.items():
            server.broker.groups.ownership_changed(self._keeps(name))

    def _keeps(self, server: str) -> Callable[[str], bool]:
        return lambda group: self.placed.groups.get(group, "a") == server

    async def show(self, topic: Topic) -> Topic:
        """Every server has seen the topic's record."""
        for server in self.servers.values():
            await server.broker.context.topics.unseen.look([(topic.owner, topic.name, None)])
        return topic


@asynccontextmanager
async def several(*names: str, **config: Any) -> AsyncIterator[Several]:
    """Started brokers named ``names`` over one storage."""
    storage, clock = MemoryStorage(), CountingClock()
    time = MovableTime(asyncio.get_running_loop())
    servers: dict[str, World] = {}
    for name in names:
        settings = BrokerConfig(server=name, advertise=name, secret_box=PlainBox(), **config)
        broker = await started(storage, clock, settings)
        servers[name] = World(storage, clock, time, broker, settings)
    try:
        yield Several(servers, Placed())
    finally:
        for server in servers.values():
            await server.broker.close()
