"""ClusterService: status and administration of a cluster, for ``talos cluster`` and REST."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from opentalos.broker.audit.trail import audited, of_service
from opentalos.broker.cluster.control.controller import Controller
from opentalos.broker.cluster.control.publication import Move
from opentalos.broker.cluster.control.weight_choice import WeightChoice, WeightsProposed
from opentalos.broker.cluster.records import WEIGHTS, LeavingKind, LeavingRecord, WeightsRecord
from opentalos.broker.cluster.state import ClusterState, leaving_path, put_record
from opentalos.broker.context import BrokerContext
from opentalos.broker.peer_rpc.calls import STATUS
from opentalos.broker.peer_rpc.client import call_peer
from opentalos.broker.peer_rpc.messages import Empty, StatusReply
from opentalos.model.errors import BadRequest, TalosError
from opentalos.model.identity import Principal
from opentalos.model.limits import ClusterLimits
from opentalos.model.message import PartitionKey
from opentalos.placement.picture import Picture, picture
from opentalos.placement.ring import by_sector
from opentalos.placement.values import Nodes
from opentalos.ports.peers import Peers

__all__ = ["ClusterService", "ClusterStatus", "Move", "Picture", "ServerState", "ServerStatus",
           "WeightsProposed"]  # fmt: skip

_log = logging.getLogger("opentalos.cluster")

STATUS_S = 2.0  # for all servers together
ASKED_AT_ONCE = 16  # servers
NODES_MAX = 8_192  # virtual nodes of one server
_COUNTED = ("openings", "reopens", "seals", "commit_failures", "corrupt", "truncated")


class ServerState(Enum):
    """State of a server, as an operator sees it."""

    SERVING = "serving"
    JOINING = "joining"  # registered, not yet stable
    DRAINING = "draining"
    RESTARTING = "restarting"  # absent or not serving yet; its partitions are reserved or lent
    GONE = "gone"  # absent; its partitions are being taken over


_PLACED = (ServerState.SERVING, ServerState.RESTARTING)  # on the ring


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """One server. ``answers``: whether it replied; if not, its counters are empty."""

    name: str
    state: ServerState
    address: str = ""
    incarnation: str = ""
    virtual_nodes: int = 0
    sectors: Sequence[int] = ()  # the same by sector of the ring
    partitions: int = 0
    started_ms: int = 0
    answers: bool = False
    counters: Mapping[str, int] = field(default_factory=dict)  # openings, forwarded_bytes, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The whole cluster, by the records that this server knows."""

    leader: str
    ring_number: int
    servers: Sequence[ServerStatus]
    partitions: int
    unassigned: int
    moving: Sequence[Move]  # under way
    recent: Sequence[Move]  # as the leader remembers them, latest last
    lent: int = 0  # partitions that return to a restarting server


class ClusterService:
    """Use cases of service administrators; each raises PermissionDenied for other callers."""

    def __init__(
        self, context: BrokerContext, state: ClusterState, controller: Controller, peers: Peers
    ) -> None:
        self._context, self._state, self._audit = context, state, context.audit
        self._controller, self._peers = controller, peers
        self._limits = context.config.cluster or ClusterLimits()
        self._counters: list[Callable[[], Mapping[str, int]]] = []
        self._choice = WeightChoice()

    def count(self, counters: Callable[[], Mapping[str, int]]) -> None:
        """Show these counters of forwarding too, as ``forwarded_`` and their name."""
        self._counters.append(counters)

    async def status(self, caller: Principal) -> ClusterStatus:
        """The cluster as known here; servers that do not reply in time have no counters."""
        self._authorize(caller, "see the cluster")
        publication, state = self._controller.publication, self._state
        answers = await self._ask_all()
        owners = publication.owners()
        served = Counter(owners.values())
        ring = state.ring.servers if state.ring else {}
        live, leader = state.live(), state.leader.name if state.leader else ""
        names = {*live, *ring, *served, *(record.name for _, record in state.leaving.items())}
        return ClusterStatus(
            leader=leader,
            ring_number=state.ring.number if state.ring else 0,
            servers=[
                self._server(name, served[name], answers.get(name)) for name in sorted(names - {""})
            ],
            partitions=len(owners),
            unassigned=served[""],
            moving=[
                Move(
                    topic_uuid=key.topic_uuid,
                    partition=key.partition,
                    source=source,
                    target=owners[key],
                    planned=True,
                )
                for key, source in publication.moved_from().items()
            ],
            recent=answers[leader].recent if leader in answers else (),
            lent=len(publication.lent()),
        )

    async def partitions(self, caller: Principal) -> Mapping[str, int]:
        """How many partitions each topic has, by uuid: all that are placed."""
        self._authorize(caller, "see the cluster")
        return Counter(key.topic_uuid for key in self._controller.publication.owners())

    @audited("drain a server", "server", owner=of_service)
    async def drain(self, caller: Principal, server: str) -> None:
        """Empty a server: its partitions move while it serves. Raises: BadRequest: unknown."""
        self._authorize(caller, "drain a server", server)
        found = self._state.live().get(server)
        if found is None:
            raise BadRequest(f"no server {server} is registered")
        record = LeavingRecord(
            name=server,
            kind=LeavingKind.DRAIN.value,
            incarnation=found.incarnation,
            wait_s=0.0,
        )
        await put_record(self._state.leaving, leaving_path(server), record)

    @audited("end the drain of a server", "server", owner=of_service)
    async def undrain(self, caller: Principal, server: str) -> None:
        """Cancel the drain of a server. Raises: BadRequest: it is not being drained."""
        self._authorize(caller, "end the drain of a server", server)
        path = leaving_path(server)
        await self._state.leaving.refresh(path)
        found = self._state.leaving.get(path)
        if found is None or found.kind != LeavingKind.DRAIN.value:
            raise BadRequest(f"server {server} is not being drained")
        await self._state.leaving.remove(path, found)

    @audited("set weights", "", "weights")
    async def set_weights(self, caller: Principal, weights: Mapping[str, Nodes]) -> None:
        """Set virtual nodes by server: one number each, or one for each sector of the ring.

        A server that is left out has the configured number. Raises: BadRequest.
        """
        self._authorize(caller, "set weights")
        known = {*self._state.live(), *(self._state.ring.servers if self._state.ring else ())}
        for name, nodes in weights.items():
            if name not in known:
                raise BadRequest(f"no server {name} is known")
            _check_nodes(name, nodes)
        record = WeightsRecord(servers=dict(sorted(weights.items())))
        await put_record(self._state.control, WEIGHTS, record)

    def ring(self, caller: Principal, weights: Mapping[str, Nodes] | None = None) -> Picture:
        """The hash ring; with ``weights`` as it would be with them, for the servers that they
        name. Raises: BadRequest."""
        self._authorize(caller, "see the cluster")
        now = self._state.ring.servers if self._state.ring else {}
        unknown = [name for name in weights or () if name not in now]
        if unknown:
            raise BadRequest(f"no server {unknown[0]} is on the ring")
        if not now:
            return Picture((), {}, exact=True)
        for name, nodes in (weights or {}).items():
            _check_nodes(name, nodes)
        return picture({**now, **(weights or {})})

    async def propose_weights(
        self, caller: Principal, days: Sequence[Mapping[PartitionKey, int]], budget: float
    ) -> WeightsProposed:
        """Weights that would spread past traffic evenly; changes nothing.

        Args: days: bytes per partition, the oldest first. budget: percent of all partitions that
        may move. Raises: BadRequest; ExcessivePending: another one is being worked out.
        """
        self._authorize(caller, "see the cluster")
        state, publication = self._state, self._controller.publication
        # What is lent returns soon, and its lender keeps its weight.
        owners = {**publication.owners(), **publication.lent()}
        ring = state.ring.servers if state.ring else {}
        found = {name: self._server(name, 0, None) for name in sorted({*state.live(), *ring})}
        states = {name: server.state for name, server in found.items()}
        placed = {name: server.sectors for name, server in found.items() if states[name] in _PLACED}
        kept = {
            name: server.sectors
            for name, server in found.items()
            if states[name] is ServerState.DRAINING
        }
        return await self._choice.propose(days, placed, kept, owners, budget)

    async def answer_status(self, _: Empty) -> StatusReply:
        """The peer call "status": this server's counters and, from the leader, recent moves."""
        log = self._context.log.counters
        counters = {name: int(getattr(log, name)) for name in _COUNTED}
        for counted in self._counters:
            counters |= {f"forwarded_{name}": number for name, number in counted().items()}
        if not self._controller.leading:
            return StatusReply(counters)
        publication = self._controller.publication
        counters["planned_moves"] = publication.planned_moves
        counters["takeovers"] = publication.takeovers
        return StatusReply(counters, list(publication.recent))

    # --- inside ---------------------------------------------------------------------------------

    def _authorize(self, caller: Principal, action: str, server: str = "") -> None:
        resource = f"cluster/{server}" if server else "cluster"
        self._context.authorizer.authorize_admin(caller, action, resource)

    async def _ask_all(self) -> Mapping[str, StatusReply]:
        turns = asyncio.Semaphore(ASKED_AT_ONCE)

        async def ask(name: str, address: str) -> StatusReply | None:
            if name == self._context.config.server:
                return await self.answer_status(Empty())
            try:
                async with asyncio.timeout(STATUS_S), turns:
                    return await call_peer(self._peers, address, STATUS, Empty())
            except (TalosError, TimeoutError) as error:
                _log.info("server %s did not report its status: %s", name, str(error) or "timeout")
                return None

        live = self._state.live()
        found = await asyncio.gather(*(ask(name, record.address) for name, record in live.items()))
        return {
            name: answer for name, answer in zip(live, found, strict=True) if answer is not None
        }

    def _server(self, name: str, partitions: int, answer: StatusReply | None) -> ServerStatus:
        state = self._state
        record = state.live().get(name)
        ring = state.ring.servers if state.ring else {}
        asked = state.weights.servers if state.weights else {}
        sectors = by_sector(ring.get(name) or asked.get(name) or self._limits.virtual_nodes)
        return ServerStatus(
            name=name,
            state=self._state_of(name, name in ring),
            address=record.address if record else "",
            incarnation=record.incarnation if record else "",
            virtual_nodes=sum(sectors),
            sectors=list(sectors),
            partitions=partitions,
            started_ms=record.started_ms if record else 0,
            answers=answer is not None,
            counters=answer.counters if answer is not None else {},
        )

    def _state_of(self, name: str, placed: bool) -> ServerState:
        record, leaving = self._state.live().get(name), self._state.leaving.get(leaving_path(name))
        if record is not None and not self._controller.detector.dead(record):
            if leaving is not None and leaving.kind == LeavingKind.DRAIN.value:
                return ServerState.DRAINING
            if leaving is not None and leaving.kind == LeavingKind.LEND.value:
                return ServerState.RESTARTING
            return ServerState.SERVING if placed else ServerState.JOINING
        if leaving is not None and leaving.kind != LeavingKind.DRAIN.value:
            return ServerState.RESTARTING
        return ServerState.GONE


def _check_nodes(name: str, nodes: Nodes) -> None:
    try:
        count = sum(by_sector(nodes))
    except (TypeError, ValueError) as error:
        raise BadRequest(f"weight of {name}: {error}") from error
    if count > NODES_MAX:
        raise BadRequest(f"weight of {name}: {count} virtual nodes, at most {NODES_MAX}")
