"""DelayedCalls: calls over their rate begin after their delay, those of one key in their order.

Timers that are due at about the same time may end in any order, and a short delay may end before a
longer one that began earlier. But sequences of a producer have no gaps, so nothing may overtake.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import NamedTuple

from opentalos.model.errors import ThrottleRejected


class _Delayed(NamedTuple):
    bytes: int
    begin: Callable[[], None]


class DelayedCalls:
    """At most ``bytes_max`` of payload wait. Each timer begins the first call of its key."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.bytes = 0  # that wait
        self._waiting: dict[Hashable, deque[_Delayed]] = {}

    def __contains__(self, key: Hashable) -> bool:
        """Whether calls of this key wait; hot path."""
        return key in self._waiting

    def add(
        self, key: Hashable, delay_s: float, bytes_count: int, begin: Callable[[], None]
    ) -> None:
        """Call ``begin``, which must not raise, after the delay and those that wait.

        Raises: ThrottleRejected: too many bytes wait.
        """
        if self.bytes + bytes_count > self._bytes_max:
            raise ThrottleRejected(
                f"bytes of throttled puts: limit {self._bytes_max}, "
                f"measured {self.bytes + bytes_count}"
            )
        self.bytes += bytes_count
        self._waiting.setdefault(key, deque()).append(_Delayed(bytes_count, begin))
        asyncio.get_running_loop().call_later(delay_s, self._begin_first, key)

    def _begin_first(self, key: Hashable) -> None:
        waiting = self._waiting[key]
        first = waiting.popleft()
        if not waiting:
            del self._waiting[key]
        self.bytes -= first.bytes
        first.begin()
