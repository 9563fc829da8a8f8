"""ClusterServer: one broker of a cluster, with its session, its network and a forwarding gateway.

The gateway behaves as the real ones: a call that another server must serve is forwarded once. The
other server never forwards it again; if it does not own the partition either, it refreshes its
assignment once and retries.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from opentalos.broker.broker import Broker, BrokerConfig, open_broker
from opentalos.broker.messaging.messages import PutTarget
from opentalos.gateway.peer.forwarding import TOPIC_LOOK_S, TOPIC_LOOKS_MAX
from opentalos.model.errors import (
    NotOwner,
    OutcomeUnknown,
    PartitionNotServing,
    TalosError,
    TopicNotExist,
    Unavailable,
)
from opentalos.model.identity import Principal
from opentalos.model.message import MessageBlock
from opentalos.testing.simulation.cluster.linked_stores import LinkedFileStore, LinkedRowStore
from opentalos.testing.simulation.cluster.network import FILES, META, ROWS, Link, Way
from opentalos.testing.simulation.cluster.peers import Directory, Make, SimulatedPeers
from opentalos.testing.simulation.cluster.session_meta import SessionMetaStore
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.faulty_files import FaultyFileStore
from opentalos.testing.simulation.stores.faulty_rows import FaultyRowStore
from opentalos.testing.simulation.world.clock import SimulatedClock
from opentalos.testing.simulation.world.server import ServerLost, SimulatedServer, StoreFaults

T = TypeVar("T")

FORWARD_TIMEOUT_S = 4.0  # below the patience of clients
CLOSE_TIMEOUT_S = 60.0


class Forwarding(NamedTuple):
    """One call that was forwarded. ``hops``: how often it has been forwarded so far."""

    server: str
    to: str
    hops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A server's identity in its cluster. ``host`` is its stable name."""

    host: str
    incarnation: str
    address: str
    directory: Directory
    session_s: float
    forwarded: Callable[[Forwarding], None]


class ClusterServer(SimulatedServer):
    """A broker with peers, in a process that can pause and crash; one per process of a host."""

    def __init__(
        self,
        disk: SimulatedDisk,
        name: str,
        config: BrokerConfig,
        faults: StoreFaults,
        clock: SimulatedClock,
        seat: Seat,
    ) -> None:
        self.seat = seat
        super().__init__(disk, name, config, faults, clock)
        self.listening = True
        seat.directory.add(seat.address, self)

    def _compose(self, config: BrokerConfig, faults: StoreFaults) -> Broker:
        files = FaultyFileStore(self.disk, self.process, faults.files)
        rows = FaultyRowStore(self.disk, self.process, faults.rows)
        self.meta = SessionMetaStore(
            self.process, faults.meta, self._link(META), self.seat.session_s
        )
        self._end_session = self.meta.lose_process
        self.peers = SimulatedPeers(self.seat.directory, self.seat.host)
        return open_broker(
            files=LinkedFileStore(files, self._link(FILES)),
            meta=self.meta,
            rows=LinkedRowStore(rows, self._link(ROWS)),
            clock=self.clock,
            config=config,
            peers=self.peers,
        )

    async def stop(self) -> None:
        """Announce a restart, shut down cleanly and end the process."""
        self.ready = False

        async def close(broker: Broker) -> None:
            await broker.announce_restart()
            self.listening = False
            await broker.close()
            await self.meta.close()

        try:
            await self.ask("close", close, timeout_s=CLOSE_TIMEOUT_S)
        finally:
            self.crash()

    def crash(self) -> None:
        """End the process at once; its session exists until it expires."""
        self.listening = False
        super().crash()

    async def ask(self, what: str, make: Make[T], *, timeout_s: float | None) -> T:
        """A call that only this server can serve. Raises: TalosError; ServerLost as unknown."""
        try:
            return await self._answered(what, lambda: make(self.broker), timeout_s)
        except ServerLost as error:
            raise OutcomeUnknown(str(error)) from error

    async def put(
        self,
        caller: Principal,
        target: PutTarget,
        blocks: Sequence[MessageBlock],
        *,
        timeout_s: float,
    ) -> int:
        """One put; its base offset or -1. Raises: TalosError, ServerLost, UnansweredBug."""

        async def store(broker: Broker) -> int:
            answer = self.disk.loop.create_future()

            def waiter(base_offset: int, error: TalosError | None) -> None:
                if answer.done():
                    self.twice.append(f"put to {target}")
                else:
                    answer.set_result((base_offset, error))

            broker.messages.put(caller, target, blocks, waiter)
            base_offset, error = await answer
            if error is not None:
                raise error
            return int(base_offset)

        return await self.call("put", store, timeout_s=timeout_s)

    async def _serve(self, make: Make[T]) -> T:
        try:
            return await make(self.broker)
        except NotOwner as error:
            if not error.address:
                raise
            address = error.address
        return await self._forward(address, make)

    async def _forward(self, address: str, make: Make[T], hops: int = 1) -> T:
        self.seat.forwarded(Forwarding(self.name, address, hops))
        try:
            other = await self.peers.reach(address)
        except Unavailable as unsent:
            raise PartitionNotServing(f"not forwarded: {unsent}") from unsent

        async def transferred() -> T:
            return await other.ask(
                "transferred",
                lambda _: other.serve_transferred(make, hops),
                timeout_s=FORWARD_TIMEOUT_S,
            )

        return await self.seat.directory.link(self.seat.host, address).call(transferred, write=True)

    async def serve_transferred(self, make: Make[T], hops: int) -> T:
        """Serve a call that was forwarded ``hops`` times; it is never forwarded again."""
        for _ in range(TOPIC_LOOKS_MAX):
            try:
                return await self._serve_here(make)
            except TopicNotExist:
                await asyncio.sleep(TOPIC_LOOK_S)
        raise PartitionNotServing("the topic is unknown here: it is new, or was deleted")

    async def _serve_here(self, make: Make[T]) -> T:
        try:
            return await make(self.broker)
        except NotOwner as error:
            await self.broker.context.ownership.catch_up(error.topic_uuid)
        try:
            return await make(self.broker)
        except NotOwner as error:
            raise PartitionNotServing(str(error)) from error

    def _link(self, service: str) -> Link:
        return Link(self.seat.directory.network, Way(self.seat.host, service))
