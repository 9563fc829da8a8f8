"""A family's cells as one SQLite value."""

import struct
from collections.abc import Mapping

_LENGTHS = struct.Struct(">II")


def encode_cells(cells: Mapping[bytes, bytes]) -> bytes:
    """The cells of a family, sorted by column.

    Shape: bytes: per cell [column length u32be][cell length u32be][column][cell].
    """
    parts: list[bytes] = []
    for column in sorted(cells):
        cell = cells[column]
        parts += (_LENGTHS.pack(len(column), len(cell)), column, cell)
    return b"".join(parts)


def decode_cells(content: bytes) -> dict[bytes, bytes]:
    """The cells. Raises: ValueError: not such a value."""
    cells: dict[bytes, bytes] = {}
    position = 0
    while position < len(content):
        if position + _LENGTHS.size > len(content):
            raise ValueError(f"cells are cut short at {position}")
        column_bytes, cell_bytes = _LENGTHS.unpack_from(content, position)
        middle = position + _LENGTHS.size + column_bytes
        end = middle + cell_bytes
        if end > len(content):
            raise ValueError(f"cells are cut short at {position}")
        cells[content[position + _LENGTHS.size : middle]] = content[middle:end]
        position = end
    return cells
