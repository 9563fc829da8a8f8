"""plan: the next assignment, from the candidates and the current assignment. Pure, deterministic.

The controller calls it whenever members, weights or topics change. An assignment never gives the
right to write (promise I2).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from math import ceil
from typing import NamedTuple

from opentalos.model.message import PartitionKey
from opentalos.placement.ring import Ring, node_count, partition_key
from opentalos.placement.values import Assignment, Candidate, Nodes, Policy, Situation

NEVER_S = float("inf")
# A planned move fills no server above so many times its share, which bounds what a join moves;
# the ring alone deviates by 10 % (128 nodes, 200 partitions per server). Where
# a weight was asked for, the ring is followed exactly: the weight was chosen by what it moves.
OVERFILL = 1.15


class _Servers(NamedTuple):
    """``ring``: members of the ring. ``keep``: may keep partitions. ``take``: may get more."""

    ring: Sequence[str]
    keep: Set[str]
    take: Set[str]


def plan(situation: Situation, policy: Policy) -> Assignment:
    """The next assignment; with no server alive or reserved, no partition has an owner.

    A partition stays where it is unless its server is gone (it moves at once) or the ring names
    another living one (it moves when fewer than ``moves_at_once`` are under way). So a crash moves
    only what the dead server had, and a restart in time moves nothing.
    """
    servers = _sort_servers(situation, policy)
    next_look_s = _next_look_s(situation, policy)
    if not servers.ring:
        owners = dict.fromkeys(situation.partitions, "")
        return Assignment(owners, {}, next_look_s=next_look_s)
    nodes = {name: _nodes(name, situation, policy) for name in situation.candidates}
    ring_nodes = {name: nodes[name] for name in servers.ring}
    ring = Ring(ring_nodes)
    takers = {name: nodes[name] for name in sorted(servers.take)} or ring_nodes
    spare = ring if takers == ring_nodes else Ring(takers)
    homes = {key: ring.owner(partition_key(key)) for key in situation.partitions}
    owners = {}
    for key, home in homes.items():
        owner = situation.owners.get(key, "")
        if owner not in servers.keep:
            owner = home if home in servers.take else spare.owner(partition_key(key))
        owners[key] = owner
    moving = dict(_still_moving(situation, owners))
    wishes = [
        key
        for key, home in homes.items()
        if owners[key] != home and home in servers.take and situation.candidates[owners[key]].alive
    ]
    # Partitions of a draining server move first: an operator waits for it to be empty.
    wishes.sort(key=lambda key: not situation.candidates[owners[key]].draining)
    room = _room(owners, ring_nodes)
    bounded = servers.take - situation.weights.keys()
    waiting = 0
    for key in wishes:
        source, home = owners[key], homes[key]
        if room[home] <= 0 and home in bounded and not situation.candidates[source].draining:
            continue
        if key in moving or len(moving) >= policy.moves_at_once:
            waiting += 1
            continue
        moving[key], owners[key] = source, home
        room[home] -= 1
        room[source] += 1
    return Assignment(owners, ring_nodes, moving, waiting, next_look_s)


def full_at(partitions: int, nodes: Mapping[str, Nodes]) -> Mapping[str, int]:
    """How many partitions planned moves leave on each server of a ring, at most."""
    all_nodes = sum(map(node_count, nodes.values()))
    return {
        name: ceil(OVERFILL * partitions * max(node_count(own) / all_nodes, 1 / len(nodes)))
        for name, own in nodes.items()
    }


def _room(owners: Mapping[PartitionKey, str], nodes: Mapping[str, Nodes]) -> Counter[str]:
    room = Counter(full_at(len(owners), nodes))
    room.subtract(owners.values())
    return room


def _sort_servers(situation: Situation, policy: Policy) -> _Servers:
    candidates = situation.candidates.values()
    alive = [server for server in candidates if server.alive]
    ready = [server for server in alive if not server.draining]
    settled = [server.name for server in ready if _settled(server, situation, policy)]
    reserved = [server.name for server in candidates if _reserved(server, situation)]
    # A server that is not yet stable, or is draining, serves if there is no other.
    take = settled or [server.name for server in ready or alive]
    placed = [name for name in reserved if name in situation.ring]
    return _Servers(
        ring=sorted({*settled, *placed}) or sorted(take) or sorted(reserved),
        keep={*reserved, *(server.name for server in alive)},
        take=set(take),
    )


def _settled(candidate: Candidate, situation: Situation, policy: Policy) -> bool:
    stable_s = candidate.since_s + policy.stable_after_s
    return candidate.name in situation.ring or situation.now_s >= stable_s


def _reserved(candidate: Candidate, situation: Situation) -> bool:
    return not candidate.alive and situation.now_s < candidate.reserved_until_s


def _nodes(name: str, situation: Situation, policy: Policy) -> Nodes:
    return situation.weights.get(name, policy.virtual_nodes)


def _still_moving(
    situation: Situation, owners: Mapping[PartitionKey, str]
) -> Iterator[tuple[PartitionKey, str]]:
    """Moves under way whose new owner is the same and whose former one can still seal."""
    for key, source in situation.moved_from.items():
        former = situation.candidates.get(source)
        same = key in owners and owners[key] == situation.owners.get(key) != source
        if same and former is not None and former.alive:
            yield key, source


def _next_look_s(situation: Situation, policy: Policy) -> float:
    times_s = [NEVER_S]
    for server in situation.candidates.values():
        if server.alive and not _settled(server, situation, policy):
            times_s.append(server.since_s + policy.stable_after_s)
        elif _reserved(server, situation):
            times_s.append(server.reserved_until_s)
    return min(times_s)
