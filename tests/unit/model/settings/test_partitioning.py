"""Keys are placed evenly, and where Kafka's producers place them."""

from collections import Counter

import pytest

from opentalos.model.settings.partitioning import (
    Partitioning,
    murmur2,
    partitioning_of,
    with_partitioner,
)


# The values that Kafka's clients state for their own, as signed numbers of 32 bits.
@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 275646681),
    ],
)
def test_the_hash_is_that_of_kafkas_producers(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


def _fullest(partitioning: Partitioning) -> float:
    """Keys of the fullest of 16 partitions, relative to the mean."""
    placed = Counter(partitioning.partition_of(f"user-{number}", 16) for number in range(10_000))
    return max(placed.values()) / (10_000 / 16)


def test_numbered_keys_are_spread_over_all_partitions() -> None:
    assert _fullest(Partitioning.MURMUR2) <= 1.3
    assert _fullest(Partitioning.OFFICIAL) > 10  # why it is not ours


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({}, Partitioning.OFFICIAL),
        ({"partitioner": "official"}, Partitioning.OFFICIAL),
        ({"partitioner": "murmur2"}, Partitioning.MURMUR2),
        ({"partitioner": "somebody's note"}, Partitioning.OFFICIAL),
    ],
)
def test_a_topic_without_a_known_rule_has_the_official_one(
    attributes: dict[str, str], found: Partitioning
) -> None:
    assert partitioning_of(attributes) is found


def test_a_new_topic_spreads_keys_evenly_unless_it_says_otherwise() -> None:
    assert with_partitioner({}) == {"partitioner": "murmur2"}
    assert with_partitioner({"a": "b"}) == {"partitioner": "murmur2", "a": "b"}
    assert with_partitioner({"partitioner": "official"}) == {"partitioner": "official"}
