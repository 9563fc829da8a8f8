"""Breadth: how many commits at once are worth their price, by how long the store takes for one.

Fewer at once carry larger groups, and a group costs a server and its storage about the same
whatever is in it. More at once than it takes to keep a server busy with groups of one block only
make it busy with small ones: on HDFS of the same machine 8 instead of 3 cost 1.4 times the CPU for
each put. A store that is slow by itself has to be asked for more at once.
"""

import math

from opentalos.model.message import Durability

COMMITS_MIN = 3  # one is prepared, one answered, while one waits for the store
# What a server is able to commit, put by put. So many a second of the store's own pace are reached
# with as few at once as possible.
COMMITS_PER_S = 2_000
# The pace is that of the quick ones, since the others waited for a processor or for each other.
SAMPLE = 256
_QUICKEST = SAMPLE // 64


class CommitConcurrency:
    """Takes the seconds of each commit; tells how many to have under way at once.

    Synced commits keep another pace than flushed ones; the slower of those in use decides.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._samples: dict[Durability, list[float]] = {}
        self._wanted: dict[Durability, int] = {}
        self._in_use: dict[Durability, None] = {}  # since a sample was full
        self.wanted = most  # until the store is known

    def note(self, durability: Durability, seconds: float) -> None:
        """A commit took so long."""
        sample = self._samples.setdefault(durability, [])
        sample.append(seconds)
        self._in_use[durability] = None
        if len(sample) < SAMPLE:
            return
        pace_s = sorted(sample)[_QUICKEST]
        sample.clear()
        self._wanted[durability] = min(
            self._most, max(COMMITS_MIN, math.ceil(COMMITS_PER_S * pace_s))
        )
        self._wanted = {one: count for one, count in self._wanted.items() if one in self._in_use}
        self._in_use.clear()
        self.wanted = max(self._wanted.values())
