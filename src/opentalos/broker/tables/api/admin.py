"""Table use cases of owners: create, change, drop, enable, disable, describe, list."""

import asyncio
import builtins
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

from opentalos.broker.audit.trail import audited
from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.api.access import TableAccess, TableWriter
from opentalos.broker.tables.api.values import Size, Split, Table, TableSpec
from opentalos.broker.tables.maintenance.table_stats import TableStats
from opentalos.broker.tables.maintenance.upkeep import TableUpkeep
from opentalos.broker.tables.stream.streams import TableStreams
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.access.plain_names import accepted_by
from opentalos.catalog.tables.change import (
    altered_table,
    as_seen_by,
    check_owner_quota,
    check_spec,
    new_table,
)
from opentalos.catalog.tables.table import dead_table
from opentalos.catalog.topics.change import split_name
from opentalos.model.datum import Columns
from opentalos.model.errors import (
    AlreadyExists,
    OutcomeUnknown,
    PermissionDenied,
    QuotaExceeded,
    StoreUnavailable,
    TableExists,
    TableNotEnabled,
    Unavailable,
    ValidationFailed,
    VersionConflict,
)
from opentalos.model.identity import Principal, TableRight
from opentalos.model.mutation import NOTHING
from opentalos.model.names import check_name
from opentalos.model.table import TableState
from opentalos.sds.schema_rules import check_change, check_schema

UUID_BYTES = 16
_SETTLED = (TableState.ENABLED, TableState.DISABLED)


class TableAdminService:
    """Tables as callers see and change them; every method authorises first.

    A ``name`` is plain (see ``PlainNames``) or ``owner/name``.
    """

    def __init__(
        self,
        context: BrokerContext,
        access: TableAccess,
        shards: TableWriter,
        upkeep: TableUpkeep,
    ) -> None:
        self._context, self._access, self._shards = context, access, shards
        self._audit = context.audit
        self._upkeep, self._streams = upkeep, TableStreams(context)
        self._stats = TableStats(access)
        # Counting and creating are one step, so that parallel calls cannot pass a limit together.
        self._counting = asyncio.Lock()

    @audited("create a table", "name")
    async def create(self, caller: Principal, name: str, spec: TableSpec) -> Table:
        """Create a table owned by the caller or its organisation, enabled when it returns.

        Raises: TableExists, InvalidName, ValidationFailed, SizeExceeded, NotSupported,
            QuotaExceeded, PermissionDenied; TopicNotExist, PermissionDenied: a stream's topic.
        """
        context = self._context
        context.authorizer.authorize_own(caller, "create a table", name)
        try:
            owner, plain = split_name(caller, name, partial(check_name, what="table name"))
        except PermissionDenied:
            context.authorizer.refuse(caller, "create a table of another owner", name)
        check_schema(spec.schema, context.config.sds)
        check_spec(spec, context.config.sds)
        clock = context.clock
        uuid = clock.token(UUID_BYTES).hex()
        table = new_table(spec, (owner, plain), uuid, clock.wall_ms(), context.config.sds)
        table = await self._streams.enabled(caller, table, clock.wall_ms())
        await context.changes.admit(caller)
        await self._make_way(owner, plain)  # it may wait for storage, so others do not queue for it
        try:
            await self._store(table)
        except AlreadyExists:  # this server did not know of it
            await self._make_way(owner, plain)
            try:
                await self._store(table)
            except AlreadyExists:
                raise TableExists(f"table {plain} exists") from None
        return await self._upkeep.finish_creation(table)

    @audited("change a table", "name")
    async def alter(
        self, caller: Principal, name: str, spec: TableSpec, version: int | None = None
    ) -> Table:
        """Replace what the owner decides; every server that applies mutations knows it then.

        Args: version: that the table's schema must have; None: any.
        Raises: TableNotExist, TableNotEnabled: it is being created; ValidationFailed: also a quota
            below what is stored; NotSupported: keys, shards, new indexes, and what streams,
            indexes or keys name do not change; VersionConflict; as ``create``.
            OutcomeUnknown: stored, but some server may not work by it yet; repeat the call without
            a version to make sure.
        """
        table = await self._fresh(caller, TableRight.ALTER, name)
        limits = self._context.config.sds
        check_schema(spec.schema, limits)
        check_spec(spec, limits)
        if (spec.app_acl, spec.team_acl) != (table.app_acl, table.team_acl):
            self._context.authorizer.authorize(caller, TableRight.CHANGE_ACCESS, table)
        now_ms = self._context.clock.wall_ms()
        streams = await self._streams.wanted(caller, table, spec.schema)
        await self._check_quota(table, spec.quota_bytes)

        def change(now: Table) -> Table:
            if now.state not in _SETTLED:
                raise TableNotEnabled(f"table {now.name} is {now.state.name.lower()}")
            if version is not None:
                check_version(now, version)
            check_change(now.schema, spec.schema)
            return altered_table(now, spec, streams, now_ms, limits)

        async with self._counting:
            if spec.quota_bytes != table.quota_bytes:
                check_owner_quota(table, spec.quota_bytes, self._access.tables.all(), limits)
            changed = await self._access.tables.change(table, change)
        await self._tell(changed)
        await self._upkeep.drop_entries(table, changed)
        return changed

    @audited("delete a table", "name")
    async def drop(self, caller: Principal, name: str) -> None:
        """Drop a table and its rows, enabled or not; no caller can find it from then on.

        Its rows are removed at once if storage allows, else later, even after a restart.
        """
        table = await self._fresh(caller, TableRight.ALTER, name)
        dead = await self._access.tables.change(table, dead_table)
        await self._upkeep.remove_soon(dead)

    @audited("enable a table", "name")
    async def enable(self, caller: Principal, name: str) -> Table:
        """Serve reads and writes again; an enabled table is no error.

        Raises: TableNotEnabled: another change of its state is under way.
        """
        return await self._set_state(caller, name, TableState.DISABLED, TableState.ENABLED)

    @audited("disable a table", "name")
    async def disable(self, caller: Principal, name: str) -> Table:
        """Reject writes from when it returns, and reads once each server knows, within a second;
        a disabled table is no error.

        Raises: TableNotEnabled: another change of its state is under way.
        """
        table = await self._set_state(caller, name, TableState.ENABLED, TableState.DISABLING)
        return await self._upkeep.finish_disabling(table)

    async def describe(self, caller: Principal, name: str, *, fresh: bool = False) -> Table:
        """Everything about a table, with the state of its streams.

        Args: fresh: as new as this call, also if another server has just changed it.
        """
        find = self._fresh if fresh else self._access.find
        table = await find(caller, TableRight.DESCRIBE, name)
        return as_seen_by(caller, table)

    async def state(self, caller: Principal, name: str) -> TableState:
        """The table's state."""
        return (await self.describe(caller, name)).state

    async def list(self, caller: Principal, *, visible: bool = False) -> Sequence[Table]:
        """Tables that the caller or its organisation owns or that were granted to it, by name.

        Args: visible: an administrator gets all that it may describe, as everybody else does.
        """
        tables, work = builtins.list(self._access.tables.all()), self._context.work
        if caller.admin and not visible:
            mine = [table for table in tables if table.owner in (caller.id, caller.organisation)]
        else:
            bits = int(TableRight.DESCRIBE)
            masks = await work.each(caller.id, tables, partial(permissions_of, caller))
            mine = [table for table, mask in zip(tables, masks, strict=True) if mask & bits]
        mine.sort(key=attrgetter("name", "owner"))
        return await work.each(caller.id, mine, partial(as_seen_by, caller))

    async def set_accepted(self, caller: Principal, name: str, accepted: bool) -> None:
        """Accept the grants that the caller has on a table, or take the acceptance back.

        Once accepted, the table's plain name means this table to the caller. Revoking the grant
        revokes the acceptance.
        Raises: TableNotExist, PermissionDenied, and as ``accepted_by``.
        """
        tables, table = self._access.tables, await self._fresh(caller, TableRight.DESCRIBE, name)
        self._context.authorizer.authorize_itself(caller, "accept a grant", table.resource)
        await self._context.changes.admit(caller)
        await tables.change(
            table,
            lambda now: replace(now, accepted=accepted_by(tables.names, caller, now, accepted)),
        )

    async def size(self, caller: Principal, name: str) -> Size:
        """Estimated rows and bytes; of a table that is not hashed, a lower bound."""
        return await self._stats.size(await self.describe(caller, name))

    async def used_bytes(self, table: Table) -> int | None:
        """What counts against its quota; None: it has none, or it is unknown now."""
        try:
            return await self._access.tables.spaces.used(table)
        except Unavailable:
            return None

    async def splits(
        self, caller: Principal, name: str, start: Columns = NOTHING, stop: Columns = NOTHING
    ) -> builtins.list[Split]:
        """Parts of the table, or of a range of it, that can be scanned in parallel."""
        table = await self._access.find(caller, TableRight.READ, name)
        return await self._stats.splits(table, start, stop)

    async def _check_quota(self, table: Table, quota_bytes: int | None) -> None:
        """A new quota holds from now on, and must not be below what is stored.

        Raises: ValidationFailed; Unavailable, OutcomeUnknown: call again.
        """
        if quota_bytes is None or quota_bytes == table.quota_bytes:
            return
        spaces = self._access.tables.spaces
        used = await spaces.used(table)
        if used is None:
            used = (await self._stats.size(table)).bytes
            await spaces.begin(table.uuid, used)
        if used > quota_bytes:
            raise ValidationFailed(
                f"quota of {quota_bytes} bytes: table {table.name} has {used} bytes, remove rows "
                "first or allow more"
            )

    async def _fresh(self, caller: Principal, right: TableRight, name: str) -> Table:
        """``find``, as new as this call: what is changed must not be a former table."""
        table = await self._access.find(caller, right, name)
        if right is not TableRight.DESCRIBE:
            await self._context.changes.admit(caller)
        if self._context.peers is not None:
            await self._access.tables.refresh(table.owner, table.name)
            table = await self._access.find(caller, right, f"{table.owner}/{table.name}")
        return table

    async def _set_state(
        self, caller: Principal, name: str, before: TableState, after: TableState
    ) -> Table:
        table = await self._fresh(caller, TableRight.ALTER, name)

        def change(now: Table) -> Table:
            if now.state is before:
                return replace(now, state=after)
            if now.state is after or now.state in _SETTLED:
                return now
            raise TableNotEnabled(f"table {now.name} is {now.state.name.lower()}")

        changed = await self._access.tables.change(table, change)
        if changed.state is TableState.ENABLED:
            await self._tell(changed)
        return changed

    async def _tell(self, table: Table) -> None:
        try:
            await self._shards.table_changed(table)
        except Unavailable as error:
            raise OutcomeUnknown(
                f"table {table.name} is changed, but not every server may know: {error}"
            ) from error

    async def _store(self, table: Table) -> None:
        """Raises: QuotaExceeded; AlreadyExists: live or being dropped, and known by now."""
        async with self._counting:
            tables, limits = self._access.tables, self._context.config.sds
            owned = sum(other.owner == table.owner for other in tables.all())
            total = len(tables.all())
            if total >= limits.tables_max:
                raise QuotaExceeded(
                    f"tables of this service: limit {limits.tables_max}, measured {total}"
                )
            if owned >= limits.user_tables:
                raise QuotaExceeded(
                    f"tables of {table.owner}: limit {limits.user_tables}, measured {owned}"
                )
            check_owner_quota(table, table.quota_bytes, tables.all(), limits)
            await self._context.keys.ensure((table.owner,))
            await tables.create(table)

    async def _make_way(self, owner: str, name: str) -> None:
        """Complete the dropping of a former table of that name. Raises: TableExists."""
        tables = self._access.tables
        former = tables.record(owner, name)
        if former is not None and self._context.peers is not None:
            former = await tables.refresh(owner, name)  # another server may have dropped it
        if former is None:
            return
        if former.state is not TableState.DELETING:
            raise TableExists(f"table {name} exists")
        await self._upkeep.remove_soon(former)
        if tables.record(owner, name) is not None:
            raise StoreUnavailable(f"the former table {name} is still being dropped")


def check_version(table: Table, version: int) -> None:
    """Raises: VersionConflict: the table's schema has another version by now; not done."""
    now = table.schema.version
    if now != version:
        raise VersionConflict(f"table {table.name} has schema version {now}, not {version}")
