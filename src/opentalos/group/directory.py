"""GroupDirectory: the consumer groups that this server coordinates, in memory.

A group is read from its rows at first use; the coordinator and the use cases find it here.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from opentalos.group.group_rows import PIECE_ROWS, GroupRows
from opentalos.group.row_format import (
    SEPARATOR,
    GroupKey,
    GroupRow,
    PartitionRow,
    group_row_key,
    parse_row_key,
)
from opentalos.group.row_writer import RowEntry, RowWriter, Write
from opentalos.group.shares import GroupShares
from opentalos.group.state import GroupState
from opentalos.group.writes import (
    ClaimGroup,
    CreateGroup,
    DeleteGroup,
    ExpireGroup,
    NoteUse,
    RemoveRow,
    use_is_news,
)
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    OutcomeUnknown,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
)
from opentalos.ports.clock import Clock
from opentalos.ports.row_store import Row

_LOG = logging.getLogger("opentalos.group")
T = TypeVar("T")
READS_MAX = 3  # of a group whose rows other servers change meanwhile
CLEAR_PASSES_MAX = 5  # over the rows of a deleted group; two remove all unless others write
REMOVE_PASSES_MAX = 20_000  # pages of rows of one deleted topic


class GroupUser(NamedTuple):
    """Who uses which group: a name belongs to a topic and a tenant, so tenants never meet in one.

    ``key`` has the group's name; ``tenant`` is whose group is meant, ``owner`` the topic's.
    """

    key: GroupKey
    tenant: str
    owner: str = ""  # empty: the tenant itself

    @property
    def owns_topic(self) -> bool:
        """Whether the group is one of the topic's owner."""
        return self.owner in ("", self.tenant)

    def keys(self) -> tuple[GroupKey, GroupKey]:
        """Where the group may be, the likelier one first.

        Older servers gave a name to the tenant that used it first, so another tenant's group may
        have it alone, and the owner's then has none.
        """
        alone, apart = self.key, self.key.of_tenant(self.tenant)
        return (alone, apart) if self.owns_topic else (apart, alone)


class GroupFigures(NamedTuple):
    """What a server coordinates now."""

    groups: int
    workers: int  # with a live lease
    leases: int  # partitions held by a live lease


class GroupDirectory:
    """Finds, creates and removes groups.

    Only groups that exist are kept, so a group is reported as unknown only after reading its rows.
    A lease found in a row counts as live for a full ``lease_s``, since until then its worker may
    have renewed it elsewhere: from the load, or from this server's start if no other server has
    used the group since.

    Unless ``certain()``, another server may coordinate the groups of this one without its
    knowledge: a group's row is read before memory is believed, and none is taken over.
    """

    def __init__(
        self,
        rows: GroupRows,
        writer: RowWriter,
        shares: GroupShares,
        clock: Clock,
        server: str,
        certain: Callable[[], bool],
    ) -> None:
        self.rows, self._writer, self._shares, self._clock = rows, writer, shares, clock
        self._server, self._lease_s = server, shares.limits.lease_s
        self._creating: dict[GroupUser, asyncio.Task[None]] = {}
        self.time_ms = clock.wall_ms  # of uses; see ``use_time``
        self._topics: dict[str, dict[str, GroupState]] = {}
        self._loading: dict[GroupKey, asyncio.Task[GroupState | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._started_s: float | None = None  # None: this server has dropped groups since
        self._certain = certain

    async def start(self) -> None:
        """Open the table; leases of the former coordinator count from now."""
        await self.rows.open()
        await self._shares.open()
        self._started_s = _now()

    async def close(self) -> None:
        """Abandon loads in flight."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def figures(self) -> GroupFigures:
        """Groups in memory and their live leases."""
        now_s = _now()
        groups = [group for topic in self._topics.values() for group in topic.values()]
        return GroupFigures(
            groups=len(groups),
            workers=sum(len(group.live_workers(now_s)) for group in groups),
            leases=sum(
                bool(part.holder(now_s)) for group in groups for part in group.partitions.values()
            ),
        )

    # --- finding -------------------------------------------------------------------------------

    async def find(self, user: GroupUser) -> GroupState | None:
        """The tenant's group, or None if it was never used. Raises: Unavailable."""
        known = self._topics.get(user.key.topic_uuid, {})
        for key in user.keys():
            group = known.get(key.group)
            if group is not None and group.tenant == user.tenant:
                if not self._certain():
                    await self.confirm(group)
                break
        else:
            group = await self._found(user)
        if group is not None and group.deleted:
            raise StoreUnavailable(f"consumer group {user.key.group} is being deleted")
        return group

    async def _found(self, user: GroupUser) -> GroupState | None:
        """The tenant's group by its rows."""
        for key in user.keys():
            group = self._topics.get(key.topic_uuid, {}).get(key.group) or await self._loaded(key)
            if group is not None and group.tenant == user.tenant:
                return group
        return None

    async def use(self, user: GroupUser, *, kafka: bool = False) -> GroupState | None:
        """The group, which no other server can delete from now on; None if it was never used.

        ``kafka``: on behalf of a client of Kafka, so that it does not expire. Raises: Unavailable.
        """
        group = await self._claimed(user)
        if group is not None and kafka:
            await self._note_use(group, self.time_ms())
        return group

    async def _claimed(self, user: GroupUser) -> GroupState | None:
        for _ in range(READS_MAX):
            group = await self.find(user)
            if group is None or group.coordinator == self._server:
                return group
            if not self._certain():
                raise PartitionNotServing(
                    f"consumer group {user.key.group} is not taken over: the session has lapsed"
                )
            claim = ClaimGroup(group, self._server, self.time_ms())
            await self._write_first(claim, f"take over consumer group {user.key.group}")
            if group.exists and not claim.moved and not group.forgotten:
                return group
            self._drop(group)
        raise StoreUnavailable(f"consumer group {user.key.group} changes too often")

    async def find_or_create(self, user: GroupUser, *, kafka: bool = False) -> GroupState:
        """The group, made if it was never used. ``kafka``: a client of Kafka uses it.

        Raises: TooManyConsumers; Unavailable, OutcomeUnknown.
        """
        found = await self.use(user)
        if found is None:
            await self._created(user, kafka)
            found = await self.use(user)
        if found is None:
            raise StoreUnavailable(f"consumer group {user.key.group} was deleted meanwhile")
        await self._note_use(found, self.time_ms() if kafka else None)
        return found

    async def _note_use(self, group: GroupState, used_ms: int | None) -> None:
        row = group.row.value
        if row is not None and use_is_news(row, used_ms):
            write = NoteUse(group, used_ms)
            await self._write_first(write, f"use consumer group {group.key.group}")

    async def _write_first(self, write: Write, what: str) -> None:
        """A write before the caller's own, which has not started if the outcome is unknown."""
        try:
            await self._writer.write(write)
        except OutcomeUnknown as error:
            raise StoreUnavailable(f"could not {what}: {error}") from error

    async def find_current(self, user: GroupUser) -> GroupState | None:
        """Like ``find``, with every row as it is stored now."""
        for _ in range(READS_MAX):
            group = await self.find(user)
            if group is None:
                return None
            rows = await self.rows.of_group(group.key)
            if self._is_current(group, _own(rows)):
                await self._see(group, rows)
                if group.forgotten:
                    continue
                return group
        raise StoreUnavailable(f"consumer group {user.key.group} changes too often")

    async def confirm(self, group: GroupState) -> None:
        """Make sure that no other server has used the group since this one took it over.

        Raises: PartitionNotServing; Unavailable.
        """
        if not self._is_current(group, (await self.rows.of_partition(group.key, 0))[0]):
            raise PartitionNotServing(f"consumer group {group.key.group} has just moved")

    async def stored(self, user: GroupUser, partition: int) -> PartitionRow | None:
        """A partition's stored row, read now; None if the group was never used."""
        for _ in range(READS_MAX):
            group = await self.find(user)
            if group is None:
                return None
            own, row = await self.rows.of_partition(group.key, partition)
            if self._is_current(group, own):
                await self._see(group, [row] if row else [])
                return PartitionRow.decode(row.cells) if row else PartitionRow()
        raise StoreUnavailable(f"consumer group {user.key.group} changes too often")

    # --- removing and forgetting ---------------------------------------------------------------

    async def delete_group(self, user: GroupUser, *, used_ms: int | None = None) -> bool:
        """Forget a group. ``used_ms``: unless Kafka clients used it after that; returns whether.

        Raises: ConsumerGroupNotExist, ConsumerGroupWorking; Unavailable, OutcomeUnknown.

        Rows that cannot be removed now are removed when a group of that name is made.
        """
        group = await self.use(user)
        if group is None:
            raise ConsumerGroupNotExist(f"no consumer group {user.key.group}")
        if used_ms is None:
            group.begin_delete()
            write = DeleteGroup(group, self._server, _now)
        else:
            write = ExpireGroup(group, self._server, _now, used_ms)
        # A caller that leaves must not leave the group deleted in memory and alive in its rows.
        work = self._started(self._delete(group, write), f"delete group {user.key.group}")
        return await asyncio.shield(work)

    async def _delete(self, group: GroupState, write: DeleteGroup) -> bool:
        try:
            deleted = await self._writer.write(write)
        except TalosError as error:
            if isinstance(error, OutcomeUnknown):
                self._drop(group)  # the rows decide
            elif not isinstance(write, ExpireGroup):  # else others may be deleting it
                group.keep()
            raise
        except BaseException:
            self._drop(group)
            raise
        if not deleted and group.exists:
            return False
        self._drop(group)
        if deleted:
            await self._shares.give_back(group.key.topic_uuid, group.tenant)
        try:
            await self._clear(group.key)
        except TalosError as error:
            _LOG.warning("rows of deleted group %s are left: %s", group.key.group, error)
        return deleted

    async def delete_topic(self, topic_uuid: str) -> None:
        """Remove every group of a deleted topic; idempotent, on any server."""
        self.forget_topic(topic_uuid)
        await self._shares.forget_topic(topic_uuid)
        for _ in range(REMOVE_PASSES_MAX):
            rows = await self.rows.of_topic(topic_uuid)
            if not rows:
                return
            await self._remove(rows)
        raise StoreUnavailable(f"consumer groups of topic {topic_uuid} are left")

    def forget_topic(self, topic_uuid: str) -> None:
        """Drop everything of a deleted topic from memory."""
        for group in list(self._topics.get(topic_uuid, {}).values()):
            self._drop(group)

    def forget(self, keeps: Callable[[str], bool]) -> None:
        """Keep only groups that this server still coordinates, by name; the others are read
        again when they return. Writes through forgotten ones are refused."""
        self._started_s = None
        for groups in list(self._topics.values()):
            for group in list(groups.values()):
                if not keeps(group.key.name):
                    self._drop(group)
        for key in list(self._loading):
            if not keeps(key.name):
                del self._loading[key]

    # --- inside --------------------------------------------------------------------------------

    async def _created(self, user: GroupUser, kafka: bool) -> None:
        """Make a group once, however many calls of a new group come together."""
        task = self._creating.get(user)
        if task is None:
            task = self._started(self._create(user, kafka), f"create group {user.key.group}")
            self._creating[user] = task
            task.add_done_callback(lambda _: self._creating.pop(user))
        await asyncio.shield(task)

    async def _create(self, user: GroupUser, kafka: bool) -> None:
        key, apart = user.keys()
        left = await self.rows.of_group(key)
        own = _own(left)
        if own is not None and not _is_of(own, user.tenant):  # of an older server
            key, left = apart, await self.rows.of_group(apart)
        topic_uuid, tenant = key.topic_uuid, user.tenant
        try:
            await self._shares.take(topic_uuid, tenant, user.owner or tenant)
        except OutcomeUnknown as error:  # the group itself was not written
            raise StoreUnavailable(
                f"could not count consumer group {key.group}: {error}"
            ) from error
        try:
            if left:
                await self._clear(key)
            used_ms = self.time_ms() if kafka else None
            wanted = GroupRow(tenant, self._clock.wall_ms(), self._server, used_ms=used_ms)
            entry = RowEntry(group_row_key(key), GroupRow.decode)
            made = await self._writer.write(CreateGroup(entry, wanted))
        except OutcomeUnknown:
            raise  # it stays counted, since it may exist
        except TalosError:
            await self._shares.give_back(topic_uuid, tenant)
            raise
        if not made:  # another server was faster
            await self._shares.give_back(topic_uuid, tenant)

    async def _clear(self, key: GroupKey) -> None:
        """Remove the rows of a deleted group; an existing group is not touched."""
        for _ in range(CLEAR_PASSES_MAX):
            rows = await self.rows.of_group(key)
            own = _own(rows)
            if not rows or (own and not GroupRow.decode(own.cells).deleting):
                return
            # The group's own row goes last: until then another server can tell what the others are.
            await self._remove(rows[1:] if own and len(rows) > 1 else rows)
        raise StoreUnavailable(f"rows of the former consumer group {key.group} are left")

    async def _remove(self, rows: Sequence[Row]) -> None:
        await asyncio.gather(*(self._writer.write(RemoveRow(row, _decoder(row))) for row in rows))

    def _is_current(self, group: GroupState, own: Row | None) -> bool:
        """Whether the copy in memory is current; else it is dropped, to be read again."""
        if group.forgotten:
            return False
        changed = own is not None and group.row.see(own)
        taken = changed and group.coordinator != self._server
        if own is None or taken or not group.exists:
            self._drop(group)
            return False
        return True

    async def _see(self, group: GroupState, rows: Sequence[Row]) -> None:
        lease_until_s = _now() + self._lease_s
        for count, row in enumerate(rows, 1):
            if count % PIECE_ROWS == 0:
                await asyncio.sleep(0)
            partition = parse_row_key(row.key)[1]
            if partition is None:
                continue
            part = group.partition(partition)
            if part.row.see(row):  # a lease granted elsewhere counts as live until then
                part.hold_until(lease_until_s)
                group.note_change()

    def _drop(self, group: GroupState) -> None:
        group.forget()
        groups = self._topics.get(group.key.topic_uuid, {})
        if groups.get(group.key.group) is group:
            del groups[group.key.group]
            if not groups:
                del self._topics[group.key.topic_uuid]

    async def _loaded(self, key: GroupKey) -> GroupState | None:
        task = self._loading.get(key)
        if task is None:
            task = self._started(self._load(key), f"load group {key.group}")
            self._loading[key] = task
        # One caller's cancellation must not fail the others that wait for the same rows.
        return await asyncio.shield(task)

    def _started(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """A task that ends with the directory, whoever waits for it."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, TalosError):
            _LOG.debug("%s failed: %s", task.get_name(), error)  # callers have it
        elif error is not None:  # callers may have left
            _LOG.error("%s failed", task.get_name(), exc_info=error)

    async def _load(self, key: GroupKey) -> GroupState | None:
        me = asyncio.current_task()
        try:
            rows = await self.rows.of_group(key)
            own = _own(rows)
            if own is None or GroupRow.decode(own.cells).deleting:
                return None
            group = GroupState.empty(key, _now())
            lease_until_s = self._found_lease_until_s(GroupRow.decode(own.cells))
            for count, row in enumerate(rows, 1):
                group.load_row(parse_row_key(row.key)[1], row, lease_until_s)
                if count % PIECE_ROWS == 0:
                    await asyncio.sleep(0)
            if self._loading.get(key) is not me:
                raise PartitionNotServing(f"consumer group {key.group} has just moved")
            self._topics.setdefault(key.topic_uuid, {})[key.group] = group
            return group
        finally:
            if self._loading.get(key) is me:
                del self._loading[key]

    def _found_lease_until_s(self, row: GroupRow) -> float:
        started_s = self._started_s if row.coordinator == self._server else None
        return (_now() if started_s is None else started_s) + self._lease_s


def use_time(directory: GroupDirectory, time_ms: Callable[[], int]) -> None:
    """Take the times of uses from a clock that is known to be right."""
    directory.time_ms = time_ms


def _own(rows: Sequence[Row]) -> Row | None:
    """The group's own row; it comes first."""
    return rows[0] if rows and parse_row_key(rows[0].key)[1] is None else None


def _is_of(own: Row, tenant: str) -> bool:
    """Whether a tenant may have a group in place of this one: it is the tenant's, or deleted."""
    row = GroupRow.decode(own.cells)
    return row.deleting or row.tenant == tenant


def _decoder(row: Row) -> Callable[[Mapping[bytes, bytes]], GroupRow | PartitionRow]:
    of_group = parse_row_key(row.key)[1] is None
    return GroupRow.decode if of_group else PartitionRow.decode


def _now() -> float:
    return asyncio.get_running_loop().time()


class GroupOnTopic(NamedTuple):
    """A group by the names that people use; a recreated topic has another uuid."""

    topic_uuid: str
    group: str  # TENANT/NAME


def checkpoints_of(
    directory: GroupDirectory,
) -> Mapping[str, Mapping[int, Mapping[GroupOnTopic, int]]]:
    """The checkpoints of all groups in memory, by topic uuid, partition and group."""
    found: dict[str, dict[int, dict[GroupOnTopic, int]]] = {}
    for topic_uuid, groups in directory._topics.items():
        partitions = found[topic_uuid] = {}
        for group in groups.values():
            tenant = group.row.value.tenant if group.row.value else ""
            named = GroupOnTopic(topic_uuid, tenant + SEPARATOR + group.key.name)
            for number, partition in group.partitions.items():
                partitions.setdefault(number, {})[named] = partition.value.checkpoint
    return found
