"""What all partitions of one server share: ports, bounds, lanes, caches, counters.

``LogStore`` makes it; every partition has a reference. The bounds hold for the whole server.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from opentalos.log.counters import DamagedPartition, LogCounters, Traffic
from opentalos.log.journal.store import JournaledFiles
from opentalos.log.manifest.store import ManifestStore
from opentalos.log.partition.ownership_guard import OwnershipGuard
from opentalos.log.scheduling.background import BackgroundTasks
from opentalos.log.scheduling.lanes import CommitLanes
from opentalos.log.scheduling.read_waiters import WakeUps
from opentalos.log.scheduling.shares import Shares
from opentalos.log.segment.format import PLAIN_VERSION, SEGMENT_VERSION
from opentalos.log.segment.view import ViewCache
from opentalos.log.tail_cache import TailCache
from opentalos.log.trusted_time import TrustedTime
from opentalos.model.errors import PartitionNotServing, StorageFull, TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import PartitionKey
from opentalos.ports.clock import Clock
from opentalos.ports.file_store import FileStore
from opentalos.ports.key_ring import KeyRing

SEGMENTS_OPEN_USUAL = 4_096  # where nobody measured what the process may have
PENDING_DELETIONS_MAX = 100_000  # files; above it a partition's next owner deletes them


async def _nothing_to_know() -> None:
    """There is no journal."""


async def _deleted(_: str) -> bool:
    """There is no catalogue: a topic without a manifest was deleted."""
    return True


async def _read_by_nobody(_: PartitionKey) -> int:
    """There are no groups."""
    return 0


@dataclass(slots=True, eq=False)
class LogContext:
    """Shared by reference; only the loop's thread touches it."""

    files: FileStore
    manifests: ManifestStore
    clock: Clock  # its wall time decides nothing; ``time`` does
    time: TrustedTime
    limits: LogLimits
    server: str
    guard: OwnershipGuard
    counters: LogCounters
    lanes: CommitLanes
    background: BackgroundTasks
    journaled: JournaledFiles
    cache: TailCache
    views: ViewCache
    pending_deletions: dict[str, float]  # paths, and the loop time from which on
    deletion_checks: deque[tuple[PartitionKey, str]] = field(default_factory=deque)  # of own files
    files_ahead: int = 0  # see segment/next_file.py
    pending_bytes: int = 0  # waiting for commit, all partitions
    shares: Shares = field(default_factory=Shares)  # of tenants and topics
    wake_ups: WakeUps = field(default_factory=WakeUps)  # of readers, all partitions
    space_left: int = 0  # at the last measurement, less what was written since
    started: bool = False
    closing: bool = False
    closed: bool = False  # no lane may start any more
    full: bool = False
    space_doubted: bool = False  # storage refused a write since the last measurement
    open_partitions: dict[Hashable, None] = field(default_factory=dict)
    damaged: dict[Hashable, DamagedPartition] = field(default_factory=dict)  # those served here
    make_room: Callable[[], None] | None = None  # called above ``open_max``
    went_idle: Callable[[Any], None] | None = None  # called when an open partition has no work
    traffic: dict[str, dict[int, Traffic]] = field(default_factory=dict)  # by topic uuid
    keys: KeyRing | None = None  # None: this server can neither encrypt nor decrypt
    # Returns once the journals were read that no manifest names. Raises: TalosError: not known.
    journals_known: Callable[[], Awaitable[None]] = field(default=_nothing_to_know)
    # Whether it is on record that a topic was deleted, by its uuid. Raises: TalosError: not known.
    topic_deleted: Callable[[str], Awaitable[bool]] = field(default=_deleted)
    # The first offset that no consumer group has read; 0: none is known. Raises: TalosError.
    read_by_groups: Callable[[PartitionKey], Awaitable[int]] = field(default=_read_by_nobody)

    @property
    def segment_version(self) -> int:
        """Of new segments: servers that know no encryption must not serve encrypted blocks."""
        return PLAIN_VERSION if self.keys is None else SEGMENT_VERSION

    @property
    def open_max(self) -> int:
        """Open segments above which idle ones are sealed."""
        return self.limits.segments_open_max or SEGMENTS_OPEN_USUAL

    def serve(self) -> None:
        """Accept puts from now on."""
        self.started = True

    def refuse(self) -> None:
        """Accept no puts any more and begin nothing new; what is under way may end."""
        self.closing = True

    def end(self) -> None:
        """No lane may start any more."""
        self.closed = True

    def room_by(self, make_room: Callable[[], None]) -> None:
        """Call ``make_room`` when too many segments are open."""
        self.make_room = make_room

    def refusal(self, uses_reserve: bool = False) -> TalosError | None:
        """Why no put can be accepted now; not done."""
        if self.closing or not self.started:
            return PartitionNotServing("the server is stopping" if self.closing else "not started")
        if self.full and not uses_reserve:
            self.counters.refused_full += 1
            return StorageFull(
                f"{self.space_left} bytes of storage are free, "
                f"{self.limits.space_reserve_bytes} are kept in reserve"
            )
        return None

    def traffic_of(self, topic_uuid: str, partition: int) -> Traffic:
        """Counters of a partition; they stay until its topic is deleted, wherever it goes."""
        of_topic = self.traffic.get(topic_uuid)
        if of_topic is None:
            of_topic = self.traffic[topic_uuid] = {}
        found = of_topic.get(partition)
        if found is None:
            found = of_topic[partition] = Traffic()
        return found

    def note_space(self, free_bytes: int) -> None:
        """The free space was measured."""
        self.space_left, self.space_doubted = free_bytes, False
        self.full = free_bytes < self.limits.space_reserve_bytes

    def note_full(self) -> None:
        """The storage refused a write for want of space: the next measurement shows whose.

        A quota, or a limit of one file, is no full server, so other partitions go on until then.
        """
        self.space_doubted = True

    def note_written(self, count_bytes: int) -> None:
        """Bytes were written since the last measurement."""
        self.space_left -= count_bytes
        if self.space_left < self.limits.space_reserve_bytes:
            self.full = True

    def note_opened(self, partition: Hashable) -> None:
        """A partition has an open segment now."""
        self.open_partitions[partition] = None
        if len(self.open_partitions) > self.open_max and self.make_room:
            self.make_room()

    def schedule_deletion_check(self, key: PartitionKey, path: str) -> None:
        """Let the upkeep check whether an own file has to be deleted with its topic."""
        if len(self.deletion_checks) < PENDING_DELETIONS_MAX:
            self.deletion_checks.append((key, path))

    def schedule_deletion(self, path: str, due_s: float) -> None:
        """Delete a file that no manifest names any more, at the loop time ``due_s`` or later."""
        if len(self.pending_deletions) < PENDING_DELETIONS_MAX:
            self.pending_deletions[path] = min(due_s, self.pending_deletions.get(path, due_s))


def know_positions_by(
    context: LogContext, read_by_groups: Callable[[PartitionKey], Awaitable[int]]
) -> None:
    """Compare the end of a log with the positions of its groups, from the start on."""
    context.read_by_groups = read_by_groups


def know_deletions_by(context: LogContext, topic_deleted: Callable[[str], Awaitable[bool]]) -> None:
    """Keep what journals have of topics that are gone and were not deleted."""
    context.topic_deleted = topic_deleted


def give_keys(context: LogContext, keys: KeyRing) -> None:
    """Encrypt and decrypt blocks with these keys, from the start on."""
    context.keys = keys


def know_journals_by(context: LogContext, known: Callable[[], Awaitable[None]]) -> None:
    """Openings call ``known`` before they judge what no manifest names."""
    context.journals_known = known
