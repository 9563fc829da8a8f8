"""How every call on a table begins: find the table, authorize the caller, apply the table's rate.

The use cases of ``service.py``, ``scan.py`` and ``admin.py`` share one ``TableAccess``. It makes
the access decision of tables (I8) and knows when a table's rows are gone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.row_tables import entries_of, rows_of
from opentalos.catalog.access.authorize import table_not_exist
from opentalos.catalog.tables.rates import TableRates
from opentalos.catalog.tables.table import Table
from opentalos.catalog.tables.tables import TableCatalog, unknown_table
from opentalos.model.errors import (
    NotFound,
    StoreUnavailable,
    TableNotEnabled,
    TableNotExist,
    TalosError,
    ThrottleRejected,
    ValidationFailed,
)
from opentalos.model.identity import Principal, TableRight
from opentalos.model.mutation import Mutation
from opentalos.model.names import check_name
from opentalos.model.table import TableState
from opentalos.ports.row_store import RowStore
from opentalos.sds.key_format import splits
from opentalos.sds.mutation import Applied
from opentalos.sds.quota_units import Units

T = TypeVar("T")
HELD_MAX = 10_000  # calls that are throttled at once, whole server; more are rejected


class TableWriter(Protocol):
    """Where mutations go: the owners of a table's shards, here or elsewhere.

    ``apply``: one outcome per mutation, in order. ``table_changed``: returns when every owner
    works by this record or a newer one; Unavailable if that is not known. ``forget``: the table
    is gone, here.
    """

    async def apply(
        self, table: Table, mutations: Sequence[Mutation]
    ) -> Sequence[Applied | TalosError]: ...
    async def table_changed(self, table: Table) -> None: ...
    def forget(self, table_uuid: str) -> None: ...


class TableAccess:
    """Shared by the use cases of one broker."""

    def __init__(self, context: BrokerContext, tables: TableCatalog, rows: RowStore) -> None:
        self._context = context
        self.tables, self.rows = tables, rows
        self.rates = TableRates(context.config.sds)
        self._held = 0

    async def find(self, caller: Principal, right: TableRight, name: str) -> Table:
        """The table, if the caller may do this; an unknown one is read from the MetaStore once.

        Raises: TableNotExist, PermissionDenied, InvalidName, Unavailable.
        """
        table = self.tables.find(caller, name)
        if table is None:
            table = await self._read(caller, name)
        try:
            self._context.authorizer.authorize(caller, right, table)
        except TableNotExist:
            raise table_not_exist(name) from None  # the same words as for an unknown name
        return table

    async def enabled(self, caller: Principal, right: TableRight, name: str) -> Table:
        """``find``, for a read or write. Raises: TableNotEnabled."""
        table = await self.find(caller, right, name)
        if table.state is not TableState.ENABLED:
            if await self.is_newer(table):  # another server may have enabled it
                table = await self.find(caller, right, name)
            if table.state is not TableState.ENABLED:
                state = table.state.name.lower()
                raise TableNotEnabled(f"table {name} is {state}: it takes no reads and writes")
        return table

    async def checked(
        self, caller: Principal, right: TableRight, name: str, check: Callable[[Table], T]
    ) -> tuple[Table, T]:
        """``enabled``, and the result of ``check`` with the table's schema.

        Raises: what ``check`` raises, if the schema is the newest.
        """
        table = await self.enabled(caller, right, name)
        try:
            return table, check(table)
        except ValidationFailed:
            if not await self.is_newer(table):  # another server may have altered it
                raise
        table = await self.enabled(caller, right, name)
        return table, check(table)

    async def is_newer(self, table: Table) -> bool:
        """Whether another server has just changed the table; never for a single server."""
        if self._context.peers is None:
            return False
        return await self.tables.unseen.look([(table.owner, table.name, table)])

    async def admit(self, table: Table, units: Units) -> None:
        """Throttle a call to its table's rate. Raises: ThrottleRejected: nothing charged."""
        hold_max_s = self._context.config.sds.throttle_max_s if self._held < HELD_MAX else 0.0
        hold_s = self.rates.admit(table, units.reads, units.writes, hold_max_s)
        if hold_s:
            self._held += 1
            try:
                await asyncio.sleep(hold_s)
            finally:
                self._held -= 1

    def admit_at_once(self, table: Table, units: Units) -> ThrottleRejected | None:
        """Charge a call that must not wait; return the error if it would have to."""
        try:
            self.rates.admit(table, units.reads, units.writes, 0.0)
        except ThrottleRejected as error:
            return error
        return None

    async def make_room(self, table: Table) -> None:
        """Create the row tables of a new table. Raises: Unavailable."""
        for name in row_tables(table):
            await self.rows.open_table(name, splits=splits(table.schema))

    async def read(self, table: Table, action: Callable[[], Awaitable[T]]) -> T:
        """Read rows; of a table that was dropped meanwhile there are none.

        Raises: TableNotExist; StoreUnavailable: another table has its name now; what ``action``
            raises.
        """
        try:
            return await action()
        except NotFound:
            raise await self.gone(table) from None

    async def gone(self, table: Table) -> TalosError:
        """The error for a caller whose table has no rows. Raises: Unavailable."""
        found = await self.tables.refresh(table.owner, table.name)
        if found is None or found.state is TableState.DELETING:
            return table_not_exist(table.name)
        if found.uuid == table.uuid:  # restored from a backup that began before it was made
            await self.make_room(found)
            return StoreUnavailable(f"rows of table {table.name} were missing; retry")
        return StoreUnavailable(f"table {table.name} was dropped and created again; retry")

    async def _read(self, caller: Principal, name: str) -> Table:
        if self._context.peers is None:
            check_name(name.rpartition("/")[2], "table name")
            raise unknown_table(self.tables.names, caller, name)
        return await self.tables.read(caller, name)


def row_tables(table: Table) -> Sequence[str]:
    """Every row table of a table: its records and its indexes."""
    return (rows_of(table), *(entries_of(table, index) for index in table.schema.indexes))
