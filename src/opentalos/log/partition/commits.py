"""Commits of one partition's groups: by frames of the journal, and what follows a durable one.

``PartitionWriter`` commits the other groups itself, in its lane. Promises: a group is shown and
acknowledged only after its commit returned (I1), and only if the partition is still the same (I2).
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from opentalos.log.context import LogContext
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.log.journal.membership import Member
from opentalos.log.partition.decisions import segment_due
from opentalos.log.partition.queue import name_of
from opentalos.log.partition.state import Event, State
from opentalos.log.partition.watch import PartitionWatch
from opentalos.log.results import TopicLogSettings
from opentalos.log.scheduling.lanes import DONE, PARKED
from opentalos.log.segment.writer import Group, OpenSegment
from opentalos.model.errors import PartitionNotServing, TalosError
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)

# Where commits are legal and change nothing, so a group costs no look-up in the table.
OPEN = State.OPEN


class PartitionCommits(PartitionWatch):
    """Takes part in the frames of the journal while nothing but commits is to be done.

    Its segment is a *member* then: ``join`` asks for a part in the next frame, ``fill`` forms the
    group when that begins, ``written`` or ``failed`` ends the step. Whatever else is due, or cannot
    wait in a frame, leads to a lane, where ``work`` decides again.
    """

    __slots__ = ("_joined", "_member")

    def __init__(self, context: LogContext, key: PartitionKey, settings: TopicLogSettings) -> None:
        super().__init__(context, key, settings)
        self._member: Member | None = None  # of the open segment, once it joined
        self._joined: Member | None = None  # from ``join`` until the step has ended or is given up

    # --- frames ---------------------------------------------------------------------------------

    def join(self) -> bool:
        """See lanes.Worker."""
        segment, failures = self.segment, self._failures
        if segment is None or self.state is not OPEN or self.jobs or not self.queue:
            return False
        if failures.error is not None or failures.suspects:
            return False
        member = self._member
        if member is None or member.file is not segment.file:
            if not isinstance(segment.file, JournaledFile):
                return False
            member = self._member = Member(segment.file, self)
        if not member.join():
            return False
        self._joined = member
        self._commit_began_s = asyncio.get_running_loop().time()
        return True

    def _forget_segment(self) -> None:
        self._member = None  # it refers back: nothing of a deleted partition waits for a collection
        super()._forget_segment()

    def fill(self, member: Member, now_s: float) -> Sequence[bytes | memoryview]:
        """See membership.Source."""
        if member is not self._joined:
            return ()
        segment = self.segment
        ready = self.queue and self.state is OPEN and not self.jobs
        if segment is None or not ready or segment_due(self, now_s) is not None:
            self.left_out(member)
            return ()
        group = self.group = Group(segment.view.next_offset)
        try:
            segment.fill(group, self.queue, self.context.limits, self._append_ms())
        except Exception as error:
            self._step_ended(self._after_failure(error))
            return ()
        if not group.entries:
            self._step_ended(PARKED)
            self.context.background.start_step(self, partial(self._answer_step, segment, group))
        return group.chunks

    def left_out(self, member: Member) -> None:
        """See membership.Source."""
        if member is not self._joined:
            return
        self._step_ended(self.rest(), alone=True)

    def written(self, member: Member, length: int) -> None:
        """See membership.Source."""
        if member is not self._joined:
            return  # given up: a late result counts for nothing
        segment, group = self.segment, self.group
        try:
            if segment is not None and segment.file is member.file and group is not None:
                took_s = asyncio.get_running_loop().time() - self._commit_began_s
                self._stored(segment, group, length, took_s)
                self._committed(segment, group)
            delay_s = self.rest()
        except Exception as error:
            delay_s = self._after_failure(error)
        self._step_ended(delay_s)

    def failed(self, member: Member, error: TalosError) -> None:
        """See membership.Source."""
        if member is not self._joined:
            return
        current = self.segment is not None and self.segment.file is member.file
        self._step_ended(self._after_failure(error) if current else self.rest())

    def _after_failure(self, error: Exception) -> float:
        try:
            delay_s = self.commit_failed(error)
        except Exception as defect:  # it must not reach the other partitions of the frame
            _log.exception("%s: a step failed", name_of(self.key))
            self.work_failed(defect)
            delay_s = 0.0
        return delay_s if delay_s > 0 else self.rest()

    def _step_ended(self, delay_s: float, *, alone: bool = False) -> None:
        self._commit_began_s = 0.0
        self._joined = self._stuck = None
        self.context.lanes.step_ended(self, delay_s, alone=alone)

    async def _answer_step(self, segment: OpenSegment, group: Group) -> float:
        """A group that stores nothing has no part in a frame."""
        await self.confirm_answers(group)
        if self.group is group:
            self._committed(segment, group)
        return 0.0

    def _give_up_commit(self, segment: OpenSegment, now_s: float) -> None:
        self._joined = None
        super()._give_up_commit(segment, now_s)

    # --- what follows a commit ------------------------------------------------------------------

    def rest(self) -> float:
        """What a step answers after which nothing has to wait: ``DONE``, or more is to be done."""
        if self.queue or self.jobs or self.group is not None:
            return 0.0
        segment, went_idle = self.segment, self.context.went_idle
        if went_idle is not None and segment is not None and not segment.marked:
            went_idle(self)
        return DONE

    def commit_failed(self, error: Exception) -> float:
        """The file is dead; seconds to wait before the partition is opened again."""
        now_s = asyncio.get_running_loop().time()
        self.write_failed(error)
        self._failures.commit_failed(error, now_s)
        return self._failures.commit_delay_s()

    def _stored(self, segment: OpenSegment, group: Group, length: int, took_s: float) -> None:
        """The commit of ``group`` returned. Raises: OutcomeUnknown: it is not what was written."""
        self._commit_returned(took_s)
        context = self.context
        context.lanes.concurrency.note(segment.durability, took_s)
        context.counters.commit_s.observe(took_s)
        segment.committed(group, length)

    def _committed(self, segment: OpenSegment, group: Group) -> None:
        """Show and acknowledge a durable group. Once the state allows it, nothing may raise.

        Until then the group stays in flight, so that its waiters are answered whatever happens.
        """
        if self.state is not OPEN:
            self._move(Event.COMMITTED)
        self.group = None
        context, counters = self.context, self.context.counters
        self.next_offset = group.next_offset
        self.total_bytes = segment.state.total_bytes
        if group.blocks:  # a roll may have none
            self.last_put_s = asyncio.get_running_loop().time()
        if group.entries:
            counters.commits += 1
            counters.blocks += len(group.entries)
            counters.messages += group.messages
            counters.bytes += group.bytes
            counters.group_blocks.observe(len(group.entries))
            if self.meter is not None and group.messages:
                base, append_ms = group.next_offset - group.messages, segment.state.last_append_ms
                self.meter.add(base, group.messages, append_ms, group.payload_bytes)
            traffic = self.traffic
            traffic.blocks_in += len(group.entries)
            traffic.messages_in += group.messages
            traffic.bytes_in += group.bytes
            traffic.payload_in += group.payload_bytes
            context.note_written(group.bytes)
            self.tail.add(group.stored, group.stored_bytes)
            self.arrivals.wake()
        self.release(group.pending_bytes)
        self.answered += group.blocks
        for _, waiter, _, base in group.entries:
            try:
                waiter(base, None)
            except (Exception, asyncio.CancelledError):
                self._waiter_raised()
        for _, waiter, _, base in group.followers:
            self._answer(waiter, base, None)
        for waiter, base, error in group.answered:
            self._answer(waiter, base, error)
        counters.duplicates += len(group.followers) + len(group.answered)

    async def confirm_answers(self, group: Group) -> None:
        """Confirm the ownership for a group that stored nothing.

        If every block was a duplicate or rejected, nothing is written, and no commit proves the
        ownership. A former owner must not reject a producer for good, so the manifest is read
        again; without that proof a refusal is only "not done".
        """
        if all(error is None for _, _, error in group.answered):
            return
        mine = (self.versioned.manifest.epoch, self.context.manifests.instance)
        try:
            versioned = await self.context.manifests.load(self.key)
        except TalosError as error:
            reason = str(error)
        else:
            if (versioned.manifest.epoch, versioned.manifest.instance) == mine:
                return
            reason = "another server owns the partition"
        group.refuse_verdicts(PartitionNotServing(f"{name_of(self.key)}: {reason}"))

    def _append_ms(self) -> int:
        """The time of a group: never before what is metered already."""
        now_ms = self.context.time.append_ms()
        return now_ms if self.meter is None else max(now_ms, self.meter.mark.floor_ms)
