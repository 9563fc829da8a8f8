"""How many groups each tenant may have on a topic: others never take the owner's room.

The directory asks before it makes a group and after it deleted one. The counts of a topic are one
row, which all servers change by compare-and-set, so making a group costs the same however many
there are.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from opentalos.group.group_rows import GroupRows
from opentalos.group.row_writer import DELETE, RowEntry, RowWriter
from opentalos.model.errors import (
    CorruptLog,
    NewerFormat,
    StoreUnavailable,
    TalosError,
    TooManyConsumers,
)
from opentalos.model.limits import GroupLimits
from opentalos.ports.clock import Clock
from opentalos.ports.row_store import RowStore

_LOG = logging.getLogger("opentalos.group")
COUNTS_TABLE = "group_counts"  # one row per topic, its key is the topic's uuid
RECOUNT_S = 10.0  # a topic without room is counted again at most so often
TAKES_MAX = 3  # of one group, with a count between two of them
CONFLICTS_MAX = 30  # all servers change the one row of a topic
_VERSION = b"1"


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """The groups of a topic by tenant; fewer than there are only while one is made, or if servers
    of an earlier version, which count none, made some."""

    of_tenant: Mapping[str, int]

    def cells(self) -> Mapping[bytes, bytes]:
        """The row's data family."""
        return {b"v": _VERSION, b"counts": json.dumps(self.of_tenant).encode()}

    @classmethod
    def decode(cls, cells: Mapping[bytes, bytes]) -> "GroupCounts":
        """Read a row. Raises: NewerFormat, CorruptLog."""
        version = cells.get(b"v", b"")
        if version != _VERSION:
            raise NewerFormat(
                f"row of format {version!r} in table {COUNTS_TABLE}, this version reads 1"
            )
        try:
            counts = json.loads(cells[b"counts"])
            return cls({str(tenant): int(count) for tenant, count in counts.items()})
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptLog(f"unreadable counts of consumer groups: {error!r}") from error

    def changed(self, tenant: str, by: int) -> "GroupCounts":
        """The counts with ``by`` more groups of a tenant."""
        counts = {**self.of_tenant, tenant: self.of_tenant.get(tenant, 0) + by}
        return GroupCounts({name: count for name, count in counts.items() if count > 0})

    def check(self, limits: GroupLimits, tenant: str, owner: str) -> None:
        """Raises: TooManyConsumers: ``tenant`` may have no other group on a topic of ``owner``."""
        mine = self.of_tenant.get(tenant, 0)
        if tenant == owner:
            _check("the topic's owner", limits.groups_max, mine)
            return
        _check(f"tenant {tenant} on the topic", limits.groups_of_tenant_max, mine)
        others = sum(self.of_tenant.values()) - self.of_tenant.get(owner, 0)
        _check("all tenants but the topic's owner", limits.groups_max, others)


@dataclass(slots=True, eq=False)
class _Write:
    """What writes of a topic's counts share."""

    entry: RowEntry[GroupCounts]

    def written(self) -> None:
        """Nothing else depends on the row."""

    def reread(self, changed: bool) -> None:
        """By default the decision reads the row itself."""


@dataclass(slots=True, eq=False)
class _Change(_Write):
    """``by`` more groups of a tenant; 0: only ask whether there is room. Without a row,
    nothing is known (``uncounted``)."""

    limits: GroupLimits
    tenant: str
    owner: str
    by: int
    uncounted: bool = field(default=False, init=False)

    def decide(self) -> GroupCounts | None:
        counts = self.entry.value
        self.uncounted = counts is None
        if counts is None:
            return None
        if self.by >= 0:
            counts.check(self.limits, self.tenant, self.owner)
        return counts.changed(self.tenant, self.by) if self.by else None


@dataclass(slots=True, eq=False)
class _Recount(_Write):
    """What was counted from the groups, unless a server has changed the row meanwhile."""

    counted: GroupCounts
    outdated: bool = field(default=False, init=False)

    def decide(self) -> GroupCounts | None:
        return None if self.outdated or self.counted == self.entry.value else self.counted

    def reread(self, changed: bool) -> None:
        self.outdated = True


@dataclass(slots=True, eq=False)
class _Remove(_Write):
    """The topic was deleted."""

    def decide(self) -> object | None:
        return DELETE if self.entry.value is not None else None


class GroupShares:
    """Counts the groups of topics against the limits, for all servers together.

    A group is counted before it is made and until after it was deleted, so a crash between leaves
    a count too high, never too low. Before a tenant is refused the groups themselves are counted,
    which mends that; likewise on a topic that no server has counted yet. Servers that make groups
    during such a count may exceed a limit by one group each.
    """

    def __init__(
        self, rows: RowStore, groups: GroupRows, clock: Clock, limits: GroupLimits
    ) -> None:
        self._rows, self._groups, self.limits = rows, groups, limits
        self._writer = RowWriter(rows, clock, COUNTS_TABLE, CONFLICTS_MAX)
        self._recounted: dict[str, float] = {}  # topic uuid: when, on the loop's clock

    async def open(self) -> None:
        """Make the table if there is none."""
        await self._rows.open_table(COUNTS_TABLE)

    async def close(self) -> None:
        """Finish the writes in flight."""
        await self._writer.close()

    async def check(self, topic_uuid: str, tenant: str, owner: str) -> None:
        """Raises: TooManyConsumers: the tenant may have no other group on the topic."""
        await self._apply(topic_uuid, tenant, owner, 0)

    async def take(self, topic_uuid: str, tenant: str, owner: str) -> None:
        """Count a group that is about to be made. Raises: TooManyConsumers."""
        await self._apply(topic_uuid, tenant, owner, 1)

    async def give_back(self, topic_uuid: str, tenant: str) -> None:
        """A group was deleted, or not made. What cannot be written now is mended by a count."""
        change = _Change(_entry(topic_uuid), self.limits, tenant, tenant, -1)
        try:
            await self._writer.write(change)
        except TalosError as error:
            _LOG.debug("groups of topic %s are counted one too high: %s", topic_uuid, error)

    async def forget_topic(self, topic_uuid: str) -> None:
        """The topic was deleted; idempotent."""
        self._recounted.pop(topic_uuid, None)
        await self._writer.write(_Remove(_entry(topic_uuid)))

    async def _apply(self, topic_uuid: str, tenant: str, owner: str, by: int) -> None:
        for attempt in range(TAKES_MAX):
            change = _Change(_entry(topic_uuid), self.limits, tenant, owner, by)
            try:
                await self._writer.write(change)
            except TooManyConsumers:
                if attempt or not self._may_recount(topic_uuid):
                    raise
            else:
                if not change.uncounted:
                    return
            await self._recount(topic_uuid)
        raise StoreUnavailable(f"groups of topic {topic_uuid} change too often")

    def _may_recount(self, topic_uuid: str) -> bool:
        now_s = asyncio.get_running_loop().time()
        recent = {uuid: at for uuid, at in self._recounted.items() if now_s - at < RECOUNT_S}
        self._recounted = recent
        if topic_uuid in recent:
            return False
        recent[topic_uuid] = now_s
        return True

    async def _recount(self, topic_uuid: str) -> None:
        entry = _entry(topic_uuid)
        entry.load((await self._rows.get(COUNTS_TABLE, [entry.key]))[0])
        groups = await self._groups.groups(topic_uuid)
        counted = Counter(row.tenant for row in groups.values())
        await self._writer.write(_Recount(entry, GroupCounts(dict(counted))))


def _entry(topic_uuid: str) -> RowEntry[GroupCounts]:
    return RowEntry(topic_uuid.encode(), GroupCounts.decode, stale=True)


def _check(whose: str, limit: int, measured: int) -> None:
    if measured >= limit:
        raise TooManyConsumers(
            f"consumer groups of {whose}: limit {limit}, measured {measured}; "
            "delete groups that are not used any more"
        )
