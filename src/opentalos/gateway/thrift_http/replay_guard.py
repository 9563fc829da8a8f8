"""Detects replays of signed requests, by their signed id or by their signature.

Within the accepted clock skew a signature does not distinguish a replay from a repeated call. A
client that signs a unique id with each request can have replays rejected. Each server has its own
bounded memory of ids.
"""

from typing import Final

from opentalos.model.errors import ExcessivePending

IDS_MAX: Final = 200_000  # in each half; about 20 MB in all


class SeenRequests:
    """Remembers ids for at least ``window_s``, in two halves; the older one is dropped.

    Args: strict: beyond ``ids_max`` in ``window_s``, reject requests instead of dropping the
    oldest ids early.
    """

    def __init__(self, window_s: float, ids_max: int = IDS_MAX, *, strict: bool = False) -> None:
        self._window_s, self._ids_max, self._strict = window_s, ids_max, strict
        self._new: set[int] = set()
        self._old: set[int] = set()
        self._turn_s = float("-inf")

    def first(self, key_id: str, request_id: bytes, now_s: float) -> bool:
        """Record a request; True if it is new. ``now_s``: a monotonic clock.

        Raises: ExcessivePending: too many requests to remember them all.
        """
        seen = hash((key_id, request_id))  # 64 bits, with a key per process
        full = len(self._new) >= self._ids_max
        if full and self._strict and now_s < self._turn_s:
            raise ExcessivePending(
                f"too many one-time requests: limit {self._ids_max:,} in {self._window_s:g} s"
            )
        if now_s >= self._turn_s or full:
            # Nothing was recorded for a whole window, so the newer half is too old as well.
            late = now_s >= self._turn_s + self._window_s
            self._old = set() if late else self._new
            self._new = set()
            self._turn_s = now_s + self._window_s
        if seen in self._new or seen in self._old:
            return False
        self._new.add(seen)
        return True
