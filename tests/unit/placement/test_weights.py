"""Weights from past traffic."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.model.message import PartitionKey
from opentalos.placement.plan import plan
from opentalos.placement.ring import SECTORS, node_count
from opentalos.placement.values import Candidate, Nodes, Policy, Situation
from opentalos.placement.weights import expected_traffic, propose, variance

KEYS = [PartitionKey(f"topic-{n // 10}", n % 10) for n in range(300)]
POLICY = Policy(virtual_nodes=64, moves_at_once=1_000)
EQUAL: Mapping[str, Nodes] = {f"server-{number}": 64 for number in range(5)}


def zipf(seed: int) -> dict[PartitionKey, int]:
    ranks = list(range(1, len(KEYS) + 1))
    random.Random(seed).shuffle(ranks)
    return {key: 1_000_000 // rank for key, rank in zip(KEYS, ranks, strict=True)}


def loads(traffic: Mapping[PartitionKey, int], found: Mapping[PartitionKey, str]) -> dict[str, int]:
    by_server = dict.fromkeys(sorted({*found.values()}), 0)
    for key, owner in found.items():
        by_server[owner] += traffic[key]
    return by_server


def situation(ring: Mapping[str, Nodes], found: Mapping[PartitionKey, str]) -> Situation:
    candidates = {name: Candidate(name=name, alive=True, since_s=0.0) for name in ring}
    return Situation(now_s=100.0, candidates=candidates, partitions=KEYS, owners=found, ring=ring)


def placed(ring: Mapping[str, Nodes]) -> Mapping[PartitionKey, str]:
    """Where the plan places the partitions of new topics."""
    return plan(situation(ring, {}), POLICY).owners


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_proposed_is_what_the_plan_does(seed: int) -> None:
    traffic, before = zipf(seed), placed(EQUAL)
    proposal = propose(traffic, EQUAL, before, moves_max=12)
    now = plan(replace(situation(EQUAL, before), weights=proposal.weights), POLICY)
    moved = {key: (before[key], now.owners[key]) for key in KEYS if before[key] != now.owners[key]}
    assert proposal.moves == moved
    assert set(now.moved_from) == set(moved)
    assert 0 < len(moved) <= 12
    assert proposal.loads_before == loads(traffic, before)
    assert proposal.loads_after == loads(traffic, now.owners)
    assert variance(proposal.loads_after) < 0.7 * variance(proposal.loads_before)


def test_a_few_days_take_most_of_the_variance_away() -> None:
    traffic, ring, now = zipf(3), EQUAL, placed(EQUAL)
    plain = variance(loads(traffic, now))
    for _ in range(6):
        proposal = propose(traffic, ring, now, moves_max=6)
        assert len(proposal.moves) <= 6
        now = {**now, **{key: target for key, (_, target) in proposal.moves.items()}}
        ring = proposal.weights
    # One partition has more than a server's share, so the rest is what nothing can spread.
    heaviest, total = max(traffic.values()), sum(traffic.values())
    others = [(total - heaviest) / 4] * 4 if heaviest > total / 5 else [total / 5] * 5
    least = variance({str(n): load for n, load in enumerate([*others, heaviest][:5])})
    assert variance(loads(traffic, now)) < 0.1 * plain + least


def test_no_proposal_fills_a_server_with_one_topic() -> None:
    """All traffic is one topic's, on two of five servers; each may have three of its ten."""
    hot = [key for key in KEYS if key.topic_uuid == "topic-7"]
    proposal = propose(dict.fromkeys(KEYS, 0) | dict.fromkeys(hot, 9), EQUAL, placed(EQUAL), 300)
    now = {key: target for key, (_, target) in proposal.moves.items()}
    counts = Counter((key.topic_uuid, {**placed(EQUAL), **now}[key]) for key in KEYS)
    assert max(counts.values()) <= 3


def test_partitions_of_a_server_that_is_away_count_for_nobody() -> None:
    found = dict(placed(EQUAL)) | {KEYS[0]: "away", KEYS[1]: ""}
    proposal = propose(zipf(4), EQUAL, found, moves_max=20)
    assert sum(proposal.loads_before.values()) == sum(
        load for key, load in zipf(4).items() if key not in KEYS[:2]
    )
    assert "away" not in proposal.loads_after


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
    proposal = propose(traffic, ring, placed(ring), moves_max)
    assert len(proposal.moves) <= moves_max
    assert variance(proposal.loads_after) <= variance(proposal.loads_before)
    assert all(len(counts) == SECTORS and any(counts) for counts in proposal.weights.values())
    assert sum(proposal.loads_after.values()) == sum(amounts)


@pytest.mark.parametrize(
    ("moves_max", "amounts"),
    [
        (5, [789, 619, 182, 147, 761, 30, 860, 454, 103, 132, 51, 316, 760, 867, 377, 676, 999, 816,
             793, 945, 383, 520, 158, 405, 625, 175, 603, 201, 161, 794, 859, 449, 301, 559, 601,
             389, 563, 689, 420, 13]),
        (7, [371, 928, 903, 886, 773, 781, 706, 193, 515, 727, 507, 846, 9, 27, 498, 737, 366, 917,
             863, 425, 898, 422, 113, 164, 406, 37, 593, 38, 411, 613, 471, 330, 270, 220, 589, 611,
             442, 524, 828, 182]),
    ],
)  # fmt: skip
def test_a_change_whose_moves_make_it_worse_is_taken_back(
    moves_max: int, amounts: list[int]
) -> None:
    """The plan moves other partitions than the search of weights expects."""
    ring = {f"s{number}": 40 for number in range(4)}
    proposal = propose(dict(zip(KEYS, amounts, strict=False)), ring, placed(ring), moves_max)
    assert variance(proposal.loads_after) <= variance(proposal.loads_before)


def test_even_traffic_or_no_budget_changes_nothing() -> None:
    for traffic, moves_max in ((dict.fromkeys(KEYS, 0), 10), (zipf(5), 0)):
        proposal = propose(traffic, EQUAL, placed(EQUAL), moves_max)
        assert not proposal.moves
        assert sum(map(node_count, proposal.weights.values())) == 5 * 64


def test_the_latest_day_counts_most_and_a_new_partition_counts_at_once() -> None:
    first, second = KEYS[:2]
    expected = expected_traffic([{first: 100}, {first: 0, second: 50}])
    assert expected == {first: 30, second: 35}
    assert expected_traffic([]) == {}
