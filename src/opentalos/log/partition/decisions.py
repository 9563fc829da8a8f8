"""Pure decisions of the partition writer: when a segment is rolled or sealed, what a failed opening
means for those who wait.

``PartitionWriter`` asks before each commit and after each failed opening, the upkeep for each open
partition of a pass; both get values and execute them.
"""

from enum import Enum, auto
from typing import NamedTuple

from opentalos.log.manifest.manifest import SEGMENTS_SOFT_MAX
from opentalos.log.partition.lifecycle import PartitionLifecycle
from opentalos.model.errors import (
    CorruptLog,
    NewerFormat,
    NotOwner,
    PartitionNotServing,
    StorageFull,
    TalosError,
    TopicNotExist,
)
from opentalos.model.limits import LogLimits

SOFT_MAX_ROLL_FACTOR = 16  # larger segments, once a manifest has very many
REOPEN_DELAY_FIRST_S = 0.01
REOPEN_DELAY_MAX_S = 1.0


class Due(Enum):
    """What is to be done with the open segment before anything else is written to it."""

    DISCARD = auto()  # it has no messages, so a roll would make the very same file
    ROLL = auto()  # seal it and register the next one
    SEAL = auto()  # seal it; the next put opens the partition


def segment_due(
    partition: PartitionLifecycle, now_s: float, idle_s: float | None = None
) -> Due | None:
    """The one rule for rolling and sealing: durability, size, age, idle time. None: keep it.

    ``idle_s`` is the time since the last put, None while a put waits. With a put that waits the
    answer is never SEAL, without one it is SEAL or None.
    """
    segment, limits = partition.segment, partition.context.limits
    if segment is None:
        return None
    factor = 1
    if len(partition.versioned.manifest.segments) > SEGMENTS_SOFT_MAX:
        factor = SOFT_MAX_ROLL_FACTOR
    old = now_s - segment.opened_s >= limits.segment_age_max_s * factor
    if idle_s is not None:
        return Due.SEAL if old or idle_s >= limits.idle_seal_s else None
    outdated = segment.durability is not partition.settings.durability
    if not segment.has_messages:
        return Due.DISCARD if outdated else None
    if outdated:  # no put may be acknowledged at the old durability
        return Due.ROLL
    size_bytes = segment.view.end_position
    if not partition.context.guard.steady():  # the roll needs the coordination, so it waits
        return Due.ROLL if size_bytes >= limits.segment_bytes_hard_max else None
    if old or size_bytes >= min(limits.segment_bytes_max * factor, limits.segment_bytes_hard_max):
        return Due.ROLL
    return None


class Attempt(NamedTuple):
    """An opening that failed."""

    name: str  # of the partition
    error: Exception
    number: int  # 1: the first
    tried_s: float  # since the first
    final: bool  # nothing can change for the better: damage, stopping server, refused partition


class Verdict(NamedTuple):
    """What follows from a failed opening. The queue was never written, so it is "not done"."""

    queue_error: TalosError | None  # refuse the queue with it at once, whatever else follows
    refusal: TalosError | None  # give up: refuse what is queued; the group in flight is unknown
    delay_s: float  # until the next attempt, if something waits; 0 after a refusal


def judge_opening(attempt: Attempt, limits: LogLimits) -> Verdict:
    """Whether to try again, and what to answer."""
    error = attempt.error
    queue_error: TalosError | None = None
    final, refusal = attempt.final, PartitionNotServing(f"{attempt.name}: {error}")
    if isinstance(error, CorruptLog | NewerFormat):
        queue_error, final = type(error)(*error.args), True
    elif isinstance(error, StorageFull):
        queue_error = StorageFull(str(error))
    elif isinstance(error, NotOwner | TopicNotExist):
        return Verdict(None, error, 0.0)
    if not final and attempt.tried_s <= limits.recover_deadline_s:
        if attempt.number < limits.reopen_attempts_max:
            delay_s = min(REOPEN_DELAY_FIRST_S * 2.0**attempt.number, REOPEN_DELAY_MAX_S)
            return Verdict(queue_error, None, delay_s)
    return Verdict(queue_error, refusal, 0.0)
