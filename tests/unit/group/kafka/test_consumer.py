"""Groups whose assignments the server decides: heartbeats, and random histories."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.group.kafka.assignors import TopicPart, assign_range, assign_uniform
from opentalos.group.kafka.consumer import ConsumerGroup, Undecided
from opentalos.group.kafka.consumer_member import (
    ConsumerAnswer,
    ConsumerHeartbeat,
    ConsumerMember,
    Parts,
)
from opentalos.group.kafka.values import GroupState, MemberId, Refusal
from opentalos.model.settings.kafka import KafkaGroupLimits

COUNTS = {"t": 6}
LIMITS = KafkaGroupLimits(members_max=8, heartbeat_s=1.0, consumer_session_s=10.0)
SEEDS = 40


def parts(*numbers: int, topic: str = "t") -> Parts:
    return frozenset(TopicPart(topic, number) for number in numbers)


def beat(member: str, epoch: int, owned: Parts | None = None, **more: Any) -> ConsumerHeartbeat:
    instance = more.pop("instance", None)
    if epoch == 0:
        more = {"topics": frozenset("t"), "rebalance_s": 5.0, **more}
    return ConsumerHeartbeat(who=MemberId(member, instance), epoch=epoch, owned=owned, **more)


def test_a_partition_is_given_once_it_was_given_back() -> None:
    group = ConsumerGroup(LIMITS)
    first = group.heartbeat(0.0, beat("a", 0), COUNTS)
    assert (first.epoch, first.assignment) == (1, parts(0, 1, 2, 3, 4, 5))
    second = group.heartbeat(0.0, beat("b", 0), COUNTS)
    assert (second.epoch, second.assignment) == (2, frozenset())
    assert group.state is GroupState.RECONCILING
    told = group.heartbeat(1.0, beat("a", 1, parts(0, 1, 2, 3, 4, 5)), COUNTS)
    assert (told.epoch, told.assignment) == (1, parts(0, 1, 2))
    assert group.heartbeat(1.0, beat("b", 2), COUNTS).assignment is None
    given_back = group.heartbeat(2.0, beat("a", 1, parts(0, 1, 2)), COUNTS)
    assert given_back.epoch == 2
    assert group.heartbeat(2.0, beat("b", 2), COUNTS).assignment == parts(3, 4, 5)
    assert group.heartbeat(3.0, beat("b", 2), COUNTS).assignment is None


def test_epochs_fence() -> None:
    group = ConsumerGroup(LIMITS)
    group.heartbeat(0.0, beat("a", 0), COUNTS)
    group.heartbeat(0.0, beat("b", 0), COUNTS)
    assert group.heartbeat(0.0, beat("b", 7), COUNTS).refusal is Refusal.FENCED_MEMBER_EPOCH
    assert group.heartbeat(0.0, beat("x", 2), COUNTS).refusal is Refusal.UNKNOWN_MEMBER_ID
    assert group.check(MemberId("b"), 2) is None
    assert group.check(MemberId("b"), 1) is Refusal.STALE_MEMBER_EPOCH
    assert group.check(MemberId("x"), 1) is Refusal.UNKNOWN_MEMBER_ID


def test_an_answer_that_was_lost_is_given_again() -> None:
    group = ConsumerGroup(LIMITS)
    group.heartbeat(0.0, beat("a", 0), COUNTS)
    group.heartbeat(0.0, beat("b", 0), COUNTS)
    owned = parts(0, 1, 2, 3, 4, 5)
    group.heartbeat(1.0, beat("a", 1, owned), COUNTS)
    assert group.heartbeat(2.0, beat("a", 1, parts(0, 1, 2)), COUNTS).epoch == 2
    again = group.heartbeat(3.0, beat("a", 1, parts(0, 1, 2)), COUNTS)
    assert (again.refusal, again.epoch, again.assignment) == (None, 2, parts(0, 1, 2))


def test_who_does_not_give_back_in_time_is_removed() -> None:
    group = ConsumerGroup(LIMITS)
    group.heartbeat(0.0, beat("a", 0), COUNTS)
    group.heartbeat(0.0, beat("b", 0), COUNTS)
    group.heartbeat(1.0, beat("a", 1), COUNTS)
    assert group.deadline_s() == 6.0
    group.tick(6.0)
    assert group.take_removed() == ["a"]
    answer = group.heartbeat(6.5, beat("b", 2), COUNTS)
    assert answer.assignment == parts(0, 1, 2, 3, 4, 5)


def test_a_session_ends_and_a_member_leaves() -> None:
    group = ConsumerGroup(LIMITS)
    group.heartbeat(0.0, beat("a", 0), COUNTS)
    group.heartbeat(5.0, beat("b", 0), COUNTS)
    group.tick(10.0)
    assert group.take_removed() == ["a"]
    left = group.heartbeat(10.0, beat("b", -1), COUNTS)
    assert (left.refusal, left.epoch) == (None, -1)
    assert group.idle


def test_members_that_go_together_are_removed_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opentalos.group.kafka.consumer.REMOVED_AT_ONCE", 30)
    group = ConsumerGroup(LIMITS)
    for name in "abcde":
        group.heartbeat(0.0, beat(name, 0), COUNTS)
    removed = []
    while group.deadline_s() <= 10.0:  # what is left is due at once
        group.tick(10.0)
        removed.append(group.take_removed())
    assert removed == [["a", "b"], ["c", "d"], ["e"]]
    assert group.idle


def test_a_static_member_returns_to_what_it_had() -> None:
    group = ConsumerGroup(LIMITS)
    had = group.heartbeat(0.0, beat("a", 0, instance="i"), COUNTS).assignment
    group.heartbeat(0.0, beat("b", 0), COUNTS)
    refused = group.heartbeat(1.0, beat("a2", 0, instance="i"), COUNTS)
    assert refused.refusal is Refusal.UNRELEASED_INSTANCE_ID
    group.heartbeat(1.0, beat("a", -2, instance="i"), COUNTS)
    back = group.heartbeat(2.0, beat("a2", 0, instance="i"), COUNTS)
    assert back.refusal is None
    assert had is not None
    assert back.assignment is not None
    assert back.assignment <= had
    assert len(back.assignment) == 3
    fenced = group.heartbeat(2.0, beat("a", 1, instance="i"), COUNTS)
    assert fenced.refusal is Refusal.FENCED_INSTANCE_ID


def test_topics_that_grow_are_shared_again() -> None:
    group = ConsumerGroup(LIMITS)
    group.heartbeat(0.0, beat("a", 0), COUNTS)
    grown = group.heartbeat(1.0, beat("a", 1), {"t": 8})
    assert (grown.epoch, grown.assignment) == (2, parts(0, 1, 2, 3, 4, 5, 6, 7))


def test_requests_that_make_no_sense_are_refused() -> None:
    group = ConsumerGroup(LIMITS)
    refusals = [
        group.heartbeat(0.0, heartbeat, COUNTS).refusal
        for heartbeat in (
            beat("", 0),
            beat("a", -3),
            beat("a", 0, assignor="sticky"),
            beat("a", 0, topics=None),
            beat("a", 0, parts(1)),
        )
    ]
    assert refusals == [
        Refusal.INVALID_REQUEST,
        Refusal.INVALID_REQUEST,
        Refusal.UNSUPPORTED_ASSIGNOR,
        Refusal.INVALID_REQUEST,
        Refusal.INVALID_REQUEST,
    ]


# --- assignors ------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 1 << 30))
def test_assignors_give_every_partition_to_one_subscriber(seed: int) -> None:
    random = Random(seed)
    counts = {f"t{n}": random.randint(0, 9) for n in range(4)}
    before: Mapping[str, Parts] = {}
    for _ in range(4):
        subscriptions = {
            f"m{n}": frozenset(random.sample(sorted(counts), random.randint(1, 4)))
            for n in range(random.randint(1, 5))
        }
        for assignor in (assign_range, assign_uniform):
            found = assignor(subscriptions, counts, before)
            given_parts = [part for held in found.values() for part in held]
            wanted = {topic for topics in subscriptions.values() for topic in topics}
            assert len(given_parts) == len(set(given_parts))
            assert len(given_parts) == sum(counts[topic] for topic in wanted)
            for member, held in found.items():
                assert {part.topic for part in held} <= subscriptions[member]
        before = found


def test_uniform_is_fair_and_moves_little() -> None:
    topics = frozenset("t")
    first = assign_uniform({"a": topics, "b": topics}, {"t": 7}, {})
    assert sorted(len(held) for held in first.values()) == [3, 4]
    second = assign_uniform({"a": topics, "b": topics, "c": topics}, {"t": 7}, first)
    assert sorted(len(held) for held in second.values()) == [2, 2, 3]
    moved = sum(len(second[member] - first.get(member, frozenset())) for member in ("a", "b"))
    assert moved == 0


def test_range_keeps_neighbours_together() -> None:
    topics = frozenset(("t", "u"))
    found = assign_range({"a": topics, "b": topics}, {"t": 3, "u": 3}, {})
    assert found["a"] == parts(0, 1) | parts(0, 1, topic="u")
    assert found["b"] == parts(2) | parts(2, topic="u")


# --- random histories -----------------------------------------------------------------------------


@dataclass(eq=False)
class Client:
    """A process that obeys; one that hears nothing reads on."""

    member: str
    epoch: int = 0
    owned: Parts = frozenset()


def play(seed: int, group: ConsumerGroup, *, later: bool = False) -> set[str]:
    """What broke a promise in one history of the seed. ``later``: targets take time to decide."""
    random, now_s, anomalies = Random(seed), 0.0, set[str]()
    undecided: Undecided | None = None
    clients = [Client(f"m{n}") for n in range(4)]
    late: list[tuple[Client, int, Parts]] = []
    for _ in range(300):
        client = random.choice(clients)
        if later and undecided is None:
            undecided = group.undecided()
        elif undecided is not None and random.random() < 0.2:
            group.decided(undecided, undecided.decide())
            undecided = None
        action = random.random()
        if action < 0.75:
            answer = group.heartbeat(now_s, _next(client), COUNTS)
            if random.random() < 0.9:
                _obey(client, answer)
        elif action < 0.8:
            group.heartbeat(now_s, beat(client.member, -1), COUNTS)
            client.epoch, client.owned = 0, frozenset()
        else:
            now_s += random.choice([0.1, 0.5, 2.0])
            group.tick(now_s)
        late.append((client, client.epoch, client.owned))
        owners: dict[TopicPart, str] = {}
        for each in clients:
            alive = each.epoch > 0 and group.check(MemberId(each.member), each.epoch) is None
            for part in each.owned if alive else ():
                if owners.setdefault(part, each.member) != each.member:
                    anomalies.add("two-owners")
        stale, epoch, held = random.choice(late)
        newest = {part for part, owner in owners.items() if owner != stale.member}
        if epoch > 0 and group.check(MemberId(stale.member), epoch) is None:
            current = group.members[stale.member]
            may = current.assigned | current.revoking
            if any(part in newest and part not in may for part in held):
                anomalies.add("stale-commit")
    return anomalies


def _next(client: Client) -> ConsumerHeartbeat:
    if client.epoch == 0:
        return beat(client.member, 0, frozenset())
    return beat(client.member, client.epoch, client.owned)


def _obey(client: Client, answer: ConsumerAnswer) -> None:
    if answer.refusal is not None:
        client.epoch, client.owned = 0, frozenset()
        return
    client.epoch = answer.epoch
    if answer.assignment is not None:
        client.owned = answer.assignment


class Hasty(ConsumerGroup):
    """Partitions are given before the former member gave them back."""

    def _held_by_others(self, member: ConsumerMember, wanted: Parts) -> Parts:
        return frozenset()


class AnyEpoch(ConsumerGroup):
    """Every member commits, whatever epoch it knows."""

    def check(self, who: MemberId, epoch: int) -> Refusal | None:
        return None if who.member in self.members else Refusal.UNKNOWN_MEMBER_ID


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 1 << 30))
def test_random_histories_have_one_owner_of_a_partition(seed: int) -> None:
    assert play(seed, ConsumerGroup(LIMITS)) == set()


@pytest.fixture
def nothing_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentalos.group.kafka.consumer.DECIDED_AT_ONCE", 0)


@pytest.mark.usefixtures("nothing_at_once")
def test_random_histories_with_late_targets_have_one_owner_of_a_partition() -> None:
    assert [play(seed, ConsumerGroup(LIMITS), later=True) for seed in range(100)] == [set()] * 100
    # That so many mistakes are found shows that partitions are given to members.
    found = [play(seed, Hasty(LIMITS), later=True) for seed in range(SEEDS)]
    assert sum("two-owners" in anomalies for anomalies in found) >= 3


@pytest.mark.usefixtures("nothing_at_once")
def test_until_a_target_is_decided_members_have_what_they_had() -> None:
    group = ConsumerGroup(LIMITS)
    first = group.heartbeat(0.0, beat("a", 0), COUNTS)
    assert (first.epoch, first.assignment) == (1, frozenset())
    assert group.state is GroupState.ASSIGNING
    assert decide(group)
    given = group.heartbeat(1.0, beat("a", 1), COUNTS)
    assert (given.epoch, given.assignment) == (1, parts(0, 1, 2, 3, 4, 5))
    early = group.undecided()
    assert early is None
    second = group.heartbeat(1.0, beat("b", 0), COUNTS)
    assert (second.epoch, second.assignment) == (2, frozenset())
    undecided = group.undecided()
    third = group.heartbeat(1.0, beat("c", 0), COUNTS)
    assert (third.epoch, third.assignment) == (3, frozenset())
    assert group.heartbeat(1.0, beat("a", 1), COUNTS).assignment is None
    assert undecided is not None
    group.decided(undecided, undecided.decide())  # of a time before the third one joined
    assert group.heartbeat(2.0, beat("a", 1), COUNTS).assignment == parts(0, 1, 2)
    assert group.heartbeat(2.0, beat("c", 3), COUNTS).assignment is None
    assert decide(group)
    assert group.target_epoch == 3
    group.decided(undecided, undecided.decide())
    assert group.target_epoch == 3  # what is older is not taken


@pytest.mark.usefixtures("nothing_at_once")
def test_a_member_that_joins_again_before_a_target_cannot_commit_as_before() -> None:
    group = ConsumerGroup(LIMITS)
    group.heartbeat(0.0, beat("a", 0), COUNTS)
    assert decide(group)
    assert group.heartbeat(1.0, beat("a", 1), COUNTS).assignment == parts(0, 1, 2, 3, 4, 5)
    assert group.heartbeat(2.0, beat("a", 0), COUNTS).assignment == frozenset()
    assert group.check(MemberId("a"), 1) is Refusal.STALE_MEMBER_EPOCH
    assert decide(group)
    assert group.heartbeat(3.0, beat("a", 2), COUNTS).assignment == parts(0, 1, 2, 3, 4, 5)


def decide(group: ConsumerGroup) -> bool:
    undecided = group.undecided()
    if undecided is not None:
        group.decided(undecided, undecided.decide())
    return undecided is not None


def test_topics_with_too_many_partitions_are_refused() -> None:
    group = ConsumerGroup(replace(LIMITS, partitions_max=10))
    counts = {"t": 6, "u": 4, "v": 1}
    group.heartbeat(0.0, beat("a", 0, topics=frozenset("tu")), counts)
    refused = group.heartbeat(0.0, beat("b", 0, topics=frozenset("uv")), counts)
    assert refused.refusal is Refusal.GROUP_MAX_SIZE_REACHED
    assert "limit 10 ([kafka_group] partitions_max), measured 11" in refused.text
    assert set(group.members) == {"a"}
    # Its own topics do not count twice, and those that nobody reads any more not at all.
    other = group.heartbeat(0.0, beat("a", 1, topics=frozenset("tv")), counts)
    assert (other.refusal, group.topics.partitions) == (None, 7)
    assert group.heartbeat(0.0, beat("b", 0, topics=frozenset("tv")), counts).refusal is None
    group.heartbeat(0.0, beat("a", -1), {})
    assert (group.topics.counts, group.topics.read) == ({"t": 6, "v": 1}, 2)
    group.tick(99.0)
    assert (group.topics.counts, group.topics.partitions, group.topics.read) == ({}, 0, 0)


@pytest.mark.parametrize(("mutant", "anomaly"), [(Hasty, "two-owners"), (AnyEpoch, "stale-commit")])
def test_a_mutant_is_caught_by_name(mutant: type[ConsumerGroup], anomaly: str) -> None:
    assert sum(anomaly in play(seed, mutant(LIMITS)) for seed in range(SEEDS)) >= 3
