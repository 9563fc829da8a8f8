"""Entries of local indexes: put before their rows are written, removed afterwards."""

from collections.abc import Iterable, Sequence

from opentalos.broker.tables.row_tables import entries_of
from opentalos.catalog.table import Table
from opentalos.model.errors import StoreUnavailable, TalosError, VersionConflict
from opentalos.ports.clock import Clock
from opentalos.ports.row_store import ABSENT, RowMutation, RowStore
from opentalos.sds.index_format import ENTRY_CELLS

WRITE_ID_BYTES = 16
ATTEMPTS_MAX = 8

Item = tuple[str, bytes]  # an index, and the key of an entry


class IndexWrites:
    """Entries of the tables of one row store. Each write raises an entry's version, so a removal
    that arrives late cannot take away what a later mutation has put."""

    def __init__(self, rows: RowStore, clock: Clock) -> None:
        self._rows, self._clock = rows, clock

    async def put(self, table: Table, items: Iterable[Item]) -> None:
        """Make entries, or make sure of them.

        Raises: Unavailable, OutcomeUnknown: some may be there; an entry alone proves nothing.
        """
        await self._write_all(table, items, delete=False)

    async def remove(self, table: Table, items: Iterable[Item]) -> None:
        """Remove entries. Raises: as put; what is left is harmless."""
        await self._write_all(table, items, delete=True)

    async def _write_all(self, table: Table, items: Iterable[Item], *, delete: bool) -> None:
        keys: dict[str, dict[bytes, None]] = {}
        for index, key in items:
            keys.setdefault(index, {})[key] = None
        for index, of_index in keys.items():
            await self._write(entries_of(table, index), list(of_index), delete=delete)

    async def _write(self, name: str, keys: Sequence[bytes], *, delete: bool) -> None:
        for _ in range(ATTEMPTS_MAX):
            found = await self._rows.get(name, keys)
            mutations = [
                RowMutation(
                    key=key,
                    expected=row.version if row else ABSENT,
                    write_id=self._clock.token(WRITE_ID_BYTES),
                    data={} if delete else ENTRY_CELLS,
                    delete=delete,
                )
                for key, row in zip(keys, found, strict=True)
                if row is not None or not delete
            ]
            if not mutations:
                return
            outcomes = await self._rows.mutate_many(name, mutations)
            keys = _left(mutations, outcomes)
            if not keys:
                return
        raise StoreUnavailable(f"entries of {name} change too often")


def _left(mutations: Sequence[RowMutation], outcomes: Sequence[int | TalosError]) -> list[bytes]:
    """Keys to be written again. Raises: the first error of another kind."""
    for outcome in outcomes:
        if isinstance(outcome, TalosError) and not isinstance(outcome, VersionConflict):
            raise outcome
    return [
        mutation.key
        for mutation, outcome in zip(mutations, outcomes, strict=True)
        if isinstance(outcome, VersionConflict)
    ]
