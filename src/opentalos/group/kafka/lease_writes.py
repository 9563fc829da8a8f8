"""Writes of a partition's row for members of Kafka groups, decided at the commit point."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from opentalos.group.row_format import NO_CHECKPOINT, PartitionRow
from opentalos.group.row_writer import READ_AGAIN
from opentalos.group.state import take_text
from opentalos.group.writes import PartitionWrite, check_alive
from opentalos.model.errors import UnexpectedOffset

KAFKA_WORKER = "kafka:"  # begins the worker id of every member of a Kafka group


class CommitResult(Enum):
    """What became of a commit."""

    STORED = "stored"
    REVOKED = "revoked"  # the member held the partition and does not any more
    OTHERS = "others"  # another member or a worker holds it
    STALE = "stale"  # the member is in another generation or epoch by now, or none at all
    MOVED = "moved"  # another server changed the row: who coordinates the group?


@dataclass(slots=True, eq=False)
class MemberWrite(PartitionWrite):
    """What writes for members share.

    A row that another server changed is not written until it is known which one coordinates the
    group now (``moved``). ``may_take``: whether the member may take the partition from an owner.
    ``server_assigns``: which kind of group the member is in.
    """

    may_take: Callable[[str], bool]
    server_assigns: bool
    moved: bool = field(default=False, init=False)

    def reread(self, changed: bool) -> None:
        """Another coordinator may be at work."""
        PartitionWrite.reread(self, changed)  # super() fails where slots make another class
        self.moved = self.moved or changed

    def _free(self, row: PartitionRow) -> bool:
        """Whether the member holds the partition or may take it."""
        if row.owner in ("", self.worker) or self.may_take(row.owner):
            return True
        return not self.part.holder(self.now())

    def _taken(self, row: PartitionRow, address: str) -> PartitionRow:
        if row.owner == self.worker:
            return row
        return self._given(row, address)

    def _given(self, row: PartitionRow, address: str) -> PartitionRow:
        return replace(
            row,
            owner=self.worker,
            generation=row.generation + 1,
            address=address,
            server_assigns=self.server_assigns,
        )

    def _keep(self) -> None:
        """The lease lasts as long as the membership."""
        self.part.hold_until(math.inf)
        self._lease_changed()


@dataclass(slots=True, eq=False)
class Assign(MemberWrite):
    """Give a partition to the member that the group's decision names, while it is current."""

    address: str
    current: Callable[[], bool]
    granted: bool = field(default=False, init=False)

    def decide(self) -> object | None:
        """From another member at once; from a worker only when its lease has ended."""
        check_alive(self.group)
        row = self.part.value
        if self.moved or not self.current():
            return None
        if not self._free(row):
            return None if self.fresh else READ_AGAIN
        if row.owner == self.worker and self.part.expires_s == math.inf:
            self.written()
            return None
        # Also if it names the member already: ids made by clients outlive a coordinator, and the
        # former one must lose.
        return self._given(row, self.address)

    def written(self) -> None:
        """The member may read, and nobody else may commit."""
        self.granted = True
        self._keep()


@dataclass(slots=True, eq=False)
class MemberCommit(MemberWrite):
    """Commit for a member of the current generation.

    ``held``: it was given the partition, so a row that does not name it was reset or lost.
    ``current``: asked again here, since the group may have given the partition to another member
    while the commit was on its way.
    """

    address: str
    current: Callable[[], bool]
    held: bool
    checkpoint: int
    next_offset: int
    epoch: int
    metadata: bytes
    result: CommitResult = field(default=CommitResult.MOVED, init=False)

    def decide(self) -> object | None:
        """Only for the owner in the row; a free partition is taken by the same write."""
        check_alive(self.group)
        row = self.part.value
        if self.moved:
            return None
        if not self.current():
            self.result = CommitResult.STALE
            return None
        if row.owner != self.worker and (self.held or not self._free(row)):
            self.result = CommitResult.REVOKED if self.held else CommitResult.OTHERS
            return None if self.fresh else READ_AGAIN
        check_end(self.checkpoint, self.next_offset)
        taken = self._taken(row, self.address)
        committed = taken.moved(self.checkpoint, self.epoch, self.metadata)
        if committed == row:
            if not self.fresh:
                return READ_AGAIN
            self.written()
            return None
        take_text(self.group, row.metadata, self.metadata, self.now())
        return committed

    def written(self) -> None:
        """Only now the commit is a fact."""
        self.result = CommitResult.STORED
        self._keep()


@dataclass(slots=True, eq=False)
class SimpleCommit(PartitionWrite):
    """Commit without a group: a lease for the length of one write, so nobody may have one."""

    checkpoint: int
    next_offset: int
    epoch: int
    metadata: bytes
    forgets: bool = False  # the position, so that the group has none
    moved: bool = field(default=False, init=False)
    result: CommitResult = field(default=CommitResult.MOVED, init=False)

    def reread(self, changed: bool) -> None:
        """Another coordinator may be at work."""
        PartitionWrite.reread(self, changed)  # super() fails where slots make another class
        self.moved = self.moved or changed

    def decide(self) -> object | None:
        """Only while nobody works in the group on the topic."""
        check_alive(self.group)
        if self.moved:
            return None
        if self.group.working(self.now()):
            self.result = CommitResult.OTHERS
            return None
        before = self.part.value
        row = PartitionRow("", before.generation + 1, server_assigns=before.server_assigns)
        if self.forgets:
            return replace(row, checkpoint=NO_CHECKPOINT)
        check_end(self.checkpoint, self.next_offset)
        take_text(self.group, before.metadata, self.metadata, self.now())
        return row.moved(self.checkpoint, self.epoch, self.metadata)

    def written(self) -> None:
        """Only now the commit is a fact."""
        self.result = CommitResult.STORED
        self._lease_changed()


def check_end(checkpoint: int, next_offset: int) -> None:
    """Raises: UnexpectedOffset."""
    if not NO_CHECKPOINT <= checkpoint < next_offset:
        raise UnexpectedOffset(
            f"offset {checkpoint + 1} is beyond the log's next offset {next_offset}"
        )
