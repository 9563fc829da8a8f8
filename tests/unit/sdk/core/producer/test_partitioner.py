"""Keys go where all producers of their topic send them; the rest goes round."""

import hashlib
from collections import Counter

import pytest

from opentalos.model.settings.partitioning import Partitioning
from opentalos.sdk.core.producer.partitioner import (
    RoundRobin,
    murmur2_partition_of,
    official_partition_of,
    partitioner_of,
)


# Java's hash codes: "k" 107, "hello" 99162322, "user-42" 4147784640 of 32 bits.
@pytest.mark.parametrize(
    ("key", "expected"),
    [("k", (0, 0, 0, 0)), ("hello", (0, 0, 0, 0)), ("user-42", (0, 1, 7, 9))],
)
def test_a_key_has_the_partition_of_the_official_producers(
    key: str, expected: tuple[int, ...]
) -> None:
    assert tuple(official_partition_of(key, count) for count in (1, 2, 8, 10)) == expected


def test_official_producers_leave_partitions_empty_as_the_how_to_of_consumers_says() -> None:
    short = [f"k{number}" for number in range(977)]
    assert {official_partition_of(key, 6) for key in short} == {0}
    digests = [hashlib.md5(key.encode()).hexdigest() for key in short]
    found = Counter(official_partition_of(key, 6) for key in digests)
    assert len(found) == 6
    assert max(found.values()) < 1.3 * len(digests) / 6


def test_a_topic_says_how_its_keys_are_placed() -> None:
    assert partitioner_of(Partitioning.OFFICIAL) is official_partition_of
    assert partitioner_of(Partitioning.MURMUR2) is murmur2_partition_of
    assert murmur2_partition_of("foobar", 16) == (-790332482 & 0x7FFFFFFF) % 16


def test_turns_begin_anywhere_and_follow_a_changed_number_of_partitions() -> None:
    turns = RoundRobin(lambda: 0.5)
    assert [turns.next(4) for _ in range(5)] == [3, 0, 1, 2, 3]
    assert [turns.next(2) for _ in range(3)] == [0, 1, 0]
    assert turns.next(1) == 0
