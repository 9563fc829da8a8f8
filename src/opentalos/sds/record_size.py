"""How much of a table's quota a record uses."""

from typing import Final

from opentalos.model.datum import Columns
from opentalos.model.table import TableSchema
from opentalos.sds.cell_format import HEADER_CELL, StoredRow, cell_bytes, encode_header
from opentalos.sds.index_format import ENTRY_CELLS, entries
from opentalos.sds.layout import COLUMN_PREFIX
from opentalos.sds.mutation import live_columns

_HEADER_BYTES: Final = len(HEADER_CELL) + len(encode_header(0, 0, False))
_ENTRY_BYTES: Final = sum(len(name) + len(cell) for name, cell in ENTRY_CELLS.items())


def record_bytes(schema: TableSchema, key: Columns, raw: bytes, row: StoredRow, now_ms: int) -> int:
    """Bytes of the stored key, of all cells of the record and of its entries in indexes.

    A removed or expired record uses nothing. Args: raw: the stored key.
    """
    if live_columns(schema, row, now_ms) is None:
        return 0
    size = len(raw) + _HEADER_BYTES
    for name, datum in row.columns.items():
        size += len(COLUMN_PREFIX) + len(name.encode()) + cell_bytes(datum)
    if schema.indexes:
        size += sum(len(entry) + _ENTRY_BYTES for entry in entries(schema, key, row).values())
    return size
