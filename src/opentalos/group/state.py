"""One consumer group on one topic in memory: leases with their times; pure."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opentalos.group.row_format import (
    GroupKey,
    GroupRow,
    PartitionRow,
    group_row_key,
    partition_row_key,
)
from opentalos.group.row_writer import RowEntry
from opentalos.model.errors import SizeExceeded
from opentalos.ports.row_store import Row

CHURN_S = 120.0  # in which grants of a partition are counted
TEXTS_BYTES_MAX = 1 << 20  # that Kafka clients store with the checkpoints of a group on a topic
RECOUNT_S = 1.0  # they are summed again at most so often


@dataclass(slots=True)
class Worker:
    """A worker's lease; it lives in memory only."""

    expires_s: float
    address: str


@dataclass(slots=True, eq=False)
class GroupPartition:
    """A group on a partition: its row, and until when the owner in it holds the lease.

    An owner whose lease expired stays in the row until another worker takes the partition.
    """

    row: RowEntry[PartitionRow]
    expires_s: float = float("-inf")
    # What this server saw, to explain why a group does not move.
    active_s: float = float("-inf")  # of the last grant or commit
    _grants: int = 0  # since ``_grants_since_s``
    _grants_since_s: float = float("-inf")

    @property
    def value(self) -> PartitionRow:
        """The row's content; of an absent row: no owner, no checkpoint."""
        return self.row.value or PartitionRow()

    def hold_until(self, lease_until_s: float) -> None:
        """A lease was granted or renewed: it lasts until then, on the loop's clock."""
        self.expires_s = lease_until_s

    def note_commit(self, now_s: float) -> None:
        """A checkpoint was committed, even the same one."""
        self.active_s = now_s

    def note_grant(self, now_s: float) -> None:
        """Another worker got the partition."""
        if now_s - self._grants_since_s >= CHURN_S:
            self._grants, self._grants_since_s = 0, now_s
        self._grants += 1
        self.active_s = now_s

    def recent_grants(self, now_s: float) -> int:
        """Grants to another worker in the current ``CHURN_S``."""
        return self._grants if now_s - self._grants_since_s < CHURN_S else 0

    def expired_of_another(self, worker: str, now_s: float) -> bool:
        """Whether the worker could take the partition only because another lease expired."""
        return self.value.owner not in ("", worker) and now_s >= self.expires_s

    def holder(self, now_s: float) -> str:
        """The worker with a live lease; empty: none."""
        return self.value.owner if now_s < self.expires_s else ""


@dataclass(slots=True, eq=False)
class StoredTexts:
    """Bytes of the texts stored with a group's checkpoints: too high after some were replaced,
    until they are summed again."""

    bytes: int = 0
    summed_s: float = float("-inf")


@dataclass(slots=True, eq=False)
class GroupState:
    """Workers and partitions of one group on one topic."""

    key: GroupKey
    row: RowEntry[GroupRow]
    workers: dict[str, Worker] = field(default_factory=dict)
    partitions: dict[int, GroupPartition] = field(default_factory=dict)
    # Writes through this object are refused while the group is being deleted, and permanently once
    # this server has stopped coordinating it.
    deleted: bool = False
    forgotten: bool = False
    loaded_s: float = float("-inf")  # since when this server knows the group
    # Set once holdings may have changed; another one then takes its place.
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    texts: StoredTexts = field(default_factory=StoredTexts)

    @classmethod
    def empty(cls, key: GroupKey, loaded_s: float = float("-inf")) -> "GroupState":
        """A group that has no row yet."""
        return cls(key, RowEntry(group_row_key(key), GroupRow.decode), loaded_s=loaded_s)

    def begin_delete(self) -> None:
        """From here on nothing is written for the group."""
        self.deleted = True

    def keep(self) -> None:
        """The deletion failed: the group is used as before."""
        self.deleted = False

    def forget(self) -> None:
        """This server no longer coordinates the group; writes through this object are refused."""
        self.forgotten = True
        self.note_change()

    def note_change(self) -> None:
        """Holdings may have changed: wake those that wait for it."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    @property
    def exists(self) -> bool:
        """Whether the group was used and not deleted."""
        return self.row.value is not None and not self.row.value.deleting

    @property
    def tenant(self) -> str:
        """The tenant that used it first; empty: none did."""
        return self.row.value.tenant if self.row.value else ""

    @property
    def coordinator(self) -> str:
        """The server that used the group last, as far as known here."""
        return self.row.value.coordinator if self.row.value else ""

    def partition(self, partition: int) -> GroupPartition:
        """The group's part for a partition; made on first use."""
        found = self.partitions.get(partition)
        if found is None:
            row = RowEntry(partition_row_key(self.key, partition), PartitionRow.decode)
            found = self.partitions[partition] = GroupPartition(row)
        return found

    def load_row(self, partition: int | None, row: Row, lease_until_s: float) -> None:
        """Take over a row found in the store; a lease in it counts as live until then."""
        if partition is None:
            self.row.load(row)
            return
        part = self.partition(partition)
        part.row.load(row)
        part.hold_until(lease_until_s)
        self.texts.bytes += len(part.value.metadata)

    def touch_worker(self, worker: str, address: str, until_s: float) -> None:
        """Create or refresh a worker's lease."""
        joins = worker not in self.workers
        self.workers[worker] = Worker(until_s, address)
        if joins:
            self.note_change()

    def remove_worker(self, worker: str) -> None:
        """End a worker's lease; nothing if there is none."""
        if self.workers.pop(worker, None) is not None:
            self.note_change()

    def live_workers(self, now_s: float) -> dict[str, Worker]:
        """Workers with a live lease; the others are removed."""
        expired = [name for name, worker in self.workers.items() if worker.expires_s <= now_s]
        for name in expired:
            del self.workers[name]
        return self.workers

    def holdings(self, now_s: float, partitions: int) -> Mapping[str, Sequence[int]]:
        """Every live worker with the partitions below the count that it holds.

        A holder found in a row after a restart is listed although it has not renewed yet. By
        worker id, descending: the Python client ranks workers that hold equally much in the order
        of the reply, all others by that order; two with the same rank would leave partitions
        without a worker permanently.
        """
        held: dict[str, list[int]] = {name: [] for name in self.live_workers(now_s)}
        for partition in sorted(self.partitions):
            # As ``holder`` has it, but without a call: a topic may have 10,000 partitions.
            part = self.partitions[partition]
            row = part.row.value
            if row is not None and row.owner and now_s < part.expires_s and partition < partitions:
                if row.owner not in held:
                    held[row.owner] = []
                held[row.owner].append(partition)
        return {worker: held[worker] for worker in sorted(held, reverse=True)}

    def working(self, now_s: float) -> bool:
        """Whether a worker is alive, or a holder has not renewed yet."""
        return bool(self.live_workers(now_s)) or any(
            part.holder(now_s) for part in self.partitions.values()
        )


def take_text(group: GroupState, before: bytes, text: bytes, now_s: float) -> None:
    """Count the text that a commit is about to store in place of another; a commit without one
    always passes. Raises: SizeExceeded: the group has too many bytes of them on the topic."""
    texts, growth = group.texts, len(text) - len(before)
    if growth <= 0:
        return
    if texts.bytes + growth > TEXTS_BYTES_MAX and now_s - texts.summed_s >= RECOUNT_S:
        texts.bytes = sum(len(part.value.metadata) for part in group.partitions.values())
        texts.summed_s = now_s
    if texts.bytes + growth > TEXTS_BYTES_MAX:
        raise SizeExceeded(
            f"the texts stored with offsets of group {group.key.name} on a topic: limit "
            f"{TEXTS_BYTES_MAX} bytes, measured {texts.bytes}; commit without a text"
        )
    texts.bytes += growth
