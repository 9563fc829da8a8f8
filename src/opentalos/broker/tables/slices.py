"""Slices: every mutation of a table goes through the owner of its row's slice."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.row_tables import rows_of
from opentalos.catalog.table import Table
from opentalos.catalog.tables import TableCatalog
from opentalos.model.errors import StoreUnavailable, TalosError, VersionConflict
from opentalos.model.mutation import Mutation
from opentalos.ports.meta_store import MetaStore
from opentalos.ports.row_store import ABSENT, RowMutation, RowStore
from opentalos.sds.cell_format import decode_row
from opentalos.sds.key_format import row_key
from opentalos.sds.mutation import Applied, apply

ATTEMPTS_MAX = 8  # of one mutation that others keep overtaking
WRITE_ID_BYTES = 16


class StreamMark(NamedTuple):
    """Every change not after ``timestamp_ms`` is in the topic, below ``offsets`` (by partition)."""

    timestamp_ms: int
    offsets: Mapping[int, int]


class SliceFigures(NamedTuple):
    """What the slices of this server have done and hold now."""

    slices: int = 0
    mutations: int = 0
    groups: int = 0
    pending_entries: int = 0
    pending_bytes: int = 0
    oldest_pending_ms: int = 0  # age of the oldest entry that is not published; 0: none
    published: int = 0
    resent: int = 0
    fenced: int = 0
    gaps: int = 0


class Slices:
    """Applies mutations in the order of each row, and tells the table's streams of them."""

    def __init__(
        self, context: BrokerContext, rows: RowStore, meta: MetaStore, tables: TableCatalog
    ) -> None:
        self._context, self._rows, self._meta, self._tables = context, rows, meta, tables

    async def start(self) -> None:
        """Open own slices that have streams, and follow."""

    async def close(self) -> None:
        """Finish what is under way."""

    async def apply(
        self, table: Table, mutations: Sequence[Mutation]
    ) -> Sequence[Applied | TalosError]:
        """One outcome per mutation, in order. Applied: durable, and sure to reach the streams."""
        return [await self._apply_one(table, mutation) for mutation in mutations]

    async def mark(self, table: Table, topic: str) -> StreamMark:
        """How far a stream has told everything. Raises: Unavailable: it cannot be said now."""
        raise StoreUnavailable("marks are not known yet")

    async def table_changed(self, table: Table) -> None:
        """Return when every server that may apply mutations knows this state of the table."""

    def forget(self, table_uuid: str) -> None:
        """The table is being dropped."""

    def ownership_changed(self) -> None:
        """Slices came or left."""

    def forget_all(self) -> None:
        """This server's session has lapsed: nothing more is written."""

    def figures(self) -> SliceFigures:
        """Sums over the slices of this server."""
        return SliceFigures()

    async def _apply_one(self, table: Table, mutation: Mutation) -> Applied | TalosError:
        try:
            key = row_key(table.schema, mutation.key)
            for _ in range(ATTEMPTS_MAX):
                (found,) = await self._rows.get(rows_of(table), [key])
                stored = decode_row(found.cells if found else {})
                now_ms = self._context.clock.wall_ms()
                applied = apply(table.schema, stored, mutation, now_ms)
                if not applied.cells:
                    return applied
                try:
                    await self._rows.mutate(
                        rows_of(table),
                        RowMutation(
                            key=key,
                            expected=found.version if found else ABSENT,
                            write_id=self._context.clock.token(WRITE_ID_BYTES),
                            data=applied.cells,
                        ),
                    )
                except VersionConflict:
                    continue
                return applied
        except TalosError as error:
            return error
        return StoreUnavailable("the row changes too often")
