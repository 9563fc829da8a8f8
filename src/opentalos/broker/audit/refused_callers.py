"""RefusedCallers: failed authentications as audit events, of which no stranger can cause many.

The first failure of a key from an address is an event at once; further ones are counted, and are
one event a minute with their number. Failures that name no live key share one count per address,
since a key id that nobody has may be a secret in the wrong field. When as many pairs are counted as
the table has places, all others share one count.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from opentalos.broker.audit.trail import Act, AuditTrail
from opentalos.broker.values import LiveKey
from opentalos.model.address import network_of

COUNTED_S: Final = 60.0  # failures of a pair within this time are one event
_ACTION: Final = "authenticate"
_Pair = tuple[str, str]
_OTHERS: Final[_Pair] = ("", "")


class Refusal(NamedTuple):
    """A failed authentication. ``key_id``: as the caller sent it, empty if it sent none."""

    peer: str
    key_id: str
    error: Exception


class _Count:
    """Of one pair, since ``since_s``. ``last``: the last failure that no event reported."""

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.failures = 0
        self.last: Refusal | None = None


class RefusedCallers:
    """Counts from the first failure on; idle without any. ``close`` reports what was counted.

    Args: pairs_max: of an address and a key, counted apart.
    """

    def __init__(
        self, audit: AuditTrail, key: Callable[[str], LiveKey | None], pairs_max: int
    ) -> None:
        self._audit, self._key, self._pairs_max = audit, key, pairs_max
        self._counts: dict[_Pair, _Count] = {}  # the oldest first
        self._timer: asyncio.TimerHandle | None = None

    def add(self, refusal: Refusal) -> None:
        """Record or count a failure; never raises, never waits."""
        pair = self._pair(refusal)
        count = self._counts.get(pair)
        if count is not None:
            count.failures += 1
            count.last = refusal
            return
        loop = asyncio.get_running_loop()
        self._counts[pair] = _Count(loop.time())
        self._report(pair, refusal, 1)
        if self._timer is None:
            self._timer = loop.call_later(COUNTED_S, self._pass, loop)

    def close(self) -> None:
        """Record what was counted; a later failure is a first one again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        counts, self._counts = self._counts, {}
        for pair, count in counts.items():
            self._report_count(pair, count)

    def _pair(self, refusal: Refusal) -> _Pair:
        known = refusal.key_id if self._key(refusal.key_id) is not None else ""
        pair = (network_of(refusal.peer), known)
        # One place is kept for all others together.
        full = len(self._counts) >= self._pairs_max and pair not in self._counts
        return _OTHERS if full else pair

    def _pass(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report the pairs whose time is over, and forget those that were quiet."""
        now_s = loop.time()
        for pair, count in list(self._counts.items()):
            if now_s - count.since_s < COUNTED_S:
                break
            del self._counts[pair]
            if count.last is not None:
                self._report_count(pair, count)
                self._counts[pair] = _Count(now_s)
        first = next(iter(self._counts.values()), None)
        self._timer = None
        if first is not None:
            wait_s = COUNTED_S - (now_s - first.since_s)
            self._timer = loop.call_later(wait_s, self._pass, loop)

    def _report_count(self, pair: _Pair, count: _Count) -> None:
        if count.last is not None:
            self._report(pair, count.last, count.failures)

    def _report(self, pair: _Pair, refusal: Refusal, failures: int) -> None:
        """An event about a known key is its tenant's; any other is the service's."""
        live = self._key(pair[1])
        whose = (live.principal.id, live.principal.owner_id) if live is not None else ("", "")
        details = {
            "key_id": pair[1],
            "failures": failures,
            "reason": str(refusal.error),
            "from": "several addresses" if pair == _OTHERS else "",
        }
        self._audit.refused(
            Act(_ACTION, *whose, details), refusal.peer, type(refusal.error).__name__
        )
