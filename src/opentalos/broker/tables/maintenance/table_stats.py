"""Estimates of a table's size, and keys at which to split a scan."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from opentalos.broker.tables.api.access import TableAccess
from opentalos.broker.tables.api.records import bytes_of
from opentalos.broker.tables.api.values import Size, Split, Table
from opentalos.broker.tables.row_tables import rows_of
from opentalos.model.datum import Columns
from opentalos.ports.row_store import Row
from opentalos.sds.key_format import BUCKET_BYTES, BUCKETS, key_of, scan_range, splits

SIZE_ROWS_MAX: Final = 10_000  # read for an estimate
SIZE_CHUNK_ROWS: Final = 256


class TableStats:
    """Reads a bounded number of rows."""

    def __init__(self, access: TableAccess) -> None:
        self._access = access

    async def size(self, table: Table) -> Size:
        """Of a hashed table the first rows stand for all, since a hash spreads them evenly."""
        rows = size = 0
        start = b""
        while rows < SIZE_ROWS_MAX:
            chunk = await self._rows(table, start, b"", SIZE_CHUNK_ROWS)
            rows += len(chunk)
            size += sum(map(bytes_of, chunk))
            if len(chunk) < SIZE_CHUNK_ROWS:
                return Size(rows, size, exact=True)
            start = chunk[-1].key + b"\x00"
        if not table.schema.hashed:
            return Size(rows, size, exact=False)
        share = (int.from_bytes(start[:BUCKET_BYTES]) + 1) / BUCKETS
        return Size(round(rows / share), round(size / share), exact=False)

    async def splits(self, table: Table, start: Columns, stop: Columns) -> list[Split]:
        """Cut at the first row of each shard, so that parts have whole keys as bounds."""
        schema = table.schema
        low, high = scan_range(schema, start, stop)
        ends: list[Columns] = []
        for cut in splits(schema):
            if cut <= low or (high and cut >= high):
                continue
            place = await self._rows(table, cut, high, 1)
            if place and place[0].key > low:
                ends.append(key_of(schema, place[0].key))
        cuts = [start, *(key for number, key in enumerate(ends) if key not in ends[:number]), stop]
        return [Split(first, last) for first, last in pairwise(cuts)]

    async def _rows(self, table: Table, start: bytes, stop: bytes, limit: int) -> Sequence[Row]:
        name, rows = rows_of(table), self._access.rows
        return await self._access.read(table, lambda: rows.scan(name, start, stop, limit=limit))
