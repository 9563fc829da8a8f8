"""Which consumer groups there are: read from rows at a topic's first use, then kept in memory."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import NamedTuple

from opentalos.group.row_format import (
    TABLE,
    GroupKey,
    GroupRow,
    PartitionRow,
    parse_row_key,
    topic_range,
)
from opentalos.group.row_writer import RowWriter
from opentalos.group.state import GroupPartition, GroupState
from opentalos.group.writes import CreateGroup, RemoveRow
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    ConsumerGroupWorking,
    OutcomeUnknown,
    PermissionDenied,
    StoreUnavailable,
    TalosError,
    TooManyConsumers,
)
from opentalos.model.limits import GroupLimits
from opentalos.ports.clock import Clock
from opentalos.ports.row_store import Row, RowStore

_LOG = logging.getLogger("opentalos.group")
SCAN_ROWS_MAX = 1_000  # of one page
CHECKPOINTS_MAX = 100_000  # of one answer over all topics


class GroupUser(NamedTuple):
    """Who uses which group. ``tenant`` is the caller's organisation or id."""

    key: GroupKey
    tenant: str
    admin: bool = False


class FoundCheckpoint(NamedTuple):
    """A checkpoint of any topic."""

    key: GroupKey
    partition: int
    offset: int


class GroupDirectory:
    """Finds, makes and removes groups.

    A lease found in a row counts as live for a full ``lease_s`` from this coordinator's start,
    since until then its worker may have renewed it elsewhere.
    """

    def __init__(
        self, rows: RowStore, writer: RowWriter, clock: Clock, limits: GroupLimits
    ) -> None:
        self._rows, self._writer, self._clock, self._limits = rows, writer, clock, limits
        self._topics: dict[str, dict[str, GroupState]] = {}
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._found_leases_until_s = 0.0

    async def start(self) -> None:
        """Open the table; leases of a former coordinator run from now."""
        await self._rows.open_table(TABLE)
        self._found_leases_until_s = _now() + self._limits.lease_s

    async def close(self) -> None:
        """Give up loading."""
        tasks = list(self._loading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def find(self, user: GroupUser) -> GroupState | None:
        """The group, or None if nobody has used it.

        Raises: PermissionDenied: it belongs to another tenant.
        """
        group = (await self._groups(user.key.topic_uuid)).get(user.key.group)
        if group is None or group.deleted or not group.exists:
            return None
        if not user.admin and group.tenant != user.tenant:
            raise PermissionDenied(
                f"consumer group {user.key.group} of this topic belongs to another tenant"
            )
        return group

    async def find_or_create(self, user: GroupUser) -> GroupState:
        """The group; its first user becomes its tenant.

        Raises: PermissionDenied, TooManyConsumers; Unavailable, OutcomeUnknown.
        """
        found = await self.find(user)
        if found is not None:
            return found
        groups = await self._groups(user.key.topic_uuid)
        group = groups.get(user.key.group)
        if group is None:
            if len(groups) >= self._limits.groups_max:
                raise TooManyConsumers(
                    f"consumer groups of the topic: limit {self._limits.groups_max}, "
                    f"measured {len(groups)}"
                )
            group = groups[user.key.group] = GroupState.empty(user.key)
        elif group.deleted:
            raise StoreUnavailable(f"consumer group {user.key.group} is being deleted")
        try:
            await self._writer.write(CreateGroup(group, user.tenant, self._clock.wall_ms()))
        except OutcomeUnknown:
            raise  # the row may be there: the next user reads it again
        except TalosError:
            if not group.exists:
                group.deleted = True
                groups.pop(user.key.group, None)
            raise
        found = await self.find(user)
        if found is None:
            raise StoreUnavailable(f"consumer group {user.key.group} was deleted meanwhile")
        return found

    async def groups(self, topic_uuid: str) -> Mapping[str, str]:
        """Groups of a topic with their tenants, by name."""
        groups = await self._groups(topic_uuid)
        return {name: groups[name].tenant for name in sorted(groups) if groups[name].exists}

    async def drained(self, topic_uuid: str, partition: int, next_offset: int) -> bool | None:
        """Whether every group has read the partition to its end; None if there is no group."""
        groups = [group for group in (await self._groups(topic_uuid)).values() if group.exists]
        if not groups:
            return None
        return all(group.drained(partition, next_offset) for group in groups)

    async def delete_group(self, user: GroupUser) -> None:
        """Forget a group. Raises: ConsumerGroupNotExist, ConsumerGroupWorking."""
        group = await self.find(user)
        if group is None:
            raise ConsumerGroupNotExist(f"no consumer group {user.key.group}")
        if group.working(_now()):
            raise ConsumerGroupWorking(f"consumer group {user.key.group} has live workers")
        await self._remove(group)

    async def delete_topic(self, topic_uuid: str) -> None:
        """Forget every group of a topic that is gone; idempotent."""
        for group in list((await self._groups(topic_uuid)).values()):
            await self._remove(group)
        self._topics.pop(topic_uuid, None)

    async def read_again(self, parts: Iterable[GroupPartition]) -> None:
        """Read rows whose last write ended as unknown. Raises: Unavailable."""
        stale = [part for part in parts if part.row.stale]
        if not stale:
            return
        rows = await self._rows.get(TABLE, [part.row.key for part in stale])
        for part, row in zip(stale, rows, strict=True):
            if part.row.stale:
                part.row.load(row)
                part.expires_s = _now() + self._limits.lease_s

    async def checkpoints(self, tenant: str, prefix: str) -> Sequence[FoundCheckpoint]:
        """Checkpoints of a tenant's groups, on every topic, whose name starts with a prefix."""
        found: list[FoundCheckpoint] = []
        of_tenant = False
        async for page in self._pages(b"", b""):
            for row in page:
                key, partition = parse_row_key(row.key)
                if partition is None:  # a group's own row comes before its partitions
                    owner = GroupRow.decode(row.cells).tenant
                    of_tenant = owner == tenant and key.group.startswith(prefix)
                elif of_tenant:
                    offset = PartitionRow.decode(row.cells).checkpoint
                    if offset >= 0:
                        found.append(FoundCheckpoint(key, partition, offset))
            if len(found) >= CHECKPOINTS_MAX:
                _LOG.warning("checkpoints of %s: only the first %d", tenant, CHECKPOINTS_MAX)
                return found[:CHECKPOINTS_MAX]
        return found

    async def _remove(self, group: GroupState) -> None:
        group.deleted = True  # from here on no write can bring a row back
        try:
            await asyncio.gather(
                *(self._writer.write(RemoveRow(part.row)) for part in group.partitions.values())
            )
            await self._writer.write(RemoveRow(group.row))  # last: until then it can be repeated
        except TalosError:
            group.deleted = False
            raise
        groups = self._topics.get(group.key.topic_uuid, {})
        if groups.get(group.key.group) is group:
            del groups[group.key.group]

    async def _groups(self, topic_uuid: str) -> dict[str, GroupState]:
        while topic_uuid not in self._topics:
            task = self._loading.get(topic_uuid)
            if task is None:
                name = f"load groups of {topic_uuid}"
                task = asyncio.create_task(self._load(topic_uuid), name=name)
                self._loading[topic_uuid] = task
            # One caller's cancellation must not fail the others that wait for the same rows.
            await asyncio.shield(task)
        return self._topics[topic_uuid]

    async def _load(self, topic_uuid: str) -> None:
        groups: dict[str, GroupState] = {}
        try:
            async for page in self._pages(*topic_range(topic_uuid)):
                for row in page:
                    key, partition = parse_row_key(row.key)
                    group = groups.get(key.group)
                    if group is None:
                        group = groups[key.group] = GroupState.empty(key)
                    group.load_row(partition, row, self._found_leases_until_s)
            self._topics[topic_uuid] = groups
        finally:
            del self._loading[topic_uuid]

    async def _pages(self, start: bytes, stop: bytes) -> AsyncIterator[Sequence[Row]]:
        while True:
            page = await self._rows.scan(TABLE, start, stop, limit=SCAN_ROWS_MAX)
            yield page
            if len(page) < SCAN_ROWS_MAX:
                return
            start = page[-1].key + b"\0"


def _now() -> float:
    return asyncio.get_running_loop().time()
