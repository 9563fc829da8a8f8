"""ClusterService: what an operator sees of a cluster, and may ask of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from opentalos.broker.cluster.controller import Controller
from opentalos.broker.cluster.publication import Move
from opentalos.broker.cluster.state import ClusterState
from opentalos.broker.context import BrokerContext
from opentalos.model.identity import Principal
from opentalos.ports.peers import Peers


class ServerState(Enum):
    """State of a server, as an operator sees it."""

    SERVING = "serving"
    JOINING = "joining"  # registered, not yet stable
    DRAINING = "draining"
    RESTARTING = "restarting"  # absent; its partitions wait for it
    GONE = "gone"  # absent; its partitions are being taken over


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """One server. ``answers`` tells whether it was reached; if not, its counters are empty."""

    name: str
    state: ServerState
    address: str = ""
    incarnation: str = ""
    virtual_nodes: int = 0
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
    recent: Sequence[Move]  # of the leader's memory, latest last


class ClusterService:
    """Use cases of service administrators; every one raises PermissionDenied to others."""

    def __init__(
        self, context: BrokerContext, state: ClusterState, controller: Controller, peers: Peers
    ) -> None:
        self._context, self._state = context, state
        self._controller, self._peers = controller, peers

    async def status(self, caller: Principal) -> ClusterStatus:
        """Everything that is known; servers that do not answer in time have no counters."""
        raise NotImplementedError

    async def drain(self, caller: Principal, server: str) -> None:
        """Empty a server: its partitions move while it serves. Raises: BadRequest: unknown."""

    async def undrain(self, caller: Principal, server: str) -> None:
        """Let a server have partitions again. Raises: BadRequest: it is not being drained."""

    async def set_weights(self, caller: Principal, weights: Mapping[str, int]) -> None:
        """Set virtual nodes by server; one that is left out has the configured number.

        Raises: BadRequest.
        """

    async def answer_status(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The peer call "status": this server's counters and, at the leader, recent moves."""
        return {}
