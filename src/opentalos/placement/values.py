"""What placement decides on and what it decides: frozen values, pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from opentalos.model.message import PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One server as the controller sees it; times are on the controller's loop clock.

    ``alive``: it is registered and its port does not refuse. ``since_s``: when it was first seen in
    this incarnation. ``reserved_until_s``: an absent server with an announced restart keeps its
    partitions until then. ``draining``: it serves, but is to be emptied.
    """

    name: str
    alive: bool
    since_s: float
    reserved_until_s: float = float("-inf")
    draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Bounds of one plan. Source: [cluster] of the configuration."""

    stable_after_s: float = 10.0
    virtual_nodes: int = 128
    moves_at_once: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Server by partition, and the ring (virtual nodes by server) that it follows.

    ``moved_from``: partitions of a planned move with the living server that serves them until it
    has sealed. ``next_look_s``: loop time at which the plan may change by itself (a reservation
    ends, a joining server becomes stable); ``inf``: never.
    """

    owners: Mapping[PartitionKey, str]
    ring: Mapping[str, int]
    moved_from: Mapping[PartitionKey, str] = field(default_factory=dict)
    next_look_s: float = float("inf")
