"""The writing side of one partition: queue, group commit, opening, rolling, sealing, fencing.

Every step that awaits storage runs in the partition's lane, one at a time, so all changes of the
manifest come from one task. State changes happen between awaits.
"""

import asyncio
import copy
import logging
from dataclasses import replace

from opentalos.log.context import LogContext
from opentalos.log.manifest.manifest import SEGMENTS_SOFT_MAX, Manifest, Segment
from opentalos.log.manifest.store import NOTHING, VersionedManifest
from opentalos.log.metering.meter import Mark, Meter
from opentalos.log.partition.opening import open_partition
from opentalos.log.partition.queue import PutQueue, name_of
from opentalos.log.results import TopicLogSettings
from opentalos.log.scheduling.lanes import DONE, PARKED
from opentalos.log.segment.state_format import LogState
from opentalos.log.segment.view import SegmentView
from opentalos.log.segment.writer import (
    Entry,
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
    NotOwner,
    OutcomeUnknown,
    PartitionNotServing,
    StorageFull,
    TalosError,
    TopicNotExist,
)
from opentalos.model.message import OffsetRange, PartitionKey
from opentalos.ports.file_store import AppendFile

_log = logging.getLogger(__name__)

REOPEN_DELAY_FIRST_S = 0.01
REOPEN_DELAY_MAX_S = 1.0
SOFT_MAX_ROLL_FACTOR = 16  # larger segments, once a manifest has very many


class PartitionWriter(PutQueue):
    """Owner of a partition: while it is open, the only one who may append to its segment.

    What readers need is public: manifest, durable end, view of the unsealed segment, tail.
    """

    __slots__ = (
        "_attempts",
        "_first_attempt_s",
        "_job_turn",
        "abandoned",
        "adopted_s",
        "arrivals",
        "dropped",
        "end_unknown",
        "known",
        "last_put_s",
        "meter",
        "next_offset",
        "segment",
        "settings",
        "tail",
        "total_bytes",
        "traffic",
        "upkeep_waits",
        "versioned",
        "view",
    )

    def __init__(self, context: LogContext, key: PartitionKey, settings: TopicLogSettings) -> None:
        super().__init__(context, key, uses_reserve=settings.uses_reserve)
        self.settings = settings
        self.traffic = context.traffic_of(key.topic_uuid, key.partition)
        self.segment: OpenSegment | None = None
        self.view: SegmentView | None = None  # of the unsealed segment, also while re-opening
        self.versioned: VersionedManifest = NOTHING
        self.known = False  # ``held`` and ``next_offset`` are true
        self.next_offset = 0  # the durable end: nothing at or behind it is shown
        self.adopted_s = 0.0  # loop time at which ``held`` was read
        self.total_bytes: int | None = None  # ever appended; None: not looked up yet
        self.meter = Meter(settings.minute_ms) if settings.minute_ms else None
        self.last_put_s = 0.0
        self.tail = context.cache.tail()
        self.arrivals: list[asyncio.Future[None]] | None = None  # readers held at the end
        self.upkeep_waits = False  # an upkeep job is queued or under way
        self._job_turn = False
        self.end_unknown = False  # an opening has begun, and has not come to the log's end
        self._attempts = 0  # to open, since the last success or the last time all were told
        self._first_attempt_s = 0.0
        self.abandoned: list[AppendFile] | None = None  # still open, but never written again
        self.dropped = False  # all waiters were told; what is under way changes nothing any more

    def range(self) -> OffsetRange:
        """Retained durable offsets; only while ``known``."""
        return OffsetRange(self.versioned.manifest.start, self.next_offset)

    @property
    def foreign(self) -> bool:
        """Whether what is known was written by another process, which may still add to it."""
        mine = self.context.manifests.instance
        return self.segment is None and self.known and self.versioned.manifest.instance != mine

    def adopt(self, versioned: VersionedManifest) -> None:
        """Take over a manifest without an unsealed segment as the truth."""
        self._meter_from(versioned.manifest)
        self.versioned, self.known, self.end_unknown = versioned, True, False
        self.adopted_s = asyncio.get_running_loop().time()
        self.next_offset = versioned.manifest.sealed_next
        self.view = None

    def _meter_from(self, former: Manifest) -> None:
        """What is counted stays true as long as nobody else may have appended."""
        meter = self.meter
        if meter is not None and not (
            meter.known and former.instance == self.context.manifests.instance
        ):
            meter.restart(former.metered or Mark(), former.start)

    def forget_segment(self) -> None:
        """The open segment takes no more writes; the next put opens the partition anew."""
        self.segment = None
        self.context.open_partitions.pop(self, None)

    def _abandon(self, segment: OpenSegment | None) -> None:
        """Its file is never written again, whatever its state; closed when storage answers."""
        if segment is None:
            return
        if self.abandoned is None:
            self.abandoned = []
        self.abandoned.append(segment.file)

    def work_failed(self, error: BaseException) -> None:
        """See lanes.Worker."""
        self._abandon(self.segment)
        self.forget_segment()
        super().work_failed(error)

    # --- the lane's side ------------------------------------------------------------------------

    async def work(self) -> float:
        """One step; see lanes.Worker. Commits run in the lane, all else aside."""
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
        if segment is not None and not segment.has_messages and self._outdated(segment):
            self._abandon(segment)  # a roll would make the very same file
            self.forget_segment()
            segment = None
        if segment is None:
            return await self.open_step()
        try:
            if self._roll_due(segment):
                segment = await self._roll(segment)
            await self._commit(segment)
        except Exception as error:
            self.write_failed(error)
        return 0.0

    async def _commit(self, segment: OpenSegment) -> None:
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
                return  # dropped meanwhile, and its waiters were told
            segment.committed(group, length)
        elif group.answered:
            await self._confirm_answers(group)
            if self.group is not group:
                return
        self.group = None
        self._committed(segment, group)

    def _committed(self, segment: OpenSegment, group: Group) -> None:
        """Show and acknowledge a durable group. Nothing in here may raise."""
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
            self.wake_readers()
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
        """No commit proves that a group without blocks was judged by the owner: the manifest must.

        Without that proof a refusal, on which producers give up, is only "not done".
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
            reason = "another owner took over"
        refused = PartitionNotServing(f"{name_of(self.key)}: {reason}")
        group.answered = [
            (waiter, base, answer and refused) for waiter, base, answer in group.answered
        ]

    def wake_readers(self) -> None:
        """Let held readers look again."""
        if self.arrivals:
            arrivals, self.arrivals = self.arrivals, None
            for future in arrivals:
                if not future.done():
                    future.set_result(None)

    # --- failures -------------------------------------------------------------------------------

    def write_failed(self, error: Exception) -> None:
        """The file is dead: the group in flight is open, the partition must be re-opened."""
        self._abandon(self.segment)
        self.forget_segment()
        self.context.counters.commit_failures += 1
        if isinstance(error, StorageFull):
            self.context.note_full()
        if isinstance(error, TalosError):
            _log.warning("%s: write failed, re-opening: %s", name_of(self.key), error)
        else:
            _log.exception("%s: write failed, re-opening", name_of(self.key), exc_info=error)

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
            if self.handoff_error is not None:
                raise copy.copy(self.handoff_error)
            opened = await open_partition(context, self.key, self.settings, self)
        except Exception as error:
            return self._open_failed(error)
        self._attempts = 0
        if self.dropped:
            self._abandon(opened.segment)
            return 0.0
        self.versioned, self.segment, self.known = opened.versioned, opened.segment, True
        self.end_unknown = False
        self.view = opened.segment.view
        self.next_offset = self.view.next_offset
        self.total_bytes = opened.segment.state.total_bytes
        self.last_put_s = opened.segment.opened_s
        if self.meter is not None:
            self.meter.cut(self.next_offset)
        self._acknowledge_found(opened.segment)
        context.note_opened(self)
        await close_abandoned(self)
        return 0.0

    def former_seen(self, former: Manifest) -> None:
        """See opening.Claim. Only if nobody wrote in between do offsets identify our blocks.

        A released partition may have come back meanwhile: then it has another writer here.
        """
        self._meter_from(former)
        self.end_unknown = True
        if former.instance != self.context.manifests.instance or self.handoff_error is not None:
            self.settle_group(OutcomeUnknown(f"{name_of(self.key)}: another owner took over"))

    def recovered(self, next_offset: int) -> None:
        """See opening.Claim: what the fenced file does not hold was not done and goes back.

        A zero-message block cannot be told by its offset; it is repeated, which is harmless.
        """
        if self.known and next_offset < self.next_offset:
            raise CorruptLog(
                f"{name_of(self.key)}: the recovered log ends at offset {next_offset}, but "
                f"everything below {self.next_offset} was acknowledged"
            )
        group = self.group
        if group is None:
            return
        entries, followers = group.entries, group.followers
        group.entries, lost = _found(entries, next_offset)
        group.followers, lost_followers = _found(followers, next_offset)
        lost += lost_followers
        group.pending_bytes -= sum(entry[2] for entry in lost)
        self.queue.extendleft((block, waiter, size) for block, waiter, size, _ in reversed(lost))

    def damaged(self, versioned: VersionedManifest, view: SegmentView | None) -> None:
        """See opening.Claim: valid blocks stay readable."""
        if view is None:
            self.adopt(versioned)
            return
        self._meter_from(versioned.manifest)
        self.versioned, self.view, self.known = versioned, view, True
        self.next_offset = max(self.next_offset, view.next_offset)

    def _acknowledge_found(self, segment: OpenSegment) -> None:
        """The rest of the failed group lies in the new, registered segment."""
        group, self.group = self.group, None
        self.wake_readers()
        if group is None:
            return
        group.bytes = group.messages = group.stored_bytes = 0
        group.stored = []
        group.next_offset = self.next_offset
        self._committed(segment, group)

    def _open_failed(self, error: Exception) -> float:
        """Try again later, or give up and tell every waiter."""
        context, limits = self.context, self.context.limits
        if isinstance(error, TalosError):
            _log.warning("%s: opening failed: %s", name_of(self.key), error)
        else:
            _log.exception("%s: opening failed", name_of(self.key), exc_info=error)
        if isinstance(error, CorruptLog | NewerFormat):
            self.broken = error
            self.refuse_queue(type(error)(*error.args))
        elif isinstance(error, StorageFull):
            context.note_full()
            self.refuse_queue(StorageFull(str(error)))
        refused: TalosError = PartitionNotServing(f"{name_of(self.key)}: {error}")
        lasting = self.broken is not None or context.closing or self.deleted
        if isinstance(error, NotOwner | TopicNotExist):
            refused, lasting = error, True
        lasting = lasting or self.handoff_error is not None
        tried_s = asyncio.get_running_loop().time() - self._first_attempt_s
        lasting = lasting or tried_s > limits.recover_deadline_s
        if not lasting and self._attempts < limits.reopen_attempts_max:
            if self.queue or self.group is not None:
                return min(REOPEN_DELAY_FIRST_S * 2.0**self._attempts, REOPEN_DELAY_MAX_S)
            return 0.0
        self._attempts = 0
        self.settle_group(OutcomeUnknown(f"{name_of(self.key)}: {error}"))
        self.refuse_queue(refused)
        return 0.0

    def _outdated(self, segment: OpenSegment) -> bool:
        """Whether the topic's durability was changed: no put may be acknowledged at the old one."""
        return segment.durability is not self.settings.durability

    def _roll_due(self, segment: OpenSegment) -> bool:
        if not segment.has_messages:
            return False
        if self._outdated(segment):
            return True
        limits = self.context.limits
        size, age_s = limits.segment_bytes_max, limits.segment_age_max_s
        if len(self.versioned.manifest.segments) > SEGMENTS_SOFT_MAX:
            size, age_s = size * SOFT_MAX_ROLL_FACTOR, age_s * SOFT_MAX_ROLL_FACTOR
        if not self.context.guard.steady():  # the roll needs the coordination, so it waits
            return segment.view.end_position >= limits.segment_bytes_hard_max
        if segment.view.end_position >= min(size, limits.segment_bytes_hard_max):
            return True
        return asyncio.get_running_loop().time() - segment.opened_s >= age_s

    async def _roll(self, old: OpenSegment) -> OpenSegment:
        """Seal the segment and register the next one with one change of the manifest."""
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
        if self.dropped:
            raise PartitionNotServing("dropped while it rolled")
        self.versioned, self.segment, self.view = versioned, new, new.view
        self.abandoned = None
        context.counters.rolls += 1
        side = side_index_of(old)
        context.views.put(old.view.path, side)
        write_side_index_soon(context, self.key, old.view.path, side)
        return new


def marked(writer: PartitionWriter, manifest: Manifest) -> Manifest:
    """The manifest with how far metering is now."""
    return manifest if writer.meter is None else replace(manifest, metered=writer.meter.mark)


async def close_abandoned(writer: PartitionWriter) -> None:
    """Let go of the files that are never written again, so that no descriptor stays open."""
    files, writer.abandoned = writer.abandoned, None
    for file in files or ():
        try:
            await file.close()
        except TalosError:  # most are dead, which is why they were given up
            _log.debug("%s: a file given up was dead", name_of(writer.key))


def _found(entries: list[Entry], next_offset: int) -> tuple[list[Entry], list[Entry]]:
    """Entries that lie in a log which ends at ``next_offset``, and those that do not."""
    found = [e for e in entries if e[0].messages and e[3] + e[0].messages <= next_offset]
    lost = [e for e in entries if not e[0].messages or e[3] + e[0].messages > next_offset]
    return found, lost
