"""Coordinator: leases and checkpoints of the consumer groups that one server coordinates.

The broker's consumer use cases call it for groups that the ring assigns to this server. Leases
live in memory, grants and commits in rows. Only the holder of a lease moves a committed offset
(promise I5).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opentalos.group.directory import GroupDirectory, GroupUser
from opentalos.group.group_rows import GroupRows
from opentalos.group.kafka.leases import KafkaLeases, has_members
from opentalos.group.members import GroupMembers
from opentalos.group.progress import GroupProgress
from opentalos.group.row_writer import RowWriter
from opentalos.group.shares import GroupShares
from opentalos.group.state import GroupPartition, GroupState
from opentalos.group.writes import Checkpoint, Grant, Release, Reset
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    TalosError,
    TooManyConsumers,
)
from opentalos.model.limits import GroupLimits
from opentalos.ports.clock import Clock
from opentalos.ports.row_store import RowStore

_LOG = logging.getLogger("opentalos.group")


class WorkerSeat(NamedTuple):
    """A worker of a group and where its connection comes from."""

    worker: str
    address: str


class Commit(NamedTuple):
    """A checkpoint to store. ``next_offset`` is the log's; nothing at or above it is accepted."""

    partition: int
    worker: str
    offset: int
    next_offset: int
    last_offset: int | None = None
    epoch: int = 0


@dataclass(slots=True)
class GroupCounters:
    """What happened since the start."""

    grants: int = 0
    commits: int = 0
    commits_refused: int = 0
    commits_backward: int = 0
    resets: int = 0


class Coordinator:
    """Leases and checkpoints of the groups that ``server`` coordinates.

    Behaviour per call: docs/protocol/consumers.md#server-behaviour.

    Rows decide: a grant, release or commit is a compare-and-set on the partition's row, so a
    coordinator that was replaced loses. A checkpoint, a granted lock and an accepted or refused
    commit are never reported from memory alone. Memory answers renewals and who works in a group.
    A new coordinator treats each lease that it finds in a row as live for a full ``lease_s``.
    """

    def __init__(
        self,
        rows: RowStore,
        clock: Clock,
        limits: GroupLimits,
        server: str = "",
        certain: Callable[[], bool] = lambda: True,
    ) -> None:
        self._limits = limits
        self._writer = RowWriter(rows, clock)
        self.rows = GroupRows(rows)
        self._shares = GroupShares(rows, self.rows, clock, limits)
        self.directory = GroupDirectory(
            self.rows, self._writer, self._shares, clock, server, certain
        )
        self.progress = GroupProgress(self.rows, self.directory)
        self.members = GroupMembers(self.directory)
        self.kafka = KafkaLeases(self.rows, self.directory, self._writer, limits)
        self.counters = GroupCounters()

    async def start(self) -> None:
        """Open the table; leases of the former coordinator count from now."""
        await self.directory.start()

    async def close(self) -> None:
        """Finish the writes in flight."""
        self.members.stop_waiting()
        await self.directory.close()
        await self._writer.close()
        await self._shares.close()

    # --- which groups ------------------------------------------------------------------------

    def ownership_changed(self, keeps: Callable[[str], bool]) -> None:
        """The ring changed: forget groups that another server coordinates now, by name."""
        self.directory.forget(keeps)
        self.kafka.forget(keeps)

    def forget_all(self) -> None:
        """This server returns after a lapsed session: others may coordinate every group by now."""
        self.ownership_changed(lambda group: False)

    # --- workers -------------------------------------------------------------------------------

    async def can_register(self, user: GroupUser, worker: str) -> bool:
        """Whether one more worker may join."""
        group = await self.directory.find(user)
        if group is None:
            try:
                owner = user.owner or user.tenant
                await self._shares.check(user.key.topic_uuid, user.tenant, owner)
            except TooManyConsumers:
                return False
            return True
        live = group.live_workers(_now())
        return worker in live or len(live) < self._limits.workers_max

    async def lock_worker(self, user: GroupUser, seat: WorkerSeat) -> None:
        """Create or refresh a worker's lease. Raises: TooManyConsumers."""
        self._seat(await self.directory.find_or_create(user), seat)

    async def lock_partitions(
        self, user: GroupUser, seat: WorkerSeat, partitions: Iterable[int]
    ) -> Sequence[int]:
        """Take each partition that is free; return those that the worker now holds."""
        group = await self.directory.find_or_create(user)
        self._seat(group, seat)
        wanted = list(dict.fromkeys(partitions))
        return await self._grant(group, seat, wanted, held=False)

    async def unlock_partitions(
        self, user: GroupUser, worker: str, partitions: Iterable[int]
    ) -> None:
        """Drop the worker's leases; others are left alone. Raises: Unavailable."""
        group = await self.directory.find(user)
        if group is None:
            return
        held = [p for p in dict.fromkeys(partitions) if p in group.partitions]
        await asyncio.gather(
            *(
                self._writer.write(Release(*self._write_args(group, partition, worker)))
                for partition in held
            )
        )

    async def renew(
        self, user: GroupUser, seat: WorkerSeat, partitions: Iterable[int]
    ) -> Sequence[int]:
        """Refresh the worker and its partitions; return those of them it does not hold.

        An expired worker lease is created again, since clients never lock again; a listed partition
        is granted again if no other worker holds it. Raises: TooManyConsumers.
        """
        group = await self.directory.find_or_create(user)
        self._seat(group, seat)
        now_s = _now()
        wanted = list(dict.fromkeys(partitions))
        lost: list[int] = []
        for partition in wanted:
            part = group.partition(partition)
            if part.holder(now_s) == seat.worker and not part.row.stale:
                part.hold_until(now_s + self._limits.lease_s)
            else:
                lost.append(partition)
        regained = await self._grant(group, seat, lost, held=True)
        return [partition for partition in lost if partition not in regained]

    async def holdings(self, user: GroupUser, partitions: int) -> Mapping[str, Sequence[int]]:
        """Live workers, idle ones too, with the partitions below the count that they hold."""
        group = await self.directory.find(user)
        return group.holdings(_now(), partitions) if group else {}

    # --- checkpoints ---------------------------------------------------------------------------

    async def commit(self, user: GroupUser, commit: Commit) -> bool:
        """Store a checkpoint; False if the worker does not hold the partition or lost a race.

        Raises: UnexpectedOffset: beyond the log's end; Unavailable, OutcomeUnknown.
        """
        group = await self.directory.use(user)
        if group is None:
            self.counters.commits_refused += 1
            return False
        write = Checkpoint(
            *self._write_args(group, commit.partition, commit.worker),
            offset=commit.offset,
            last_offset=commit.last_offset,
            next_offset=commit.next_offset,
            epoch=commit.epoch,
        )
        await self._writer.write(write)
        if not write.accepted:
            self.counters.commits_refused += 1
            return False
        write.part.note_commit(_now())
        self.counters.commits += 1
        self.counters.commits_backward += write.backward
        return True

    async def reset(self, user: GroupUser, partition: int, offset: int, epoch: int = 0) -> str:
        """Revoke the lease and set the checkpoint in one write; return who lost the lease.

        Raises: ConsumerGroupNotExist.
        """
        group = await self.directory.use(user, kafka=True)
        if group is None:
            raise ConsumerGroupNotExist(f"no consumer group {user.key.group}")
        write = Reset(*self._write_args(group, partition, ""), offset=offset, epoch=epoch)
        await self._writer.write(write)
        self.counters.resets += 1
        return write.revoked

    # --- inside --------------------------------------------------------------------------------

    def _seat(self, group: GroupState, seat: WorkerSeat) -> None:
        now_s = _now()
        live = group.live_workers(now_s)
        if seat.worker not in live and len(live) >= self._limits.workers_max:
            raise TooManyConsumers(
                f"workers of consumer group {group.key.group}: limit {self._limits.workers_max}, "
                f"measured {len(live)}"
            )
        if seat.worker not in live and has_members(group, now_s):
            raise TooManyConsumers(
                f"consumer group {group.key.group} is used by Kafka clients on this topic"
            )
        group.touch_worker(seat.worker, seat.address, now_s + self._limits.lease_s)

    def _write_args(
        self, group: GroupState, partition: int, worker: str
    ) -> tuple[GroupState, GroupPartition, str, Callable[[], float], float]:
        return group, group.partition(partition), worker, _now, self._limits.lease_s

    async def _grant(
        self, group: GroupState, seat: WorkerSeat, wanted: list[int], *, held: bool
    ) -> list[int]:
        """Partitions of ``wanted`` that the worker holds now; one that could not be written is
        not held, and the client asks again."""
        now_s = _now()
        parts = [group.partition(partition) for partition in wanted]
        if any(part.expired_of_another(seat.worker, now_s) for part in parts):
            await self.directory.confirm(group)  # the lease may have been renewed at another server
        writes = [
            Grant(
                *self._write_args(group, partition, seat.worker),
                address=seat.address,
                held=held,
            )
            for partition in wanted
        ]
        outcomes = await asyncio.gather(
            *(self._writer.write(write) for write in writes), return_exceptions=True
        )
        granted: list[int] = []
        for partition, write, outcome in zip(wanted, writes, outcomes, strict=True):
            if isinstance(outcome, TalosError):
                _LOG.warning(
                    "could not grant partition %d to worker %s: %s", partition, seat.worker, outcome
                )
            elif isinstance(outcome, BaseException):
                raise outcome
            elif write.granted:
                self.counters.grants += outcome
                if outcome:
                    write.part.note_grant(_now())
                granted.append(partition)
        return granted


def _now() -> float:
    return asyncio.get_running_loop().time()
