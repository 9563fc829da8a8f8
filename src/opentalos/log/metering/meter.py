"""Metering of one partition: its committed messages by minute of append time. Pure.

The writer counts at commit, the broker's metering writes usage events and settles. Promise I9:
what is counted is a function of the committed blocks alone, so a recount finds the same.

Append times of a partition never decrease, so a minute ends when a block of a later one is
committed. Without such a block it ends by the clock, once no block can get an append time within
it any more: ``Mark.floor_ms`` is the earliest append time of later messages.
"""

from typing import NamedTuple

from opentalos.log.metering.kept import Kept

MINUTE_MS = 60_000
# Kept in memory per partition until they are metered. Above it counting stops and later resumes
# from the log itself, which is the spool.
MINUTES_MAX = 8
# A minute so far in the future was stored under a wrong clock. Nobody waits until it has passed:
# retention would wait as well. What ends it is the floor, not the clock.
FUTURE_MS_MIN = 600_000


class Mark(NamedTuple):
    """How far metering came: part of the manifest, see ``manifest``."""

    offset: int = 0  # every message below it is metered
    floor_ms: int = 0  # append times from ``offset`` on are not earlier
    since: int = 0  # no message from here on was left out; larger if it was ever switched off


class Minute:
    """What a partition took in during one minute, so far."""

    __slots__ = ("bytes", "first_offset", "minute_ms", "next_offset", "reported_offset")

    def __init__(self, minute_ms: int, first_offset: int) -> None:
        self.minute_ms = minute_ms  # its first millisecond
        self.first_offset = self.next_offset = first_offset
        self.bytes = 0  # of payloads, as stored
        self.reported_offset = first_offset  # below it, a durable usage event has the minute

    @property
    def records(self) -> int:
        """Messages."""
        return self.next_offset - self.first_offset

    def note_reported(self, next_offset: int) -> None:
        """A durable usage event covers the minute's messages below ``next_offset``."""
        self.reported_offset = max(self.reported_offset, next_offset)


class Minutes:
    """Contiguous blocks from an offset on, by minute, oldest first; at most ``most`` minutes."""

    __slots__ = ("found", "most", "next_offset", "unit_ms")

    def __init__(
        self, offset: int = 0, *, most: int = MINUTES_MAX, unit_ms: int = MINUTE_MS
    ) -> None:
        self.next_offset, self.most = offset, most
        self.unit_ms = unit_ms  # simulations have shorter minutes
        self.found: list[Minute] = []

    def begin_at(self, offset: int) -> None:
        """The first block to count begins at ``offset``; nothing was counted yet."""
        self.next_offset = offset

    def add(self, base_offset: int, messages: int, append_ms: int, payload_bytes: int) -> bool:
        """Count blocks with one append time; False: they do not follow, or no minute is left."""
        if base_offset != self.next_offset:
            return False
        minute_ms = append_ms - append_ms % self.unit_ms
        found = self.found
        if not found or minute_ms > found[-1].minute_ms:
            if len(found) >= self.most:
                return False
            found.append(Minute(minute_ms, base_offset))
        last = found[-1]
        last.bytes += payload_bytes
        self.next_offset = last.next_offset = base_offset + messages
        return True


class Meter(Minutes):
    """What is counted but not metered yet, of a partition that this server writes or reads.

    A commit that does not follow what was counted (after a failover, or after a commit whose
    outcome only recovery found) is left out; ``recount.count_on`` counts it from the log.
    """

    __slots__ = ("kept", "known", "mark")

    def __init__(self, unit_ms: int, *, reports_kept: bool = False) -> None:
        super().__init__(unit_ms=unit_ms)
        self.kept = Kept() if reports_kept else None  # None: nobody asks how long it is kept
        self.mark = Mark()
        self.known = False  # it has begun at a manifest

    def restart(self, mark: Mark, start: int) -> None:
        """Begin at the mark of a manifest; another process may have appended since."""
        self.mark = mark
        if start > mark.offset:  # dropped while nothing was metered
            self.mark = mark._replace(offset=start, since=start)
        self.found, self.next_offset, self.known = [], self.mark.offset, True
        if self.kept is not None:
            self.kept = Kept()

    def cut(self, end: int) -> None:
        """The log ends at ``end``: flushed messages may be lost after a power failure."""
        if end < self.next_offset:
            self.restart(self.mark._replace(offset=min(self.mark.offset, end)), 0)

    def settle(self, now_ms: int, *, quiet: bool) -> None:
        """Move the mark over the minutes that ended and are wholly in durable usage events.

        ``quiet``: everything appended is counted and no commit is under way, so the clock may
        end the last minute: later blocks get the floor as their append time at least.
        """
        found = self.found
        while found and found[0].reported_offset == found[0].next_offset:
            first = found[0]
            end_ms = first.minute_ms + self.unit_ms
            ended = now_ms >= end_ms or first.minute_ms > now_ms + FUTURE_MS_MIN
            if len(found) == 1 and not (quiet and ended):
                break
            floor_ms = max(self.mark.floor_ms, end_ms)
            self.mark = self.mark._replace(offset=first.next_offset, floor_ms=floor_ms)
            del found[0]
