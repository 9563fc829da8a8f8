"""Trusted time: what append times and retention may believe of the wall clock. Pure.

The wall clock may be wrong by days at the start and jump while the server runs. It is compared
with the *known time*: what the coordination service's own clock says where it has one (a cluster),
else the time that this server saw last, carried on by the loop's clock, which never jumps.

While both agree, the wall clock is used. Otherwise it is in doubt, and every error goes to the
side that keeps data: nothing is deleted by age, and append times are rather late than early.
``ClockRecord`` stores the known time and feeds the coordination service's; the writer asks for
append times, upkeep and sweeps for the time of retention.
"""

from collections.abc import Callable
from typing import NamedTuple

from opentalos.model.limits import LogLimits

_MS_PER_S = 1_000
# The known time follows an agreeing clock by at most this part of the time that passed, so that a
# clock of a wrong rate is noticed. NTP slews by 0.05 %.
DRIFT_MAX = 0.01
# A clock in doubt is steady if it loses or gains no more than that part, and an error of reading.
STEADY_MS = 10_000
# A single server that stood still for so long stamps puts by its wall clock at once; above it a
# wrong clock is more likely, so puts are stamped by the known time until the clock is confirmed.
STOP_MAX_MS = 35 * 86_400_000
# Going back undoes a time that was already believed, for which a longer proof is asked.
BACK_FACTOR = 24
# Between two comparisons an append time may be ahead by this more than the limit.
WINDOW_MS = 60_000

Interval = tuple[int, int]


class LastSeen(NamedTuple):
    """What a server stores of its clock for its next start."""

    time_ms: int  # the known time
    wall_ms: int  # the wall clock at the same moment
    ran_s: float = 0.0  # for so long it has run steadily while it was in doubt
    early_ms: int | None = (
        None  # append times from here on are too early if the wall clock is right
    )
    recounted: Interval | None = None  # append times that were found to be too early


class TrustedTime:
    """Append times and retention time of one server.

    Two states: the clock is trusted or in doubt. Every question may change it. Doubt ends when

    - the wall clock agrees with the known time again (a wrong clock was corrected), or
    - it agrees with the coordination service's clock (two independent clocks), or
    - without such a service, it ran as steadily as the loop's clock for ``clock_confirm_s``: then
      the server had stopped for long, or the former clock was wrong.

    A coordination service whose clock jumps alone is in doubt by the same rules.
    """

    __slots__ = (
        "_before_s",
        "_candidate",
        "_confirm_s",
        "_early_ms",
        "_high_ms",
        "_known_ms",
        "_known_s",
        "_limit_ms",
        "_low_ms",
        "_off_ms",
        "_proven",
        "_recounted",
        "_store",
        "_time_s",
        "_wall_ms",
    )

    def __init__(
        self, limits: LogLimits, wall_ms: Callable[[], int], time_s: Callable[[], float]
    ) -> None:
        self._limit_ms = int(limits.clock_disagree_max_s * _MS_PER_S)
        self._confirm_s = limits.clock_confirm_s
        self._wall_ms, self._time_s = wall_ms, time_s
        self._known_ms = self._known_s = 0.0  # the known time at a reading of the loop's clock
        self._store: tuple[float, float] | None = None  # the service's clock, likewise
        self._candidate: tuple[float, float] | None = None  # a clock in doubt: first reading
        self._before_s = 0.0  # for so long it ran already in former runs
        self._proven = False  # False after an upgrade: there is a log, but no known time
        self._off_ms = 0.0
        self._low_ms, self._high_ms = 1, 0  # wall times that are append times without a question
        self._early_ms: int | None = None
        self._recounted: Interval | None = None

    def begin(self, last: LastSeen | None, *, empty: bool) -> None:
        """The server starts; ``last``: as stored by the former run; ``empty``: there is no log."""
        wall_ms, self._known_s = self._wall_ms(), self._time_s()
        self._known_ms = wall_ms if last is None else last.time_ms
        self._proven = last is not None or empty
        if last is not None:
            self._early_ms, self._recounted = last.early_ms, last.recounted
            if self._early_ms is None and abs(last.wall_ms - last.time_ms) > self._limit_ms:
                self._early_ms = last.time_ms  # what that run stamped afterwards is not recorded
            if wall_ms >= last.wall_ms - self._limit_ms:
                self._before_s = last.ran_s
        self._observe(wall_ms)

    def note_store(self, store_ms: int, loop_s: float) -> None:
        """The coordination service's own clock read ``store_ms`` when the loop's read ``loop_s``.

        The first reading is believed: what the server saw last is older by an unknown time.
        """
        first, self._store = self._store is None, (store_ms, loop_s)
        now_s = self._time_s()
        if first:
            self._settle(store_ms + (now_s - loop_s) * _MS_PER_S, now_s)
        self._observe(self._wall_ms())

    def append_ms(self) -> int:
        """The time of messages that are stored now; the log itself makes times monotonic."""
        wall_ms = self._wall_ms()
        if self._low_ms <= wall_ms <= self._high_ms:
            return wall_ms
        return self._stamp(wall_ms)

    def retention_ms(self) -> int | None:
        """The time by which old data may be deleted; None: not now, the clock is in doubt."""
        wall_ms = self._wall_ms()
        self._observe(wall_ms)
        return None if self.in_doubt else wall_ms

    def counted_ms(self, last_append_ms: int, now_ms: int) -> int | None:
        """From when retention has to count a segment that ends at ``last_append_ms``.

        None: from there. Else its append times are wrong: in the future by a clock that was wrong
        once, or too early since a clock was in doubt that turned out to be right. Both count from
        the moment at which this is found, ``now_ms``.
        """
        if last_append_ms > now_ms + self._limit_ms:
            return now_ms
        early = self._recounted
        return now_ms if early is not None and early[0] <= last_append_ms <= early[1] else None

    @property
    def in_doubt(self) -> bool:
        """Whether nothing may be deleted by age."""
        return self._candidate is not None or abs(self._off_ms) > self._limit_ms

    @property
    def disagreement_s(self) -> float:
        """By how much the wall clock is ahead of the known time at the latest question."""
        return self._off_ms / _MS_PER_S

    def doubt(self) -> str:
        """Why the clock is in doubt, for logs and the status; empty: it is not."""
        if not self.in_doubt:
            return ""
        other = "the time this server saw last" if self._store is None else "the cluster's clock"
        if not self._proven:
            text = "no earlier time of this server is known"
        elif self._candidate is not None and self._store is not None:
            text = "the clock of the coordination service jumped"
        else:
            direction = "ahead of" if self._off_ms > 0 else "behind"
            text = f"the wall clock is {_duration(abs(self.disagreement_s))} {direction} {other}"
        if self._candidate is None:
            return f"{text}; correct this server's clock"
        left_s = max(0.0, self._needed_s() - self._ran_s(self._time_s()))
        return f"{text}; if it is right, it is believed in {_duration(left_s)}"

    def last_seen(self) -> LastSeen:
        """What the next start has to know."""
        wall_ms = self._wall_ms()
        self._observe(wall_ms)
        now_s = self._time_s()
        ran_s = self._ran_s(now_s) if self._candidate is not None else 0.0
        known_ms = int(self._known_at(now_s))
        return LastSeen(known_ms, wall_ms, ran_s, self._early_ms, self._recounted)

    # --- inside ---------------------------------------------------------------------------------

    def _known_at(self, now_s: float) -> float:
        return self._known_ms + (now_s - self._known_s) * _MS_PER_S

    def _observe(self, wall_ms: int) -> None:
        """Compare the clocks, and follow or doubt."""
        now_s, source_ms = self._time_s(), float(wall_ms)
        known_ms = self._known_at(now_s)
        confirmed = False
        if self._store is not None:
            source_ms = self._store[0] + (now_s - self._store[1]) * _MS_PER_S
            confirmed = abs(wall_ms - source_ms) <= self._limit_ms
        off_ms = source_ms - known_ms
        if abs(off_ms) <= self._limit_ms and self._proven:
            self._candidate, self._before_s = None, 0.0
            most_ms = (now_s - self._known_s) * DRIFT_MAX * _MS_PER_S
            self._known_ms = known_ms + max(-most_ms, min(off_ms, most_ms))
            self._known_s = now_s
        elif confirmed or self._steady(source_ms, off_ms, now_s):
            self._settle(source_ms, now_s)
        self._off_ms = wall_ms - self._known_at(now_s)
        self._low_ms, self._high_ms = self._window(wall_ms)

    def _settle(self, time_ms: float, now_s: float) -> None:
        """Believe ``time_ms`` from now on."""
        self._end_doubt(time_ms, time_ms > self._known_at(now_s) + self._limit_ms)
        self._known_ms, self._known_s = time_ms, now_s
        self._candidate, self._before_s, self._proven = None, 0.0, True

    def _end_doubt(self, time_ms: float, forward: bool) -> None:
        """What was stamped by the known time was too early if that goes forward.

        A single server does not even know how long it had stopped before.
        """
        if self._early_ms is not None and (forward or self._store is None):
            self._recounted = (self._early_ms, int(time_ms))
        self._early_ms = None

    def _steady(self, source_ms: float, off_ms: float, now_s: float) -> bool:
        """Whether a clock in doubt ran with the loop's for long enough; begins with a new one."""
        if self._candidate is not None:
            first_ms, first_s = self._candidate
            ran_ms = (now_s - first_s) * _MS_PER_S
            if abs(source_ms - first_ms - ran_ms) > STEADY_MS + DRIFT_MAX * ran_ms:
                self._candidate, self._before_s = None, 0.0
        if self._candidate is None:
            self._candidate = (source_ms, now_s)
        return self._ran_s(now_s) >= self._needed_s(off_ms)

    def _ran_s(self, now_s: float) -> float:
        return self._before_s + (now_s - self._candidate[1] if self._candidate else 0.0)

    def _needed_s(self, off_ms: float | None = None) -> float:
        back = (self._off_ms if off_ms is None else off_ms) < -self._limit_ms
        return self._confirm_s * (BACK_FACTOR if back else 1)

    def _window(self, wall_ms: int) -> Interval:
        """Wall times that may be append times until the next comparison."""
        limit_ms, known_ms = self._limit_ms, int(wall_ms - self._off_ms)
        if abs(self._off_ms) <= limit_ms:
            if self._candidate is None:
                self._end_doubt(wall_ms, forward=False)
            return known_ms - limit_ms, known_ms + limit_ms + WINDOW_MS
        if self._store is None and 0 < self._off_ms <= STOP_MAX_MS:
            return max(wall_ms - limit_ms, known_ms), wall_ms + limit_ms + WINDOW_MS
        return 1, 0

    def _stamp(self, wall_ms: int) -> int:
        self._observe(wall_ms)
        if self._low_ms <= wall_ms <= self._high_ms:
            return wall_ms
        known_ms = int(wall_ms - self._off_ms)
        if self._early_ms is None:
            self._early_ms = known_ms
        return known_ms


def _duration(seconds: float) -> str:
    for unit_s, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.1f} {name}"
    return f"{seconds:.0f} s"
