"""GroupProgress: committed offsets of consumer groups, read from the rows except for sums."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from opentalos.group.directory import GroupDirectory, GroupUser
from opentalos.group.group_rows import GroupRows
from opentalos.group.lag import Offsets, checkpoints_of
from opentalos.group.row_format import PartitionRow

PIECE_PARTITIONS = 256  # converted without a pass of the loop, in less than 1 ms


class StoredOffset(NamedTuple):
    """A checkpoint, and the log's epoch in which it was committed; -1: none."""

    offset: int
    epoch: int


class Progress(NamedTuple):
    """Committed offset of a group on a partition, and its holder (empty: none)."""

    worker: str
    address: str
    checkpoint: int


class GroupProgress:
    """Reads checkpoints; it never creates a group."""

    def __init__(self, rows: GroupRows, directory: GroupDirectory) -> None:
        self._rows, self._directory = rows, directory

    async def checkpoint(self, user: GroupUser, partition: int) -> StoredOffset:
        """The last committed offset, by any server; -1: none."""
        row = await self._directory.stored(user, partition) or PartitionRow()
        return StoredOffset(row.checkpoint, row.epoch)

    async def of_group(self, user: GroupUser) -> Mapping[int, Progress]:
        """A group that this server coordinates, by partition."""
        group = await self._directory.find_current(user)
        if group is None:
            return {}
        now_s = asyncio.get_running_loop().time()
        found: dict[int, Progress] = {}
        for number, (partition, part) in enumerate(list(group.partitions.items())):
            if number % PIECE_PARTITIONS == PIECE_PARTITIONS - 1:
                await asyncio.sleep(0)  # other work of the loop
            holder, row = part.holder(now_s), part.value
            worker = group.workers.get(holder)
            address = worker.address if worker else row.address if holder else ""
            found[partition] = Progress(holder, address, row.checkpoint)
        return found

    async def checkpoints(self, user: GroupUser, partitions: int) -> Offsets:
        """Checkpoints of a group that this server coordinates, from its memory: nobody else writes
        them. Of a group that was never used: none."""
        group = await self._directory.find(user)
        known = group.partitions if group is not None else {}
        return checkpoints_of(
            {partition: part.value.checkpoint for partition, part in known.items()}, partitions
        )

    async def stored_checkpoints(self, user: GroupUser, partitions: int) -> Offsets:
        """Checkpoints of a group that any server coordinates."""
        return checkpoints_of(await self._rows.checkpoints_of(user.keys(), user.tenant), partitions)

    async def of_rows(self, user: GroupUser) -> Mapping[int, Progress]:
        """A group that any server coordinates; a worker that died may still be shown."""
        return {
            partition: Progress(row.owner, row.address if row.owner else "", row.checkpoint)
            for partition, row in (await self._rows.partitions(user.keys(), user.tenant)).items()
        }
