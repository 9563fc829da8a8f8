"""GroupRows: reads the stored rows of consumer groups, whichever server coordinates them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

from opentalos.group.row_format import (
    GROUP_ROW_END,
    TABLE,
    GroupKey,
    GroupRow,
    PartitionRow,
    checkpoint_of,
    group_range,
    group_row_key,
    parse_row_key,
    partition_row_key,
    topic_range,
)
from opentalos.ports.row_store import Row, RowStore

_LOG = logging.getLogger("opentalos.group")
T = TypeVar("T")
PIECE_ROWS = 256  # converted without a pass of the loop, in less than 1 ms
REMOVED_AT_ONCE = 64  # rows of a deleted topic, each by a task
SCAN_ROWS_MAX = 1_000  # of one page
FIRST_ROWS = 256  # of the first page where only groups are looked for
TOPIC_PAGES_MAX = 20  # read to know which topics have groups
CHECKPOINTS_MAX = 100_000  # of one answer over all topics


class FoundCheckpoint(NamedTuple):
    """A checkpoint of any topic."""

    key: GroupKey
    partition: int
    offset: int


async def _converted(rows: Collection[Row], convert: Callable[[Row], T]) -> list[T]:
    """Rows converted in pieces, between which the loop does other work."""
    found: list[T] = []
    for count, row in enumerate(rows, 1):
        found.append(convert(row))
        if count % PIECE_ROWS == 0:
            await asyncio.sleep(0)
    return found


class GroupRows:
    """The table ``groups``, read only. Every answer is as new as the call. Raises: Unavailable."""

    def __init__(self, rows: RowStore) -> None:
        self._rows = rows

    async def open(self) -> None:
        """Make the table if there is none."""
        await self._rows.open_table(TABLE)

    async def of_group(self, key: GroupKey) -> Sequence[Row]:
        """All rows of a group, its own first."""
        start, stop = group_range(key)
        return [row async for page in self._pages(start, stop) for row in page]

    async def of_topic(self, topic_uuid: str) -> Sequence[Row]:
        """The first rows of a topic's groups, at most ``REMOVED_AT_ONCE``."""
        start, stop = topic_range(topic_uuid)
        return await self._rows.scan(TABLE, start, stop, limit=REMOVED_AT_ONCE)

    async def read_to(self, topic_uuid: str) -> Mapping[int, int]:
        """By partition, the first offset that no group of the topic has read."""
        found: dict[int, int] = {}
        start, stop = topic_range(topic_uuid)
        async for page in self._pages(start, stop):
            for row in page:
                _, partition = parse_row_key(row.key)
                if partition is not None:
                    read = checkpoint_of(row.cells) + 1
                    found[partition] = max(found.get(partition, 0), read)
        return found

    async def of_partition(self, key: GroupKey, partition: int) -> tuple[Row | None, Row | None]:
        """A group's own row and that of one of its partitions."""
        keys = [group_row_key(key), partition_row_key(key, partition)]
        own, row = await self._rows.get(TABLE, keys)
        return own, row

    async def partitions(self, keys: Sequence[GroupKey], tenant: str) -> Mapping[int, PartitionRow]:
        """The partition rows of the first of the groups that is the tenant's, by partition."""
        rows = await self._of_tenant(keys, tenant)
        found = await _converted(rows.values(), lambda row: PartitionRow.decode(row.cells))
        return dict(zip(rows, found, strict=True))

    async def checkpoints_of(self, keys: Sequence[GroupKey], tenant: str) -> Mapping[int, int]:
        """Like ``partitions``, but only their checkpoints."""
        rows = await self._of_tenant(keys, tenant)
        found = await _converted(rows.values(), lambda row: checkpoint_of(row.cells))
        return dict(zip(rows, found, strict=True))

    async def _of_tenant(self, keys: Sequence[GroupKey], tenant: str) -> Mapping[int, Row]:
        for key in keys:
            rows = await self.of_group(key)
            if not rows or parse_row_key(rows[0].key)[1] is not None:
                continue  # a group's own row comes first
            if GroupRow.decode(rows[0].cells).tenant == tenant:
                parsed = await _converted(rows[1:], lambda row: parse_row_key(row.key)[1])
                found = zip(parsed, rows[1:], strict=True)
                return {partition: row for partition, row in found if partition is not None}
        return {}

    async def groups(self, topic_uuid: str) -> Mapping[str, GroupRow]:
        """Groups of a topic by what is in their keys, sorted, without those that were deleted."""
        found: dict[str, GroupRow] = {}
        async for page in self.group_pages(topic_uuid):
            found |= page
        return dict(sorted(found.items()))

    async def group_pages(self, topic_uuid: str) -> AsyncIterator[Mapping[str, GroupRow]]:
        """Like ``groups``, as they are read: at most a page of rows at a time."""
        start, stop = topic_range(topic_uuid)
        limit = FIRST_ROWS
        while True:
            page = await self._rows.scan(TABLE, start, stop, limit=limit)
            found: dict[str, GroupRow] = {}
            for row in page:
                if row.key.endswith(GROUP_ROW_END) or row is page[-1]:
                    key, partition = parse_row_key(row.key)
                    if partition is None:
                        found[key.group] = GroupRow.decode(row.cells)
            yield {name: row for name, row in found.items() if not row.deleting}
            if len(page) < limit:
                return
            start = group_range(key)[1]  # the last group's other rows are not needed
            if len(found) > 1:  # groups of few partitions: many fit into a page
                limit = SCAN_ROWS_MAX

    async def topics(self) -> frozenset[str] | None:
        """UUIDs of the topics that have rows; None: it would take more than ``TOPIC_PAGES_MAX``
        pages to find out."""
        found: set[str] = set()
        start = b""
        for _ in range(TOPIC_PAGES_MAX):
            page = await self._rows.scan(TABLE, start, b"", limit=SCAN_ROWS_MAX)
            uuids = [parse_row_key(row.key)[0].topic_uuid for row in page]
            found.update(uuids)
            if len(page) < SCAN_ROWS_MAX:
                return frozenset(found)
            start = topic_range(uuids[-1])[1]  # the last topic's other rows are not needed
        return None

    async def drained(self, topic_uuid: str, partition: int, next_offset: int) -> bool | None:
        """Whether every group has read the partition to its end; None if there is no group."""
        names = await self.groups(topic_uuid)
        if not names:
            return None
        keys = [partition_row_key(GroupKey(topic_uuid, name), partition) for name in names]
        rows = await self._rows.get(TABLE, keys)
        return all(
            row is not None and PartitionRow.decode(row.cells).checkpoint >= next_offset - 1
            for row in rows
        )

    async def checkpoints(self, tenant: str, prefix: str) -> Sequence[FoundCheckpoint]:
        """Checkpoints of a tenant's groups, on every topic, whose name starts with a prefix."""
        found: list[FoundCheckpoint] = []
        wanted: GroupKey | None = None
        async for page in self._pages(b"", b""):
            for row in page:
                key, partition = parse_row_key(row.key)
                if partition is None:  # a group's own row comes before its partitions
                    group = GroupRow.decode(row.cells)
                    fits = group.tenant == tenant and key.name.startswith(prefix)
                    wanted = key if fits and not group.deleting else None
                elif key == wanted:
                    offset = PartitionRow.decode(row.cells).checkpoint
                    if offset >= 0:
                        found.append(FoundCheckpoint(key, partition, offset))
            if len(found) >= CHECKPOINTS_MAX:
                _LOG.warning("checkpoints of %s: only the first %d", tenant, CHECKPOINTS_MAX)
                return found[:CHECKPOINTS_MAX]
        return found

    async def _pages(self, start: bytes, stop: bytes) -> AsyncIterator[Sequence[Row]]:
        while True:
            page = await self._rows.scan(TABLE, start, stop, limit=SCAN_ROWS_MAX)
            yield page
            if len(page) < SCAN_ROWS_MAX:
                return
            start = page[-1].key + b"\0"


async def own_rows(rows: GroupRows, keys: Sequence[GroupKey]) -> Sequence[GroupRow | None]:
    """The groups' own rows, in the order asked; None: there is no such group."""
    found = await rows._rows.get(TABLE, [group_row_key(key) for key in keys])
    groups = [GroupRow.decode(row.cells) if row else None for row in found]
    return [None if group is None or group.deleting else group for group in groups]
