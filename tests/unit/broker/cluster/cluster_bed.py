"""Several brokers over one memory storage in virtual time; the test itself plays the controller."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pytest
from tests.unit.catalog.support import ALICE, CountingClock, PlainBox

from opentalos.adapters.memory import (
    MemoryAppendFile,
    MemoryFileStore,
    MemoryMetaStore,
    MemoryRowStore,
    MemoryStorage,
)
from opentalos.broker.broker import Broker, BrokerConfig, open_broker
from opentalos.broker.cluster import cluster as composition
from opentalos.broker.cluster.cluster import Cluster
from opentalos.broker.cluster.records import (
    RING,
    AssignmentRecord,
    RingRecord,
    decode_record,
    encode_record,
)
from opentalos.broker.cluster.state import assignment_path
from opentalos.broker.messaging.messages import GetQuery, PutTarget
from opentalos.broker.values import NewTopic, Topic
from opentalos.model.errors import StoreUnavailable, TalosError
from opentalos.model.limits import ClusterLimits, LogLimits
from opentalos.model.message import Durability, MessageBlock, ProducerStamp
from opentalos.ports.meta_store import Record, Session
from opentalos.ports.peers import CallRequest, Forwarded, Reply
from opentalos.testing.simulation.loop import SimulatedProcess, SimulationLoop

T = TypeVar("T")
META_S = 0.002  # of one call to the coordination
COMMIT_S = 0.005
SESSION_S = 6.0
LOG = LogLimits(space_reserve_bytes=0)
JOURNALED = LogLimits(space_reserve_bytes=0, journal="on", journal_files_open_max=2)
LIMITS = ClusterLimits()


class StillController:
    """Stands for the controller: it never decides anything."""

    leading = False

    def __init__(self, context: object) -> None:
        self.woken = 0

    async def start(self) -> None:
        """Nothing runs."""

    async def close(self) -> None:
        """Nothing runs."""

    def wake(self) -> None:
        self.woken += 1


class SessionMeta(MemoryMetaStore):
    """A client whose session a test can suspend and expire; each call takes its time."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage)
        self.connected, self.lost, self.incarnation = True, False, 1
        self.valid_until_s = math.inf  # as long as it is connected
        self.write_s = 0.0  # that each change takes longer

    def session(self) -> Session:
        return Session(self.valid_until_s, self.lost, self.incarnation, self.connected)

    def suspend(self) -> None:
        self.connected = False
        self.valid_until_s = asyncio.get_running_loop().time() + SESSION_S

    def expire(self) -> None:
        """The store ends the session; the client may not know yet."""
        for path in [p for p, item in self.storage.records.items() if item.owner is self]:
            del self.storage.records[path]
            self.storage.record_changed(path)

    def renew(self) -> None:
        """The client has a new session."""
        self.connected, self.incarnation = True, self.incarnation + 1
        self.valid_until_s = math.inf

    async def get(self, path: str) -> Record | None:
        await self._take_time()
        return await super().get(path)

    async def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> int:
        await self._take_time()
        return await super().create(path, value, ephemeral=ephemeral)

    async def replace(self, path: str, value: bytes, expected: int) -> int:
        await self._take_time()
        await asyncio.sleep(self.write_s)
        return await super().replace(path, value, expected)

    async def delete(self, path: str, expected: int) -> None:
        await self._take_time()
        await super().delete(path, expected)

    async def _take_time(self) -> None:
        await asyncio.sleep(META_S)
        if not self.connected:
            raise StoreUnavailable("not connected")


class SlowFile(MemoryAppendFile):
    """Commits take a while; ``hold`` makes them wait."""

    def __init__(self, inner: MemoryAppendFile, store: "SlowFiles") -> None:
        super().__init__(inner._store, inner._path, inner._file)
        self._slow = store

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        await asyncio.sleep(COMMIT_S)
        if self._slow.held is not None and self._path.endswith(self._slow.held_suffix):
            await self._slow.held
        return await super().commit(chunks, durability=durability)


class SlowFiles(MemoryFileStore):
    """A file store whose commits and recoveries take their time."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage)
        self.recover_s = COMMIT_S
        self.recovered: list[str] = []
        self.held: asyncio.Future[None] | None = None
        self.held_suffix = ""  # of the files whose commits wait for it

    async def create(self, path: str, *, durability: Durability) -> MemoryAppendFile:
        return SlowFile(await super().create(path, durability=durability), self)

    async def recover(self, path: str, *, deadline_s: float) -> int:
        await asyncio.sleep(self.recover_s)
        self.recovered.append(path)
        return await super().recover(path, deadline_s=deadline_s)


class BedPeers:
    """The Peers port: an address refuses when its server is gone."""

    def __init__(self, bed: "ClusterBed") -> None:
        self._bed = bed

    async def refuses(self, address: str) -> bool:
        await asyncio.sleep(0.001)
        server = self._bed.servers.get(address.partition(":")[0])
        return server is None or server.process.crashed or server.closed

    async def ask(self, address: str, request: CallRequest) -> bytes:
        server = self._bed.servers[address.partition(":")[0]]
        return await server.broker.peer_calls.answer(request)

    async def forward(self, address: str, request: Forwarded) -> Reply:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


class Server:
    """One broker in its own process."""

    def __init__(
        self, bed: "ClusterBed", name: str, address: str, limits: ClusterLimits, drain_s: float
    ) -> None:
        self.bed, self.name, self.address = bed, name, address
        self.process: SimulatedProcess = bed.loop.process(name)
        self.meta, self.files = SessionMeta(bed.storage), SlowFiles(bed.storage)
        self.closed = False
        bed.starts += 1
        config = BrokerConfig(
            server=name,
            advertise=address,
            secret_box=PlainBox(),
            incarnation=f"{name}.{bed.starts}",
            cluster=limits,
            drain_s=drain_s,
            log=bed.log,
        )
        self.broker: Broker = open_broker(
            files=self.files,
            meta=self.meta,
            rows=MemoryRowStore(bed.storage),
            clock=bed.clock,
            config=config,
            peers=BedPeers(bed),
        )

    @property
    def cluster(self) -> Cluster:
        assert self.broker._cluster is not None
        return self.broker._cluster

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in this server's process and wait for it."""
        answer: asyncio.Future[T] = self.bed.loop.create_future()

        async def serve() -> None:
            try:
                value = await make()
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(value)

        self.process.call_soon(lambda: self.process.create_task(serve()))
        return await answer

    async def start(self) -> "Server":
        await self.run(self.broker.start)
        return self

    async def close(self) -> None:
        await self.run(self.broker.close)
        await self.run(self.meta.close)
        self.closed = True

    def crash(self) -> None:
        self.process.crash()
        self.meta.expire()

    def put(self, topic: Topic, payload: bytes, partition: int = 0) -> "asyncio.Future[None]":
        """Put one message; the future has the outcome."""
        return self._put(topic, MessageBlock(payload, 1), partition)

    def put_stamped(
        self, topic: Topic, payload: bytes, stamp: ProducerStamp
    ) -> "asyncio.Future[None]":
        """Put one message of an idempotent producer into partition 0."""
        return self._put(topic, MessageBlock(payload, 1, producer=stamp), 0)

    def _put(self, topic: Topic, block: MessageBlock, partition: int) -> "asyncio.Future[None]":
        answer: asyncio.Future[None] = self.bed.loop.create_future()

        def waiter(_: int, error: TalosError | None) -> None:
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)

        def serve() -> None:
            target = PutTarget(topic.resource, partition)
            try:
                self.broker.messages.put(ALICE, target, [block], waiter)
            except TalosError as error:
                waiter(-1, error)

        self.process.call_soon(serve)
        return answer

    async def payloads(self, topic: Topic, partition: int = 0) -> list[bytes]:
        """Everything in a partition."""
        found: list[bytes] = []
        offset = -1
        while True:
            query = GetQuery(topic.resource, partition, offset, 100, 1 << 20)
            result = await self.run(partial(self.broker.messages.get, ALICE, query))
            if not result.blocks:
                return found
            found += [bytes(block.payload) for block in result.blocks]
            offset = result.blocks[-1].next_offset


class ClusterBed:
    """The storage that all servers share, and the records that a controller would write."""

    def __init__(self, loop: SimulationLoop) -> None:
        self.loop, self.storage, self.clock = loop, MemoryStorage(), CountingClock()
        self.servers: dict[str, Server] = {}
        self.log = LOG  # of servers that start from now on
        self.starts = 0
        self._meta = MemoryMetaStore(self.storage)

    async def server(
        self, name: str, address: str = "", drain_s: float = 0.0, **limits: Any
    ) -> Server:
        """Open and start a broker."""
        server = Server(self, name, address or f"{name}:1", replace(LIMITS, **limits), drain_s)
        self.servers[name] = server
        return await server.start()

    async def topic(self, server: Server, owners: Sequence[str], name: str = "t") -> Topic:
        """A topic with one partition for each owner, known everywhere."""
        new = NewTopic(name=name, partitions=len(owners))
        topic = await server.run(lambda: server.broker.topics.create_topic(ALICE, new))
        await self.assign(topic.uuid, owners)
        await asyncio.sleep(0.5)
        return topic

    async def assign(
        self, topic_uuid: str, owners: Sequence[str], moved_from: Mapping[str, str] | None = None
    ) -> None:
        """Publish who serves each partition."""
        path = assignment_path(topic_uuid)
        found = await self._meta.get(path)
        number = decode_record(AssignmentRecord, found.value).number if found else 0
        record = AssignmentRecord(
            number=number + 1, owners=tuple(owners), moved_from=dict(moved_from or {})
        )
        await self._write(path, encode_record(record))

    async def ring(self, *names: str) -> None:
        """Publish who takes part."""
        record = RingRecord(number=1, servers=dict.fromkeys(names, 8))
        await self._write(RING, encode_record(record))

    async def _write(self, path: str, value: bytes) -> None:
        found = await self._meta.get(path)
        if found is None:
            await self._meta.create(path, value)
        else:
            await self._meta.replace(path, value, found.version)


def in_cluster(
    monkeypatch: pytest.MonkeyPatch, scenario: Callable[[ClusterBed], Awaitable[None]]
) -> None:
    """Run a scenario in virtual time; no task may end with an unobserved exception."""
    monkeypatch.setattr(composition, "Controller", StillController)
    loop = SimulationLoop()

    async def main() -> None:
        await scenario(ClusterBed(loop))

    loop.run(main())
    assert not loop.errors
