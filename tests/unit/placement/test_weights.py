"""Weights from past traffic."""

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.model.message import PartitionKey
from opentalos.placement.plan import plan
from opentalos.placement.ring import SECTORS, Ring, node_count, partition_key
from opentalos.placement.values import Candidate, Nodes, Policy, Situation
from opentalos.placement.weights import expected_traffic, propose, variance

KEYS = [PartitionKey(f"topic-{n // 10}", n % 10) for n in range(300)]
EQUAL: Mapping[str, Nodes] = {f"server-{number}": 64 for number in range(5)}


def zipf(seed: int) -> dict[PartitionKey, int]:
    ranks = list(range(1, len(KEYS) + 1))
    random.Random(seed).shuffle(ranks)
    return {key: 1_000_000 // rank for key, rank in zip(KEYS, ranks, strict=True)}


def owners(ring: Mapping[str, Nodes]) -> dict[PartitionKey, str]:
    found = Ring(ring)
    return {key: found.owner(partition_key(key)) for key in KEYS}


def loads(traffic: Mapping[PartitionKey, int], ring: Mapping[str, Nodes]) -> dict[str, int]:
    found = dict.fromkeys(sorted(ring), 0)
    for key, owner in owners(ring).items():
        found[owner] += traffic[key]
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_proposed_is_what_the_ring_does(seed: int) -> None:
    traffic = zipf(seed)
    proposal = propose(traffic, EQUAL, moves_max=12)
    before, after = owners(EQUAL), owners(proposal.weights)
    moved = {key: (before[key], after[key]) for key in KEYS if before[key] != after[key]}
    assert proposal.moves == moved
    assert 0 < len(moved) <= 12
    assert proposal.loads_before == loads(traffic, EQUAL)
    assert proposal.loads_after == loads(traffic, proposal.weights)
    assert variance(proposal.loads_after) < 0.7 * variance(proposal.loads_before)


def test_a_few_days_take_most_of_the_variance_away() -> None:
    traffic, ring = zipf(3), EQUAL
    plain = variance(loads(traffic, ring))
    for _ in range(6):
        proposal = propose(traffic, ring, moves_max=6)
        assert len(proposal.moves) <= 6
        ring = proposal.weights
    # One partition has more than a server's share, so the rest is what nothing can spread.
    heaviest, total = max(traffic.values()), sum(traffic.values())
    others = [(total - heaviest) / 4] * 4 if heaviest > total / 5 else [total / 5] * 5
    least = variance({str(n): load for n, load in enumerate([*others, heaviest][:5])})
    assert variance(loads(traffic, ring)) < 0.1 * plain + least


def test_the_plan_carries_a_proposal_out_exactly() -> None:
    candidates = {name: Candidate(name=name, alive=True, since_s=0.0) for name in EQUAL}
    proposal = propose(zipf(4), EQUAL, moves_max=20)
    now = plan(
        Situation(
            now_s=100.0,
            candidates=candidates,
            partitions=KEYS,
            owners=owners(EQUAL),
            ring=EQUAL,
            weights=proposal.weights,
        ),
        Policy(virtual_nodes=64),
    )
    assert now.owners == owners(proposal.weights)
    assert set(now.moved_from) == set(proposal.moves)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 1000), min_size=40, max_size=40),
    st.integers(0, 10),
    st.integers(1, 4),
)
def test_no_proposal_is_worse_or_dearer_than_allowed(
    amounts: list[int], moves_max: int, servers: int
) -> None:
    traffic = dict(zip(KEYS, amounts, strict=False))
    ring = {f"s{number}": 40 for number in range(servers)}
    proposal = propose(traffic, ring, moves_max)
    assert len(proposal.moves) <= moves_max
    assert variance(proposal.loads_after) <= variance(proposal.loads_before)
    assert all(len(counts) == SECTORS and any(counts) for counts in proposal.weights.values())
    assert sum(proposal.loads_after.values()) == sum(amounts)


def test_even_traffic_or_no_budget_changes_nothing() -> None:
    for traffic, moves_max in ((dict.fromkeys(KEYS, 0), 10), (zipf(5), 0)):
        proposal = propose(traffic, EQUAL, moves_max)
        assert not proposal.moves
        assert sum(map(node_count, proposal.weights.values())) == 5 * 64


def test_the_latest_day_counts_most_and_a_new_partition_counts_at_once() -> None:
    first, second = KEYS[:2]
    expected = expected_traffic([{first: 100}, {first: 0, second: 50}])
    assert expected == {first: 30, second: 35}
    assert expected_traffic([]) == {}
