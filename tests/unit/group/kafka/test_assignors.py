"""The uniform assignor against a slow one that looks at every member and partition."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

from opentalos.group.kafka.assignors import (
    Counts,
    Subscriptions,
    Target,
    TopicPart,
    assign_range,
    assign_uniform,
)

SEEDS = 300
ROUNDS = 4  # each from what the one before gave


def improvement(found: dict[str, set[TopicPart]], subscriptions: Subscriptions) -> bool:
    """Move one partition to who has least, from who has most. Returns: whether any may move."""
    ordered = sorted(found, key=lambda m: (len(found[m]), m))
    for low in ordered:
        for high in reversed(ordered):
            if len(found[high]) > len(found[low]) + 1:
                for part in sorted(found[high], reverse=True):
                    if part.topic in subscriptions[low]:
                        found[high].remove(part)
                        found[low].add(part)
                        return True
    return False


def assign_slowly(subscriptions: Subscriptions, counts: Counts, before: Target) -> Target:
    found: dict[str, set[TopicPart]] = {}
    taken: set[TopicPart] = set()
    for member in sorted(subscriptions):
        found[member] = {
            part
            for part in before.get(member, ())
            if part.topic in subscriptions[member] and part.partition < counts[part.topic]
        } - taken
        taken |= found[member]
    for topic in sorted({topic for topics in subscriptions.values() for topic in topics}):
        able = [member for member in sorted(found) if topic in subscriptions[member]]
        for part in (TopicPart(topic, number) for number in range(counts[topic])):
            if part not in taken:
                found[min(able, key=lambda m: len(found[m]))].add(part)
    while improvement(found, subscriptions):
        pass
    return {member: frozenset(parts) for member, parts in found.items()}


def histories() -> Iterator[tuple[Subscriptions, Counts, Target, Target]]:
    for seed in range(SEEDS):
        random, before = Random(seed), dict[str, frozenset[TopicPart]]()
        counts = {f"t{number}": random.randint(0, 9) for number in range(5)}
        for _ in range(ROUNDS):
            subscriptions = {
                f"m{number}": frozenset(random.sample(sorted(counts), random.randint(1, 5)))
                for number in range(random.randint(1, 6))
            }
            found = assign_uniform(subscriptions, counts, before)
            yield subscriptions, counts, before, found
            before = dict(found)


def spread(found: Target) -> int:
    loads = [len(parts) for parts in found.values()]
    return max(loads) - min(loads)


def kept(found: Target, before: Target) -> int:
    return sum(len(parts & before.get(member, frozenset())) for member, parts in found.items())


def test_uniform_is_as_even_and_keeps_as_much_as_a_slow_one() -> None:
    sums: Counter[str] = Counter()
    for subscriptions, counts, before, found in histories():
        slow = assign_slowly(subscriptions, counts, before)
        assert not improvement({m: set(parts) for m, parts in found.items()}, subscriptions)
        given = Counter(part for parts in found.values() for part in parts)
        assert given == Counter(part for parts in slow.values() for part in parts)
        assert set(given.values()) <= {1}
        assert all(part.topic in subscriptions[m] for m in found for part in found[m])
        assert spread(found) <= spread(slow) + 2
        sums.update(spread=spread(found), slow_spread=spread(slow))
        sums.update(kept=kept(found, before), slow_kept=kept(slow, before))
    assert sums["spread"] <= 1.01 * sums["slow_spread"], sums
    assert sums["kept"] >= 0.99 * sums["slow_kept"], sums


def test_uniform_moves_nothing_if_nothing_changed() -> None:
    for subscriptions, counts, _, found in histories():
        assert assign_uniform(subscriptions, counts, found) == found


def test_work_grows_with_subscriptions_and_partitions() -> None:
    random = Random(1)
    counts = {f"t{number}": 2 for number in range(3_000)}
    topics = sorted(counts)
    subscriptions = {f"m{n}": frozenset(random.sample(topics, 10 * (n + 1))) for n in range(100)}
    for assign in (assign_uniform, assign_range):
        pauses: list[int] = []
        found = assign(subscriptions, counts, {}, partial(pauses.append, 1))
        read = set().union(*subscriptions.values())
        assert sum(len(parts) for parts in found.values()) == 2 * len(read)
        # 50,500 subscriptions and 6,000 partitions, a few times each.
        assert 30 < len(pauses) < 800
