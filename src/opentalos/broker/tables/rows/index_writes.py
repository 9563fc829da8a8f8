"""Entries of local indexes: put before their rows are written, removed afterwards."""

from collections.abc import Iterable, Mapping, Sequence

from opentalos.broker.tables.row_tables import entries_of
from opentalos.catalog.tables.table import Table
from opentalos.model.errors import StoreUnavailable, TalosError, VersionConflict
from opentalos.ports.clock import Clock
from opentalos.ports.row_store import ABSENT, RowMutation, RowStore
from opentalos.sds.index_format import ENTRY_CELLS

WRITE_ID_BYTES = 16
ATTEMPTS_MAX = 8

Item = tuple[str, bytes]  # an index, and the key of an entry


class IndexWrites:
    """Entries of the tables of one row store. Each put raises an entry's version, and a removal is
    of the version that was there before the row was written: so one that arrives late, from a
    server that has lost the shard, cannot take away what a later mutation has put."""

    def __init__(self, rows: RowStore, clock: Clock) -> None:
        self._rows, self._clock = rows, clock

    async def put(self, table: Table, items: Iterable[Item]) -> None:
        """Make entries, or make sure of them.

        Raises: Unavailable, OutcomeUnknown: some may be there; an entry alone proves nothing.
        """
        for index, keys in _by_index(items).items():
            await self._put(entries_of(table, index), keys)

    async def found(self, table: Table, items: Iterable[Item]) -> dict[Item, int]:
        """Versions of the entries that are there. Raises: Unavailable."""
        versions = {}
        for index, keys in _by_index(items).items():
            rows = await self._rows.get(entries_of(table, index), keys)
            versions.update({(index, row.key): row.version for row in rows if row is not None})
        return versions

    async def remove(self, table: Table, versions: Mapping[Item, int]) -> None:
        """Remove entries that are as they were found.

        Raises: Unavailable, OutcomeUnknown: what is left is harmless.
        """
        for index, keys in _by_index(versions).items():
            mutations = [
                RowMutation(
                    key=key,
                    expected=versions[index, key],
                    write_id=self._clock.token(WRITE_ID_BYTES),
                    delete=True,
                )
                for key in keys
            ]
            _left(mutations, await self._rows.mutate_many(entries_of(table, index), mutations))

    async def _put(self, name: str, keys: Sequence[bytes]) -> None:
        for _ in range(ATTEMPTS_MAX):
            found = await self._rows.get(name, keys)
            mutations = [
                RowMutation(
                    key=key,
                    expected=row.version if row else ABSENT,
                    write_id=self._clock.token(WRITE_ID_BYTES),
                    data=ENTRY_CELLS,
                )
                for key, row in zip(keys, found, strict=True)
            ]
            keys = _left(mutations, await self._rows.mutate_many(name, mutations))
            if not keys:
                return
        raise StoreUnavailable(f"entries of {name} change too often")


def _by_index(items: Iterable[Item]) -> dict[str, list[bytes]]:
    keys: dict[str, dict[bytes, None]] = {}
    for index, key in items:
        keys.setdefault(index, {})[key] = None
    return {index: list(of_index) for index, of_index in keys.items()}


def _left(mutations: Sequence[RowMutation], outcomes: Sequence[int | TalosError]) -> list[bytes]:
    """Keys that were overtaken. Raises: the first error of another kind."""
    for outcome in outcomes:
        if isinstance(outcome, TalosError) and not isinstance(outcome, VersionConflict):
            raise outcome
    return [
        mutation.key
        for mutation, outcome in zip(mutations, outcomes, strict=True)
        if isinstance(outcome, VersionConflict)
    ]
