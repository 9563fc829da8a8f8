"""GuessLimit: how many wrong secrets one address may try for one key.

Failures take from a bucket of the pair, which refills slowly. While it is empty the address is
refused without a check, so a guess reveals nothing, and its refusals take nothing more. Other
addresses are never affected: no stranger can lock the owner of a key out. Unknown keys of an
address share one bucket.

The table is bounded. A pair that falls out of it starts again; to use this, a guesser needs as many
addresses as the table has places.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sized
from typing import Final

from opentalos.model.errors import AttemptsExceeded

PAIRS_MAX: Final = 20_000
_SHOWN_CHARS_MAX: Final = 64

_Pair = tuple[str, str]


class GuessLimit:
    """Counts failed authentications. Args: burst: failures of a pair before it must wait."""

    def __init__(
        self, burst: int, per_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst, self._per_s, self._clock = burst, per_s, clock
        # When the bucket of a pair is full again; pairs that failed last are at the end.
        self._full_s: OrderedDict[_Pair, float] = OrderedDict()
        self.pairs: Sized = self._full_s  # is empty if nobody has guessed

    def __len__(self) -> int:
        return len(self._full_s)

    def check(self, network: str, key_id: str) -> None:
        """Return if the pair may try. Raises: AttemptsExceeded."""
        now_s, pairs = self._clock(), self._full_s
        first = next(iter(pairs), None)
        if first is not None and pairs[first] <= now_s:
            del pairs[first]  # so that the table is empty again some time after an attack
        full_s = pairs.get((network, key_id))
        if full_s is None:
            return
        wait_s = full_s - now_s - (self._burst - 1) / self._per_s
        if wait_s > 0.0:
            what = f"key {key_id[:_SHOWN_CHARS_MAX]}" if key_id else "unknown keys"
            raise AttemptsExceeded(
                f"too many failed attempts with {what} from this address; retry in "
                f"{wait_s:.1f} s with the right secret"
            )

    def failed(self, network: str, key_id: str) -> None:
        """Count a failure of the pair."""
        pair, now_s = (network, key_id), self._clock()
        full_s = max(self._full_s.pop(pair, 0.0), now_s)
        if len(self._full_s) >= PAIRS_MAX:
            self._full_s.popitem(last=False)
        self._full_s[pair] = full_s + 1.0 / self._per_s
