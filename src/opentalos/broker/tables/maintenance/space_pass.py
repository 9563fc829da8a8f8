"""Counts the rows of tables with a quota while the sweep passes over them."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from opentalos.broker.tables.api.values import Table
from opentalos.catalog.tables.space import NEARLY_FULL, PUBLISH_S, TableSpaces
from opentalos.model.table import NEVER
from opentalos.ports.row_store import Row
from opentalos.sds.cell_format import StoredRow
from opentalos.sds.key_format import key_of
from opentalos.sds.record_size import record_bytes

PUBLISHED_S: Final = 2 * PUBLISH_S  # by then every server has published its writes
SOON_S: Final = 60.0  # before the next pass over a table whose count is wanted


@dataclass(slots=True)
class _Pass:
    changed: int  # by the record, as the pass began
    bytes: int = 0
    countable_s: float = 0.0  # when its sum may be used; 0: the pass is under way


class SpacePasses:
    """Passes of one leader. A pass is kept until every server has published what it wrote during
    the pass, since only then the bounds of its sum are known."""

    def __init__(self, spaces: TableSpaces) -> None:
        self._spaces = spaces
        self._under_way: dict[str, _Pass] = {}  # by table uuid
        self._ended: dict[str, _Pass] = {}
        self._counted: dict[str, int | None] = {}  # by the last pass; None: it did not end

    async def begin(self, table: Table) -> None:
        """A pass over all rows begins. Raises: Unavailable."""
        self._under_way.pop(table.uuid, None)
        if table.quota_bytes is None:
            self._ended.pop(table.uuid, None)
            self._counted.pop(table.uuid, None)
        else:
            self._counted.setdefault(table.uuid, None)
            self._under_way[table.uuid] = _Pass(await self._spaces.changed(table.uuid))

    def add(self, table: Table, rows: Iterable[tuple[Row, StoredRow]], now_ms: int) -> None:
        """Rows that the pass has read."""
        counted, schema = self._under_way.get(table.uuid), table.schema
        if counted is not None:
            for row, stored in rows:
                key = key_of(schema, row.key)
                counted.bytes += record_bytes(schema, key, row.key, stored, now_ms)

    def end(self, table: Table) -> None:
        """The pass has read every row."""
        counted = self._under_way.pop(table.uuid, None)
        if counted is not None:
            counted.countable_s = asyncio.get_running_loop().time() + PUBLISHED_S
            self._ended[table.uuid] = counted
            self._counted[table.uuid] = counted.bytes

    async def settle(self) -> None:
        """Correct the count of one table, if it is time. Raises: Unavailable, OutcomeUnknown."""
        now_s = asyncio.get_running_loop().time()
        for uuid, counted in self._ended.items():
            if counted.countable_s <= now_s:
                del self._ended[uuid]
                await self._spaces.measured(uuid, counted.bytes, counted.changed)
                return

    def pause_s(self, table: Table, usual_s: float) -> float:
        """Pause before the next pass over a table: none if it got its quota meanwhile, short if it
        is not counted yet, or nearly full and its rows may expire."""
        if table.quota_bytes is None:
            return usual_s
        if table.uuid not in self._counted:
            return 0.0
        counted = self._counted[table.uuid]
        if counted is None:
            return min(usual_s, SOON_S)
        full = counted >= NEARLY_FULL * table.quota_bytes
        return min(usual_s, SOON_S) if full and table.schema.ttl_s != NEVER else usual_s

    def forget(self, table_uuid: str) -> None:
        """The table is gone."""
        for known in (self._under_way, self._ended, self._counted):
            known.pop(table_uuid, None)
