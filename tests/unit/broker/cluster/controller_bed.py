"""Controllers of several servers over one memory storage, in virtual time; no broker around."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

from tests.unit.broker.cluster.cluster_bed import SessionMeta
from tests.unit.catalog.support import CountingClock

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.broker.cluster.control.controller import Controller, ControllerContext
from opentalos.broker.cluster.records import (
    ASSIGNMENT,
    LEADER,
    LEAVING,
    AssignmentRecord,
    Leader,
    LeavingKind,
    LeavingRecord,
    RingRecord,
    ServerRecord,
    decode_record,
    encode_record,
)
from opentalos.broker.cluster.state import ClusterState, leaving_path, put_record, server_path
from opentalos.model.errors import NotSupported
from opentalos.model.limits import ClusterLimits
from opentalos.model.message import PartitionKey
from opentalos.ports.peers import CallRequest, Forwarded, Reply
from opentalos.testing.simulation.loop import SimulatedProcess, SimulationLoop

LIMITS = ClusterLimits(virtual_nodes=32, moves_at_once=8)
TOPICS = {f"topic-{number}": 12 for number in range(5)}  # partitions by uuid


class FakePeers:
    """Ports that refuse or not."""

    def __init__(self) -> None:
        self.refusing: set[str] = set()

    async def refuses(self, address: str) -> bool:
        await asyncio.sleep(0.001)
        return address in self.refusing

    async def ask(self, address: str, request: CallRequest) -> bytes:
        raise NotSupported(request.call)

    async def forward(self, address: str, request: Forwarded) -> Reply:
        raise NotSupported("forward")

    async def close(self) -> None:
        """Nothing is open."""


class Member:
    """One server: its registration and its controller."""

    def __init__(self, bed: "ControllerBed", name: str, incarnation: int) -> None:
        self.bed, self.name = bed, name
        self.meta = SessionMeta(bed.storage)
        self.record = ServerRecord(
            name=name,
            incarnation=f"{name}.{incarnation}",
            address=f"{name}:{incarnation}",
            started_ms=0,
            session=1,
        )
        self.process: SimulatedProcess = bed.loop.process(name)
        self.state = ClusterState(self.meta, lambda path: self.controller.wake())
        self.controller = Controller(
            ControllerContext(
                state=self.state,
                peers=bed.peers,
                clock=CountingClock(),
                limits=bed.limits,
                me=self.record,
                topics=lambda: list(bed.topics.items()),
                session=self.meta.session,
            )
        )

    async def start(self) -> "Member":
        """Register and take part, as tasks of this server's process."""
        await self.process.create_task(self._start())
        return self

    async def _start(self) -> None:
        await self.register()
        await self.state.start()
        await self.controller.start()

    async def register(self) -> None:
        """Make the ephemeral record."""
        await self.meta.create(server_path(self.name), encode_record(self.record), ephemeral=True)

    async def announce(self, kind: LeavingKind, wait_s: float = 20.0) -> None:
        """Announce a restart or a drain."""
        record = LeavingRecord(
            name=self.name, kind=kind.value, incarnation=self.record.incarnation, wait_s=wait_s
        )
        await put_record(self.state.leaving, leaving_path(self.name), record)

    def crash(self) -> None:
        """The process is gone; its session lasts on and its port refuses."""
        self.process.crash()
        self.bed.peers.refusing.add(self.record.address)

    async def stop(self, wait_s: float = 20.0) -> None:
        """A graceful stop before a restart."""
        await self.announce(LeavingKind.RESTART, wait_s)
        await self.end()

    async def take_back(self) -> None:
        """It serves again: the announcement goes."""
        path = leaving_path(self.name)
        await self.state.leaving.refresh(path)
        found = self.state.leaving.get(path)
        assert found is not None
        await self.state.leaving.remove(path, found)

    async def end(self) -> None:
        """The end of a graceful stop."""
        self.bed.peers.refusing.add(self.record.address)
        await self.process.create_task(self.controller.close())
        await self.process.create_task(self.meta.close())
        self.process.crash()


class ControllerBed:
    """The shared storage and what is published in it."""

    def __init__(self, loop: SimulationLoop, limits: ClusterLimits) -> None:
        self.loop, self.limits = loop, limits
        self.storage, self.peers = MemoryStorage(), FakePeers()
        self.topics = dict(TOPICS)
        self.meta = MemoryMetaStore(self.storage)
        self._starts: Counter[str] = Counter()
        self.members: dict[str, Member] = {}

    async def start(self, *names: str) -> list[Member]:
        """Start servers one after the other."""
        found = []
        for name in names:
            self._starts[name] += 1
            self.members[name] = await Member(self, name, self._starts[name]).start()
            found.append(self.members[name])
        return found

    async def steady(self, *names: str) -> list[Member]:
        """Servers that share everything already: all joined and were stable."""
        found = await self.start(*names)
        await asyncio.sleep(self.limits.stable_after_s + 30)
        assert set(self.owners().values()) == set(names)
        assert not self.moving()
        return found

    def owners(self) -> Mapping[PartitionKey, str]:
        """Server by partition, as published."""
        return {
            PartitionKey(uuid, partition): owner
            for uuid, record in self.records().items()
            for partition, owner in enumerate(record.owners)
        }

    def moving(self) -> list[str]:
        """Sources of the moves under way."""
        return [name for record in self.records().values() for name in record.moved_from.values()]

    def lent(self) -> Mapping[PartitionKey, str]:
        """Partitions that return to a restarting server."""
        return {
            PartitionKey(uuid, int(partition)): lender
            for uuid, record in self.records().items()
            for partition, lender in record.lent.items()
        }

    def records(self) -> Mapping[str, AssignmentRecord]:
        """Assignment by topic uuid."""
        return {
            path.partition("/")[2]: decode_record(AssignmentRecord, stored.record.value)
            for path, stored in sorted(self.storage.records.items())
            if path.startswith(f"{ASSIGNMENT}/")
        }

    def leader(self) -> str:
        """Who the controller is; empty: none."""
        stored = self.storage.records.get(LEADER)
        return decode_record(Leader, stored.record.value).name if stored is not None else ""

    def ring(self) -> RingRecord:
        """Who takes part."""
        return decode_record(RingRecord, self.storage.records["control/ring"].record.value)

    def leaving(self) -> list[str]:
        """Servers with an announcement."""
        return [path for path in self.storage.records if path.startswith(f"{LEAVING}/")]

    async def until(self, reached: Callable[[], bool], within_s: float) -> float:
        """Wait for something; virtual seconds that it took."""
        began_s = self.loop.time()
        while not reached():
            assert self.loop.time() < began_s + within_s, "it did not happen in time"
            await asyncio.sleep(0.005)
        return self.loop.time() - began_s


def in_control(
    scenario: Callable[[ControllerBed], Awaitable[None]], limits: ClusterLimits = LIMITS
) -> None:
    """Run a scenario in virtual time; no task may end with an unobserved exception."""
    loop = SimulationLoop()

    async def main() -> None:
        await scenario(ControllerBed(loop, limits))

    loop.run(main())
    assert not loop.errors
