"""Adaptive commit concurrency from observed latency.

``CommitLanes`` asks how many commits to have under way at once. Fewer commits carry larger groups,
and a group costs a server and its storage about the same whatever its size. More commits than it
takes to keep the server busy only make groups smaller: with HDFS on the same machine 8 instead of
3 cost 1.4 times the CPU for each put. A slow store needs more of them at once.
"""

import math

from opentalos.model.message import Durability

COMMITS_MIN = 3  # one is prepared, one answered, while one waits for the store
# What a server can commit, put by put. The aim is this rate with as few commits at once as the
# latency of the store allows.
COMMITS_PER_S = 2_000
# The latency is that of the quick ones: the others waited for a processor or for each other.
SAMPLE = 256
_QUICKEST = SAMPLE // 64


class CommitConcurrency:
    """Takes the seconds of each commit; ``wanted`` is how many to have under way at once.

    Synced and flushed commits have latencies of their own; the slower of those in use decides.
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
        self._wanted = {used: self._wanted[used] for used in self._wanted if used in self._in_use}
        self._in_use.clear()
        self.wanted = max(self._wanted.values())


class SharedCommits(CommitConcurrency):
    """Always as many as there are: their groups share one commit of the journal."""

    def note(self, durability: Durability, seconds: float) -> None:
        """The latency changes nothing."""
