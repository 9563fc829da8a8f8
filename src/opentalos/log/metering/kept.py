"""What the log of usage says of how long a partition's messages were kept. Pure.

Each report says: the messages from offset S on were kept until T. It is true whoever makes it, if S
is read from the stored manifest after T: a start offset never goes back. So reports may be
repeated, late and in any order; what none of them says is not billed. Retention waits for one that
was made after it had decided to drop messages, so that dropping loses no report.
"""

from typing import Final

_NOWHERE: Final = -1


class Kept:
    """Which reports of one partition are due, and what retention may drop."""

    __slots__ = ("_permitted_start", "_until_ms", "asked")

    def __init__(self) -> None:
        self.asked = False  # retention waits for a report
        self._until_ms = 0  # of the newest report
        self._permitted_start = _NOWHERE

    def permits(self, start: int) -> bool:
        """Whether messages from ``start`` on may be dropped; if not, a report becomes due."""
        self.asked = self._permitted_start != start
        return not self.asked

    def due(self, now_ms: int, interval_ms: int) -> bool:
        """Whether a report is to be made."""
        return self.asked or now_ms >= self._until_ms + interval_ms

    def reported(self, start: int, until_ms: int, *, asked: bool) -> None:
        """A report is durable. ``asked``: as it was when the report's time was taken."""
        self._until_ms = max(self._until_ms, until_ms)
        if asked:
            self._permitted_start, self.asked = start, False
