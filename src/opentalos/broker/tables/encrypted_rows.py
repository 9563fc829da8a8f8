"""EncryptedRows: a row store whose cells of structured tables are encrypted with the owner's key.

Row keys and column names stay plain, since rows are sorted by them and indexes consist of them; so
does the header cell, which has only a time and a sequence. Cells that were stored before encryption
was enabled are read as they are. A row store compares versions and write ids, never cells, so equal
writes may have different ciphertext.

Shape: cell: [mark 0xe5][version u8 = 1][key id 8][nonce 12][ciphertext][tag 16]
Authenticated with it, so that no cell passes in another place: [the first 10 bytes]
    [row table's name][0][family][0][length of the row key u16][row key][column]
The mark is neither a type of a value nor the first byte of a pending message's time.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentalos.catalog.encryption.tenant_keys import TenantKeys
from opentalos.catalog.tables.table import Table
from opentalos.model.errors import (
    CorruptLog,
    NewerFormat,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
)
from opentalos.ports.key_ring import KEY_ID_BYTES, NONCE_BYTES, TAG_BYTES, DataKey
from opentalos.ports.row_store import FamilyName, Row, RowMutation, RowStore
from opentalos.sds.cell_format import HEADER_CELL

MARK: Final = 0xE5
VERSION: Final = 1
_HEAD: Final = struct.Struct(f">BB{KEY_ID_BYTES}s")
_CIPHERTEXT_AT: Final = _HEAD.size + NONCE_BYTES
CELL_BYTES: Final = _CIPHERTEXT_AT + TAG_BYTES  # that encryption adds to a cell
_DATA: Final = FamilyName.DATA.value.encode()
_PENDING: Final = FamilyName.PENDING.value.encode()
_KEY_LENGTH_BYTES: Final = 2
_MARK: Final = bytes([MARK])

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
        if not any(cell[:1] == _MARK for cell in row.cells.values()):
            return row
        bound = _bound(name, family.value.encode(), row.key)
        cells: dict[bytes, bytes] = {}
        for column, cell in row.cells.items():
            cells[column] = await self._plain(name, cell, bound + column)
        return row._replace(cells=cells)

    async def _plain(self, name: str, cell: bytes, bound: bytes) -> bytes:
        if cell[:1] != _MARK:
            return cell
        if len(cell) < CELL_BYTES:
            raise CorruptLog(f"encrypted cell of {len(cell)} bytes in {name}")
        _, version, key_id = _HEAD.unpack_from(cell)
        if version != VERSION:
            raise NewerFormat(f"encrypted cell of format {version}, this server knows {VERSION}")
        key = self._keys.find(key_id)
        if key is None:  # another server may have made it a moment ago
            await self._keys.refresh(self._owner(name))
            key = self._keys.find(key_id)
        if key is None:
            raise StoreUnavailable(
                f"rows {name} are encrypted with data key {key_id.hex()}, which this server cannot "
                "unwrap; give it the [encryption] key of the other servers"
            )
        return key.decrypt(
            cell[_HEAD.size : _CIPHERTEXT_AT], cell[_CIPHERTEXT_AT:], cell[: _HEAD.size] + bound
        )


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
    made: dict[bytes, bytes | None] = {}
    head = _HEAD.pack(MARK, VERSION, key.id)
    for column, cell in cells.items():
        if cell is None or column == HEADER_CELL:
            made[column] = cell
        else:
            made[column] = b"".join((head, *key.encrypt(cell, head + bound + column)))
    return made
