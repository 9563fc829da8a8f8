"""Refusals: recoveries of a file that storage rejects for a while."""

import random

from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.testing.simulation.stores.faults import FileFaults


class Refusals:
    """Which files reject every recovery for a while; each file does so once at most.

    Random numbers come from a separate generator, so a world without refusals draws the same
    numbers with and without this class.
    """

    def __init__(self, loop: SimulationLoop, rng: random.Random) -> None:
        self._loop, self._rng = loop, rng
        self._until_s: dict[str, float] = {}  # by path, loop time

    def refuses(self, path: str, faults: FileFaults) -> bool:
        """Whether a recovery of the file is rejected now."""
        if not faults.recover_refused:
            return False
        now_s = self._loop.time()
        if path not in self._until_s and self._rng.random() < faults.recover_refused:
            self._until_s[path] = now_s + self._rng.random() * faults.refuse_s
        return now_s < self._until_s.get(path, now_s)
