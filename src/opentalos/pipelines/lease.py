"""The two rules of leases on the side of their holder. Pure.

``HeldLease``: until when a holder may believe that it has its lease, by a clock that never jumps.
The server counts the time from when it stored the renewal, which is later than when the holder
asked for it. So a holder that counts from before its request ends first. The margin covers clocks
of different rates, and the time to stop.

``check_epoch``: what a holder writes too late is refused by what it writes to, because a paused
process does not know that its time is over.
"""

from dataclasses import dataclass, replace
from typing import Final

from opentalos.model.errors import LeaseNotHeld

RENEW_PART: Final = 1 / 3  # of the ttl, after which it is renewed
MARGIN_PART: Final = 1 / 10  # of the ttl, before whose end the holder stops


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease that was granted. ``asked_s``: right before the request for its last renewal."""

    name: str
    epoch: int
    ttl_s: float
    asked_s: float

    def renewed(self, asked_s: float) -> "HeldLease":
        """After a renewal for which the holder asked at that time."""
        return replace(self, asked_s=max(asked_s, self.asked_s))

    def is_due(self, now_s: float) -> bool:
        """Whether it is to be renewed."""
        return now_s >= self.asked_s + self.ttl_s * RENEW_PART

    def must_stop(self, now_s: float) -> bool:
        """Whether the holder must stop, since another one may soon have it."""
        return now_s >= self.asked_s + self.ttl_s * (1 - MARGIN_PART)


def check_epoch(what: str, epoch: int, newest: int) -> None:
    """Return unless a later run has written ``what``.

    Args:   epoch: of the lease of the run that writes; 0: it has none, and is never refused;
            newest: the highest epoch that has written; 0: none.
    Raises: LeaseNotHeld: not done.
    """
    if 0 < epoch < newest:
        raise LeaseNotHeld(
            f"could not write {what} under epoch {epoch}: a run with epoch {newest} has written "
            "it; that run has taken over, so this one must stop"
        )
