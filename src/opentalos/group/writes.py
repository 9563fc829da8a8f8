"""The writes of consumer groups, each with its decision at the commit point."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from opentalos.group.row_format import GroupRow, PartitionRow
from opentalos.group.row_writer import DELETE, READ_AGAIN, RowEntry, RowValue
from opentalos.group.state import GroupPartition, GroupState
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    ConsumerGroupWorking,
    PartitionNotServing,
    StoreUnavailable,
    UnexpectedOffset,
)
from opentalos.ports.row_store import Row

USE_MS = 600_000  # the time of use in a group's row is older by at most this


@dataclass(slots=True, eq=False)
class CreateGroup:
    """The first use of a group, which sets its tenant."""

    entry: RowEntry[GroupRow]
    wanted: GroupRow

    def decide(self) -> GroupRow | None:
        """Nothing to write if another server was faster."""
        return self.wanted if self.entry.value is None else None

    def written(self) -> None:
        """Nothing else depends on the row."""

    def reread(self, changed: bool) -> None:
        """The decision reads the row itself."""


@dataclass(slots=True, eq=False)
class ClaimGroup:
    """A server writes itself into a group that it now coordinates.

    ``moved``: another server had changed the row, so memory may be outdated.
    """

    group: GroupState
    server: str
    now_ms: int  # servers of earlier versions, one of which may have had it, note no uses
    moved: bool = False

    @property
    def entry(self) -> RowEntry[GroupRow]:
        """The group's own row."""
        return self.group.row

    def decide(self) -> GroupRow | None:
        """Nothing to write if it is there already, or the group was deleted."""
        check_alive(self.group)
        row = self.group.row.value
        if row is None or row.deleting or row.coordinator == self.server:
            return None
        used_ms = None if row.used_ms is None else self.now_ms
        return replace(row, coordinator=self.server, used_ms=used_ms)

    def written(self) -> None:
        """The group's coordinator is known from the row."""

    def reread(self, changed: bool) -> None:
        """Another server used or deleted the group meanwhile."""
        self.moved = self.moved or changed


@dataclass(slots=True, eq=False)
class DeleteGroup:
    """Deletes a group: once written, it does not exist for any server."""

    group: GroupState
    server: str
    now: Callable[[], float]

    @property
    def entry(self) -> RowEntry[GroupRow]:
        """The group's own row."""
        return self.group.row

    def decide(self) -> GroupRow | None:
        """Only the coordinator that used the group last knows that it has no live worker."""
        row = self.group.row.value
        if row is None or row.deleting:
            return None
        if self.group.forgotten or row.coordinator != self.server:
            raise _moved(self.group)
        if self.group.working(self.now()):
            raise ConsumerGroupWorking(f"consumer group {self.group.key.group} has live workers")
        return replace(row, deleting=True)

    def written(self) -> None:
        """The caller removes the remaining rows."""

    def reread(self, changed: bool) -> None:
        """The decision reads the row itself."""


@dataclass(slots=True, eq=False)
class ExpireGroup(DeleteGroup):
    """Deletes a group that nobody has used since ``used_ms``."""

    used_ms: int

    def decide(self) -> GroupRow | None:
        """Nothing to write if it was used meanwhile: who uses it writes that first."""
        row = self.group.row.value
        if row is None or row.used_ms != self.used_ms:
            return None
        return DeleteGroup.decide(self)  # super() fails where slots make another class

    def written(self) -> None:
        """From here on nothing is written for the group."""
        self.group.begin_delete()


@dataclass(slots=True, eq=False)
class NoteUse:
    """A client of Kafka uses the group at ``used_ms``; None: a worker does."""

    group: GroupState
    used_ms: int | None

    @property
    def entry(self) -> RowEntry[GroupRow]:
        """The group's own row."""
        return self.group.row

    def decide(self) -> GroupRow | None:
        """A group without a time of use stays without one. One that is deleted meanwhile, because
        it expired, is made again once the caller repeats."""
        row = self.group.row.value
        if self.group.deleted or row is None or row.deleting:
            raise StoreUnavailable(f"consumer group {self.group.key.group} is being deleted")
        check_alive(self.group)
        if not use_is_news(row, self.used_ms):
            return None
        return replace(row, used_ms=self.used_ms)

    def written(self) -> None:
        """Nothing else depends on the time."""

    def reread(self, changed: bool) -> None:
        """The decision reads the row itself."""


def use_is_news(row: GroupRow, used_ms: int | None) -> bool:
    """Whether the row has to be written for a use of the group."""
    if row.used_ms is None:
        return False
    return used_ms is None or abs(used_ms - row.used_ms) >= USE_MS


@dataclass(slots=True, eq=False)
class PartitionWrite:
    """What all writes of a partition's row share."""

    group: GroupState
    part: GroupPartition
    worker: str
    now: Callable[[], float]
    lease_s: float
    fresh: bool = field(default=False, init=False)  # the row was read for this write

    @property
    def entry(self) -> RowEntry[PartitionRow]:
        """The partition's row."""
        return self.part.row

    def written(self) -> None:
        """By default a write changes no lease."""

    def _lease_changed(self) -> None:
        self.group.note_change()

    def reread(self, changed: bool) -> None:
        """A lease that another coordinator granted is live for all we know."""
        self.fresh = True
        if changed:
            self.part.hold_until(self.now() + self.lease_s)
            self._lease_changed()


@dataclass(slots=True, eq=False)
class Grant(PartitionWrite):
    """Give a free partition to a worker; its own is its own.

    ``held``: the worker says that it has the partition, so it is not refused from memory alone.
    """

    address: str = ""
    held: bool = False
    granted: bool = False

    def decide(self) -> object | None:
        """A lease that ran out may be taken; the former owner's may be refreshed by itself."""
        check_alive(self.group)
        holder = self.part.holder(self.now())
        if holder and holder != self.worker:
            return READ_AGAIN if self.held and not self.fresh else None
        row = self.part.value
        if row.owner != self.worker:
            return replace(
                row,
                owner=self.worker,
                generation=row.generation + 1,
                address=self.address,
                server_assigns=False,
            )
        if not self.fresh:
            return READ_AGAIN  # memory may not know that another coordinator gave it away
        # No other worker had it meanwhile, so the row need not change.
        self.written()
        return None

    def written(self) -> None:
        """The lease runs from when the grant is durable."""
        self.granted = True
        self.part.hold_until(self.now() + self.lease_s)
        self._lease_changed()


@dataclass(slots=True, eq=False)
class Release(PartitionWrite):
    """A worker releases a partition; another worker's lease is left alone."""

    def decide(self) -> PartitionRow | None:
        """Only the owner in the row can release it."""
        row = self.part.value
        return replace(row, owner="") if row.owner == self.worker else None

    def written(self) -> None:
        """Another worker may take it from now on."""
        self._lease_changed()


@dataclass(slots=True, eq=False)
class Checkpoint(PartitionWrite):
    """Commit an offset; only the holder of a live lease can, as promise I5 says."""

    offset: int = 0
    last_offset: int | None = None
    next_offset: int = 0
    epoch: int = 0
    accepted: bool = False
    backward: bool = False

    def decide(self) -> object | None:
        """Refuse a worker without the lease and a lost race; an equal commit needs no write.

        Neither is answered from memory alone.
        """
        check_alive(self.group)
        row = self.part.value
        held = self.part.holder(self.now()) == self.worker
        if not held or self.last_offset not in (None, row.checkpoint):
            return None if self.fresh else READ_AGAIN
        if self.offset >= self.next_offset:
            raise UnexpectedOffset(
                f"checkpoint {self.offset} is beyond the log's end {self.next_offset - 1}"
            )
        committed = row.moved(self.offset, self.epoch)
        if committed == row:
            self.accepted = self.fresh
            return None if self.fresh else READ_AGAIN
        self.backward = self.offset < row.checkpoint
        return committed

    def written(self) -> None:
        """Only now the commit is a fact."""
        self.accepted = True


@dataclass(slots=True, eq=False)
class Reset(PartitionWrite):
    """An operator's reset: one write revokes the lease and sets the checkpoint."""

    offset: int = 0
    epoch: int = 0
    revoked: str = field(default="")  # worker that lost its lease by it

    def decide(self) -> PartitionRow:
        """Always applies; the generation grows, so a late commit of the old holder loses."""
        check_alive(self.group)
        row = self.part.value
        self.revoked = self.part.holder(self.now())
        return PartitionRow("", row.generation + 1).moved(self.offset, self.epoch)

    def written(self) -> None:
        """The partition is free."""
        self._lease_changed()


class RemoveRow:
    """Remove one row of what was deleted, as it was found; one changed since is not touched."""

    def __init__(self, row: Row, decode: Callable[[Mapping[bytes, bytes]], RowValue]) -> None:
        self.entry: RowEntry[RowValue] = RowEntry(row.key, decode)
        self.entry.load(row)
        self._version = row.version

    def decide(self) -> object | None:
        """An absent row is gone already."""
        return DELETE if self.entry.version == self._version else None

    def written(self) -> None:
        """Nothing depends on the row any more."""

    def reread(self, changed: bool) -> None:
        """The decision reads the row itself."""


def check_alive(group: GroupState) -> None:
    if group.deleted:
        raise ConsumerGroupNotExist(f"consumer group {group.key.group} was deleted")
    if group.forgotten:
        raise _moved(group)


def _moved(group: GroupState) -> PartitionNotServing:
    return PartitionNotServing(
        f"consumer group {group.key.group} is not coordinated by this server any more"
    )
