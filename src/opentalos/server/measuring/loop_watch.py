"""Measures how long the event loop was blocked."""

import asyncio
import logging
from collections import deque

_TICK_S = 0.02  # resolution
_WARN_S = 0.25  # longer stalls are logged, at most once per report interval
_REPORT_S = 10.0
# The recent window: longer than the usual interval between two reads of the metrics.
BUCKET_S = 10.0
BUCKETS = 7  # one of them is not full yet

_log = logging.getLogger("opentalos.loop")


class LoopWatch:
    """A timer that notices when it fires late."""

    def __init__(self) -> None:
        self.longest_s = 0.0  # since the start
        self.blocked_s = 0.0  # total of all stalls longer than a tick
        self._recent: deque[tuple[int, float]] = deque(maxlen=BUCKETS)  # bucket, its longest
        self._lately_s = 0.0  # the longest since the last ``take_longest_s``
        self._expected_s = 0.0
        self._reported_s = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to measure the running loop."""
        loop = asyncio.get_running_loop()
        self._expected_s = loop.time() + _TICK_S
        self._timer = loop.call_at(self._expected_s, self._tick)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        stall_s = now_s - self._expected_s
        self.note(now_s, stall_s)
        self._expected_s = now_s + _TICK_S
        self._timer = loop.call_at(self._expected_s, self._tick)

    def note(self, now_s: float, stall_s: float) -> None:
        """Count a stall that ended now."""
        bucket = int(now_s // BUCKET_S)
        if not self._recent or self._recent[-1][0] != bucket:
            self._recent.append((bucket, stall_s))
        elif stall_s > self._recent[-1][1]:
            self._recent[-1] = bucket, stall_s
        if stall_s > self.longest_s:
            self.longest_s = stall_s
        if stall_s > self._lately_s:
            self._lately_s = stall_s
        if stall_s > _TICK_S:
            self.blocked_s += stall_s
        if stall_s > _WARN_S and now_s - self._reported_s > _REPORT_S:
            self._reported_s = now_s
            _log.warning("event loop blocked", extra={"stall_ms": round(stall_s * 1000)})

    def recent_s(self) -> float:
        """The longest stall of the last 60 to 70 s."""
        if not self._recent:
            return 0.0
        first = self._recent[-1][0] - BUCKETS  # buckets are missing after a long stall
        return max(longest_s for bucket, longest_s in self._recent if bucket > first)

    def take_longest_s(self) -> float:
        """The longest stall since the last call."""
        lately_s, self._lately_s = self._lately_s, 0.0
        return lately_s

    def stop(self) -> None:
        """Stop measuring."""
        if self._timer is not None:
            self._timer.cancel()
