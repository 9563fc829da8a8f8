"""What an operator sees of a cluster and may ask of it."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from tests.unit.broker.cluster.controller_bed import (
    LIMITS,
    ControllerBed,
    FakePeers,
    Member,
    in_control,
)
from tests.unit.catalog.support import CountingClock

from opentalos.broker.audit.trail import AuditTrail
from opentalos.broker.cluster.records import LeavingKind
from opentalos.broker.cluster.service import ClusterService, ServerState
from opentalos.broker.context import BrokerContext
from opentalos.broker.peer_rpc.calls import STATUS
from opentalos.broker.peer_rpc.dispatch import PeerDispatch
from opentalos.catalog.access.authorize import Authorizer
from opentalos.log.counters import LogCounters
from opentalos.model.errors import (
    BadRequest,
    ExcessivePending,
    PermissionDenied,
    StoreUnavailable,
)
from opentalos.model.identity import Principal
from opentalos.model.message import PartitionKey
from opentalos.model.settings.security import AuditSettings, AuthLimits
from opentalos.placement.ring import SECTORS
from opentalos.ports.peers import CallRequest

ADMIN = Principal(id="root", number=1, admin=True)
USER = Principal(id="alice", number=2)


class Services(FakePeers):
    """The services of all members."""

    def __init__(self, bed: ControllerBed) -> None:
        super().__init__()
        self.of: dict[str, ClusterService] = {}
        for name, member in bed.members.items():
            self.of[member.record.address] = self.service(name, member)

    def service(self, name: str, member: Member) -> ClusterService:
        context = SimpleNamespace(
            config=SimpleNamespace(server=name, cluster=LIMITS),
            authorizer=Authorizer(AuthLimits()),
            audit=AuditTrail(CountingClock(), AuditSettings(), name),
            log=SimpleNamespace(counters=LogCounters(openings=7)),
        )
        service = ClusterService(
            cast(BrokerContext, context), member.state, member.controller, self
        )
        service.count(lambda: {"requests": 3})
        return service

    async def ask(self, address: str, request: CallRequest) -> bytes:
        if address in self.refusing:
            raise StoreUnavailable("refused")
        calls = PeerDispatch()
        calls.register(STATUS, self.of[address].answer_status)
        return await calls.answer(request)


async def open_services(bed: ControllerBed) -> list[ClusterService]:
    """Services of a steady cluster of a, b and c."""
    await bed.steady("a", "b", "c")
    return list(Services(bed).of.values())


def test_the_status_shows_servers_partitions_counters_and_moves() -> None:
    async def scenario(bed: ControllerBed) -> None:
        services = await open_services(bed)
        for service in services:  # each of them knows the same
            status = await service.status(ADMIN)
            assert (status.leader, status.partitions, status.unassigned) == (bed.leader(), 60, 0)
            assert [server.state for server in status.servers] == [ServerState.SERVING] * 3
            assert sum(server.partitions for server in status.servers) == 60
            assert all(
                server.answers and server.counters["openings"] == 7 for server in status.servers
            )
            assert status.servers[0].counters["forwarded_requests"] == 3
            assert (status.servers[0].virtual_nodes, len(status.servers[0].sectors)) == (32, 32)
            assert status.recent
            assert all(move.planned for move in status.recent)
            assert all(move.ended_ms >= move.at_ms > 0 for move in status.recent)
            assert status.moving == []

    in_control(scenario)


def test_the_partitions_of_every_topic_are_counted() -> None:
    async def scenario(bed: ControllerBed) -> None:
        service, *_ = await open_services(bed)
        counts = await service.partitions(ADMIN)
        assert counts == {uuid: len(record.owners) for uuid, record in bed.records().items()}
        assert sum(counts.values()) == 60

    in_control(scenario)


def test_a_server_that_does_not_answer_is_shown_without_counters() -> None:
    async def scenario(bed: ControllerBed) -> None:
        service, *_ = await open_services(bed)
        peers = cast(Services, service._peers)
        peers.refusing.add("c:1")
        status = await service.status(ADMIN)
        assert [(server.name, server.answers) for server in status.servers] == [
            ("a", True), ("b", True), ("c", False),
        ]  # fmt: skip
        assert status.servers[2].counters == {}

    in_control(scenario)


def test_each_state_of_a_server_is_shown() -> None:
    async def scenario(bed: ControllerBed) -> None:
        service, *_ = await open_services(bed)

        async def state_of(name: str) -> ServerState:
            status = await service.status(ADMIN)
            return next(server.state for server in status.servers if server.name == name)

        await bed.members["c"].stop()
        await asyncio.sleep(1)
        assert await state_of("c") == ServerState.RESTARTING
        await service.drain(ADMIN, "b")
        assert await state_of("b") == ServerState.DRAINING
        peers = cast(Services, service._peers)
        (late,) = await bed.start("d")
        peers.of[late.record.address] = peers.service("d", late)
        await asyncio.sleep(1)
        assert await state_of("d") == ServerState.JOINING

    in_control(scenario)


def test_a_drained_server_is_emptied_and_taken_back() -> None:
    async def scenario(bed: ControllerBed) -> None:
        service, *_ = await open_services(bed)
        await service.drain(ADMIN, "b")
        await bed.until(lambda: "b" not in bed.owners().values(), 10)
        await service.undrain(ADMIN, "b")
        await bed.until(lambda: "b" in bed.owners().values(), 10)

    in_control(scenario)


def test_only_what_makes_sense_is_accepted() -> None:
    async def scenario(bed: ControllerBed) -> None:
        service, *_ = await open_services(bed)
        with pytest.raises(BadRequest, match="no server x is registered"):
            await service.drain(ADMIN, "x")
        with pytest.raises(BadRequest, match="is not being drained"):
            await service.undrain(ADMIN, "b")
        await bed.members["b"].announce(LeavingKind.RESTART)
        with pytest.raises(BadRequest, match="is not being drained"):
            await service.undrain(ADMIN, "b")
        for weights in ({"x": 8}, {"a": 0}, {"a": [1]}, {"a": 10**6}, {"a": [-1] + [1] * 31}):
            with pytest.raises(BadRequest):
                await service.set_weights(ADMIN, weights)
        await service.set_weights(ADMIN, {"a": [2] * SECTORS, "b": 16})
        await bed.until(lambda: bed.ring().servers["a"] == [2] * SECTORS, 1)
        assert bed.ring().servers["b"] == 16

    in_control(scenario)


def test_weights_are_proposed_from_past_traffic_and_change_nothing() -> None:
    async def scenario(bed: ControllerBed) -> None:
        service = (await open_services(bed))[0]
        before = (await service.status(ADMIN)).servers
        topics = await service.partitions(ADMIN)
        day = {
            PartitionKey(uuid, number): 10**9 // (number + 1) ** 2
            for uuid, count in topics.items()
            for number in range(count)
        }
        found = await service.propose_weights(ADMIN, [day], 20)
        assert (found.partitions, found.moves_max) == (60, 12)
        assert 0 < len(found.proposal.moves) <= 12
        assert found.variance_after < found.variance_before
        assert sorted(found.weights) == ["a", "b", "c"]
        assert (await service.status(ADMIN)).servers == before
        await service.set_weights(ADMIN, found.weights)
        for days, budget in (([], 2), ([{}], 2), ([day], 101), ([day] * 32, 2)):
            with pytest.raises(BadRequest):
                await service.propose_weights(ADMIN, days, budget)
        first = asyncio.create_task(service.propose_weights(ADMIN, [day], 20))
        await asyncio.sleep(0)
        with pytest.raises(ExcessivePending):
            await service.propose_weights(ADMIN, [day], 20)
        await first
        with pytest.raises(PermissionDenied):
            await service.propose_weights(USER, [day], 20)

    in_control(scenario)


def test_weights_proposed_during_a_loan_are_those_proposed_before() -> None:
    """The traffic of what is lent belongs to its lender, which takes it back soon."""

    async def scenario(bed: ControllerBed) -> None:
        service = (await open_services(bed))[0]
        day = {key: 10**9 // (key.partition + 1) ** 2 for key in bed.owners()}
        before = await service.propose_weights(ADMIN, [day], 20)
        await bed.members["b"].announce(LeavingKind.LEND)
        await bed.until(lambda: "b" not in bed.owners().values() and not bed.moving(), 5)
        meanwhile = await service.propose_weights(ADMIN, [day], 20)
        assert meanwhile.proposal == before.proposal

    in_control(scenario)


def test_only_a_service_administrator_sees_or_changes_the_cluster() -> None:
    async def scenario(bed: ControllerBed) -> None:
        service, *_ = await open_services(bed)
        for call in (
            service.status(USER),
            service.partitions(USER),
            service.drain(USER, "a"),
            service.undrain(USER, "a"),
            service.set_weights(USER, {}),
        ):
            with pytest.raises(PermissionDenied):
                await call

    in_control(scenario)
