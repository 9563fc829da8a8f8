"""Removes expired records and old tombstones, and counts the space of tables with a quota.

``upkeep.py`` runs it on the leader. A row that was removed and is written again starts with
sequence 1, and its timestamp must not go back. So a row stays for ``tombstone_s`` after it could be
read last, which is longer than clocks of servers differ. A row with unpublished changes stays too.
A row is removed by compare-and-set. Its index entries are removed after it, by the versions that
they had before, so no entry of a later write is touched.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.api.access import TableAccess
from opentalos.broker.tables.api.values import Table
from opentalos.broker.tables.maintenance.dead_cells import remove_dead_cells
from opentalos.broker.tables.maintenance.space_pass import SpacePasses
from opentalos.broker.tables.row_tables import entries_of, rows_of
from opentalos.model.table import NEVER, TableState
from opentalos.ports.row_store import FamilyName, Row, RowMutation
from opentalos.sds.cell_format import StoredRow, decode_row
from opentalos.sds.index_format import entries
from opentalos.sds.key_format import key_of

WRITE_ID_BYTES: Final = 16
MS_PER_S: Final = 1_000


class _Entry(NamedTuple):
    """An entry as it was before its row was removed."""

    rows: str  # the row table
    key: bytes
    version: int


class TableSweep:
    """One bounded step at a time, table after table; in a cluster only the leader does it."""

    def __init__(self, context: BrokerContext, access: TableAccess) -> None:
        self._context, self._access = context, access
        self._places: dict[str, bytes] = {}  # of passes under way, by table uuid
        self._stepped_s: dict[str, float] = {}  # of the last step, by table uuid
        self._spaces = SpacePasses(access.tables.spaces)
        self.removed = 0  # rows, ever

    async def run_once(self) -> None:
        """Read some rows of one table. Raises: Unavailable, OutcomeUnknown: harmless."""
        if not self._context.ownership.leads():
            return
        await self._spaces.settle()
        table = self._next_table()
        if table is None:
            return
        limits = self._context.config.sds
        place = self._places.pop(table.uuid, b"")  # after an error the pass starts again, later
        self._stepped_s[table.uuid] = asyncio.get_running_loop().time()
        if not place:
            await self._spaces.begin(table)
        name, most = rows_of(table), limits.sweep_rows_max
        rows = await self._access.read(
            table, lambda: self._access.rows.scan(name, place, b"", limit=most)
        )
        now_ms = self._context.clock.wall_ms()
        found = [(row, decode_row(row.cells)) for row in rows]
        self._spaces.add(table, found, now_ms)
        if self._context.log.time.retention_ms() is not None:  # a wrong clock removes nothing
            old = [item for item in found if self._is_old(table, item[1], now_ms)]
            await self._remove(table, old)
        end = rows[-1].key + b"\x00" if len(rows) == most else b""
        await remove_dead_cells(self._access.rows, table, (place, end), most, self._token)
        if end:
            self._places[table.uuid] = end
        else:
            self._spaces.end(table)

    def _next_table(self) -> Table | None:
        """A table whose pass is under way, else one whose pause is over."""
        tables = self._access.tables
        for gone in [uuid for uuid in self._stepped_s if tables.by_uuid(uuid) is None]:
            del self._stepped_s[gone]
            self._places.pop(gone, None)
            self._spaces.forget(gone)
        for uuid in self._places:
            return tables.by_uuid(uuid)
        now_s = asyncio.get_running_loop().time()
        for table in tables.all():
            if table.state is TableState.ENABLED and self._has_rested(table, now_s):
                return table
        return None

    def _has_rested(self, table: Table, now_s: float) -> bool:
        pause_s = self._spaces.pause_s(table, self._context.config.sds.sweep_pause_s)
        return now_s >= self._stepped_s.get(table.uuid, -math.inf) + pause_s

    def _is_old(self, table: Table, stored: StoredRow, now_ms: int) -> bool:
        unread_ms = stored.timestamp_ms
        if not stored.deleted:
            if table.schema.ttl_s == NEVER:
                return False
            unread_ms += table.schema.ttl_s * MS_PER_S
        return now_ms - unread_ms >= self._context.config.sds.tombstone_s * MS_PER_S

    async def _remove(self, table: Table, old: Sequence[tuple[Row, StoredRow]]) -> None:
        if not old:
            return
        rows, name = self._access.rows, rows_of(table)
        pending = await rows.get(name, [row.key for row, _ in old], family=FamilyName.PENDING)
        free = [
            (row, stored)
            for (row, stored), same in zip(old, pending, strict=True)
            if same is not None and same.version == row.version and not same.cells
        ]
        if not free:
            return
        found = [await self._entries(table, row, stored) for row, stored in free]
        gone = await rows.mutate_many(name, [self._end(row.key, row.version) for row, _ in free])
        for outcome, of_row in zip(gone, found, strict=True):
            if isinstance(outcome, int):
                self.removed += 1
                for entry in of_row:
                    await rows.mutate_many(entry.rows, [self._end(entry.key, entry.version)])

    async def _entries(self, table: Table, row: Row, stored: StoredRow) -> Sequence[_Entry]:
        found = []
        key = key_of(table.schema, row.key)
        for index, raw in entries(table.schema, key, stored).items():
            name = entries_of(table, index)
            (entry,) = await self._access.rows.get(name, [raw])
            if entry is not None:
                found.append(_Entry(name, raw, entry.version))
        return found

    def _end(self, key: bytes, version: int) -> RowMutation:
        return RowMutation(key=key, expected=version, write_id=self._token(), delete=True)

    def _token(self) -> bytes:
        return self._context.clock.token(WRITE_ID_BYTES)
