"""Intervals that end at multiples of their length by the wall clock; pure."""

from typing import Final

SET_BACK_MS_MAX: Final = 60_000  # if the clock is set back by less, wait until it catches up


class Intervals:
    """Each interval ends once, later than the one before, unless the clock was set far back."""

    def __init__(self, step_ms: int) -> None:
        self.step_ms = step_ms
        self.last_ms = 0  # end of the last interval; 0: none
        self._measuring = False  # without a gap since the last interval

    def resume(self, last_ms: int, now_ms: int) -> None:
        """Continue after a former process, whose last interval ended or ends at ``last_ms`` (0:
        unknown). It may have written every interval that ended before ``now_ms``."""
        self.last_ms = last_ms
        begun_ms = now_ms - now_ms % self.step_ms
        if not self._back(begun_ms):
            self.last_ms = begun_ms

    def wait_s(self, now_ms: int) -> float:
        """Seconds until the current interval ends."""
        return (self.step_ms - now_ms % self.step_ms) / 1_000

    def end(self, now_ms: int) -> tuple[int, int] | None:
        """End and length of the interval that is over; None: it ended before."""
        at_ms = now_ms - now_ms % self.step_ms
        if self._back(at_ms):
            return None
        return self._ended(at_ms)

    def cut(self, now_ms: int) -> tuple[int, int]:
        """The same for the current interval, which ends early."""
        at_ms = now_ms - now_ms % self.step_ms + self.step_ms
        while self._back(at_ms):
            at_ms += self.step_ms
        return self._ended(at_ms)

    def _back(self, at_ms: int) -> bool:
        return self.last_ms - SET_BACK_MS_MAX - self.step_ms < at_ms <= self.last_ms

    def _ended(self, at_ms: int) -> tuple[int, int]:
        # After a gap, such as a suspended machine, one long interval covers it.
        length_ms = at_ms - self.last_ms if self._measuring else self.step_ms
        self.last_ms, self._measuring = at_ms, True
        return at_ms, max(length_ms, self.step_ms)
