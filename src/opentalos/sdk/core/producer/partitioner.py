"""Which partition a message goes to: by its key, as every official producer, else in turns."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from opentalos.model import partition_key

KEYS_REMEMBERED: Final = 10_000  # with their partitions; hashing one anew takes microseconds

Partitioner = Callable[[str, int], int]  # key and how many partitions; the result is taken modulo


@lru_cache(KEYS_REMEMBERED)
def partition_of(key: str, partitions: int) -> int:
    """The partition of a key; the same for every producer of every language."""
    return partition_key.partition_of(key, partitions)


class RoundRobin:
    """Partitions one after the other, from a random one on, for messages without a key."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self._last = -1

    def next(self, partitions: int) -> int:
        """The partition whose turn it is among so many."""
        if self._last < 0:
            self._last = int(self._random() * partitions)
        self._last = (self._last + 1) % partitions
        return self._last
