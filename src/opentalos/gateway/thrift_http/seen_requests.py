"""Which signed requests have come already, by the id they carry or by their signature.

Within the clock skew that is accepted, a signature alone cannot tell a copy from the same call made
again. A client that signs an id of its own for each request can have copies refused. Kept by each
server for itself, within a bound.
"""

from typing import Final

from opentalos.model.errors import ExcessivePending

IDS_MAX: Final = 200_000  # in each half; about 20 MB in all


class SeenRequests:
    """Ids of the last ``window_s`` to twice as long, in two halves of which the older one goes.

    Args: strict: with more than ``ids_max`` in ``window_s`` refuse what comes, instead of
    forgetting the oldest ones early.
    """

    def __init__(self, window_s: float, ids_max: int = IDS_MAX, *, strict: bool = False) -> None:
        self._window_s, self._ids_max, self._strict = window_s, ids_max, strict
        self._new: set[int] = set()
        self._old: set[int] = set()
        self._turn_s = float("-inf")

    def first(self, key_id: str, request_id: bytes, now_s: float) -> bool:
        """Note a request; whether it came for the first time. ``now_s``: a steady clock.

        Raises: ExcessivePending: too many to be sure of all.
        """
        seen = hash((key_id, request_id))  # of 64 bits, keyed anew in each process
        full = len(self._new) >= self._ids_max
        if full and self._strict and now_s < self._turn_s:
            raise ExcessivePending(
                f"too many one-time requests: limit {self._ids_max:,} in {self._window_s:g} s"
            )
        if now_s >= self._turn_s or full:
            # Nothing was noted for a whole window: the older half is too old as well.
            late = now_s >= self._turn_s + self._window_s
            self._old = set() if late else self._new
            self._new = set()
            self._turn_s = now_s + self._window_s
        if seen in self._new or seen in self._old:
            return False
        self._new.add(seen)
        return True
