"""Pure decisions of the partition writer: when a segment is rolled or sealed, what a failed opening
means for those who wait.

``PartitionWriter`` asks before each commit and after each failed opening, the upkeep for each open
partition of a pass; both get values and execute them.
"""

from enum import Enum, auto
from typing import NamedTuple

from opentalos.log.manifest.manifest import SEGMENTS_SOFT_MAX
from opentalos.log.segment.writer import OpenSegment
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
from opentalos.model.message import Durability

SOFT_MAX_ROLL_FACTOR = 16  # larger segments, once a manifest has very many
REOPEN_DELAY_FIRST_S = 0.01
REOPEN_DELAY_MAX_S = 1.0


class Due(Enum):
    """What is to be done with the open segment before anything else is written to it."""

    NOTHING = auto()
    DISCARD = auto()  # it has no messages, so a roll would make the very same file
    ROLL = auto()  # seal it and register the next one
    SEAL = auto()  # seal it; the next put opens the partition


class Demand(NamedTuple):
    """What the rule needs besides the segment."""

    durability: Durability  # of the topic, as of now
    segments: int  # that the manifest names
    steady: bool  # coordination is there; a roll needs it
    idle_s: float | None  # since the last put; None: a put waits


def segment_due(segment: OpenSegment, demand: Demand, limits: LogLimits, now_s: float) -> Due:
    """The one rule for rolling and sealing: durability, size, age, idle time.

    With a put that waits the answer is never SEAL, without one it is SEAL or NOTHING.
    """
    crowded = demand.segments > SEGMENTS_SOFT_MAX
    factor = SOFT_MAX_ROLL_FACTOR if crowded else 1
    old = now_s - segment.opened_s >= limits.segment_age_max_s * factor
    if demand.idle_s is not None:
        return Due.SEAL if old or demand.idle_s >= limits.idle_seal_s else Due.NOTHING
    outdated = segment.durability is not demand.durability
    if not segment.has_messages:
        return Due.DISCARD if outdated else Due.NOTHING
    if outdated:  # no put may be acknowledged at the old durability
        return Due.ROLL
    size_bytes, bytes_max = segment.view.end_position, limits.segment_bytes_hard_max
    if demand.steady:
        bytes_max = min(limits.segment_bytes_max * factor, bytes_max)
        if old:
            return Due.ROLL
    return Due.ROLL if size_bytes >= bytes_max else Due.NOTHING


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
