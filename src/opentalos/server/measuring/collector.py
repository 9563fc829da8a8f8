"""The garbage collector of a server: no collection is a long step of the event loop.

``serve`` calls ``freeze_start`` and starts a ``CalmCollector``. A collection is one step of the
thread that happens to allocate, mostly the loop's, and its time grows with the objects it visits:
0.25 to 0.4 us each. So the automatic ones visit young objects only, a bounded number at a time, and
full ones, 38 to 63 ms with 10,000 partitions, are left to moments in which hardly anything runs.
Nearly everything dies with its last reference; a full collection only finds old cycles.
Source: docs/internals/hot-path.md#rule-6.
"""

import asyncio
import gc
import logging
import sys
import time

_log = logging.getLogger("opentalos.server")

NEVER = 1_000_000_000  # collections of the middle generation: a full one is not automatic
# An object is visited once young, once in the middle generation, and then by full collections
# only. The middle one visits what three young ones left, about 9,000 objects; more if
# as many old ones were freed meanwhile, since a threshold counts allocations less deallocations.
THRESHOLDS = (3_000, 1, NEVER)
# From Python 3.14 on the collector works in increments of its own, and has no full ones.
INCREMENTAL_THRESHOLDS = (5_000, 200, 100)
CHECK_S = 1.0
DUE_AFTER = 33_000  # young collections: a hundred million objects, Python's usual order is 70 000
GROWTH_DUE = 1.5  # of allocated blocks since the last full one
GROWTH_MAX = 4.0  # then it is not put off any more; also after twice ``DUE_AFTER``
CALM_SHARE = 0.02  # of the loop's time: a moment in which hardly anybody waits


def generational() -> bool:
    """Whether this interpreter collects by generations, the oldest of them at once."""
    return sys.version_info < (3, 14)


def freeze_start() -> None:
    """Collect what the start left, exclude the rest from all collections, and set how often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*(THRESHOLDS if generational() else INCREMENTAL_THRESHOLDS))


def is_due(young_collections: int, growth: float, busy_share: float) -> bool:
    """Whether to collect everything now.

    The longer it is due, the busier the moment may be; at twice the need it may be any.

    Args:
        young_collections: since the last full one.
        growth: allocated blocks, in those that the last full one left.
        busy_share: of the loop's time in the last second.
    """
    by_count = young_collections / DUE_AFTER
    by_growth = 1 + (growth - GROWTH_DUE) / (GROWTH_MAX - GROWTH_DUE)
    need = max(by_count, by_growth)
    return need >= 1 and busy_share <= CALM_SHARE + need - 1


class CalmCollector:
    """Checks every second whether a full collection is due and the moment is calm."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._young = self._blocks = 0  # at the last full collection
        self._cpu_s = self._checked_s = 0.0  # at the last check

    def start(self) -> None:
        """Begin, right after ``freeze_start``; nothing to do where collections are incremental."""
        if generational():
            self._collected()
            self._again(asyncio.get_running_loop())

    def stop(self) -> None:
        """End; nothing is collected any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._cpu_s, self._checked_s = time.thread_time(), loop.time()
        self._timer = loop.call_later(CHECK_S, self._check)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        busy_s = time.thread_time() - self._cpu_s
        share = busy_s / max(loop.time() - self._checked_s, CHECK_S)
        young = _young_collections() - self._young
        if is_due(young, sys.getallocatedblocks() / self._blocks, share):
            began_s = time.thread_time()
            found = gc.collect()
            took_ms = (time.thread_time() - began_s) * 1e3
            _log.debug("a full collection found %d objects in %.1f ms", found, took_ms)
            self._collected()
        self._again(loop)

    def _collected(self) -> None:
        self._young, self._blocks = _young_collections(), max(1, sys.getallocatedblocks())


def _young_collections() -> int:
    return int(gc.get_stats()[0]["collections"])
