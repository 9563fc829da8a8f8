"""What every call on a table begins with: look the table up, decide, hold it to its rate."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.row_tables import entries_of, rows_of
from opentalos.catalog.authorize import table_not_exist
from opentalos.catalog.table import Table
from opentalos.catalog.table_rates import TableRates
from opentalos.catalog.tables import TableCatalog
from opentalos.model.errors import (
    NotFound,
    TableNotEnabled,
    TableNotExist,
    TalosError,
    ThrottleRejected,
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
OPENED_MAX = 100_000  # row tables known to be open; above it they are opened anew
HELD_MAX = 10_000  # calls that wait for rate at once, whole server; more are refused


class SliceWriter(Protocol):
    """Where mutations go: the owners of a table's slices, here or elsewhere.

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
        self._opened: set[str] = set()  # of the row store, by name
        self._held = 0

    async def find(self, caller: Principal, right: TableRight, name: str) -> Table:
        """The table, if the caller may do this; one that is not known here is looked for once.

        Raises: TableNotExist, PermissionDenied, InvalidName, Unavailable.
        """
        table = self.tables.find(caller, name)
        if table is None:
            table = await self._look(caller, name)
        try:
            self._context.authorizer.authorize(caller, right, table)
        except TableNotExist:
            raise table_not_exist(name) from None  # the same words as for an unknown name
        return table

    async def enabled(self, caller: Principal, right: TableRight, name: str) -> Table:
        """``find``, for a read or write. Raises: TableNotEnabled."""
        table = await self.find(caller, right, name)
        if table.state is not TableState.ENABLED:
            if self._context.peers is not None:  # another server may have enabled it
                await self.tables.look(caller, f"{table.owner}/{table.name}")
                table = await self.find(caller, right, name)
            if table.state is not TableState.ENABLED:
                state = table.state.name.lower()
                raise TableNotEnabled(f"table {name} is {state}: it takes no reads and writes")
        return table

    async def admit(self, table: Table, units: Units) -> None:
        """Hold a call to its table's rate. Raises: ThrottleRejected: nothing charged."""
        hold_max_s = self._context.config.sds.hold_s if self._held < HELD_MAX else 0.0
        hold_s = self.rates.admit(table, units.reads, units.writes, hold_max_s)
        if hold_s:
            self._held += 1
            try:
                await asyncio.sleep(hold_s)
            finally:
                self._held -= 1

    def admit_at_once(self, table: Table, units: Units) -> ThrottleRejected | None:
        """Charge a call that is not to wait; the error if it would have to."""
        try:
            self.rates.admit(table, units.reads, units.writes, 0.0)
        except ThrottleRejected as error:
            return error
        return None

    async def open(self, table: Table) -> None:
        """Open the table's rows and index entries, once in this process. Raises: Unavailable."""
        for name in row_tables(table):
            if name not in self._opened:
                await self.rows.open_table(name, splits=splits(table.schema))
                if len(self._opened) >= OPENED_MAX:
                    self._opened.clear()
                self._opened.add(name)

    async def read(self, table: Table, action: Callable[[], Awaitable[T]]) -> T:
        """Read the opened rows; of a table that was dropped meanwhile there are none.

        Raises: TableNotExist, and what ``action`` raises.
        """
        await self.open(table)
        try:
            return await action()
        except NotFound:
            self.forget(table)
            raise table_not_exist(table.name) from None

    def forget(self, table: Table) -> None:
        """The table is gone, or its rows are not open any more."""
        self._opened.difference_update(row_tables(table))
        self.rates.forget(table.uuid)

    async def _look(self, caller: Principal, name: str) -> Table:
        if self._context.peers is None:
            check_name(name.rpartition("/")[2], "table name")
            raise table_not_exist(name)
        return await self.tables.look(caller, name)


def row_tables(table: Table) -> Sequence[str]:
    """Every table of the row store that the table lies in."""
    return (rows_of(table), *(entries_of(table, index) for index in table.schema.indexes))
