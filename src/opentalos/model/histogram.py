"""Histogram: how often what size was seen; cheap enough for the way of every put."""

from bisect import bisect_left
from collections.abc import Sequence

# Upper bounds of the size classes; what is larger than the last is counted behind it.
CALL_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
COMMIT_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
GROUP_BLOCKS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)


class Histogram:
    """Counts by size class, and the sum of all sizes; a bisection and two additions each."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, size: float) -> None:
        """Count one more."""
        self.counts[bisect_left(self.bounds, size)] += 1
        self.sum += size
