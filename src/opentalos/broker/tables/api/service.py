"""Table use cases of applications: get, write, scan, batch."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.api.access import TableAccess, TableWriter
from opentalos.broker.tables.api.records import bytes_of, check_attributes, selected
from opentalos.broker.tables.api.scan import TableScan
from opentalos.broker.tables.api.values import (
    BatchItem,
    BatchOutcome,
    Got,
    ReadItem,
    ScanPage,
    ScanQuery,
    Table,
    WriteItem,
    Written,
)
from opentalos.broker.tables.row_tables import rows_of
from opentalos.catalog.tables.rates import TableRateCounters
from opentalos.model.datum import Columns
from opentalos.model.errors import (
    NotFound,
    SizeExceeded,
    TalosError,
    ThrottleRejected,
    ValidationFailed,
)
from opentalos.model.identity import Principal, TableRight
from opentalos.model.mutation import Mutation
from opentalos.ports.row_store import Row
from opentalos.sds.cell_format import decode_row
from opentalos.sds.key_format import row_key
from opentalos.sds.mutation import check, live_columns
from opentalos.sds.quota_units import GET, Units, of_mutation

PIECE_ITEMS: Final = 32  # of a batch: checked or converted within 1 ms
READ_ROWS: Final = 16  # of a batch, read at once; 4 MiB of the largest records


class TableService:
    """Records of tables; every method authorises first. Any server answers any call."""

    def __init__(self, context: BrokerContext, access: TableAccess, shards: TableWriter) -> None:
        self._context, self._access, self._shards = context, access, shards
        self._scans = TableScan(context, access, shards)

    @property
    def rates(self) -> TableRateCounters:
        """Units charged to tables on this server."""
        return self._access.rates.counters

    async def key_columns(self, caller: Principal, table: str) -> Sequence[str]:
        """Names of the columns of the table's key, in order.

        Raises: TableNotExist, PermissionDenied, InvalidName, Unavailable.
        """
        found = await self._access.find(caller, TableRight.DESCRIBE, table)
        return found.schema.key_columns

    async def get(
        self, caller: Principal, table: str, key: Columns, attributes: Sequence[str] = ()
    ) -> Columns | None:
        """A record with its key columns, or those of ``attributes``; None: there is none.

        Raises: TableNotExist, TableNotEnabled, ValidationFailed, PermissionDenied,
            ThrottleRejected, Unavailable.
        """
        item = ReadItem(table, key, tuple(attributes))
        found, raw = await self._access.checked(
            caller, TableRight.READ, table, lambda now: _checked_key(now, item)
        )
        await self._access.admit(found, GET)
        records, _ = await self._read(found, [(item, raw)])
        return records[0]

    async def write(self, caller: Principal, table: str, mutation: Mutation) -> Written:
        """Apply one mutation; it is durable, and in the streams' outbox, when it returns.

        Raises: as ``get``; SizeExceeded: not done; OutcomeUnknown.
        """
        found, _ = await self._access.checked(
            caller,
            TableRight.WRITE,
            table,
            lambda now: check(now.schema, mutation, self._context.config.sds),
        )
        await self._access.admit(found, of_mutation(found.schema, mutation.operation))
        (outcome,) = await self._apply(found, [mutation])
        if isinstance(outcome, TalosError):
            raise outcome
        return outcome

    async def scan(self, caller: Principal, query: ScanQuery) -> ScanPage:
        """One page. With an action that writes, each match is a mutation by itself, and an error
        may leave those before it done.

        Raises: as ``get`` and, with an action that writes, as ``write``.
        """
        return await self._scans.page(caller, query)

    async def batch(
        self, caller: Principal, items: Sequence[BatchItem], *, partial: bool = False
    ) -> Sequence[BatchOutcome]:
        """One outcome per item, in order; items are independent of each other.

        Args: partial: items over the table's rate are refused each by itself (ThrottleRejected);
            without it the whole batch is.
        Raises: SizeExceeded: more items than a batch may have; ThrottleRejected. Nothing done.
        """
        self.check_batch(len(items))
        outcomes: dict[int, BatchOutcome] = {}
        tables = await self._checked_items(caller, items, outcomes)
        for table, numbers in _by_table(tables, outcomes):
            await self._admit(table, items, numbers, outcomes if partial else None)
        for table, numbers in _by_table(tables, outcomes):
            await self._write_items(table, items, numbers, outcomes)
            await self._read_items(table, items, numbers, outcomes)
        return [outcomes[number] for number in range(len(items))]

    async def check_items(self, caller: Principal, items: Sequence[BatchItem]) -> None:
        """Raises: the error of the first item that could not be done at any rate."""
        outcomes: dict[int, BatchOutcome] = {}
        await self._checked_items(caller, items, outcomes)
        for outcome in outcomes.values():
            if isinstance(outcome, TalosError):
                raise outcome

    def check_batch(self, items: int) -> None:
        """Raises: SizeExceeded: more items than a batch may have."""
        items_max = self._context.config.sds.batch_items_max
        if items > items_max:
            raise SizeExceeded(f"a batch of {items} items, at most {items_max}")

    async def _checked_items(
        self, caller: Principal, items: Sequence[BatchItem], outcomes: dict[int, BatchOutcome]
    ) -> dict[int, Table]:
        """The table of each item that may be done; the others have their outcome."""
        tables, known = await self._tables(caller, items, outcomes)
        if await self._any_newer(known, outcomes):
            outcomes.clear()
            tables, _ = await self._tables(caller, items, outcomes)
        return tables

    async def _tables(
        self, caller: Principal, items: Sequence[BatchItem], outcomes: dict[int, BatchOutcome]
    ) -> tuple[dict[int, Table], Sequence[Table]]:
        """The table of each item that may be done, the others have their outcome; all tables."""
        found: dict[tuple[str, TableRight], Table | TalosError] = {}
        tables = {}
        for number, item in enumerate(items):
            right = TableRight.READ if isinstance(item, ReadItem) else TableRight.WRITE
            wanted = (item.table, right)
            if wanted not in found:
                try:
                    found[wanted] = await self._access.enabled(caller, right, item.table)
                except TalosError as error:
                    found[wanted] = error
            table = found[wanted]
            try:
                if isinstance(table, TalosError):
                    raise table
                self._check(table, item)
            except TalosError as error:
                outcomes[number] = error
            else:
                tables[number] = table
            if number % PIECE_ITEMS == PIECE_ITEMS - 1:
                await self._context.work.pause()
        return tables, [table for table in found.values() if isinstance(table, Table)]

    async def _any_newer(
        self, tables: Iterable[Table], outcomes: Mapping[int, BatchOutcome]
    ) -> bool:
        """Whether items may have been refused by a schema that another server has altered."""
        if not any(isinstance(outcome, ValidationFailed) for outcome in outcomes.values()):
            return False
        known = {table.uuid: table for table in tables}
        return any([await self._access.is_newer(table) for table in known.values()])

    def _check(self, table: Table, item: BatchItem) -> None:
        if isinstance(item, ReadItem):
            _checked_key(table, item)
        else:
            check(table.schema, item.mutation, self._context.config.sds)

    async def _admit(
        self,
        table: Table,
        items: Sequence[BatchItem],
        numbers: Sequence[int],
        refused: dict[int, BatchOutcome] | None,
    ) -> None:
        """Args: refused: takes the errors of single items; None: the whole batch is refused."""
        units = {number: _units(table, items[number]) for number in numbers}
        if refused is None:
            reads = sum(item.reads for item in units.values())
            await self._access.admit(
                table, Units(reads, sum(item.writes for item in units.values()))
            )
            return
        for number, item in units.items():
            error: ThrottleRejected | None = self._access.admit_at_once(table, item)
            if error is not None:
                refused[number] = error

    async def _write_items(
        self,
        table: Table,
        items: Sequence[BatchItem],
        numbers: Sequence[int],
        outcomes: dict[int, BatchOutcome],
    ) -> None:
        writes = [(number, items[number]) for number in numbers]
        mine = [(number, item.mutation) for number, item in writes if isinstance(item, WriteItem)]
        if not mine:
            return
        results: Sequence[Written | TalosError]
        try:
            results = await self._apply(table, [mutation for _, mutation in mine])
        except TalosError as error:
            results = [error] * len(mine)
        outcomes.update(zip((number for number, _ in mine), results, strict=True))

    async def _apply(
        self, table: Table, mutations: Sequence[Mutation]
    ) -> Sequence[Written | TalosError]:
        outcomes = await self._shards.apply(table, mutations)
        if any(isinstance(outcome, NotFound) for outcome in outcomes):
            gone = await self._access.gone(table)
            outcomes = [gone if isinstance(outcome, NotFound) else outcome for outcome in outcomes]
        return [
            outcome
            if isinstance(outcome, TalosError)
            else Written(outcome.success, outcome.amounts)
            for outcome in outcomes
        ]

    async def _read_items(
        self,
        table: Table,
        items: Sequence[BatchItem],
        numbers: Sequence[int],
        outcomes: dict[int, BatchOutcome],
    ) -> None:
        reads = [(number, items[number]) for number in numbers]
        mine = [(number, item) for number, item in reads if isinstance(item, ReadItem)]
        if not mine:
            return
        room = self._context.config.sds.batch_bytes_max
        for first in range(0, len(mine), READ_ROWS):
            part = mine[first : first + READ_ROWS]
            try:
                if room <= 0:
                    most = self._context.config.sds.batch_bytes_max
                    raise SizeExceeded(f"records of this batch before it have {most} bytes")
                keyed = [(item, row_key(table.schema, item.key)) for _, item in part]
                records, size = await self._read(table, keyed)
            except TalosError as error:
                outcomes.update(dict.fromkeys((number for number, _ in part), error))
                continue
            room -= size
            for (number, _), record in zip(part, records, strict=True):
                outcomes[number] = Got(record)

    async def _read(
        self, table: Table, reads: Sequence[tuple[ReadItem, bytes]]
    ) -> tuple[list[Columns | None], int]:
        """Records, and how many bytes their rows have."""
        name = rows_of(table)
        unique = list(dict.fromkeys(raw for _, raw in reads))
        rows = await self._access.read(table, lambda: self._access.rows.get(name, unique))
        found = dict(zip(unique, rows, strict=True))
        now_ms = self._context.log.time.append_ms()
        records = [_record(table, item, found[raw], now_ms) for item, raw in reads]
        return records, sum(bytes_of(found[raw]) for _, raw in reads)


def _record(table: Table, item: ReadItem, row: Row | None, now_ms: int) -> Columns | None:
    columns = live_columns(table.schema, decode_row(row.cells), now_ms) if row else None
    if columns is None:
        return None
    record = {**{name: item.key[name] for name in table.schema.key_columns}, **columns}
    return selected(record, item.attributes)


def _checked_key(table: Table, item: ReadItem) -> bytes:
    check_attributes(table, item.attributes)
    return row_key(table.schema, item.key)


def _units(table: Table, item: BatchItem) -> Units:
    if isinstance(item, ReadItem):
        return GET
    return of_mutation(table.schema, item.mutation.operation)


def _by_table(
    tables: Mapping[int, Table], outcomes: Mapping[int, BatchOutcome]
) -> list[tuple[Table, list[int]]]:
    """Numbers of the items that have no outcome yet, by their table."""
    found: dict[str, tuple[Table, list[int]]] = {}
    for number, table in tables.items():
        if number not in outcomes:
            found.setdefault(table.uuid, (table, []))[1].append(number)
    return list(found.values())
