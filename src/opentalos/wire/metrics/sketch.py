"""Latency sketch: counts in log-spaced buckets, so that percentiles of many rows can be merged.

    bucket of x  =  ceil(log(x) / log(1.02)),   bucket i holds (1.02 ** (i - 1), 1.02 ** i]

A percentile is off by 1 % of its value at most, whatever was merged, in whatever order: merging
adds counts per bucket, which any engine does with a group-by. The first bucket holds zero and all
that is too small to matter, the last one all that is too large; so a sketch has at most
``BUCKETS_MAX`` counts.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

GROWTH: Final = 1.02
RELATIVE_ERROR: Final = (GROWTH - 1) / (GROWTH + 1)  # of a percentile, below 1 %
BUCKET_MIN: Final = -700  # zero, negative, and up to 9.5e-7 (of a ms: a nanosecond): shown as 0
BUCKET_MAX: Final = 1_400  # 1.1e12 and more
BUCKETS_MAX: Final = BUCKET_MAX - BUCKET_MIN + 1

_LOG_GROWTH = math.log(GROWTH)

Counts = Mapping[int, int]  # how many values by bucket


def bucket_of(value: float) -> int:
    """The bucket that counts a value. Raises: ValueError: not a number."""
    if value <= 0.0:
        return BUCKET_MIN
    if value == math.inf:
        return BUCKET_MAX
    return min(max(math.ceil(math.log(value) / _LOG_GROWTH), BUCKET_MIN), BUCKET_MAX)


def value_of(bucket: int) -> float:
    """What stands for a bucket's values: within ``RELATIVE_ERROR`` of each of them."""
    return 0.0 if bucket <= BUCKET_MIN else 2.0 * GROWTH**bucket / (GROWTH + 1.0)


def merged(sketches: Iterable[Counts]) -> dict[int, int]:
    """One sketch with the counts of all."""
    counts: dict[int, int] = {}
    for sketch in sketches:
        for bucket, count in sketch.items():
            counts[bucket] = counts.get(bucket, 0) + count
    return counts


def percentile(counts: Counts, percent: float) -> float | None:
    """The value that ``percent`` of all values do not exceed; None: nothing was counted.

    The rank is ``ceil(percent / 100 * n)``, at least 1. Raises: ValueError: not in 0..100.
    """
    if not 0.0 <= percent <= 100.0:
        raise ValueError(f"percentile {percent} is not in 0..100")
    total = sum(counts.values())
    if not total:
        return None
    rank = max(1, math.ceil(percent / 100.0 * total))
    seen, bucket = 0, BUCKET_MIN
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            break
    return value_of(bucket)


class Sketch:
    """Counts that grow."""

    __slots__ = ("counts",)

    def __init__(self, counts: Counts | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})

    def add(self, value: float, count: int = 1) -> None:
        """Count a value. Raises: ValueError: not a number."""
        bucket = bucket_of(value)
        self.counts[bucket] = self.counts.get(bucket, 0) + count

    def merge(self, other: Counts) -> None:
        """Take over the counts of another sketch."""
        for bucket, count in other.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count

    def percentile(self, percent: float) -> float | None:
        """As the function of that name."""
        return percentile(self.counts, percent)
