"""When a partition hangs: a deadline for every put, a fresh file after a commit that hangs.

The commit lanes call ``watch`` of each partition that waits or is served, a few times a second; a
put itself costs nothing for it. What hangs keeps its own task and thread: it is only not
waited for any more. When it returns, its result is not trusted; the log is recovered.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from typing import TypeVar

from opentalos.log.context import LogContext
from opentalos.log.partition.decisions import Failures
from opentalos.log.partition.lifecycle import PartitionLifecycle
from opentalos.log.partition.queue import name_of
from opentalos.log.partition.state import Event
from opentalos.log.results import TopicLogSettings
from opentalos.log.scheduling.lanes import WATCH_S
from opentalos.log.segment.writer import OpenSegment
from opentalos.model.errors import OutcomeUnknown, PartitionNotServing
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

USUAL_FACTOR = 4.0  # a commit hangs if it takes so many times the longest of the last ones
LONGEST_WEIGHT = 0.98  # of the longest commit, at each quicker one


class PartitionWatch(PartitionLifecycle):
    """Watches the waiters and the commit in flight of one partition.

    ``_marks`` remember how many blocks had come in by which time; so the age of the oldest block is
    known without a time for each. A commit that takes longer than ``commit_hang_s``, and much
    longer than usual, is given up: the partition re-opens under the next epoch with a new file.
    After each hang in a row twice as much time is given, so a store that is slow does not thrash.
    """

    __slots__ = ("_commit_began_s", "_failures", "_hangs", "_longest_s", "_marks", "_stuck")

    def __init__(self, context: LogContext, key: PartitionKey, settings: TopicLogSettings) -> None:
        super().__init__(context, key, settings)
        self._failures = Failures()  # since the last successful commit
        self._commit_began_s = 0.0  # of the commit in flight; 0: none
        self._longest_s = 0.0  # of the last commits that returned
        self._hangs = 0  # since the last successful commit
        # Loop time, and blocks that had come in by then; None as long as nothing waits for long.
        self._marks: deque[tuple[float, int]] | None = None
        self._stuck: PartitionNotServing | None = None  # why puts are refused until a step ends

    def watch(self, now_s: float) -> None:
        """See lanes.Worker."""
        limits = self.context.limits
        began_s = self._commit_began_s
        if began_s and self.segment is not None and now_s - began_s >= limits.commit_hang_s:
            context, long = self.context, now_s - began_s >= self._hang_s()
            # While coordination is away there is no fresh file. Not in a job: see ``bounded``.
            if long and context.guard.steady() and context.lanes.may_give_up(self):
                self._give_up_commit(self.segment, now_s)
        marks = self._marks if self._marks is not None else deque()
        while marks and marks[0][1] <= self.answered:
            marks.popleft()
        waiting = len(self.queue) + (self.group.blocks if self.group is not None else 0)
        if waiting and (not marks or marks[-1][1] < self.answered + waiting):
            marks.append((now_s, self.answered + waiting))
        self._marks = marks or None
        # A block may have come in just after the look before its mark, and this is a look as well.
        if marks and now_s - marks[0][0] >= limits.commit_deadline_s - 2 * WATCH_S:
            self._answer_all(now_s)
        if self._stuck is not None:
            self._pause(self._stuck, 2 * WATCH_S)

    async def bounded(self, commit: Awaitable[_T], *, least_s: float = 0.0) -> _T:
        """Await a commit or close in a job: its lane is parked, so ``watch`` cannot give it up.

        Raises: OutcomeUnknown: it hangs. The file is dead then, and its late end is not awaited.
        """
        hang_s = max(self._hang_s(), least_s)
        try:
            async with asyncio.timeout(hang_s):
                return await commit
        except TimeoutError as error:
            self.context.counters.hung_commits += 1
            self._hangs += 1
            raise OutcomeUnknown(f"a commit or close hangs for {hang_s:.1f} s") from error

    def _hang_s(self) -> float:
        """From when on a commit hangs."""
        limits = self.context.limits
        # A fresh file needs the rest of the deadline.
        usual_s = min(USUAL_FACTOR * self._longest_s, limits.commit_deadline_s / 2)
        return max(limits.commit_hang_s, usual_s) * 2.0**self._hangs

    def _give_up_commit(self, segment: OpenSegment, now_s: float) -> None:
        """Leave the hung commit alone; the next step claims the next epoch and recovers."""
        for_s = now_s - self._commit_began_s if self._commit_began_s else 0.0
        error = OutcomeUnknown(f"a commit hangs for {for_s:.1f} s")
        _log.warning("%s: %s; moving to a fresh file", name_of(self.key), error)
        self.context.counters.hung_commits += 1
        self._hangs += 1
        self._abandon(segment)
        self._forget_segment()
        self._move(Event.GIVEN_UP)
        self._failures.commit_failed(error, now_s)
        self.context.lanes.step_given_up(self)

    def _answer_all(self, now_s: float) -> None:
        """The oldest waited too long: answer everyone, and refuse puts until a step ends."""
        deadline_s = self.context.limits.commit_deadline_s
        text = f"{name_of(self.key)}: no answer of the storage for {deadline_s:g} s"
        answered = self.answered
        if self.group is not None and self.segment is not None:
            self._give_up_commit(self.segment, now_s)
        self._stuck = PartitionNotServing(text)
        self.settle_group(OutcomeUnknown(text))
        self.refuse_queue(self._stuck)
        self._marks = None
        self.context.counters.overdue += self.answered - answered
        _log.warning("%s; %d puts are answered without it", text, self.answered - answered)

    def _opening_committed(self, took_s: float) -> None:
        """A fresh file whose first commit was slow too is not given up for the next one."""
        self._longest_s = max(took_s, self._longest_s)

    def _commit_returned(self, took_s: float) -> None:
        self._commit_began_s = 0.0
        self._hangs = 0
        self._longest_s = max(took_s, self._longest_s * LONGEST_WEIGHT)

    def _forget_segment(self) -> None:
        self._commit_began_s = 0.0
        super()._forget_segment()
