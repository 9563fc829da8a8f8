"""All partition logs of one server: the log as the broker and the cluster see it.

The broker asks for partitions and topics, the cluster's handover for recovery, handoff and drops.
A partition has one writer in this process at a time (promise I2 rests on storage, this keeps
offsets unambiguous): ``_partitions`` has those that are served, ``_former`` those that left and
whose last step has not ended.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from opentalos.log.context import (
    LogContext,
    give_keys,
    know_deletions_by,
    know_journals_by,
    know_positions_by,
)
from opentalos.log.counters import LogCounters, LogFigures, Traffic
from opentalos.log.journal.journaled_file import JournaledFile, Sizes
from opentalos.log.journal.laid_over import LaidOver
from opentalos.log.journal.series import JournalSettings
from opentalos.log.journal.store import (
    JournaledFiles,
    held_by_formers,
    journal_figures,
    of_formers,
)
from opentalos.log.journal.upkeep import JournalUpkeep
from opentalos.log.maintenance.end_marks import EndMarks
from opentalos.log.maintenance.rebuilt_indexes import RebuiltIndexes
from opentalos.log.maintenance.registered import Registered
from opentalos.log.maintenance.scrub import Scrub
from opentalos.log.maintenance.unrecovered import UnrecoveredPartitions
from opentalos.log.maintenance.upkeep import Upkeep
from opentalos.log.manifest.held_segments import HeldSegments
from opentalos.log.manifest.store import ROOT, ManifestStore
from opentalos.log.manifest.stored_topics import Journals, StoredTopics
from opentalos.log.partition.decisions import is_outdated
from opentalos.log.partition.jobs import (
    close_later,
    delete,
    hand_off,
    reopen,
    roll,
    seal,
    seal_outdated,
)
from opentalos.log.partition.ownership_guard import OwnershipGuard, SingleServerGuard
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.queue import name_of
from opentalos.log.partition.recovery import PartitionRecovery
from opentalos.log.partition.state import State
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.results import TopicLogSettings
from opentalos.log.scheduling.background import BackgroundTasks
from opentalos.log.scheduling.concurrency import SharedCommits
from opentalos.log.scheduling.lanes import CommitLanes
from opentalos.log.segment.scan import Readable
from opentalos.log.segment.view import ViewCache
from opentalos.log.segment.writer import SEED_BYTES
from opentalos.log.tail_cache import TailCache
from opentalos.log.trusted_time import TrustedTime
from opentalos.model.errors import CorruptLog, NewerFormat, PartitionNotServing, TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability, PartitionKey
from opentalos.ports.clock import Clock
from opentalos.ports.file_store import FileStore
from opentalos.ports.key_ring import KeyRing
from opentalos.ports.meta_store import MetaStore

__all__ = [
    "LogStore",
    "TopicLogSettings",
    "metered_logs",
    "stored_topics",
    "use_deletions",
    "use_keys",
    "use_positions",
]

_log = logging.getLogger(__name__)

INSTANCE_BYTES = 8
# Partitions whose groups one commit of the journal takes; a put may have to look at them all.
JOURNAL_LANES = 64
DIRECT_BYTES_MIN = 64 << 10  # see ``Sizes``
WRITE_OUT_BYTES = 256 << 10
DELETED_AT_ONCE = 64  # partitions of a topic
LOADS_AT_ONCE = 64  # manifests, when all that are held are compared
DAMAGED_SHOWN_MAX = 20  # partitions that figures name


class LogStore:
    """Owner of every partition log of this server and of their shared bounds.

    A log is made in memory at its first use and opened for writing at its first put. It leaves
    by ``hand_off`` (sealed first), ``drop`` (at once) or ``delete_topic``; afterwards its writer
    accepts nothing, and the same partition gets a new log if it comes back.
    """

    def __init__(
        self,
        *,
        files: FileStore,
        meta: MetaStore,
        clock: Clock,
        server: str,
        limits: LogLimits,
        guard: OwnershipGuard | None = None,
    ) -> None:
        self.counters, self.journaled = LogCounters(), limits.journaled
        self._partitions: dict[PartitionKey, PartitionLog] = {}
        self._topics: dict[str, TopicLogSettings] = {}
        # Writers of partitions that left this server, until their last step has ended.
        self._former: dict[PartitionKey, PartitionWriter] = {}
        self.time = TrustedTime(limits, clock.wall_ms, lambda: asyncio.get_running_loop().time())
        self._end_marks = EndMarks(limits)
        lanes = _lanes(limits, self.counters)
        guard = guard or SingleServerGuard()
        manifests = ManifestStore(meta, guard.instance or clock.token(INSTANCE_BYTES).hex())
        registered = Registered(manifests)
        journaled = JournaledFiles(
            files,
            JournalSettings(
                instance=manifests.instance,
                bytes_max=limits.journal_bytes_max,
                series=limits.journals,
                sizes=_sizes(limits),
                start_deadline_s=limits.recover_deadline_s,
                new_seed=lambda: max(int.from_bytes(clock.token(SEED_BYTES), "big"), 1),
                now_ms=self.time.append_ms,
                files_open_max=limits.journal_files_open_max,
                standing=registered.standing,
                left=self._check_left,
                counters=self.counters.journal,
                steady=guard.steady,
            ),
        )
        self._context = LogContext(
            files=journaled if limits.journaled else files,
            manifests=manifests,
            clock=clock,
            time=self.time,
            limits=limits,
            server=server,
            guard=guard,
            counters=self.counters,
            lanes=lanes,
            background=BackgroundTasks(lanes),
            journaled=journaled,
            cache=TailCache(limits.tail_cache_bytes_max),
            views=ViewCache(files, limits.index_interval_bytes),
            pending_deletions={},
            went_idle=self._end_marks.went_idle,
        )
        self._unrecovered = UnrecoveredPartitions(self._context, self._known_log)
        self._journal_care = JournalUpkeep(
            files,
            journaled,
            registered,
            self._reopen_segment,
            self._roll_segment,
            HeldSegments(self._context, self._unrecovered.recover_soon),
        )
        know_journals_by(self._context, self._journal_care.known)
        self.upkeep = Upkeep(self._context, self._partitions, self._former, self._topics)
        self.scrub = Scrub(self._context, self._partitions)
        rebuilt = RebuiltIndexes(self._context, self._partitions)
        self._context.views.tell_rebuilt(rebuilt.store_soon)
        self._recovery = PartitionRecovery(self._context, self._known_log)

    async def start(self) -> None:
        """Read clocks, measure the free space, start upkeep and scrub; no partition is opened."""
        await self.upkeep.start()
        self.scrub.start()
        self._end_marks.start(self._context)
        if self._context.limits.journaled:
            self._journal_care.start()
        else:  # it may have been on before
            self._context.journaled.tell_former(self._journal_care.start)
        self._context.serve()

    def partition(self, topic: TopicLogSettings, partition: int) -> PartitionLog:
        """The partition's log; made in memory on first use, without I/O.

        Raises: PartitionNotServing: it left this server and came back, and the last step of its
            former writer has not ended.
        """
        log = self._partitions.get(PartitionKey(topic.topic_uuid, partition))
        if log is None:
            self._topics.setdefault(topic.topic_uuid, topic)
            log = self.upkeep.log_of(topic, PartitionKey(topic.topic_uuid, partition))
        return log

    def recover_soon(self, keys: Iterable[PartitionKey]) -> None:
        """Make partitions that were assigned to this server ready for reads and puts.

        Those with an unsealed segment are recovered, many at a time; of the others only the
        manifest is read.
        """
        for key in keys:
            self._recovery.recover_soon(key)

    async def hand_off(self, key: PartitionKey, error: TalosError) -> None:
        """Another server is to own the partition: refuse with ``error``, commit, seal, forget.

        Raises: TalosError: it was not sealed, so the next owner recovers it. Every waiter was
            answered by then, also if the call is cancelled.
        """
        log = self._partitions.pop(key, None)
        if log is None:
            return
        writer = log.writer
        writer.hand_off(error)
        self._former[key] = writer
        try:
            if writer.segment is not None or writer.busy():
                await writer.run(partial(hand_off, writer))
        finally:
            self._drop_writer(writer, error)

    def drop(self, key: PartitionKey, error: TalosError) -> None:
        """Stop serving a partition at once: in flight is unknown, queued is not done."""
        log = self._partitions.pop(key, None)
        if log is not None:
            self._drop_writer(log.writer, error)
        elif key in self._former:
            self._drop_writer(self._former[key], error)

    async def drop_taken(self, error: TalosError) -> Sequence[PartitionKey]:
        """Drop what another server claimed, as after a lapsed session; the rest stays.

        Raises: Unavailable: not known of every partition, and none was dropped; call it again.
        """
        room = asyncio.Semaphore(LOADS_AT_ONCE)

        async def taken(log: PartitionLog) -> bool:
            async with room:
                return log.writer.readable and await _is_taken(log.writer)

        logs = list(self._partitions.values())
        found = await asyncio.gather(*map(taken, logs), return_exceptions=True)
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome
        dropped = []
        for log, outcome in zip(logs, found, strict=True):
            if outcome and self._partitions.get(log.key) is log:
                dropped.append(log.key)
                self.drop(log.key, error)
        return dropped

    def _drop_writer(self, writer: PartitionWriter, error: TalosError) -> None:
        if writer.state is State.FENCED:
            return
        self._former[writer.key] = writer
        writer.drop(error)
        if (writer.abandoned or writer.busy()) and not self._context.closed:
            self.upkeep.start_job(writer, partial(close_later, writer))

    def _reopen_segment(self, path: str) -> None:
        """Its file cannot be written any more: copy what the journal has into the next segment."""
        topic_uuid, partition, _ = path.split("/")
        log = self._partitions.get(PartitionKey(topic_uuid, int(partition)))
        if log is not None and not log.writer.busy() and not self._context.closing:
            self.upkeep.start_job(log.writer, partial(reopen, log.writer, path))

    def _check_left(self, path: str) -> None:
        topic_uuid, partition, _ = path.split("/")
        self._context.schedule_deletion_check(PartitionKey(topic_uuid, int(partition)), path)

    async def _roll_segment(self, path: str) -> None:
        """Write out, close and seal it; the partition continues in another. Raises: TalosError."""
        topic_uuid, partition, _ = path.split("/")
        log = self._partitions.get(PartitionKey(topic_uuid, int(partition)))
        segment = log.writer.segment if log is not None else None
        if log is None or segment is None or self._context.closing:
            return
        file = segment.file
        if isinstance(file, JournaledFile) and segment.view.path == path:
            await file.reserve()  # so that no put of the partition waits for a slot
            try:
                await log.writer.run(partial(roll, log.writer, path))
            finally:
                file.drop_slot()

    def _known_log(self, key: PartitionKey) -> PartitionLog | None:
        settings = self._topics.get(key.topic_uuid)
        return self.upkeep.log_of(settings, key) if settings is not None else None

    def update_topic(self, settings: TopicLogSettings) -> None:
        """A topic was changed, or is known for the first time.

        A new durability holds from the next commit on, in a new segment. The open one is sealed
        now, which makes all of it durable.
        """
        self._topics[settings.topic_uuid] = settings
        for key, log in self._partitions.items():
            if key.topic_uuid == settings.topic_uuid:
                log.writer.update_settings(settings)
                if is_outdated(log.writer):
                    self.upkeep.start_job(log.writer, partial(seal_outdated, log.writer))

    def forget_topic(self, topic_uuid: str) -> None:
        """A topic is gone, whichever server deleted it: nothing of it stays in memory."""
        self._topics.pop(topic_uuid, None)
        self._context.traffic.pop(topic_uuid, None)
        self._context.shares.forget_topic(topic_uuid)
        for key in [key for key in self._partitions if key.topic_uuid == topic_uuid]:
            self.drop(key, PartitionNotServing(f"topic {topic_uuid} is gone"))

    async def delete_topic(self, topic_uuid: str, partitions: int) -> None:
        """Fence every partition, then delete its files and manifest; idempotent.

        Raises: Unavailable, OutcomeUnknown: some partitions may be left; call again.
        """
        settings = self._topics.get(topic_uuid) or TopicLogSettings(
            topic_uuid, Durability.SYNCED, 0.0
        )
        names = await self._context.manifests.meta.children(f"{ROOT}/{topic_uuid}")
        numbers = {*range(partitions), *(int(name) for name in names if name.isdecimal())}
        writers = []
        for index, number in enumerate(sorted(numbers), 1):
            if index % DELETED_AT_ONCE == 0:
                await asyncio.sleep(0)
            writer = self.upkeep.log_of(settings, PartitionKey(topic_uuid, number)).writer
            writer.begin_deletion()
            writers.append(writer)
        results: list[object] = []
        for start in range(0, len(writers), DELETED_AT_ONCE):
            part = writers[start : start + DELETED_AT_ONCE]
            results += await asyncio.gather(
                *(writer.run(partial(delete, writer)) for writer in part), return_exceptions=True
            )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        for number in numbers:
            self._partitions.pop(PartitionKey(topic_uuid, number), None)
        self._topics.pop(topic_uuid, None)
        self._context.traffic.pop(topic_uuid, None)  # its writers made both again
        self._context.shares.forget_topic(topic_uuid)

    async def close(self) -> None:
        """Refuse appends, commit what is queued, seal everything; bounded by ``close_s``."""
        context = self._context
        if context.closing:
            return
        context.refuse()
        await self._recovery.close()
        await self._unrecovered.close()
        await self.upkeep.close()
        await self.scrub.close()
        self._end_marks.close()
        await self._journal_care.close()
        writers = [log.writer for log in self._partitions.values()]
        unsealed = [writer for writer in writers if writer.segment is not None or writer.busy()]
        try:
            async with asyncio.timeout(context.limits.close_s):
                await asyncio.gather(*(_sealed(writer) for writer in unsealed))
                await context.background.drain()
                await self._journal_care.end_all()
        except TimeoutError:
            _log.warning("not every partition was sealed; the next start recovers them")
        await self._journal_care.stop_all()
        context.end()
        await context.background.close()
        await context.lanes.close()
        for writer in writers:
            if writer.busy() or writer.queue or writer.group is not None:
                writer.work_failed(PartitionNotServing("the server stopped"))

    @property
    def figures(self) -> LogFigures:
        """The log at this moment, beside the counters."""
        context = self._context
        return LogFigures(
            partitions=len(self._partitions),
            open_partitions=len(context.open_partitions),
            open_partitions_max=context.open_max,
            pending_bytes=context.pending_bytes,
            lanes=context.lanes.count(),
            lanes_stalled=context.lanes.stalled(),
            damaged_segments=len(self.scrub.damaged),
            damaged_partitions=len(context.damaged),
            damaged=tuple(islice(context.damaged.values(), DAMAGED_SHOWN_MAX)),
            space_left_bytes=context.space_left,
            full=context.full,
            cache_bytes=context.cache.bytes,
            cache_bytes_max=context.cache.bytes_max,
            lane_depth=context.lanes.depth(),
            clock_disagreement_s=context.time.disagreement_s,
            clock_doubt=context.time.doubt(),
            traffic=context.traffic,
            journal=replace(
                journal_figures(context.journaled), unrecovered=self._unrecovered.count
            ),
        )

    def traffic_of(self, topic_uuid: str, partition: int) -> Traffic:
        """Counters of one partition."""
        return self._context.traffic_of(topic_uuid, partition)

    @property
    def serving(self) -> bool:
        """Whether it is open: started, not closing."""
        return self._context.started and not self._context.closing

    def writable(self) -> bool:
        """Whether puts are accepted: started, not closing, enough space."""
        context = self._context
        return context.started and not context.closing and not context.full


def use_keys(store: LogStore, keys: KeyRing) -> None:
    """Encrypt and decrypt blocks with these keys; before ``start``."""
    give_keys(store._context, keys)


def use_positions(
    store: LogStore, read_by_groups: Callable[[PartitionKey], Awaitable[int]]
) -> None:
    """A log ends nowhere before what its groups have read; before ``start``."""
    know_positions_by(store._context, read_by_groups)


def use_deletions(store: LogStore, topic_deleted: Callable[[str], Awaitable[bool]]) -> None:
    """What journals have of a topic without a manifest is kept, unless it was deleted; before
    ``start``."""
    know_deletions_by(store._context, topic_deleted)


def stored_topics(store: LogStore) -> StoredTopics:
    """What is stored of topics, be they served here or not."""
    context = store._context

    async def held() -> Collection[str]:
        await context.journals_known()
        return held_by_formers(context.journaled)

    async def whole(path: str) -> Readable:
        extents = await of_formers(context.journaled, path)
        return context.files if extents is None else LaidOver(context.files, extents, 0)

    return StoredTopics(context.files, context.manifests.meta, Journals(held, whole))


def metered_logs(store: LogStore) -> Iterator[PartitionLog]:
    """Logs in memory whose messages are metered and whose end is known.

    Those of a topic that is being deleted as well: what they stored has to be billed.
    """
    for log in list(store._partitions.values()):
        writer, meter = log.writer, log.meter
        if meter is not None and meter.known:
            if writer.readable or writer.state is State.DELETING:
                yield log


def _sizes(limits: LogLimits) -> Sizes:
    return Sizes(
        min(DIRECT_BYTES_MIN, limits.segment_bytes_max // 4),
        min(WRITE_OUT_BYTES, limits.segment_bytes_max // 2),
    )


def _lanes(limits: LogLimits, counters: LogCounters) -> CommitLanes:
    """With a journal, as many partitions as possible are to wait for the same commit."""
    if not limits.journaled:
        return CommitLanes(limits, counters)
    lanes_max = max(limits.lanes_max, 2 * JOURNAL_LANES)
    return CommitLanes(replace(limits, lanes_max=lanes_max), counters, SharedCommits(JOURNAL_LANES))


async def _is_taken(writer: PartitionWriter) -> bool:
    """Whether another process has changed the manifest since this one read or changed it.

    One that cannot be read gives up its own partition: it must keep no server out of the cluster.
    """
    held, manifests = writer.versioned, writer.context.manifests
    try:
        found = await manifests.load(writer.key)
    except (CorruptLog, NewerFormat) as error:
        _log.error("%s is given up: %s", name_of(writer.key), error)
        return True
    return found.version != held.version and found.manifest.instance != manifests.instance


async def _sealed(writer: PartitionWriter) -> None:
    try:
        await writer.run(partial(seal, writer))
    except TalosError as error:
        _log.warning("%s was not sealed: %s", writer.key, error)
