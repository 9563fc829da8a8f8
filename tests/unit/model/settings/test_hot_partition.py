"""A partition with most of a topic's messages is found, and nothing else is."""

import pytest

from opentalos.model.settings.hot_partition import HotPartition, hot_partition


def test_a_partition_with_more_than_half_is_hot() -> None:
    hot = hot_partition({0: 200, 1: 0, 3: 700, 2: 100}, 4)
    assert hot == HotPartition(partition=3, messages=700, of_messages=1_000)
    assert hot.percent == 70


@pytest.mark.parametrize(
    ("messages", "partitions"),
    [
        ({}, 8),
        ({0: 500, 1: 500}, 8),  # half is not more than half
        ({0: 999}, 8),  # too few to tell
        ({0: 10_000, 1: 1}, 3),  # not unusual
        (dict.fromkeys(range(16), 1_000), 16),
    ],
)
def test_others_are_not(messages: dict[int, int], partitions: int) -> None:
    assert hot_partition(messages, partitions) is None
