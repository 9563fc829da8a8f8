"""Refusals: recoveries of a file that storage refuses for a while, and then no more."""

import random

from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.testing.simulation.stores.faults import FileFaults


class Refusals:
    """Which files refuse to be recovered, whoever asks; each file does so once at most.

    The chances come from a stream of their own: a world without refusals draws what it always drew.
    """

    def __init__(self, loop: SimulationLoop, rng: random.Random) -> None:
        self._loop, self._rng = loop, rng
        self._until_s: dict[str, float] = {}  # by path, loop time

    def refuses(self, path: str, faults: FileFaults) -> bool:
        """Whether a recovery of the file is refused now."""
        if not faults.recover_refused:
            return False
        now_s = self._loop.time()
        if path not in self._until_s and self._rng.random() < faults.recover_refused:
            self._until_s[path] = now_s + self._rng.random() * faults.refuse_s
        return now_s < self._until_s.get(path, now_s)
