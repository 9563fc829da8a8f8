"""Who serves what: the plan of the controller."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.model.message import PartitionKey
from opentalos.placement.plan import plan
from opentalos.placement.ring import Ring, partition_key
from opentalos.placement.values import Assignment, Candidate, Policy, Situation

POLICY = Policy(stable_after_s=10.0, virtual_nodes=32, moves_at_once=8)
FREE = replace(POLICY, moves_at_once=100_000)
NOW_S = 1_000.0
LONG_AGO_S = 0.0
PARTITIONS = [PartitionKey(f"topic-{n % 10}", n // 10) for n in range(200)]


def server(name: str, *, alive: bool = True, since_s: float = LONG_AGO_S) -> Candidate:
    return Candidate(name=name, alive=alive, since_s=since_s)


def reserved(name: str, until_s: float) -> Candidate:
    return Candidate(name=name, alive=False, since_s=LONG_AGO_S, reserved_until_s=until_s)


def draining(name: str) -> Candidate:
    return Candidate(name=name, alive=True, since_s=LONG_AGO_S, draining=True)


def lending(name: str) -> Candidate:
    return Candidate(name=name, alive=True, since_s=LONG_AGO_S, lending=True)


def situation(*candidates: Candidate, now_s: float = NOW_S) -> Situation:
    named = {candidate.name: candidate for candidate in candidates}
    return Situation(now_s=now_s, candidates=named, partitions=PARTITIONS, owners={})


def after(before: Situation, published: Assignment) -> Situation:
    """What the controller sees once an assignment is published."""
    return replace(
        before,
        owners=published.owners,
        moved_from=published.moved_from,
        ring=published.ring,
        lent=published.lent,
    )


def settle(before: Situation, policy: Policy = POLICY) -> Situation:
    """Publish until nothing changes; each move under way ends before the next look."""
    for _ in range(2 * len(before.partitions)):
        now = after(before, plan(before, policy))
        if now.owners == before.owners and not now.moved_from:
            return now
        before = replace(now, moved_from={})
    raise AssertionError("it never settles")


def with_servers(before: Situation, *candidates: Candidate) -> Situation:
    return replace(before, candidates={**before.candidates, **{c.name: c for c in candidates}})


def moved(before: Situation, now: Assignment) -> list[PartitionKey]:
    return [key for key in before.partitions if before.owners[key] != now.owners[key]]


def topic_and_owner(owners: Mapping[PartitionKey, str]) -> Iterator[tuple[str, str]]:
    return ((key.topic_uuid, owner) for key, owner in owners.items())


THREE = settle(situation(server("a"), server("b"), server("c")))


# --- examples -------------------------------------------------------------------------------------


def test_a_fresh_cluster_starts_at_once() -> None:
    """No server is stable yet; waiting would leave all partitions unserved."""
    first = plan(situation(server("a", since_s=NOW_S), server("b", since_s=NOW_S)), POLICY)
    assert set(first.owners.values()) == {"a", "b"}
    assert not first.moved_from


def test_without_servers_nothing_has_an_owner() -> None:
    unserved = plan(with_servers(THREE, *(server(name, alive=False) for name in "abc")), POLICY)
    assert set(unserved.owners.values()) == {""}
    assert unserved.ring == {}


def test_a_crash_moves_only_what_the_dead_server_had_and_at_once() -> None:
    crash = plan(with_servers(THREE, server("b", alive=False)), POLICY)
    mine = {key for key, owner in THREE.owners.items() if owner == "b"}
    assert set(moved(THREE, crash)) == mine
    assert len(mine) > POLICY.moves_at_once
    assert not crash.moved_from
    ring, has = Ring(crash.ring), Counter(topic_and_owner(crash.owners))
    for key in mine:
        home = ring.owner(partition_key(key))
        assert crash.owners[key] == home or has[key.topic_uuid, home] >= 20 / 2


def test_an_announced_restart_moves_nothing_until_its_time_is_up() -> None:
    away = with_servers(THREE, reserved("b", NOW_S + 20))
    waiting = plan(away, POLICY)
    assert waiting.owners == THREE.owners
    assert waiting.ring == THREE.ring
    assert waiting.next_look_s == NOW_S + 20
    late = plan(replace(away, now_s=waiting.next_look_s), POLICY)
    assert "b" not in late.owners.values()
    assert "b" not in late.ring


def test_a_server_back_in_time_keeps_exactly_its_own() -> None:
    """Its new incarnation is not stable yet, but it never left the ring."""
    away = with_servers(THREE, reserved("b", NOW_S + 20))
    away = after(away, plan(away, POLICY))
    back = plan(with_servers(away, server("b", since_s=NOW_S)), POLICY)
    assert back.owners == THREE.owners
    assert not back.moved_from


def test_a_new_topic_does_not_wait_for_a_server_that_is_away() -> None:
    away = with_servers(THREE, reserved("b", NOW_S + 20))
    new = [PartitionKey("new", number) for number in range(30)]
    now = plan(replace(away, partitions=[*PARTITIONS, *new]), POLICY)
    assert {now.owners[key] for key in new} == {"a", "c"}


def test_a_joining_server_gets_partitions_only_when_stable() -> None:
    joined = with_servers(THREE, server("d", since_s=NOW_S))
    early = plan(joined, POLICY)
    assert early.owners == THREE.owners
    assert "d" not in early.ring
    assert early.next_look_s == NOW_S + POLICY.stable_after_s
    stable = plan(replace(joined, now_s=early.next_look_s), FREE)
    assert {stable.owners[key] for key in moved(THREE, stable)} == {"d"}
    assert moved(THREE, stable)


def test_a_join_goes_on_though_its_beginning_was_not_seen() -> None:
    """Another controller took over, or the server registered again: it is not stable for them."""
    joined = with_servers(THREE, server("d"))
    first = plan(joined, POLICY)
    assert first.waiting
    assert "d" not in first.ring
    begun = with_servers(after(joined, first), server("d", since_s=NOW_S))
    assert plan(begun, POLICY) == first
    assert settle(begun).owners == settle(joined).owners


@pytest.mark.parametrize("restart", [reserved("d", NOW_S + 20), lending("d")])
def test_a_server_that_restarts_while_it_joins_goes_on_joining(restart: Candidate) -> None:
    joined = with_servers(THREE, server("d"))
    first = plan(joined, POLICY)
    mine = {key for key, owner in first.owners.items() if owner == "d"}
    away = settle(with_servers(replace(after(joined, first), moved_from={}), restart))
    assert away.lent == (dict.fromkeys(mine, "d") if restart.lending else {})
    back = plan(with_servers(away, server("d", since_s=NOW_S)), FREE)
    assert mine <= {key for key, owner in back.owners.items() if owner == "d"}


def test_a_crashed_server_that_returns_is_a_joiner() -> None:
    crashed = with_servers(THREE, server("b", alive=False))
    crashed = after(crashed, plan(crashed, POLICY))
    back = plan(with_servers(crashed, server("b", since_s=NOW_S)), POLICY)
    assert "b" not in back.owners.values()


def test_an_unobserved_crash_moves_nothing() -> None:
    """The new incarnation is there before the absence of the old one was noticed."""
    assert plan(with_servers(THREE, server("b", since_s=NOW_S)), POLICY).owners == THREE.owners


def test_planned_moves_are_bounded_and_name_their_source() -> None:
    joined = with_servers(THREE, server("d"))
    first = plan(joined, POLICY)
    assert len(moved(THREE, first)) == len(first.moved_from) == POLICY.moves_at_once
    assert first.waiting > 0
    assert all(THREE.owners[key] == source for key, source in first.moved_from.items())
    assert plan(after(joined, first), POLICY).owners == first.owners


def test_a_move_under_way_ends_when_its_source_dies() -> None:
    joined = with_servers(THREE, server("d"))
    joined = after(joined, plan(joined, POLICY))
    source = next(iter(joined.moved_from.values()))
    now = plan(with_servers(joined, server(source, alive=False)), replace(POLICY, moves_at_once=1))
    assert source not in now.moved_from.values()


def test_a_draining_server_serves_until_moved_and_ends_empty() -> None:
    drain = with_servers(THREE, draining("b"))
    first = plan(drain, POLICY)
    assert "b" in first.owners.values()
    assert "b" not in first.ring
    assert set(first.moved_from.values()) == {"b"}
    assert "b" not in settle(drain).owners.values()


def test_what_leaves_a_draining_server_goes_first() -> None:
    both = with_servers(THREE, server("d"), draining("b"))
    assert set(plan(both, POLICY).moved_from.values()) == {"b"}


def test_draining_every_server_moves_nothing() -> None:
    assert plan(with_servers(THREE, *map(draining, "abc")), POLICY).owners == THREE.owners


def test_a_new_partition_goes_to_its_place_and_moves_no_other() -> None:
    grown = replace(THREE, partitions=[*PARTITIONS, PartitionKey("topic-0", 20)])
    now = plan(grown, POLICY)
    assert {key: now.owners[key] for key in PARTITIONS} == THREE.owners
    assert now.owners[PartitionKey("topic-0", 20)] in "abc"


def test_partitions_that_are_gone_are_forgotten() -> None:
    now = plan(replace(THREE, partitions=PARTITIONS[:5]), POLICY)
    assert list(now.owners) == PARTITIONS[:5]


def test_weights_move_partitions_to_the_heavier_server() -> None:
    heavy = settle(replace(THREE, weights={"a": 128}))
    found, before = Counter(heavy.owners.values()), Counter(THREE.owners.values())
    assert found["a"] > 1.5 * before["a"]


def test_a_join_moves_a_fair_share_and_no_more() -> None:
    for number in range(20):
        names = [f"{number}-{place}" for place in range(5)]
        before = settle(situation(*map(server, names)), FREE)
        joined = plan(with_servers(before, server(f"{number}-new")), FREE)
        assert len(moved(before, joined)) <= len(PARTITIONS) / 6


# --- properties -----------------------------------------------------------------------------------

SOME = PARTITIONS[:24]
quick = settings(max_examples=40, deadline=None)
names = st.sampled_from(["a", "b", "c", "d", "e"])
candidates = st.dictionaries(
    names,
    st.builds(
        Candidate,
        name=st.just(""),
        alive=st.booleans(),
        since_s=st.sampled_from([LONG_AGO_S, NOW_S - 5, NOW_S]),
        reserved_until_s=st.sampled_from([float("-inf"), NOW_S, NOW_S + 7, NOW_S + 20]),
        draining=st.booleans(),
        lending=st.booleans(),
    ),
)
assignments = st.fixed_dictionaries({key: names | st.just("") for key in SOME})


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    found: Mapping[str, Candidate] = {
        name: replace(item, name=name) for name, item in draw(candidates).items()
    }
    owners = draw(assignments)
    moving = draw(st.dictionaries(st.sampled_from(SOME), names, max_size=6))
    return Situation(
        now_s=NOW_S,
        candidates=found,
        partitions=SOME,
        owners=owners,
        moved_from=moving,
        ring=draw(st.dictionaries(names, st.just(32))),
        weights=draw(st.dictionaries(names, st.integers(1, 64))),
        lent=draw(st.dictionaries(st.sampled_from(SOME), names, max_size=12)),
    )


def alive_in(found: Situation) -> set[str]:
    return {candidate.name for candidate in found.candidates.values() if candidate.alive}


@quick
@given(situations())
def test_every_partition_has_an_owner_if_anybody_is_alive(found: Situation) -> None:
    now = plan(found, POLICY)
    assert list(now.owners) == found.partitions
    if alive_in(found):
        assert "" not in now.owners.values()
        assert now.ring


@quick
@given(situations())
def test_no_dead_server_gets_a_partition(found: Situation) -> None:
    """Absent servers keep what was reserved for them; they get nothing new while one is alive."""
    now = plan(found, POLICY)
    alive = alive_in(found)
    absent = {
        candidate.name
        for candidate in found.candidates.values()
        if not candidate.alive and candidate.reserved_until_s > NOW_S
    }
    for key, owner in now.owners.items():
        assert owner in alive or owner in absent or not (alive or absent)
        if alive and owner not in alive:
            assert found.owners[key] == owner


@quick
@given(situations())
def test_only_a_dead_owner_or_a_planned_move_changes_a_partition(found: Situation) -> None:
    now = plan(found, POLICY)
    alive = alive_in(found)
    for key in moved(found, now):
        former = found.owners[key]
        assert now.moved_from.get(key) == former if former in alive else key not in now.moved_from


@quick
@given(situations())
def test_moves_under_way_stay_within_the_bound(found: Situation) -> None:
    now = plan(found, replace(POLICY, moves_at_once=3))
    assert len(now.moved_from) <= max(3, len(found.moved_from))
    assert all(now.owners[key] != source for key, source in now.moved_from.items())


@quick
@given(situations())
def test_a_plan_is_the_same_for_equal_situations(found: Situation) -> None:
    turned = replace(found, candidates=dict(reversed(list(found.candidates.items()))))
    assert plan(turned, POLICY) == plan(found, POLICY)


@quick
@given(situations())
def test_it_settles_and_reservations_end(found: Situation) -> None:
    """Later, with nothing else happening, only living servers have partitions."""
    settle(found)
    stopped = {
        name: replace(candidate, lending=candidate.lending and not candidate.alive)
        for name, candidate in found.candidates.items()
    }
    done = settle(replace(found, now_s=NOW_S + 1_000, candidates=stopped))
    assert not done.lent
    alive = alive_in(found)
    assert set(done.owners.values()) <= (alive or {""})
    if any(not candidate.draining for candidate in found.candidates.values() if candidate.alive):
        assert not any(done.candidates[owner].draining for owner in done.owners.values())


@quick
@given(situations())
def test_the_next_check_is_in_the_future_and_changes_something(found: Situation) -> None:
    now = plan(found, POLICY)
    assert now.next_look_s > NOW_S


@pytest.mark.parametrize("count", [2, 3, 7])
def test_a_join_and_a_leave_cancel_each_other(count: int) -> None:
    start = settle(situation(*(server(f"s{number}") for number in range(count))))
    joined = settle(with_servers(start, server("new")))
    left = settle(with_servers(joined, server("new", alive=False)))
    back = [key for key in PARTITIONS if left.owners[key] != start.owners[key]]
    assert not back
