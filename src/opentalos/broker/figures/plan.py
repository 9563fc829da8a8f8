"""Which resolution answers a question about a time range; pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from opentalos.broker.figures.ring import Level
from opentalos.model.errors import BadRequest

POINTS_MAX: Final = 2_000  # of a series
POINTS_DEFAULT: Final = 360
RANGE_DEFAULT_MS: Final = 3_600_000


class Times(NamedTuple):
    """A time range as it was asked for, Unix ms; 0: the default."""

    from_ms: int = 0
    to_ms: int = 0
    step_ms: int = 0


LAST_HOUR: Final = Times()


class Plan(NamedTuple):
    """``steps`` steps of ``step_ms`` from ``from_ms`` on, each of ``step`` intervals of a level."""

    level: int
    from_ms: int
    steps: int
    step_ms: int
    step: int

    @property
    def to_ms(self) -> int:
        """The end of the last step."""
        return self.from_ms + self.steps * self.step_ms

    def times_ms(self) -> Sequence[int]:
        """The start of each step."""
        return range(self.from_ms, self.to_ms, self.step_ms)


def plan(
    times: Times, levels: Sequence[Level], sample_ms: int, now_ms: int, since_ms: int = 0
) -> Plan:
    """The coarsest level that has the wanted step and goes back far enough; else the last level,
    which does not know what is older.

    Without an end, only whole steps are part of it, unless measuring began within the one that
    runs (``since_ms``). Raises: BadRequest: the range is empty, or has too many steps.
    """
    to_ms = times.to_ms or now_ms
    from_ms = times.from_ms or max(0, to_ms - RANGE_DEFAULT_MS)
    if from_ms >= to_ms:
        raise BadRequest("the time range is empty: its start must be before its end")
    if from_ms >= now_ms:
        raise BadRequest("the time range is in the future")
    wanted_ms = times.step_ms or (to_ms - from_ms) // POINTS_DEFAULT
    number = _level(levels, sample_ms, now_ms - from_ms, wanted_ms)
    length_ms = levels[number].samples * sample_ms
    step = max(1, -(-wanted_ms // length_ms))
    step_ms = step * length_ms
    first_ms = from_ms - from_ms % step_ms
    end_ms = to_ms - to_ms % step_ms
    if end_ms < to_ms and (times.to_ms or end_ms <= since_ms):
        end_ms += step_ms
    count = max(1, (end_ms - first_ms) // step_ms)
    if count > POINTS_MAX:
        raise BadRequest(
            f"{count:,} steps are more than {POINTS_MAX:,}: use a longer step or a shorter range"
        )
    return Plan(number, first_ms, count, step_ms, step)


def archive_plan(times: Times, now_ms: int, sample_ms: int) -> Plan:
    """The same for a store that keeps everything, at any step."""
    everything = [Level(1, 1 << 50)]
    return plan(times, everything, sample_ms, now_ms)


def span_ms(levels: Sequence[Level], sample_ms: int) -> int:
    """How far back the levels go."""
    return max(level.samples * level.points for level in levels) * sample_ms


def _level(levels: Sequence[Level], sample_ms: int, age_ms: int, wanted_ms: int) -> int:
    far = [
        number
        for number, level in enumerate(levels)
        if level.samples * level.points * sample_ms >= age_ms
    ]
    if not far:
        return len(levels) - 1
    fine = [number for number in far if levels[number].samples * sample_ms <= wanted_ms]
    return max(fine) if fine else far[0]
