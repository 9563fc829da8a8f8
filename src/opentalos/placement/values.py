"""What placement decides on and what it decides: frozen values, pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from opentalos.model.message import PartitionKey

# A server's virtual nodes: by sector of the ring, or one number, spread evenly.
Nodes = int | Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One server as the controller sees it; times are on the controller's loop clock.

    ``alive``: it is registered and its port does not refuse. ``since_s``: when it was first seen in
    this incarnation. ``reserved_until_s``: an absent server with an announced restart keeps its
    partitions until then. ``draining``: it serves, but is to be emptied. ``lending``: it restarts,
    and others serve its partitions until it is back; reserved is then its right to them.
    """

    name: str
    alive: bool
    since_s: float
    reserved_until_s: float = float("-inf")
    draining: bool = False
    lending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Bounds of one plan. Source: docs/reference/configuration.md#cluster."""

    stable_after_s: float = 10.0
    virtual_nodes: int = 128
    moves_at_once: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a plan starts from.

    ``owners`` is what was published; a partition that no server serves is absent or has "".
    ``moved_from``: planned moves under way, from partition to the server that still serves it.
    ``ring``: the servers that took part until now; one of them that came back at once is no
    joiner. ``weights``: virtual nodes that were asked for, by server. ``lent``: partitions that
    another server serves until the one named, which restarts, takes them back.
    """

    now_s: float
    candidates: Mapping[str, Candidate]
    partitions: Sequence[PartitionKey]
    owners: Mapping[PartitionKey, str]
    moved_from: Mapping[PartitionKey, str] = field(default_factory=dict)
    ring: Mapping[str, Nodes] = field(default_factory=dict)
    weights: Mapping[str, Nodes] = field(default_factory=dict)
    lent: Mapping[PartitionKey, str] = field(default_factory=dict)

    def leaves(self, server: str) -> bool:
        """Whether a server serves and is to give everything away, for good or for a while."""
        candidate = self.candidates[server]
        return candidate.draining or candidate.lending


class Assignment(NamedTuple):
    """Server by partition, and the ring (virtual nodes by server) that it follows.

    ``moved_from``: partitions of a planned move with the living server that serves them until it
    has sealed. ``waiting``: partitions whose planned move waits for others to end.
    ``next_look_s``: loop time at which the plan may change by itself (a reservation ends, a
    joining server becomes stable); ``inf``: never. ``lent``: as in Situation, from now on.
    """

    owners: Mapping[PartitionKey, str]
    ring: Mapping[str, Nodes]
    moved_from: Mapping[PartitionKey, str] = MappingProxyType({})
    waiting: int = 0
    next_look_s: float = float("inf")
    lent: Mapping[PartitionKey, str] = MappingProxyType({})
