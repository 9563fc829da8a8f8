"""The writer of one partition: group commit, opening, rolling.

A commit lane calls ``work``; the jobs of the upkeep and of a handoff run through it as well. Steps
of a partition never overlap: commits and rolls run in its lane, openings and jobs as background
tasks while the lane skips it. So changes of the manifest are serialized. Promises: a group is
acknowledged only after its commit, in a segment that the manifest names (I1, I2); offsets are dense
(I3).
"""

import asyncio
import logging
from dataclasses import replace

from opentalos.log.context import LogContext
from opentalos.log.counters import DamagedPartition
from opentalos.log.journal.journaled_file import given_back
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import VersionedManifest
from opentalos.log.partition.commits import OPEN, PartitionCommits
from opentalos.log.partition.decisions import (
    ISOLATE_AFTER,
    Attempt,
    Due,
    judge_opening,
    segment_due,
)
from opentalos.log.partition.opening import open_partition
from opentalos.log.partition.queue import name_of
from opentalos.log.partition.state import TRANSITIONS, Event, State
from opentalos.log.results import TopicLogSettings
from opentalos.log.scheduling.lanes import PARKED
from opentalos.log.segment.state_format import LogState
from opentalos.log.segment.view import SegmentView
from opentalos.log.segment.writer import (
    Group,
    OpenSegment,
    Queued,
    SegmentStart,
    begin_segment,
    delete_if_gone,
    file_after,
    seal_segment,
    side_index_of,
    write_side_index_soon,
)
from opentalos.model.errors import (
    CorruptLog,
    NewerFormat,
    OutcomeUnknown,
    PartitionNotServing,
    StorageFull,
    TalosError,
    to_keep,
)
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)


class PartitionWriter(PartitionCommits):
    """Executes what the partition's state allows; while it is open, it alone appends.

    ``work`` takes one step at a time: a job, an opening, or a commit with the roll before it.
    Before each commit ``segment_due`` says whether the segment is to be rolled or discarded first.

    One group is in flight at most. If its commit fails, the file is dead and the outcome unknown:
    the next step re-opens the partition, finds in storage which blocks of the group are there,
    acknowledges those and puts the others back into the queue. If the opening is given up, or
    another owner wrote in between, the group is unknown and the queue is not done.
    """

    __slots__ = ("_acknowledged_end", "_job_turn", "_whole")

    def __init__(self, context: LogContext, key: PartitionKey, settings: TopicLogSettings) -> None:
        super().__init__(context, key, settings)
        self._job_turn = False
        self._acknowledged_end = 0  # no recovered log may end below it
        # What an opening found to be whole, until its damage is shown with it.
        self._whole: tuple[VersionedManifest, SegmentView | None] | None = None

    def update_settings(self, settings: TopicLogSettings) -> None:
        """The topic was changed; a new durability holds from the next commit on."""
        self.settings = settings

    def count_total(self, total_bytes: int) -> None:
        """The bytes ever appended were read from storage; what was counted since is newer."""
        if self.total_bytes is None:
            self.total_bytes = total_bytes

    # --- the lane's side ------------------------------------------------------------------------

    async def work(self) -> float:
        """One step; see lanes.Worker. Commits run in the lane, all else as background tasks."""
        self._stuck = None  # the step before it has ended, so the storage answers again
        if self.jobs and (self._job_turn or not (self.queue or self.group)):
            self._job_turn = False
            self.context.background.start_step(self, self._job_step)
            return PARKED
        if self.queue or self.group is not None:
            self._job_turn = True
            if self.segment is None:
                self.context.background.start_step(self, self.open_step)
                return PARKED
            delay_s = await self.write_step()
            if delay_s > 0:
                return delay_s
        return self.rest()

    async def _job_step(self) -> float:
        await self._run_job()
        return 0.0

    async def write_step(self, *, in_job: bool = False, roll: bool = False) -> float:
        """Open, or commit one group, ``roll``: in the next segment, also if nothing waits.

        Seconds to wait before the next step.
        """
        segment = self.segment
        due = Due.ROLL if roll else segment_due(self, asyncio.get_running_loop().time())
        if due is Due.PREPARE and segment is not None:
            segment.make_next(self.context, self.key)
            due = None
        if segment is None or due is Due.DISCARD:
            self._discard(segment)
            return await self.open_step()
        try:
            if due is None:
                await self._commit(segment, in_job)
            else:
                await self._roll(segment, in_job)
        except Exception as error:
            if self.segment is not segment and isinstance(error, TalosError):
                return 0.0  # given up or dropped meanwhile: a late result counts for nothing
            return self.commit_failed(error)
        return 0.0

    def _discard(self, segment: OpenSegment | None) -> None:
        if segment is not None:
            self._move(Event.DISCARD)
            self._abandon(segment)
            self._forget_segment()

    async def _commit(self, segment: OpenSegment, in_job: bool) -> None:
        if self.state is not OPEN:
            self._move(Event.COMMIT)
        context = self.context
        group = self.group = Group(segment.view.next_offset)
        alone = self._failures.suspects > 0
        segment.fill(group, self.queue, context.limits, self._append_ms(), alone=alone)
        if group.entries:
            time_s = asyncio.get_running_loop().time
            self._commit_began_s = began_s = time_s()
            commit = segment.file.commit(group.chunks)
            length = await (self.bounded(commit) if in_job else commit)
            took_s = time_s() - began_s
            if took_s >= context.lanes.stall_s:  # others may return with it
                await context.lanes.turns.next()
            if self.segment is not segment:
                return  # given up or dropped meanwhile: a late result counts for nothing
            self._stored(segment, group, length, took_s)
        elif group.answered:
            await self.confirm_answers(group)
            if self.group is not group:
                return
        self._committed(segment, group)
        if self._failures.error is not None or alone:
            self._failures.stored(group.blocks)

    # --- opening --------------------------------------------------------------------------------

    async def open_step(self) -> float:
        """Try once to open; seconds to wait before the next attempt."""
        context = self.context
        began_s = asyncio.get_running_loop().time()
        wrote = self.group is not None
        if self._failures.count or wrote:
            context.counters.reopens += 1
        try:
            self._check_claimable()
            opened = await open_partition(context, self.key, self.settings, self)
        except Exception as error:
            return self._open_failed(error, began_s)
        if self.state is State.FENCED:
            self._abandon(opened.segment)
            return 0.0
        self._move(Event.OPENED)
        self.end_is_proven()
        self.versioned, self.segment = opened.versioned, opened.segment
        self.view = opened.segment.view
        # One of its blocks may be the cause. Openings that failed say nothing of them: the storage
        # was away, and all partitions would write to files of their own after that.
        if self._failures.commits >= ISOLATE_AFTER:
            opened.segment.distrust()
        self.next_offset = self.view.next_offset
        self.total_bytes = opened.segment.state.total_bytes
        self.last_put_s = opened.segment.opened_s
        self._opening_committed(asyncio.get_running_loop().time() - opened.segment.opened_s)
        if self.meter is not None:
            self.meter.cut(self.next_offset)
        self._acknowledge_found(opened.segment)
        context.note_opened(self)
        if wrote and self._failures.over(asyncio.get_running_loop().time(), context.limits):
            cause = self._failures.error
            self._give_up(PartitionNotServing(f"{name_of(self.key)}: each commit fails: {cause}"))
        if self._hangs:  # the close waits for the commit that hangs
            context.background.start(self.close_abandoned)
        else:
            await self.close_abandoned()
        return 0.0

    def _check_claimable(self) -> None:
        """Raises: why puts are refused, if the state allows no opening."""
        refusal = self.refusal()
        if refusal is not None and (self.state, Event.CLAIM) not in TRANSITIONS:
            raise refusal

    def former_seen(self, former: Manifest) -> None:
        """See log_end.Claim. Only if no other process wrote in between do offsets identify our
        blocks. A partition that left meanwhile may have another writer here, so it is not claimed.
        """
        self._check_claimable()
        self._acknowledged_end = self.next_offset if self.readable else 0
        self._move(Event.CLAIM)
        self._meter_from(former)
        if former.instance != self.context.manifests.instance:
            self.judged = False
            self.settle_group(
                OutcomeUnknown(f"{name_of(self.key)}: another server owns the partition")
            )

    def leftovers_judged(self) -> None:
        """See log_end.Claim."""
        self.judged = True

    def recovered(self, next_offset: int) -> None:
        """See log_end.Claim: what the fenced file does not hold was not done and goes back.

        A zero-message block is repeated, which is harmless.
        """
        if next_offset < self._acknowledged_end and self.state is not State.FENCED:
            raise CorruptLog(
                f"{name_of(self.key)}: the recovered log ends at offset {next_offset}, but "
                f"everything below {self._acknowledged_end} was acknowledged"
            )
        if self.group is None:
            return
        lost = self.group.keep_found(next_offset)
        if self._failures.returned(len(lost)):
            self._isolate(lost.pop(0))
        self._put_back(lost)

    def _isolate(self, poisonous: Queued) -> None:
        """Refuse the block whose commits failed also when it was alone; nothing of it is stored."""
        _, waiter, size = poisonous
        error = self._failures.error
        text = f"{name_of(self.key)}: a block of {size} bytes could not be stored: {error}"
        full = isinstance(error, StorageFull)
        _log.warning("%s; it is refused, those that came with it are stored", text)
        self.context.counters.isolated += 1
        self.release(size)
        self.answered += 1
        self._answer(waiter, -1, StorageFull(text) if full else PartitionNotServing(text))

    def damaged(self, versioned: VersionedManifest, view: SegmentView | None) -> None:
        """See log_end.Claim: valid blocks stay readable, once the opening has failed.

        Until then readers wait: the end of these blocks must not look like the end of the log.
        """
        self._whole = versioned, view

    def _show(self, versioned: VersionedManifest, view: SegmentView | None) -> None:
        self._move(Event.READABLE)
        if view is None:
            self._take(versioned)
            return
        self._meter_from(versioned.manifest)
        self.versioned, self.view = versioned, view
        self.next_offset = max(self.next_offset, view.next_offset)

    def _acknowledge_found(self, segment: OpenSegment) -> None:
        """The rest of the failed group lies in the new, registered segment."""
        group = self.group
        self.arrivals.wake()
        if group is not None:
            group.recovered(self.next_offset)
            self._committed(segment, group)

    def _open_failed(self, error: Exception, began_s: float) -> float:
        """Try again later, or give up and answer every waiter."""
        context = self.context
        if isinstance(error, TalosError):
            _log.warning("%s: opening failed: %s", name_of(self.key), error)
        else:
            _log.exception("%s: opening failed", name_of(self.key), exc_info=error)
        if self.state is State.DAMAGED and self.damage is not None:
            error = self.damage  # a reader found it meanwhile
        elif isinstance(error, CorruptLog | NewerFormat):
            self._opening_damaged(error)
        elif self.state is not State.FENCED:
            self._move(Event.OPEN_FAILED)
        self._whole = None
        if isinstance(error, StorageFull):
            context.note_full()
        failures, now_s = self._failures, asyncio.get_running_loop().time()
        waiting = bool(self.queue) or self.group is not None
        if waiting:  # a job gets the error itself and decides itself whether to try again
            failures.note(error, began_s, now_s)
        number, tried_s = (failures.count, now_s - failures.first_s) if waiting else (1, 0.0)
        final = context.closing or self.refusal_error is not None
        verdict = judge_opening(
            Attempt(name_of(self.key), error, number, tried_s, final), context.limits
        )
        if verdict.queue_error is not None:
            self.refuse_queue(verdict.queue_error)
        if verdict.refusal is None:
            return verdict.delay_s if self.queue or self.group is not None else 0.0
        self.settle_group(OutcomeUnknown(f"{name_of(self.key)}: {error}"))
        self._give_up(verdict.refusal)
        return 0.0

    def _give_up(self, refusal: TalosError) -> None:
        """Answer the queue, and refuse puts for a while if trying again at once cannot help."""
        self.refuse_queue(refusal)
        self._failures.answered()
        if isinstance(refusal, PartitionNotServing) and self.refusal_error is None:
            self._pause(refusal, self._failures.pause_s())

    def end_is_proven(self) -> None:
        """Nothing says that the sealed log was longer than its manifest says."""
        self.end_proven = True

    def found_damaged(self, error: TalosError) -> None:
        """Something proves that the sealed log was longer, or a newer version wrote a part of it:
        nothing is written until a restart."""
        self.context.counters.corrupt += isinstance(error, CorruptLog)
        _log.error("%s", error)
        self._opening_damaged(error)

    def _opening_damaged(self, error: TalosError) -> None:
        """Nothing is written until a restart."""
        if self.state is not State.FENCED:
            if self._whole is not None:
                self._show(*self._whole)
            self._move(Event.OPEN_DAMAGED)
        self.damage = to_keep(error)
        if self.served:
            self.context.damaged[self] = DamagedPartition.of(self.key, error)
        if self.refusal_error is None:
            self.refusal_error = type(error)(*error.args)
        self.arrivals.wake()

    async def _roll(self, old: OpenSegment, in_job: bool) -> None:
        """Store the next group in the next segment; one change seals the old one and registers it.

        The group is acknowledged once the manifest names its file. Until then the file is an
        orphan: whatever fails, the opening finds the group in a segment that the manifest names,
        or puts it back into the queue.
        """
        await old.reserve()
        if self.segment is not old:
            return  # given up or dropped meanwhile
        self._move(Event.ROLL)
        context, key = self.context, self.key
        thin = old.file.thin
        start = SegmentStart(
            old.epoch, old.view.next_offset, LogState.decode(old.state.encode()), []
        )
        file = await file_after(context, key, old, self.settings.durability)
        new, chunks = begin_segment(context, key, file, start)
        self._abandon_unless_named(new)
        head_bytes = new.view.end_position
        group = self.group = Group(new.view.next_offset)
        group.chunks.extend(chunks)
        alone = self._failures.suspects > 0
        new.fill(group, self.queue, context.limits, self._append_ms(), alone=alone)
        self._commit_began_s = began_s = asyncio.get_running_loop().time()
        try:
            both = asyncio.gather(
                new.file.commit(group.chunks), seal_segment(old), return_exceptions=True
            )
            length, sealed = await (self.bounded(both) if in_job else both)
            if self.segment is not old:  # given up or dropped meanwhile
                await delete_if_gone(context, key, new.view.path)
                return
            if isinstance(length, BaseException):
                raise length
            if isinstance(sealed, BaseException):
                raise sealed
            new.committed(group, length)
            self._commit_returned(asyncio.get_running_loop().time() - began_s)
            manifest = self.versioned.manifest.with_last_sealed(sealed)
            manifest = manifest.registered(
                Segment(start.base_offset, new.epoch, number=new.number),
                new.journal,
                late=new.late,
            )
            versioned = await context.manifests.change(key, self.versioned, marked(self, manifest))
        except TalosError:
            await delete_if_gone(context, key, new.view.path)
            raise
        if self.segment is not old:
            return  # as above; an opening finds what the manifest says now
        self._move(Event.ROLLED)
        context.note_written(head_bytes)
        self.versioned, self.segment, self.view = versioned, new, new.view
        self.abandoned = None
        context.counters.rolls += 1
        context.counters.thin_rolls += thin
        side = side_index_of(old)
        context.views.put(old.view.path, side)
        write_side_index_soon(context, key, old.view.path, side)
        if self.group is group:
            self._committed(new, group)
            if self._failures.error is not None or alone:
                self._failures.stored(group.blocks)

    async def close_abandoned(self) -> None:
        """Close the files that are never written again, so that no descriptor stays open."""
        files, self.abandoned = self.abandoned, None
        for file in files or ():
            try:
                await given_back(file)
            except TalosError:  # most are dead, which is why they were abandoned
                _log.debug("%s: an abandoned file was dead", name_of(self.key))


def marked(writer: PartitionWriter, manifest: Manifest) -> Manifest:
    """The manifest with how far metering is now."""
    return manifest if writer.meter is None else replace(manifest, metered=writer.meter.mark)
