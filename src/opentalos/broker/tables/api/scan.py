"""One page of a scan, with bounds on the rows that are read, returned and charged."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.api.access import TableAccess, TableWriter
from opentalos.broker.tables.api.records import bytes_of, check_attributes, selected
from opentalos.broker.tables.api.values import (
    RowVersion,
    ScanAction,
    ScanActionKind,
    ScanPage,
    ScanQuery,
    Table,
)
from opentalos.broker.tables.row_tables import entries_of, rows_of
from opentalos.model.datum import Columns
from opentalos.model.errors import NotFound, TalosError, ValidationFailed
from opentalos.model.identity import Principal, TableRight
from opentalos.model.mutation import NOTHING, Condition, Mutation, Operation
from opentalos.ports.row_store import Row
from opentalos.sds.cell_format import decode_row
from opentalos.sds.index_format import entry_columns, proves, row_of_entry
from opentalos.sds.key_format import key_of, scan_range
from opentalos.sds.mutation import check, live_columns
from opentalos.sds.quota_units import Units, of_mutation, of_scanned
from opentalos.sds.scan_filter import compile as compile_condition

PIECE_ROWS: Final = 16  # decoded and filtered within 1 ms, 8 ms if each has 512 columns
CHUNK_ROWS: Final = 128  # read from the row store at once; 32 MiB of the largest records
_THERE: Final = Condition(row_exists=True)


class _Seen(NamedTuple):
    """A row that a scan read. ``record``: None if there is no such record for readers."""

    place: bytes  # its key in the row table that is scanned
    record: Columns | None
    size: int
    version: RowVersion | None = None  # if it is asked for


@dataclass(slots=True)
class _Page:
    """A page that is being filled, and what remains of the range."""

    start: bytes
    stop: bytes
    records: list[Columns] = field(default_factory=list)
    versions: list[RowVersion] = field(default_factory=list)
    size: int = 0
    rows_read: int = 0
    charged: int = 1  # rows
    throttled: bool = False


@dataclass(frozen=True, slots=True)
class _Scan:
    """A scan that passed its checks."""

    table: Table
    query: ScanQuery
    keeps: Callable[[Columns], bool]
    limit: int
    units: Units  # of each row read

    @property
    def rows(self) -> str:
        """The row table that is scanned."""
        index = self.query.index
        return entries_of(self.table, index) if index else rows_of(self.table)


class TableScan:
    """Scans by key and by index; see ``TableService.scan``."""

    def __init__(self, context: BrokerContext, access: TableAccess, shards: TableWriter) -> None:
        self._context, self._access, self._shards = context, access, shards

    async def page(self, caller: Principal, query: ScanQuery) -> ScanPage:
        """One page, and the place where the next one begins."""
        if query.action is not None and query.action.kind is not ScanActionKind.COUNT:
            await self._access.enabled(caller, TableRight.WRITE, query.table)
        table, (scan, start, stop) = await self._access.checked(
            caller, TableRight.READ, query.table, lambda now: self._checked(now, query)
        )
        await self._access.admit(table, scan.units)
        page = _Page(start, stop)
        following = await self._access.read(table, lambda: self._collect(scan, page))
        next_key = self._place(scan, following) if following else NOTHING
        if query.action is None:
            records = [selected(record, query.attributes) for record in page.records]
            return ScanPage(
                records=records,
                next_key=next_key,
                throttled=page.throttled,
                versions=page.versions,
            )
        if query.action.kind is not ScanActionKind.COUNT:
            await self._act(scan, query.action, page.records)
        return ScanPage(next_key=next_key, throttled=page.throttled, count=len(page.records))

    def _checked(self, table: Table, query: ScanQuery) -> tuple[_Scan, bytes, bytes]:
        """The scan with its range. Raises: ValidationFailed, SizeExceeded."""
        limits = self._context.config.sds
        if query.limit < 1:
            raise ValidationFailed(f"scan limit {query.limit} is not positive")
        check_attributes(table, query.attributes)
        if query.index and query.index not in table.schema.indexes:
            raise ValidationFailed(f"the table has no index {query.index}")
        if query.versions and (query.index or query.condition or query.action):
            raise ValidationFailed("versions need a scan by the key, without a condition")
        action, limit = query.action, min(query.limit, limits.scan_records_max)
        if action is not None and action.kind is not ScanActionKind.COUNT:
            limit = min(limit, limits.scan_writes_max)
        index = query.index or None
        condition = compile_condition(query.condition, table.schema, limits.condition_bytes_max)
        scan = _Scan(table, query, condition, limit, of_scanned(table.schema, index))
        ends = (query.start, query.stop)
        place = scan_range(table.schema, *ends, reverse=query.reverse, index=index)
        return scan, *place

    async def _collect(self, scan: _Scan, page: _Page) -> bytes:
        """Fill the page; return the key of the first row that was not read, empty: none."""
        while True:
            limit = self._chunk_rows(scan, page)
            rows = await self._chunk(scan, page, limit)
            following = await self._take(scan, page, await self._seen(scan, rows))
            debt_s = self._charge(scan, page)
            if following or len(rows) < limit:
                return following
            self._go_on(scan, page, rows[-1].key)
            if self._full(scan, page) or debt_s > self._context.config.sds.throttle_max_s:
                rest = await self._chunk(scan, page, 1)
                page.throttled = bool(rest) and not self._full(scan, page)
                return rest[0].key if rest else b""

    def _chunk_rows(self, scan: _Scan, page: _Page) -> int:
        """How many rows to read: one more than wanted shows where the next page begins."""
        if scan.query.condition:
            return CHUNK_ROWS
        return min(CHUNK_ROWS, scan.limit - len(page.records) + 1)

    def _charge(self, scan: _Scan, page: _Page) -> float:
        more = max(0, page.rows_read - page.charged)
        page.charged += more
        return self._access.rates.charge_reads(scan.table, more * scan.units.reads)

    async def _chunk(self, scan: _Scan, page: _Page, limit: int) -> Sequence[Row]:
        rows = self._access.rows
        reverse = scan.query.reverse
        return await rows.scan(scan.rows, page.start, page.stop, limit=limit, reverse=reverse)

    async def _take(self, scan: _Scan, page: _Page, seen: Iterator[_Seen]) -> bytes:
        """Take rows until the page is full; return the key of the first one that was left."""
        for number, row in enumerate(seen, 1):
            if self._full(scan, page):
                return row.place
            page.rows_read += 1
            if number % PIECE_ROWS == 0:
                await self._context.work.pause()
            if row.record is not None and scan.keeps(row.record):
                page.records.append(row.record)
                if row.version is not None:
                    page.versions.append(row.version)
                page.size += row.size
        return b""

    def _full(self, scan: _Scan, page: _Page) -> bool:
        limits = self._context.config.sds
        return (
            len(page.records) >= scan.limit
            or page.rows_read >= limits.scan_rows_max
            or page.size >= limits.scan_bytes_max
        )

    def _go_on(self, scan: _Scan, page: _Page, last: bytes) -> None:
        if scan.query.reverse:
            page.stop = last
        else:
            page.start = last + b"\x00"

    def _place(self, scan: _Scan, place: bytes) -> Columns:
        schema, index = scan.table.schema, scan.query.index
        return entry_columns(schema, index, place) if index else key_of(schema, place)

    async def _seen(self, scan: _Scan, rows: Sequence[Row]) -> Iterator[_Seen]:
        now_ms = self._context.log.time.append_ms()
        if scan.query.index:
            return await self._proven(scan, rows, now_ms)
        if scan.query.versions:
            return (_version(scan, row) for row in rows)
        return (_Seen(row.key, *_record(scan, row.key, row, now_ms)) for row in rows)

    async def _proven(self, scan: _Scan, entries: Sequence[Row], now_ms: int) -> Iterator[_Seen]:
        """An entry counts only if its row still has it."""
        schema, index = scan.table.schema, scan.query.index
        keys = [row_of_entry(schema, index, entry.key) for entry in entries]
        unique = list(dict.fromkeys(keys))
        found = await self._access.rows.get(rows_of(scan.table), unique) if unique else []
        rows = dict(zip(unique, found, strict=True))

        def seen(entry: Row, key: bytes) -> _Seen:
            row = rows[key]
            if row is None or not proves(schema, index, entry.key, decode_row(row.cells)):
                return _Seen(entry.key, None, 0)
            return _Seen(entry.key, *_record(scan, key, row, now_ms))

        return map(seen, entries, keys)

    async def _act(self, scan: _Scan, action: ScanAction, records: Sequence[Columns]) -> None:
        """Delete or update what matched, if it is still there.

        Raises: the first error; those after it may be done.
        """
        table = scan.table
        mutations = [_mutation(table, action, record) for record in records]
        limits = self._context.config.sds
        writes = reads = 0
        for mutation in mutations:
            check(table.schema, mutation, limits)
            units = of_mutation(table.schema, mutation.operation)
            writes, reads = writes + units.writes, reads + units.reads
        if not mutations:
            return
        await self._access.admit(table, Units(reads, writes))
        for outcome in await self._shards.apply(table, mutations):
            if isinstance(outcome, NotFound):
                raise await self._access.gone(table)
            if isinstance(outcome, TalosError):
                raise outcome


def _record(scan: _Scan, key: bytes, row: Row, now_ms: int) -> tuple[Columns | None, int]:
    schema = scan.table.schema
    columns = live_columns(schema, decode_row(row.cells), now_ms)
    if columns is None:
        return None, 0
    return {**key_of(schema, key), **columns}, bytes_of(row)


def _version(scan: _Scan, row: Row) -> _Seen:
    """Its columns, also if it is expired: followers expire it by the changes after it."""
    schema, stored = scan.table.schema, decode_row(row.cells)
    if not stored.timestamp_ms:
        return _Seen(row.key, None, 0)
    columns = live_columns(schema, stored, stored.timestamp_ms)
    version = RowVersion(stored.timestamp_ms, stored.sequence, columns is None)
    return _Seen(row.key, {**key_of(schema, row.key), **(columns or {})}, bytes_of(row), version)


def _mutation(table: Table, action: ScanAction, record: Columns) -> Mutation:
    key = {name: record[name] for name in table.schema.key_columns}
    if action.kind is ScanActionKind.DELETE:
        return Mutation(Operation.REMOVE, key, attributes=action.attributes, condition=_THERE)
    return Mutation(action.operation, key, action.columns, condition=_THERE)
