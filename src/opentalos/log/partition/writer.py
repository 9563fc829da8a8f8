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
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import VersionedManifest
from opentalos.log.partition.decisions import Attempt, Due, judge_opening, segment_due
from opentalos.log.partition.lifecycle import PartitionLifecycle
from opentalos.log.partition.opening import open_partition
from opentalos.log.partition.queue import name_of
from opentalos.log.partition.state import TRANSITIONS, Event, State
from opentalos.log.results import TopicLogSettings
from opentalos.log.scheduling.lanes import DONE, PARKED
from opentalos.log.segment.state_format import LogState
from opentalos.log.segment.view import SegmentView
from opentalos.log.segment.writer import (
    Group,
    OpenSegment,
    SegmentStart,
    create_segment,
    delete_if_gone,
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
)
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)

# Where commits are legal and change nothing, so a group costs no look-up in the table.
_OPEN = State.OPEN


class PartitionWriter(PartitionLifecycle):
    """Executes what the partition's state allows; while it is open, it alone appends.

    ``work`` takes one step at a time: a job, an opening, or a commit with the roll before it.
    Before each commit ``segment_due`` says whether the segment is to be rolled or discarded first.

    One group is in flight at most. If its commit fails, the file is dead and the outcome unknown:
    the next step re-opens the partition, finds in storage which blocks of the group are there,
    acknowledges those and puts the others back into the queue. If the opening is given up, or
    another owner wrote in between, the group is unknown and the queue is not done.
    """

    __slots__ = ("_acknowledged_end", "_attempts", "_first_attempt_s", "_job_turn")

    def __init__(self, context: LogContext, key: PartitionKey, settings: TopicLogSettings) -> None:
        super().__init__(context, key, settings)
        self._job_turn = False
        self._attempts = 0  # to open, since the last success or since all waiters were answered
        self._first_attempt_s = 0.0
        self._acknowledged_end = 0  # no recovered log may end below it

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
        return 0.0 if self.queue or self.jobs or self.group is not None else DONE

    async def _job_step(self) -> float:
        await self.run_job()
        return 0.0

    async def write_step(self) -> float:
        """Open, or commit one group; seconds to wait before the next step."""
        segment = self.segment
        due = segment_due(self, asyncio.get_running_loop().time())
        if segment is None or due is Due.DISCARD:
            self._discard(segment)
            return await self.open_step()
        try:
            if due is not None:
                segment = await self._roll(segment)
            await self._commit(segment)
        except Exception as error:
            self.write_failed(error)
        return 0.0

    def _discard(self, segment: OpenSegment | None) -> None:
        if segment is not None:
            self._move(Event.DISCARD)
            self._abandon(segment)
            self._forget_segment()

    async def _commit(self, segment: OpenSegment) -> None:
        if self.state is not _OPEN:
            self._move(Event.COMMIT)
        context = self.context
        group = self.group = Group(segment.view.next_offset)
        now_ms = context.clock.wall_ms()
        if self.meter is not None and now_ms < self.meter.mark.floor_ms:
            now_ms = self.meter.mark.floor_ms
        segment.fill(group, self.queue, context.limits, now_ms)
        if group.entries:
            time_s = asyncio.get_running_loop().time
            began_s = time_s()
            length = await segment.file.commit(group.chunks)
            took_s = time_s() - began_s
            context.lanes.concurrency.note(segment.durability, took_s)
            context.counters.commit_s.observe(took_s)
            if self.group is not group:
                return  # dropped meanwhile, and its waiters were answered
            segment.committed(group, length)
        elif group.answered:
            await self._confirm_answers(group)
            if self.group is not group:
                return
        self._committed(segment, group)

    def _committed(self, segment: OpenSegment, group: Group) -> None:
        """Show and acknowledge a durable group. Once the state allows it, nothing may raise.

        Until then the group stays in flight, so that its waiters are answered whatever happens.
        """
        if self.state is not _OPEN:
            self._move(Event.COMMITTED)
        self.group = None
        context, counters = self.context, self.context.counters
        self.next_offset = group.next_offset
        self.total_bytes = segment.state.total_bytes
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
        for _, waiter, _, base in group.entries:
            try:
                waiter(base, None)
            except (Exception, asyncio.CancelledError):
                self._waiter_raised()
        for _, waiter, _, base in group.followers:
            self.answer(waiter, base, None)
        for waiter, base, error in group.answered:
            self.answer(waiter, base, error)
        counters.duplicates += len(group.followers) + len(group.answered)

    async def _confirm_answers(self, group: Group) -> None:
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

    # --- opening --------------------------------------------------------------------------------

    async def open_step(self) -> float:
        """Try once to open; seconds to wait before the next attempt."""
        context = self.context
        if not self._attempts:
            self._first_attempt_s = asyncio.get_running_loop().time()
        self._attempts += 1
        if self._attempts > 1 or self.group is not None:
            context.counters.reopens += 1
        try:
            self._check_claimable()
            opened = await open_partition(context, self.key, self.settings, self)
        except Exception as error:
            return self._open_failed(error)
        self._attempts = 0
        if self.state is State.FENCED:
            self._abandon(opened.segment)
            return 0.0
        self._move(Event.OPENED)
        self.versioned, self.segment = opened.versioned, opened.segment
        self.view = opened.segment.view
        self.next_offset = self.view.next_offset
        self.total_bytes = opened.segment.state.total_bytes
        self.last_put_s = opened.segment.opened_s
        if self.meter is not None:
            self.meter.cut(self.next_offset)
        self._acknowledge_found(opened.segment)
        context.note_opened(self)
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
            self.settle_group(
                OutcomeUnknown(f"{name_of(self.key)}: another server owns the partition")
            )

    def recovered(self, next_offset: int) -> None:
        """See log_end.Claim: what the fenced file does not hold was not done and goes back.

        A zero-message block is repeated, which is harmless.
        """
        if next_offset < self._acknowledged_end and self.state is not State.FENCED:
            raise CorruptLog(
                f"{name_of(self.key)}: the recovered log ends at offset {next_offset}, but "
                f"everything below {self._acknowledged_end} was acknowledged"
            )
        if self.group is not None:
            self.queue.extendleft(reversed(self.group.keep_found(next_offset)))

    def damaged(self, versioned: VersionedManifest, view: SegmentView | None) -> None:
        """See log_end.Claim: valid blocks stay readable."""
        if self.state is State.FENCED:
            return
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

    def _open_failed(self, error: Exception) -> float:
        """Try again later, or give up and answer every waiter."""
        context = self.context
        if isinstance(error, TalosError):
            _log.warning("%s: opening failed: %s", name_of(self.key), error)
        else:
            _log.exception("%s: opening failed", name_of(self.key), exc_info=error)
        if isinstance(error, CorruptLog | NewerFormat):
            self._opening_damaged(error)
        elif self.state is not State.FENCED:
            self._move(Event.OPEN_FAILED)
        if isinstance(error, StorageFull):
            context.note_full()
        tried_s = asyncio.get_running_loop().time() - self._first_attempt_s
        final = context.closing or self.refusal_error is not None
        verdict = judge_opening(
            Attempt(name_of(self.key), error, self._attempts, tried_s, final), context.limits
        )
        if verdict.queue_error is not None:
            self.refuse_queue(verdict.queue_error)
        if verdict.refusal is None:
            return verdict.delay_s if self.queue or self.group is not None else 0.0
        self._attempts = 0
        self.settle_group(OutcomeUnknown(f"{name_of(self.key)}: {error}"))
        self.refuse_queue(verdict.refusal)
        return 0.0

    def _opening_damaged(self, error: TalosError) -> None:
        """Nothing is written until a restart."""
        if self.state is not State.FENCED:
            self._move(Event.OPEN_DAMAGED)
        self.damage = error
        if self.refusal_error is None:
            self.refusal_error = type(error)(*error.args)

    async def _roll(self, old: OpenSegment) -> OpenSegment:
        """Seal the segment and register the next one with one change of the manifest."""
        self._move(Event.ROLL)
        context = self.context
        state = LogState.decode(old.state.encode())
        start = SegmentStart(old.epoch, old.view.next_offset, state, [])
        new = await create_segment(context, self.key, self.settings.durability, start)
        self._abandon(new)  # until the manifest names it
        entry = Segment(new.view.base_offset, new.epoch)
        try:
            sealed = await seal_segment(old)
            manifest = self.versioned.manifest.with_last_sealed(sealed).registered(entry)
            versioned = await context.manifests.change(
                self.key, self.versioned, marked(self, manifest)
            )
        except TalosError:
            await delete_if_gone(context, self.key, new.view.path)
            raise
        if self.state is State.FENCED:
            raise PartitionNotServing("dropped while it rolled")
        self._move(Event.ROLLED)
        self.versioned, self.segment, self.view = versioned, new, new.view
        self.abandoned = None
        context.counters.rolls += 1
        side = side_index_of(old)
        context.views.put(old.view.path, side)
        write_side_index_soon(context, self.key, old.view.path, side)
        return new

    async def close_abandoned(self) -> None:
        """Close the files that are never written again, so that no descriptor stays open."""
        files, self.abandoned = self.abandoned, None
        for file in files or ():
            try:
                await file.close()
            except TalosError:  # most are dead, which is why they were abandoned
                _log.debug("%s: an abandoned file was dead", name_of(self.key))


def marked(writer: PartitionWriter, manifest: Manifest) -> Manifest:
    """The manifest with how far metering is now."""
    return manifest if writer.meter is None else replace(manifest, metered=writer.meter.mark)
