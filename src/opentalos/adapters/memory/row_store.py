"""RowStore in memory."""

from collections.abc import Sequence

from opentalos.adapters.memory.storage import MemoryStorage
from opentalos.adapters.row_rules import (
    NEVER_WRITTEN,
    RowState,
    check_mutation,
    check_mutations,
    check_scan,
    next_state,
)
from opentalos.model.errors import NotFound, StoreUnavailable, TalosError
from opentalos.ports.row_store import FamilyName, Row, RowMutation


class MemoryRowStore:
    """RowStore in memory; clients that share a ``MemoryStorage`` see the same tables."""

    def __init__(self, storage: MemoryStorage | None = None) -> None:
        self.storage = storage or MemoryStorage()
        self._closed = False

    async def open_table(self, table: str, *, splits: Sequence[bytes] = ()) -> None:
        """Make the table if it is not there; memory has no regions; see the port."""
        self._check_open()
        self.storage.tables.setdefault(table, {})

    async def drop_table(self, table: str) -> None:
        """Remove the table with its rows; an absent one is no error."""
        self._check_open()
        self.storage.tables.pop(table, None)

    async def get(
        self, table: str, keys: Sequence[bytes], *, family: FamilyName = FamilyName.DATA
    ) -> Sequence[Row | None]:
        """Rows in the order asked; see the port."""
        rows = self._rows(table)
        return [rows.get(key, NEVER_WRITTEN).row(key, family) for key in keys]

    async def mutate(self, table: str, mutation: RowMutation) -> int:
        """One compare-and-set; see the port."""
        check_mutation(mutation)
        return _mutate(self._rows(table), mutation)

    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]:
        """One outcome per mutation; see the port."""
        check_mutations(mutations)
        rows = self._rows(table)
        outcomes: list[int | TalosError] = []
        for mutation in mutations:
            try:
                outcomes.append(_mutate(rows, mutation))
            except TalosError as error:
                outcomes.append(error)
        return outcomes

    async def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        limit: int,
        reverse: bool = False,
        family: FamilyName = FamilyName.DATA,
    ) -> Sequence[Row]:
        """Rows of a key range; see the port."""
        check_scan(limit)
        rows = self._rows(table)
        found: list[Row] = []
        for key in sorted(rows, reverse=reverse):
            if key < start or (stop and key >= stop):
                continue
            row = rows[key].scanned(key, family)
            if row is not None:
                found.append(row)
                if len(found) == limit:
                    break
        return found

    async def close(self) -> None:
        """Disconnect."""
        self._closed = True

    def _rows(self, table: str) -> dict[bytes, RowState]:
        self._check_open()
        rows = self.storage.tables.get(table)
        if rows is None:
            raise NotFound(f"table {table} was not opened")
        return rows

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the row store is closed")


def _mutate(rows: dict[bytes, RowState], mutation: RowMutation) -> int:
    state = next_state(rows.get(mutation.key, NEVER_WRITTEN), mutation)
    rows[mutation.key] = state
    return state.version
