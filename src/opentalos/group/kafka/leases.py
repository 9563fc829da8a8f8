"""KafkaLeases: partitions and checkpoints of members of Kafka groups, in the rows of our groups.

The broker's use cases for Kafka clients call it at the coordinator of the group. A member holds a
partition as a worker does, so former coordinators and former members lose (promise I5).
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opentalos.group.directory import GroupDirectory, GroupUser
from opentalos.group.group_rows import GroupRows
from opentalos.group.kafka.lease_writes import (
    KAFKA_WORKER,
    Assign,
    CommitResult,
    MemberCommit,
    SimpleCommit,
)
from opentalos.group.row_writer import RowWriter
from opentalos.group.state import GroupPartition, GroupState
from opentalos.group.writes import Release
from opentalos.model.errors import StoreUnavailable
from opentalos.model.limits import GroupLimits

ATTEMPTS_MAX = 3  # after another server changed a row, and the role was confirmed

Keeps = Callable[[str], bool]  # by the name of a group


class Position(NamedTuple):
    """Where a group continues on a partition, as Kafka counts, and the text stored with it, as it
    is in the row."""

    next_offset: int
    metadata: bytes
    checkpoint: int
    epoch: int


class HeldBy(NamedTuple):
    """Where a worker's connection comes from, and the partitions that it holds."""

    address: str
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A member as rows know it. ``may_take``: from whom it may take partitions at once.

    ``server_assigns``: it is in a group whose assignments the server decides. ``current``: whether
    it is still a member in the generation or epoch in which it commits.
    """

    worker: str
    address: str
    may_take: Callable[[str], bool]
    server_assigns: bool = False
    current: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPosition:
    """A position to store; ``log_end`` and ``epoch`` are of the log. ``held``: see MemberCommit."""

    partition: int
    next_offset: int
    log_end: int
    epoch: int
    metadata: bytes = b""
    held: bool = False


class KafkaLeases:
    """Grants, releases and commits of members, each a compare-and-set on the partition's row.

    Raises, from every call: PartitionNotServing: another server coordinates the group by now;
    other Unavailable: not done; OutcomeUnknown.
    """

    def __init__(
        self, rows: GroupRows, directory: GroupDirectory, writer: RowWriter, limits: GroupLimits
    ) -> None:
        self._rows, self._directory, self._writer = rows, directory, writer
        self._limits = limits
        self._forgotten: Callable[[Keeps], None] = lambda keeps: None

    def follow(self, forgotten: Callable[[Keeps], None]) -> None:
        """Call this whenever this server stops to coordinate groups."""
        self._forgotten = forgotten

    def forget(self, keeps: Keeps) -> None:
        """Other servers coordinate the groups that are not kept, by name."""
        self._forgotten(keeps)

    async def assign(
        self,
        user: GroupUser,
        seat: Seat,
        partitions: Iterable[int],
        current: Callable[[], bool],
    ) -> Sequence[int]:
        """Give partitions to a member while ``current()``; returns those that it has.

        A partition that a worker holds is left out.
        """
        group = await self._directory.find_or_create(user, kafka=True)
        granted: list[int] = []
        wanted = [part for part in partitions if not self._has(group, part, seat.worker, granted)]
        for _ in range(ATTEMPTS_MAX):
            writes = [
                Assign(
                    *self._arguments(group, partition, seat.worker),
                    may_take=seat.may_take,
                    server_assigns=seat.server_assigns,
                    address=seat.address,
                    current=current,
                )
                for partition in wanted
            ]
            outcomes = await asyncio.gather(*(self._writer.write(write) for write in writes))
            pairs = list(zip(wanted, writes, strict=True))
            for write, changed in zip(writes, outcomes, strict=True):
                if write.granted and changed:
                    write.part.note_grant(asyncio.get_running_loop().time())
            granted += [partition for partition, write in pairs if write.granted]
            wanted = [part for part, write in pairs if write.moved and not write.granted]
            if not wanted:
                return granted
            await self._directory.confirm(group)
        raise StoreUnavailable(f"rows of consumer group {user.key.group} change too often")

    def _has(self, group: GroupState, partition: int, worker: str, granted: list[int]) -> bool:
        """Whether this server gave it to the member: nobody else can have had it since."""
        part = group.partition(partition)
        if part.value.owner != worker or part.row.stale or part.expires_s != math.inf:
            return False
        granted.append(partition)
        return True

    async def release(
        self,
        user: GroupUser,
        worker: str,
        partitions: Iterable[int],
        is_gone: Callable[[], bool] = lambda: True,
    ) -> None:
        """The member is gone; what cannot be written now ends as an expired lease.

        Args: is_gone: whether it still is. One that is back may be given the same without a write.
        """
        group = await self._directory.find(user)
        if group is None or not is_gone():
            return
        until_s = asyncio.get_running_loop().time() + self._limits.lease_s
        held = [
            partition
            for partition in partitions
            if group.partition(partition).value.owner == worker
        ]
        for partition in held:
            group.partition(partition).hold_until(until_s)
        await asyncio.gather(
            *(
                self._writer.write(Release(*self._arguments(group, partition, worker)))
                for partition in held
            )
        )

    async def commit(self, user: GroupUser, seat: Seat, position: NewPosition) -> CommitResult:
        """Store a position for a member of the current generation.

        Raises: UnexpectedOffset: beyond the log's end.
        """
        for _ in range(ATTEMPTS_MAX):
            group = await self._directory.find_or_create(user, kafka=True)
            write = MemberCommit(
                *self._arguments(group, position.partition, seat.worker),
                may_take=seat.may_take,
                server_assigns=seat.server_assigns,
                address=seat.address,
                current=seat.current,
                held=position.held,
                checkpoint=position.next_offset - 1,
                next_offset=position.log_end,
                epoch=position.epoch,
                metadata=position.metadata,
            )
            await self._writer.write(write)
            if write.result is CommitResult.STORED:
                write.part.note_commit(asyncio.get_running_loop().time())
            if write.result is not CommitResult.MOVED:
                return write.result
            await self._directory.confirm(group)
        raise StoreUnavailable(f"rows of consumer group {user.key.group} change too often")

    async def commit_alone(self, user: GroupUser, position: NewPosition) -> CommitResult:
        """Store a position while nobody works in the group on the topic."""
        return await self._alone(user, position, forgets=False)

    async def clear(self, user: GroupUser, partition: int) -> CommitResult:
        """Remove a position while nobody works in the group on the topic."""
        if await self._directory.find(user) is None:
            return CommitResult.STORED
        position = NewPosition(partition=partition, next_offset=0, log_end=0, epoch=0)
        return await self._alone(user, position, forgets=True)

    async def _alone(
        self, user: GroupUser, position: NewPosition, *, forgets: bool
    ) -> CommitResult:
        for _ in range(ATTEMPTS_MAX):
            group = await self._directory.find_or_create(user, kafka=True)
            write = SimpleCommit(
                *self._arguments(group, position.partition, ""),
                checkpoint=position.next_offset - 1,
                next_offset=position.log_end,
                epoch=position.epoch,
                metadata=position.metadata,
                forgets=forgets,
            )
            await self._writer.write(write)
            if write.result is not CommitResult.MOVED:
                return write.result
            await self._directory.confirm(group)
        raise StoreUnavailable(f"rows of consumer group {user.key.group} change too often")

    async def positions(self, user: GroupUser) -> Mapping[int, Position]:
        """Every position of a group on a topic, read from the rows now."""
        rows = await self._rows.partitions(user.keys(), user.tenant)
        return {
            partition: Position(row.next_offset, row.metadata, row.checkpoint, row.epoch)
            for partition, row in rows.items()
            if row.next_offset >= 0
        }

    async def workers(self, user: GroupUser, partitions: int) -> Mapping[str, HeldBy] | None:
        """Live workers on a topic, without members of Kafka groups; None: there is no group."""
        group = await self._directory.find(user)
        if group is None:
            return None
        holdings = group.holdings(asyncio.get_running_loop().time(), partitions)
        seats = group.workers
        return {
            name: HeldBy(seats[name].address if name in seats else "", held)
            for name, held in holdings.items()
            if not is_member(name)
        }

    async def server_assigned(self, user: GroupUser) -> bool:
        """Whether the last members on the topic were in a group whose assignments the server
        decides."""
        group = await self._directory.find(user)
        return group is not None and any(
            part.value.server_assigns for part in group.partitions.values()
        )

    def _arguments(
        self, group: GroupState, partition: int, worker: str
    ) -> tuple[GroupState, GroupPartition, str, Callable[[], float], float]:
        now = asyncio.get_running_loop().time
        return group, group.partition(partition), worker, now, self._limits.lease_s


def is_member(worker: str) -> bool:
    """Whether a worker id is of a member of a Kafka group."""
    return worker.startswith(KAFKA_WORKER)


def worker_of(member: str) -> str:
    """The worker id of a member."""
    return KAFKA_WORKER + member


def has_members(group: GroupState, now_s: float) -> bool:
    """Whether a member of a Kafka group holds a partition."""
    return any(is_member(part.holder(now_s)) for part in group.partitions.values())
