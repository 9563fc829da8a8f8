"""Every topic is spread over the servers, and few partitions move for it."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.placement.clusters import FREE, by_topic, changed, cluster, member, moved, settled

from opentalos.model.message import PartitionKey
from opentalos.placement.plan import plan
from opentalos.placement.ring import SECTORS, node_count
from opentalos.placement.spread import Share, Spread, shares
from opentalos.placement.values import Situation

some = settings(max_examples=40, deadline=None)
servers = st.integers(1, 9)
topics = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def excess(found: Situation) -> int:
    """By how many partitions the worst server is above its bound of a topic; at most 0 is right."""
    nodes = {name: node_count(own) for name, own in found.ring.items()}
    total = sum(nodes.values())
    return max(
        count - ceil(1.25 * counts.total() * nodes[name] / total - 1e-9)
        for counts in by_topic(found).values()
        for name, count in counts.items()
    )


# --- examples -------------------------------------------------------------------------------------


def test_no_topic_of_many_leaves_a_server_out() -> None:
    """The ring alone left one of three servers without any of 12 partitions in 2.9 % of topics."""
    counts = by_topic(cluster(3, [12] * 1_000))
    assert {len(found) for found in counts.values()} == {3}
    assert max(max(found.values()) for found in counts.values()) <= 5


def test_a_new_topic_is_spread_evenly() -> None:
    spread = [sorted(counts.values()) for counts in by_topic(cluster(3, [12, 3, 256])).values()]
    assert spread[:2] == [[4, 4, 4], [1, 1, 1]]
    assert spread[2][-1] == 86


def test_a_server_of_twice_the_weight_may_have_twice_as_many() -> None:
    assert shares(12, {"a": 64, "b": 32, "c": 32}) == {
        "a": Share(fair=6, most=8), "b": Share(fair=3, most=4), "c": Share(fair=3, most=4),
    }  # fmt: skip


def test_a_light_weight_by_traffic_does_not_lower_the_share() -> None:
    """It was chosen by what its partitions carry, so the server may have as many as others."""
    light, heavy = [1] * SECTORS, [3] * SECTORS
    found = shares(10, {"light": light, "heavy": heavy})
    assert found == {"light": Share(fair=5, most=7), "heavy": Share(fair=8, most=10)}


def test_a_server_that_is_no_taker_has_no_room() -> None:
    keys = [PartitionKey("t", number) for number in range(4)]
    spread = Spread(keys, {"a": 1, "b": 1})
    spread.add(keys[0], "gone")
    spread.move(keys[0], "gone", "a")
    assert (spread.room(keys[0], "a"), spread.room(keys[0], "b")) == (2, 3)
    assert (spread.count(keys[0], "gone"), spread.room(keys[0], "gone")) == (0, 0)


def test_a_cluster_placed_by_the_ring_alone_is_thinned_out_at_once_and_then_rests() -> None:
    """What a server of an older version published: a topic may be anywhere."""
    found = cluster(3, [12] * 4)
    crowded = replace(found, owners=dict.fromkeys(found.partitions, "s0"))
    after = settled(crowded)
    assert excess(after) == 0
    assert all(max(counts.values()) == 5 for counts in by_topic(after).values())


def test_moves_of_a_crowded_topic_are_planned_and_bounded() -> None:
    found = cluster(3, [12])
    crowded = replace(found, owners=dict.fromkeys(found.partitions, "s0"))
    first = plan(crowded, replace(FREE, moves_at_once=2))
    assert len(first.moved_from) == 2
    assert (set(first.moved_from.values()), first.waiting) == ({"s0"}, 5)


def test_a_join_in_small_steps_ends_as_in_one() -> None:
    """The ring that is published stays the former one until all moves for a new one have begun."""
    before = cluster(4, [10] * 10)
    once = changed(before, member("new"))
    few = replace(FREE, moves_at_once=3)
    joined = replace(before, candidates={**before.candidates, "new": member("new")})
    assert plan(joined, few).ring == before.ring
    slowly = settled(joined, few)
    assert slowly.ring == once.ring
    assert by_topic(slowly).keys() == by_topic(once).keys()
    assert len(moved(before, slowly)) <= ceil(1.2 * 100 / 5)


# --- properties -----------------------------------------------------------------------------------


@some
@given(servers, topics)
def test_a_fresh_cluster_is_within_the_bounds_and_rests(count: int, sizes: Sequence[int]) -> None:
    found = cluster(count, sizes)
    assert excess(found) <= 0
    assert plan(found, FREE).owners == found.owners
    assert plan(replace(found, owners={}), FREE).owners == found.owners


@some
@given(st.lists(st.integers(8, 64), min_size=1, max_size=7), topics)
def test_weights_bound_in_proportion(nodes: Sequence[int], sizes: Sequence[int]) -> None:
    weights = {f"s{number}": own for number, own in enumerate(nodes)}
    assert excess(cluster(len(nodes), sizes, weights)) <= 0


@some
@given(servers, topics)
def test_a_join_moves_at_most_a_fifth_more_than_the_ideal(count: int, sizes: Sequence[int]) -> None:
    before = cluster(count, sizes)
    after = changed(before, member("new"))
    assert excess(after) <= 0
    assert len(moved(before, after)) <= ceil(1.2 * sum(sizes) / (count + 1))


@some
@given(st.integers(2, 9), topics, st.booleans())
def test_a_leave_moves_only_what_the_server_had(
    count: int, sizes: Sequence[int], drained: bool
) -> None:
    before = cluster(count, sizes)
    gone = member("s0", draining=True) if drained else member("s0", alive=False)
    after = changed(before, gone)
    assert excess(after) <= 0
    assert all(before.owners[key] == "s0" for key in moved(before, after))
    assert "s0" not in after.owners.values()


@settings(max_examples=20, deadline=None)
@given(
    topics,
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 8),
)
def test_the_bounds_hold_after_any_history(
    sizes: Sequence[int], history: Sequence[tuple[str, bool]], at_once: int
) -> None:
    """Servers come and go in any order, in plans of few moves; somebody is always there."""
    policy = replace(FREE, moves_at_once=at_once)
    found = cluster(["always"], sizes, policy=policy)
    for name, alive in history:
        found = changed(found, member(name, alive=alive), policy=policy)
        assert excess(found) <= 0


@pytest.mark.parametrize("size", [1, 4, 5, 7, 12, 256])
def test_sizes_at_which_the_bound_steps_move_no_more(size: int) -> None:
    """4 partitions: two a server on four servers, but one on five."""
    sizes, count = [size] * (2_000 // size), 3
    found = cluster(count, sizes)
    for number in range(8):
        before, count = found, count + 1
        found = changed(before, member(f"n{number}"))
        assert excess(found) <= 0
        assert len(moved(before, found)) <= ceil(1.2 * len(found.partitions) / count)
