"""Clusters for tests of placement: servers, topics, and plans published until nothing changes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from opentalos.model.message import PartitionKey
from opentalos.placement.plan import plan
from opentalos.placement.values import Candidate, Nodes, Policy, Situation

FREE = Policy(stable_after_s=10.0, virtual_nodes=32, moves_at_once=1 << 30)
NOW_S = 1_000.0
PLANS_MAX = 200


def member(name: str, *, alive: bool = True, draining: bool = False) -> Candidate:
    """A server that has been there for long."""
    return Candidate(name=name, alive=alive, since_s=0.0, draining=draining)


def cluster(
    servers: int | Sequence[str],
    sizes: Sequence[int],
    weights: Mapping[str, Nodes] | None = None,
    policy: Policy = FREE,
) -> Situation:
    """A settled cluster with a topic of each size."""
    names = [f"s{number}" for number in range(servers)] if isinstance(servers, int) else servers
    found = Situation(
        now_s=NOW_S,
        candidates={name: member(name) for name in names},
        partitions=[
            PartitionKey(f"topic-{topic}", number)
            for topic, size in enumerate(sizes)
            for number in range(size)
        ],
        owners={},
        weights=weights or {},
    )
    return settled(found, policy)


def changed(before: Situation, *servers: Candidate, policy: Policy = FREE) -> Situation:
    """The settled cluster after these servers came, went or are to be emptied."""
    candidates = {**before.candidates, **{server.name: server for server in servers}}
    return settled(replace(before, candidates=candidates), policy)


def settled(before: Situation, policy: Policy = FREE) -> Situation:
    """Publish plans until nothing changes; each move ends before the next plan."""
    for _ in range(PLANS_MAX):
        now = plan(before, policy)
        after = replace(before, owners=now.owners, ring=now.ring, moved_from={})
        if (after.owners, after.ring) == (before.owners, before.ring):
            return after
        before = after
    raise AssertionError("it never settles")


def by_topic(found: Situation) -> Mapping[str, Counter[str]]:
    """How many partitions of each topic each server has."""
    counts: dict[str, Counter[str]] = {}
    for key, owner in found.owners.items():
        counts.setdefault(key.topic_uuid, Counter())[owner] += 1
    return counts


def moved(before: Situation, after: Situation) -> list[PartitionKey]:
    """The partitions with another owner."""
    return [key for key in before.partitions if before.owners[key] != after.owners[key]]
