"""Latency: one observation counts for a histogram of few classes and for a sketch."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from opentalos.model.histogram import CALL_S, Histogram
from opentalos.wire.metrics.sketch import GROWTH

_FIRST, _LAST = -232, 556  # buckets of 0.01 ms and of a minute; what lies outside counts there
_MS_PER_S = 1_000

# Bounds of both, in seconds, so that a class of the one never lies across two of the other.
_BOUNDS: Final[Sequence[float]] = sorted(
    {*CALL_S, *(GROWTH**bucket / _MS_PER_S for bucket in range(_FIRST, _LAST + 1))}
)


def _buckets() -> Sequence[int]:
    """The sketch's bucket of each class, by the middle of the class."""
    middles = [(low + high) / 2 for low, high in pairwise(_BOUNDS)]
    inner = [math.ceil(math.log(middle * _MS_PER_S) / math.log(GROWTH)) for middle in middles]
    return [_FIRST, *inner, _LAST + 1]


_BUCKETS: Final = _buckets()


class Latency(Histogram):
    """Times of calls, in seconds; costs as much as a histogram, a longer bisection."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(_BOUNDS)

    def coarse(self) -> Histogram:
        """The same by the few classes that /metrics shows."""
        found = Histogram(CALL_S)
        for count, bound in zip(self.counts, (*_BOUNDS, math.inf), strict=True):
            found.counts[bisect_left(CALL_S, bound)] += count
        found.sum = self.sum
        return found

    def sketch_since(self, before: Sequence[int]) -> dict[int, int]:
        """Counts by bucket, in milliseconds, of what came since ``counts`` was ``before``."""
        sketch: dict[int, int] = {}
        for bucket, now, then in zip(_BUCKETS, self.counts, before, strict=True):
            if now > then:
                sketch[bucket] = sketch.get(bucket, 0) + now - then
        return sketch
