"""How a row lies in HBase.

Families ``d`` (data) and ``p`` (pending); a column has the prefix ``c``. Two cells of ``d`` are
ours: ``v`` says the row's version and whether it is removed, ``w`` the id of its last write.

Every cell's timestamp is the version of the row that its write gave, and that of every delete
marker is the version of the row before: nothing depends on a clock, a later write is always newer,
and a marker covers exactly what was there before its write. A write that only removes pending
cells is such markers alone.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from opentalos.adapters.row_rules import NEVER_WRITTEN, RowState
from opentalos.model.errors import CorruptLog
from opentalos.ports.row_store import FamilyName, Row

FAMILY = {FamilyName.DATA: b"d", FamilyName.PENDING: b"p"}
STATE_COLUMN = b"v"
WRITE_COLUMN = b"w"
COLUMN_PREFIX = b"c"
LIVE = b"L"
REMOVED = b"R"
_STATE = struct.Struct(">cQ")
_KEY_VALUE = struct.Struct(">IIH")
_TIMESTAMP_AND_TYPE_BYTES = 9


def encode_state(version: int, deleted: bool) -> bytes:
    """The cell ``v``. Shape: bytes: ["L" live or "R" removed][version u64be]."""
    return _STATE.pack(REMOVED if deleted else LIVE, version)


class Cell(NamedTuple):
    """A cell as HBase sends it."""

    row: bytes
    family: bytes
    column: bytes
    value: bytes


def decode_cell(content: bytes) -> Cell:
    """A cell from HBase's own form of it.

    Shape: bytes: [key length u32be][value length u32be][row length u16be][row][family length u8]
        [family][column][timestamp u64be][type u8][value]. Source: HBase 2.6, KeyValue.
    """
    key_bytes, value_bytes, row_bytes = _KEY_VALUE.unpack_from(content)
    row_end = _KEY_VALUE.size + row_bytes
    family_end = row_end + 1 + content[row_end]
    column_end = 8 + key_bytes - _TIMESTAMP_AND_TYPE_BYTES
    value_start = 8 + key_bytes
    return Cell(
        content[_KEY_VALUE.size : row_end],
        content[row_end + 1 : family_end],
        content[family_end:column_end],
        content[value_start : value_start + value_bytes],
    )


def state_of(cells: Iterable[Cell]) -> RowState:
    """Version, write id and removal of a row; the cells of users are left out."""
    state, write_id = b"", b""
    for cell in cells:
        if cell.family == FAMILY[FamilyName.DATA]:
            if cell.column == STATE_COLUMN:
                state = cell.value
            elif cell.column == WRITE_COLUMN:
                write_id = cell.value
    if not state:
        return NEVER_WRITTEN
    version, deleted = _decode_state(state)
    return RowState(version, write_id, deleted, {}, {})


def row_of(cells: Iterable[Cell], family: FamilyName) -> Row | None:
    """The row as readers see it; None: it is absent or removed."""
    key, state = b"", b""
    found: dict[bytes, bytes] = {}
    for cell in cells:
        key = cell.row
        if cell.column[:1] == COLUMN_PREFIX:
            if cell.family == FAMILY[family]:
                found[cell.column[1:]] = cell.value
        elif cell.column == STATE_COLUMN:
            state = cell.value
    if not state:
        return None
    version, deleted = _decode_state(state)
    return None if deleted else Row(key, version, found)


def _decode_state(content: bytes) -> tuple[int, bool]:
    try:
        kind, version = _STATE.unpack(content)
    except struct.error as error:
        raise CorruptLog(f"a row's state of {len(content)} bytes") from error
    return version, kind != LIVE
