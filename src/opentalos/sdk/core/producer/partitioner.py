"""Chooses the partition of a message: by its key, as its topic says, else round-robin."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from opentalos.model.settings.partitioning import Partitioning

KEYS_REMEMBERED: Final = 10_000  # cached with their partitions; hashing a key takes microseconds

Partitioner = Callable[
    [str, int], int
]  # of key and number of partitions; the result is taken modulo


@lru_cache(KEYS_REMEMBERED)
def official_partition_of(key: str, partitions: int) -> int:
    """The partition of a key, as official producers choose it."""
    return Partitioning.OFFICIAL.partition_of(key, partitions)


@lru_cache(KEYS_REMEMBERED)
def murmur2_partition_of(key: str, partitions: int) -> int:
    """The partition of a key, as Kafka's producers choose it."""
    return Partitioning.MURMUR2.partition_of(key, partitions)


def partitioner_of(partitioning: Partitioning) -> Partitioner:
    """The function for topics with this rule."""
    if partitioning is Partitioning.MURMUR2:
        return murmur2_partition_of
    return official_partition_of


class RoundRobin:
    """Round-robin over the partitions from a random one, for messages without a key."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._last = -1

    def next(self, partitions: int) -> int:
        """The next of so many partitions."""
        if self._last < 0:
            self._last = int(self._random() * partitions)
        self._last = (self._last + 1) % partitions
        return self._last
