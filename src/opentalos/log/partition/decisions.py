"""Pure decisions of the partition writer: when a segment is rolled or sealed, what failed openings
and commits mean for those who wait.

``PartitionWriter`` asks before each commit and after each failed opening, the upkeep for each open
partition of a pass; both get values and execute them.
"""

from enum import Enum, auto
from typing import NamedTuple

from opentalos.log.manifest.manifest import SEGMENTS_SOFT_MAX
from opentalos.log.partition.lifecycle import PartitionLifecycle
from opentalos.model.errors import (
    CorruptLog,
    ManifestFull,
    NewerFormat,
    NotOwner,
    PartitionNotServing,
    StorageFull,
    TalosError,
    TopicNotExist,
    to_keep,
)
from opentalos.model.limits import LogLimits

PREPARE_SHARE = 7 / 8  # of the size or age at which a segment is rolled
SOFT_MAX_ROLL_FACTOR = 16  # larger segments, once a manifest has very many

ISOLATE_AFTER = 2  # failures of a group before its blocks are committed one by one
ALONE_FAILURES_MAX = 2  # of one block, before it is refused
FORGOTTEN_AFTER_S = 60.0  # a failure so long ago says nothing about the store now
REOPEN_DELAY_FIRST_S = 0.01
REOPEN_DELAY_MAX_S = 1.0
PAUSE_FIRST_S = 0.25  # in which puts are refused, after an attempt was given up
PAUSE_MAX_S = 5.0


class Due(Enum):
    """What is to be done with the open segment before anything else is written to it."""

    DISCARD = auto()  # it has no messages, so a roll would make the very same file
    ROLL = auto()  # seal it and register the next one
    SEAL = auto()  # seal it; the next put opens the partition
    PREPARE = auto()  # make the next file, so that the roll does not wait for it


def segment_due(
    partition: PartitionLifecycle, now_s: float, idle_s: float | None = None
) -> Due | None:
    """The one rule for rolling and sealing: durability, size, age, replicas, idle time. None: keep.

    ``idle_s`` is the time since the last put, None while a put waits. With a put that waits the
    answer is never SEAL, without one it is SEAL or None. A segment of another durability than the
    topic's takes no further put, and its close makes all of it durable.
    """
    segment, limits = partition.segment, partition.context.limits
    if segment is None:
        return None
    factor = 1
    if len(partition.versioned.manifest.segments) > SEGMENTS_SOFT_MAX:
        factor = SOFT_MAX_ROLL_FACTOR
    age_s, age_max_s = now_s - segment.opened_s, limits.segment_age_max_s * factor
    old = age_s >= age_max_s
    outdated = is_outdated(partition)
    thin = factor == 1 and segment.file.thin  # what follows gets more replicas in another file
    if idle_s is not None:
        idle = idle_s >= limits.idle_seal_s and not segment.late  # a late one costs no open file
        return Due.SEAL if old or outdated or thin or idle else None
    if not segment.has_messages:
        return Due.DISCARD if outdated else None
    if outdated:  # no put may be acknowledged at the old durability
        return Due.ROLL
    size_bytes = segment.view.end_position
    if not partition.context.guard.steady():  # the roll needs the coordination, so it waits
        return Due.ROLL if size_bytes >= limits.segment_bytes_hard_max else None
    size_max = min(limits.segment_bytes_max * factor, limits.segment_bytes_hard_max)
    # Its journal died: the next one would have to copy all since then, and hold it in memory.
    tail = segment.tail_bytes > limits.journal_bytes_max
    if old or thin or tail or size_bytes >= size_max:
        return Due.ROLL
    if segment.next_file is None and (
        size_bytes >= size_max * PREPARE_SHARE or age_s >= age_max_s * PREPARE_SHARE
    ):
        return Due.PREPARE
    return None


def is_outdated(partition: PartitionLifecycle) -> bool:
    """Whether the open segment has another durability than the topic by now."""
    segment = partition.segment
    return segment is not None and segment.durability is not partition.settings.durability


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
    elif isinstance(error, ManifestFull):  # until segments are merged or dropped
        return Verdict(None, ManifestFull(f"{attempt.name}: {error}"), 0.0)
    elif isinstance(error, NotOwner | TopicNotExist):
        return Verdict(None, error, 0.0)
    if not final and attempt.tried_s <= limits.recover_deadline_s:
        if attempt.number < limits.reopen_attempts_max:
            return Verdict(queue_error, None, reopen_delay_s(attempt.number))
    return Verdict(queue_error, refusal, 0.0)


def reopen_delay_s(number: int) -> float:
    """The wait after so many failures in a row: an opening costs an epoch and a file."""
    return min(REOPEN_DELAY_FIRST_S * 2.0**number, REOPEN_DELAY_MAX_S)


class Failures:
    """Failed commits and openings in a row, and the blocks that are suspected.

    A group whose commit failed is re-opened for and tried again, a bounded number of times: an
    opening that succeeds proves nothing about the group, so only a successful commit ends the run.
    If the same blocks failed together twice, one of them may be the cause. From then on they are
    committed one by one, and the block that fails alone is refused, so that its neighbours are
    stored.
    """

    __slots__ = (
        "_alone",
        "_given_up",
        "_judged",
        "_last_s",
        "commits",
        "count",
        "error",
        "first_s",
        "suspects",
    )

    def __init__(self) -> None:
        self.count = 0
        self.commits = 0  # of these: no openings
        self.suspects = 0  # blocks at the head of the queue that are to be committed alone
        self.error: BaseException | None = None  # the last one
        self.first_s = 0.0  # when the first attempt that failed began
        self._last_s = 0.0
        self._alone = 0  # failures of the suspect at the head
        self._given_up = 0
        self._judged = True  # whether it is known which blocks of the failed group are stored

    def commit_failed(self, error: BaseException, now_s: float) -> None:
        """A commit failed; ``returned`` follows when an opening has looked."""
        self.note(error, now_s, now_s)
        self.commits += 1
        self._judged = False

    def note(self, error: BaseException, began_s: float, now_s: float) -> None:
        """An attempt that began at ``began_s`` failed."""
        if self.count and now_s - self._last_s > FORGOTTEN_AFTER_S:
            self.count = self.commits = self._given_up = 0
        if not self.count:
            self.first_s = began_s
        self.count += 1
        self._last_s = now_s
        self.error = to_keep(error)

    def stored(self, blocks: int) -> None:
        """A commit of so many blocks succeeded."""
        self.count = self.commits = self._given_up = self._alone = 0
        self.suspects = max(0, self.suspects - blocks)
        self.error = None

    def returned(self, blocks: int) -> bool:
        """So many blocks of the failed group are not in the log. True: refuse it, it was alone."""
        if self._judged:  # by an earlier opening, which then failed
            return False
        self._judged = True
        if not self.suspects:
            self.suspects = blocks if self.count >= ISOLATE_AFTER else 0
            return False
        self._alone += 1
        if blocks and self._alone < ALONE_FAILURES_MAX:
            return False
        self._alone = 0
        self.suspects -= 1
        if blocks and not self.suspects:
            # It explains the failures: those who come next wait through none of them, but if
            # their group fails as well, its blocks are committed one by one at once.
            self.count = min(self.count, ISOLATE_AFTER)
        return blocks > 0

    def answered(self) -> None:
        """Nothing of the queue is left."""
        self.suspects = self._alone = 0

    def over(self, now_s: float, limits: LogLimits) -> bool:
        """Whether those who wait are to be answered instead of a further attempt."""
        tried_s = now_s - self.first_s
        return self.count >= limits.reopen_attempts_max or tried_s > limits.recover_deadline_s

    def commit_delay_s(self) -> float:
        """Until a failed commit is re-opened for; a first failure at once."""
        return reopen_delay_s(self.count) if self.count > 1 else 0.0

    def pause_s(self) -> float:
        """How long puts are refused now that an attempt was given up."""
        self._given_up += 1
        return min(PAUSE_FIRST_S * 2.0 ** (self._given_up - 1), PAUSE_MAX_S)
