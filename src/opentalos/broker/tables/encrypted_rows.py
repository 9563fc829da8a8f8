"""EncryptedRows: a row store whose cells of structured tables are encrypted with the owner's key.

Row keys and column names stay plain, since rows are sorted by them and indexes consist of them; so
does the header cell, which has only a time and a sequence. Cells that were stored before encryption
was enabled are read as they are. A row store compares versions and write ids, never cells, so equal
writes may have different ciphertext.

Shape: cell: as catalog/encryption/cells.py says; bound to its place by
    [row table's name][0][family][0][length of the row key u16][row key][column]
The mark is neither a type of a value nor the first byte of a pending message's time.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentalos.catalog.encryption.cells import (
    MARK,
    decrypt_cell,
    encrypt_cell,
    key_id_of,
    key_of,
)
from opentalos.catalog.encryption.tenant_keys import TenantKeys
from opentalos.catalog.tables.table import Table
from opentalos.model.errors import PartitionNotServing, StoreUnavailable, TalosError
from opentalos.ports.key_ring import DataKey
from opentalos.ports.row_store import FamilyName, Row, RowMutation, RowStore
from opentalos.sds.cell_format import HEADER_CELL

_DATA: Final = FamilyName.DATA.value.encode()
_PENDING: Final = FamilyName.PENDING.value.encode()
_KEY_LENGTH_BYTES: Final = 2

Cells = Mapping[bytes, bytes | None]


class EncryptedRows:
    """See ports/row_store.py. ``table_of`` finds a table by its uuid."""

    def __init__(
        self, rows: RowStore, keys: TenantKeys, table_of: Callable[[str], Table | None]
    ) -> None:
        self._rows, self._keys, self._table_of = rows, keys, table_of

    async def open_table(self, table: str, *, splits: Sequence[bytes] = ()) -> None:
        """See the port."""
        await self._rows.open_table(table, splits=splits)

    async def drop_table(self, table: str) -> None:
        """See the port."""
        await self._rows.drop_table(table)

    async def get(
        self, table: str, keys: Sequence[bytes], *, family: FamilyName = FamilyName.DATA
    ) -> Sequence[Row | None]:
        """See the port. Raises also: CorruptLog: a cell cannot be decrypted."""
        found = await self._rows.get(table, keys, family=family)
        return [None if row is None else await self._decrypted(table, row, family) for row in found]

    async def mutate(self, table: str, mutation: RowMutation) -> int:
        """See the port."""
        return await self._rows.mutate(table, self._encrypted(table, mutation))

    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]:
        """See the port."""
        made = [self._encrypted(table, mutation) for mutation in mutations]
        return await self._rows.mutate_many(table, made)

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
        """See the port. Raises also: CorruptLog: a cell cannot be decrypted."""
        found = await self._rows.scan(
            table, start, stop, limit=limit, reverse=reverse, family=family
        )
        return [await self._decrypted(table, row, family) for row in found]

    async def close(self) -> None:
        """See the port."""
        await self._rows.close()

    def _owner(self, name: str) -> str:
        """Owner of the table that a row table is part of. Raises: StoreUnavailable."""
        table = self._table_of(name.split(".")[1])
        if table is None:
            raise StoreUnavailable(f"the table of rows {name} is not known here; try again")
        return table.owner

    def _encrypted(self, name: str, mutation: RowMutation) -> RowMutation:
        """Raises: StoreUnavailable: not done."""
        if not self._keys.enabled or not _has_content(mutation):
            return mutation
        try:
            key = self._keys.current(self._owner(name))
        except PartitionNotServing as error:
            raise StoreUnavailable(str(error)) from error
        if key is None:
            return mutation
        data, pending = (_bound(name, family, mutation.key) for family in (_DATA, _PENDING))
        return mutation._replace(
            data=_encrypted_cells(mutation.data, key, data),
            pending=_encrypted_cells(mutation.pending, key, pending),
        )

    async def _decrypted(self, name: str, row: Row, family: FamilyName) -> Row:
        if not any(cell[:1] == MARK for cell in row.cells.values()):
            return row
        bound = _bound(name, family.value.encode(), row.key)
        cells: dict[bytes, bytes] = {}
        for column, cell in row.cells.items():
            cells[column] = await self._plain(name, cell, bound + column)
        return row._replace(cells=cells)

    async def _plain(self, name: str, cell: bytes, bound: bytes) -> bytes:
        if cell[:1] != MARK:
            return cell
        key = await key_of(cell, self._keys, lambda: self._owner(name))
        if key is None:
            raise StoreUnavailable(
                f"rows {name} are encrypted with data key {key_id_of(cell).hex()}, which this "
                "server cannot unwrap; give it the [encryption] key of the other servers"
            )
        return decrypt_cell(cell, key, bound)


def _bound(name: str, family: bytes, row_key: bytes) -> bytes:
    length = len(row_key).to_bytes(_KEY_LENGTH_BYTES, "big")
    return b"\0".join((name.encode(), family, length + row_key))


def _has_content(mutation: RowMutation) -> bool:
    """Whether it writes a cell that has to be encrypted."""
    values = (cell for column, cell in mutation.data.items() if column != HEADER_CELL)
    return any(cell is not None for cell in (*values, *mutation.pending.values()))


def _encrypted_cells(cells: Cells, key: DataKey, bound: bytes) -> Cells:
    if not cells:
        return cells
    return {
        column: cell
        if cell is None or column == HEADER_CELL
        else encrypt_cell(cell, key, bound + column)
        for column, cell in cells.items()
    }
