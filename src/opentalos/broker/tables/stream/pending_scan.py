"""PendingScan: finds pending cells of a shard that its outbox does not have.

A new owner reads the whole range before it serves. Later passes find what a former owner wrote
after that: they are frequent until ``settle_s`` has passed, rare afterwards.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from opentalos.broker.tables.row_tables import rows_of
from opentalos.catalog.tables.table import Table
from opentalos.model.settings.tables import SdsLimits
from opentalos.ports.row_store import FamilyName, Row, RowStore
from opentalos.sds.key_format import shard_range

PAGE_ROWS: Final = 500  # rows with pending cells that one page reads


class PendingScan:
    """Passes over the pending cells of one shard, a page at a time; the first one is due at once.

    ``next_s``: when the next pass is due, on the loop's clock. ``under_way``: a pass is not
    complete yet.
    """

    def __init__(self, limits: SdsLimits, number: int, settled_s: float) -> None:
        self._limits, self._number = limits, number
        self._settled_s = settled_s
        self._next_key: bytes | None = b""  # None: no pass is under way
        self.next_s = 0.0

    @property
    def under_way(self) -> bool:
        """Whether pages of this pass are still to be read."""
        return self._next_key is not None

    def due(self) -> bool:
        """Whether a page is to be read now; starts a pass if it is time."""
        if self._next_key is None and asyncio.get_running_loop().time() >= self.next_s:
            self._next_key = b""
        return self._next_key is not None

    async def page(self, rows: RowStore, table: Table) -> Sequence[Row]:
        """Rows of the next page. Raises: Unavailable: the pass is still at the same place."""
        start, stop = shard_range(table.schema, self._number)
        found = await rows.scan(
            rows_of(table),
            max(start, self._next_key or b""),
            stop,
            limit=PAGE_ROWS,
            family=FamilyName.PENDING,
        )
        if len(found) == PAGE_ROWS:
            self._next_key = found[-1].key + b"\0"
        else:
            self._next_key = None
            now_s = asyncio.get_running_loop().time()
            settling = now_s < self._settled_s
            limits = self._limits
            self.next_s = now_s + (
                limits.opened_scan_interval_s if settling else limits.pending_scan_interval_s
            )
        return found

    def abandon(self) -> None:
        """The row store does not answer: a new pass starts soon."""
        self._next_key = None
        self.next_s = asyncio.get_running_loop().time() + self._limits.opened_scan_interval_s
