"""When a failed attempt is retried, and the final error of its operation; no I/O."""

from collections.abc import Callable
from typing import Final, NoReturn

from opentalos.model.errors import OutcomeUnknown, TalosError, Unavailable

ATTEMPT_S_MIN: Final = 0.05  # a write started closer to the deadline would end unknown
_DOUBLINGS_MAX: Final = 30  # of a pause; far beyond its upper limit


class RetryPolicy:
    """The attempts of one operation, with full jitter and a deadline.

    A transient failure (Unavailable: not done) is retried until the deadline, an unknown outcome
    only if ``repeatable``. After an unknown outcome the operation stays unknown if a later
    attempt fails, unless it ``reads``: the first attempt may have written.

    Args:    pause_s: longest pause after the first failure, and after many; deadline_s: on the
             loop's clock; endpoints: tried once each before the backoff grows; random: [0, 1).
    """

    def __init__(
        self,
        *,
        pause_s: tuple[float, float],
        deadline_s: float,
        repeatable: bool,
        reads: bool,
        endpoints: int = 1,
        random: Callable[[], float],
    ) -> None:
        self.deadline_s = deadline_s
        self._pause_s = pause_s
        self._repeatable, self._reads = repeatable or reads, reads
        self._endpoints, self._random = endpoints, random
        self._failures = 0
        self._unknown: OutcomeUnknown | None = None

    def left_s(self, now_s: float) -> float:
        """Time until the deadline; 0 once it has passed."""
        return max(0.0, self.deadline_s - now_s)

    def pause_after(self, error: TalosError, now_s: float) -> float:
        """Seconds to wait before the next attempt. Raises: the final error of the operation."""
        if isinstance(error, OutcomeUnknown):
            self._unknown = self._unknown or error
            if not self._repeatable:
                raise error
        elif not isinstance(error, Unavailable):
            self._end(error)
        doublings = min(self._failures // self._endpoints, _DOUBLINGS_MAX)
        self._failures += 1
        first_s, longest_s = self._pause_s
        pause_s = self._random() * min(longest_s, first_s * float(1 << doublings))
        if now_s + pause_s + ATTEMPT_S_MIN > self.deadline_s:
            error.add_note(f"gave up after {self._failures} attempts")
            self._end(error)
        return pause_s

    def _end(self, error: TalosError) -> NoReturn:
        unknown = self._unknown
        if unknown is None or self._reads or isinstance(error, OutcomeUnknown):
            raise error
        raise OutcomeUnknown(f"{unknown}; then {type(error).__name__}: {error}") from error
