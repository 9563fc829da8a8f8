"""Entries of local secondary indexes: rows whose key has everything, in their own row table.

Shape: row key: that of a record (`sds/key_format.py`) with the index's columns between group and
    primary key; columns of the primary key that the index has are not repeated. Cell "!": [version
    u8]. A record without one of the index's columns has no entry.

An entry is put before its row is written and removed after it, so each record always has its entry.
An entry alone proves nothing: `proves` checks it against the row. A removal names the version that
the entry had before its row was written, so a late removal cannot take away a newer entry.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from opentalos.model.datum import Columns, Datum
from opentalos.model.errors import SizeExceeded
from opentalos.model.table import TableSchema
from opentalos.sds.cell_format import HEADER_CELL, StoredRow
from opentalos.sds.key_format import decode_key, encode_key, row_key
from opentalos.sds.layout import KeyColumn, Layout, layout_of

ENTRY_KEY_BYTES_MAX: Final = 4_096  # what a row store takes
ENTRY_CELLS: Final[Mapping[bytes, bytes]] = {HEADER_CELL: b"\x01"}  # of every entry


class IndexChange(NamedTuple):
    """Entries that a mutation makes and leaves behind, each with its index's name."""

    puts: Sequence[tuple[str, bytes]]
    removals: Sequence[tuple[str, bytes]]


def _entry_key(
    layout: Layout, columns: Sequence[KeyColumn], key: Columns, others: Columns
) -> bytes | None:
    values = {}
    for name, type_, _ in columns:
        datum = key.get(name) or others.get(name)
        if datum is None or datum.type is not type_:
            return None
        values[name] = datum
    return encode_key(columns, layout.group if layout.schema.hashed else 0, values)


def entries(schema: TableSchema, key: Columns, row: StoredRow) -> dict[str, bytes]:
    """Stored keys of a row's entries, by index; expired rows have theirs until they go."""
    if row.deleted:
        return {}
    layout = layout_of(schema)
    found = {}
    for name, columns in layout.index_keys.items():
        raw = _entry_key(layout, columns, key, row.columns)
        if raw is not None:
            found[name] = raw
    return found


def check_entries(layout: Layout, key: Columns, others: Columns) -> None:
    """Refuse columns whose entries would be too long. Raises: SizeExceeded."""
    for name, columns in layout.index_keys.items():
        raw = _entry_key(layout, columns, key, others)
        if raw is not None and len(raw) > ENTRY_KEY_BYTES_MAX:
            raise SizeExceeded(
                f"the entry in index {name} has {len(raw)} bytes, at most {ENTRY_KEY_BYTES_MAX}"
            )


def entry_changes(
    schema: TableSchema, key: Columns, before: StoredRow, after: StoredRow
) -> IndexChange:
    """What to put before a row is written, and what to remove after it."""
    if not schema.indexes:
        return IndexChange((), ())
    old, new = entries(schema, key, before), entries(schema, key, after)
    return IndexChange(
        [item for item in new.items() if old.get(item[0]) != item[1]],
        [item for item in old.items() if new.get(item[0]) != item[1]],
    )


def entry_columns(schema: TableSchema, index: str, raw: bytes) -> dict[str, Datum]:
    """All columns of an entry's key, in order, from which a scan continues. Raises: CorruptLog."""
    layout = layout_of(schema)
    group = layout.group if schema.hashed else 0
    return decode_key(layout.index_keys[index], group, raw)


def row_of_entry(schema: TableSchema, index: str, raw: bytes) -> bytes:
    """Key of the row that an entry belongs to. Raises: CorruptLog."""
    columns = entry_columns(schema, index, raw)
    return row_key(schema, {name: columns[name] for name in schema.key_columns})


def proves(schema: TableSchema, index: str, raw: bytes, row: StoredRow) -> bool:
    """Whether the row of an entry still has this entry; expiry is not checked here."""
    columns = entry_columns(schema, index, raw)
    key = {name: columns[name] for name in schema.key_columns}
    return entries(schema, key, row).get(index) == raw
