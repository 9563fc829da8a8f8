"""The writes of consumer groups, each with its decision at the commit point."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from opentalos.group.row_format import GroupRow, PartitionRow
from opentalos.group.row_writer import DELETE, RowEntry
from opentalos.group.state import GroupPartition, GroupState
from opentalos.model.errors import ConsumerGroupNotExist, UnexpectedOffset


@dataclass(slots=True, eq=False)
class CreateGroup:
    """The first use of a group decides its tenant."""

    group: GroupState
    tenant: str
    created_ms: int

    @property
    def entry(self) -> RowEntry[GroupRow]:
        """The group's own row."""
        return self.group.row

    def decide(self) -> GroupRow | None:
        """Nothing to write if somebody was quicker."""
        _check_alive(self.group)
        return None if self.group.exists else GroupRow(self.tenant, self.created_ms)

    def written(self) -> None:
        """Nothing else depends on the row."""

    def reloaded(self) -> None:
        """The decision looks at the row itself."""


@dataclass(slots=True, eq=False)
class PartitionWrite:
    """What all writes of a partition's row share."""

    group: GroupState
    part: GroupPartition
    worker: str
    now: Callable[[], float]
    lease_s: float

    @property
    def entry(self) -> RowEntry[PartitionRow]:
        """The partition's row."""
        return self.part.row

    def written(self) -> None:
        """By default a write changes no lease."""

    def reloaded(self) -> None:
        """Another coordinator changed the row: the lease it granted is live for all we know."""
        self.part.expires_s = self.now() + self.lease_s


@dataclass(slots=True, eq=False)
class Grant(PartitionWrite):
    """Give a free partition to a worker; its own is its own."""

    granted: bool = False

    def decide(self) -> PartitionRow | None:
        """A lease that ran out may be taken; the former owner's may be refreshed by itself."""
        _check_alive(self.group)
        holder = self.part.holder(self.now())
        if holder and holder != self.worker:
            return None
        if self.part.value.owner == self.worker:
            # Nobody else had it meanwhile, so the row need not change.
            self.written()
            return None
        row = self.part.value
        return replace(row, owner=self.worker, generation=row.generation + 1)

    def written(self) -> None:
        """The lease runs from when the grant is durable."""
        self.granted = True
        self.part.expires_s = self.now() + self.lease_s


@dataclass(slots=True, eq=False)
class Release(PartitionWrite):
    """A worker gives a partition back; somebody else's is left alone."""

    def decide(self) -> PartitionRow | None:
        """Only the owner in the row can release it."""
        row = self.part.value
        return replace(row, owner="") if row.owner == self.worker else None


@dataclass(slots=True, eq=False)
class Checkpoint(PartitionWrite):
    """Commit an offset; only the holder of a live lease can, as promise I5 says."""

    offset: int = 0
    last_offset: int | None = None
    next_offset: int = 0
    epoch: int = 0
    accepted: bool = False
    backward: bool = False

    def decide(self) -> PartitionRow | None:
        """Refuse a worker without the lease and a lost race; an equal commit needs no write."""
        _check_alive(self.group)
        row = self.part.value
        if self.part.holder(self.now()) != self.worker:
            return None
        if self.last_offset is not None and self.last_offset != row.checkpoint:
            return None
        if self.offset >= self.next_offset:
            raise UnexpectedOffset(
                f"checkpoint {self.offset} is beyond the log's end {self.next_offset - 1}"
            )
        committed = replace(row, checkpoint=self.offset, epoch=self.epoch)
        if committed == row:
            self.accepted = True
            return None
        self.backward = self.offset < row.checkpoint
        return committed

    def written(self) -> None:
        """Only now the commit is a fact."""
        self.accepted = True


@dataclass(slots=True, eq=False)
class Reset(PartitionWrite):
    """An operator's reset: one write revokes the lease and sets the checkpoint."""

    offset: int = 0
    revoked: str = field(default="")  # worker that lost its lease by it

    def decide(self) -> PartitionRow:
        """Always applies; the generation grows, so a late commit of the old holder loses."""
        _check_alive(self.group)
        row = self.part.value
        self.revoked = self.part.holder(self.now())
        return PartitionRow("", row.generation + 1, self.offset, row.epoch)


@dataclass(slots=True, eq=False)
class RemoveRow:
    """Remove one row of a group that is being deleted."""

    entry: RowEntry[GroupRow] | RowEntry[PartitionRow]

    def decide(self) -> object | None:
        """An absent row is gone already."""
        return None if self.entry.value is None else DELETE

    def written(self) -> None:
        """Nothing depends on the row any more."""

    def reloaded(self) -> None:
        """The decision looks at the row itself."""


def _check_alive(group: GroupState) -> None:
    if group.deleted:
        raise ConsumerGroupNotExist(f"consumer group {group.key.group} was deleted")
