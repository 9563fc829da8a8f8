"""The state of one partition's writing side, and every event that moves it.

``PartitionWriter`` executes on top of this class: it opens, commits and rolls. The jobs, the
upkeep, readers and ``LogStore`` call the methods here, which are named after events; none of them
writes an attribute. So all changes of state, manifest, segment and high watermark are in this
module and in the writer, each between two awaits.
"""

import logging

from opentalos.log.context import LogContext
from opentalos.log.journal.journaled_file import abandon
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.manifest.store import NOTHING, VersionedManifest
from opentalos.log.metering.meter import Mark, Meter
from opentalos.log.partition.queue import NO_BLOCKS, PutQueue, name_of, refuse_jobs
from opentalos.log.partition.state import GONE, INITIAL, READABLE, Event, State, next_state
from opentalos.log.results import TopicLogSettings
from opentalos.log.scheduling.read_waiters import Arrivals
from opentalos.log.segment.view import SegmentView
from opentalos.log.segment.writer import OpenSegment
from opentalos.model.errors import (
    OutcomeUnknown,
    PartitionNotServing,
    StorageFull,
    TalosError,
)
from opentalos.model.message import OffsetRange, PartitionKey
from opentalos.ports.file_store import AppendFile

_log = logging.getLogger(__name__)


class PartitionLifecycle(PutQueue):
    """State, manifest, open segment and what readers see of one partition.

    ``state`` moves only by ``_move``, along the table in ``state``; an event that the table does
    not have raises IllegalTransition before anything changes. What readers use is public:
    manifest, high watermark (``next_offset``), view of the unsealed segment, tail.

    A file that failed or was given up is never written again. It waits in ``abandoned`` until
    storage answers its close, so that no descriptor stays open.
    """

    __slots__ = (
        "abandoned",
        "arrivals",
        "damage",
        "end_proven",
        "judged",
        "last_put_s",
        "meter",
        "next_offset",
        "readable",
        "segment",
        "served",
        "settings",
        "state",
        "tail",
        "total_bytes",
        "traffic",
        "versioned",
        "view",
    )

    def __init__(self, context: LogContext, key: PartitionKey, settings: TopicLogSettings) -> None:
        super().__init__(context, key, tenant=settings.tenant, uses_reserve=settings.uses_reserve)
        self.settings = settings
        self.traffic = context.traffic_of(key.topic_uuid, key.partition)
        self._enter(INITIAL)
        self.segment: OpenSegment | None = None
        self.view: SegmentView | None = None  # of the unsealed segment, also while re-opening
        self.versioned: VersionedManifest = NOTHING
        self.next_offset = 0  # the high watermark: no message from here on is shown
        self.end_proven = False  # of a sealed log: nothing says that it was longer
        self.judged = False  # see log_end.Claim
        self.total_bytes: int | None = None  # ever appended; None: not looked up yet
        self.meter = _meter_of(settings)
        self.last_put_s = 0.0
        self.tail = context.cache.tail()
        self.arrivals = Arrivals(context.wake_ups)
        self.damage: TalosError | None = None  # why nothing can be written until a restart
        self.abandoned: list[AppendFile] | None = None

    def range(self) -> OffsetRange:
        """Retained durable offsets; only in a readable state."""
        return OffsetRange(self.versioned.manifest.first, self.next_offset)

    @property
    def foreign(self) -> bool:
        """Whether what is known was written by another process, which may still add to it."""
        mine = self.context.manifests.instance
        return self.segment is None and self.readable and self.versioned.manifest.instance != mine

    # --- events: the manifest -------------------------------------------------------------------

    def adopt(self, versioned: VersionedManifest) -> None:
        """A manifest without an unsealed segment was read, or claimed for this process."""
        if self.state in (State.FENCED, State.DAMAGED):
            return  # what was under way ended after the drop, or after a reader found the damage
        self._move(Event.ADOPTED)
        self._take(versioned)

    def manifest_changed(self) -> None:
        """Another process changed the manifest, or may have: read it again before it is used."""
        if self.state in (State.SEALED, State.MUST_REOPEN):
            self._move(Event.CHANGED)

    def manifest_replaced(self, versioned: VersionedManifest) -> None:
        """This process changed the manifest; segments and state stay what they are."""
        self.versioned = versioned

    # --- events: the segment --------------------------------------------------------------------

    def begin_seal(self) -> None:
        """The segment is about to be closed and its end registered; nothing is queued."""
        self._move(Event.SEAL)

    def sealed(self, versioned: VersionedManifest) -> None:
        """The manifest names the end of the last segment."""
        if self.state is not State.FENCED:
            self._move(Event.SEALED)
        self._forget_segment()
        self.view, self.versioned, self.end_proven = None, versioned, True
        if not self.queue:
            self.queue = NO_BLOCKS

    def write_failed(self, error: Exception) -> None:
        """The file is dead: the outcome of the group in flight is unknown until a recovery."""
        self._abandon(self.segment)
        self._forget_segment()
        self.context.counters.commit_failures += 1
        if isinstance(error, StorageFull):
            self.context.note_full()
        if isinstance(error, TalosError):
            _log.warning("%s: write failed, re-opening: %s", name_of(self.key), error)
        else:
            _log.exception("%s: write failed, re-opening", name_of(self.key), exc_info=error)
        if self.state is not State.FENCED:
            self._move(Event.WRITE_FAILED)

    def work_failed(self, error: BaseException) -> None:
        """See lanes.Worker; also when the server stops or the partition is deleted."""
        self._abandon(self.segment)
        self._forget_segment()
        self._move(Event.ABORTED)
        super().work_failed(error)

    # --- events: the end on this server ---------------------------------------------------------

    def hand_off(self, error: TalosError) -> None:
        """Another server is to own the partition: refuse with ``error``; a job seals."""
        self._move(Event.HAND_OFF)
        self.refusal_error = error
        self.arrivals.wake()

    def begin_deletion(self) -> None:
        """The topic is to be deleted: refuse puts and reads; a job deletes."""
        self._move(Event.DELETE)
        if self.refusal_error is None:
            self.refusal_error = PartitionNotServing(f"{name_of(self.key)} is being deleted")

    def deleted(self) -> None:
        """The files and the manifest are gone."""
        if self.state is not State.FENCED:
            self._move(Event.DELETED)
        self._take(NOTHING)
        self.tail.clear()
        self.arrivals.wake()

    def drop(self, error: TalosError) -> None:
        """Stop at once: in flight is unknown and queued is not done; refuse with ``error``.

        Another server may own the partition. A step under way ends but changes nothing any more.
        """
        self._move(Event.DROP)
        self.refusal_error = error
        self._abandon(self.segment)
        self._forget_segment()
        self.settle_group(OutcomeUnknown(f"{name_of(self.key)}: {error}"))
        self.refuse_queue(error)
        refuse_jobs(self, error)
        self.tail.clear()
        self.arrivals.wake()

    # --- for the writer -------------------------------------------------------------------------

    def _move(self, event: Event) -> None:
        self._enter(next_state(self.state, event))

    def _enter(self, state: State) -> None:
        """What the state permits, as attributes: each read checks them."""
        self.state = state
        self.readable = state in READABLE  # ``versioned`` and ``next_offset`` are true
        self.served = state not in GONE  # reads and puts may expect an answer from here
        if not self.served:
            self.context.damaged.pop(self, None)

    def _take(self, versioned: VersionedManifest) -> None:
        """A manifest whose segments are all sealed is the truth."""
        self._meter_from(versioned.manifest)
        ours = versioned.manifest.instance == self.context.manifests.instance
        self.end_proven, self.judged = self.end_proven and ours, self.judged and ours
        self.versioned = versioned
        self.next_offset = versioned.manifest.sealed_next
        self.view = None

    def _meter_from(self, former: Manifest) -> None:
        """What is counted stays true as long as no other process may have appended."""
        meter = self.meter
        if meter is not None and not (
            meter.known and former.instance == self.context.manifests.instance
        ):
            meter.restart(former.metered or Mark(), former.start)

    def _forget_segment(self) -> None:
        """The open segment takes no more commits."""
        if self.segment is not None and self.segment.next_file is not None:
            self.segment.next_file.drop()
        self.segment = None
        self.context.open_partitions.pop(self, None)

    def _abandon(self, segment: OpenSegment | None) -> None:
        """Its file is never written again, whatever its state; closed when storage answers.

        Known to the journals at once: perhaps no put opens the partition, and others wait for the
        slot of the file, or for the journal that it keeps.
        """
        if segment is not None:
            self._abandon_unless_named(segment)
            for file in self.abandoned or ():
                abandon(file)

    def _abandon_unless_named(self, segment: OpenSegment) -> None:
        """The same if the change of the manifest fails that is to name it."""
        self.abandoned = [*(self.abandoned or ()), segment.file]


def _meter_of(settings: TopicLogSettings) -> Meter | None:
    if not settings.minute_ms:
        return None
    return Meter(settings.minute_ms, reports_kept=settings.reports_kept)
