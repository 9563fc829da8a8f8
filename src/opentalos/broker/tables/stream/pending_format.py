"""Cells of family "pending": messages that are not published yet. Sans-io.

Shape: column: [sequence of the change u64be][stream id u32be]; cell: [timestamp ms i64be]
    [the message as consumers get it].
"""

import struct
from typing import Final, NamedTuple

from opentalos.model.errors import CorruptLog

_COLUMN: Final = struct.Struct(">QI")
_TIME: Final = struct.Struct(">q")


class Pending(NamedTuple):
    """One change, as the message of one stream."""

    sequence: int
    stream: int
    timestamp_ms: int
    message: bytes


def encode_column(sequence: int, stream: int) -> bytes:
    """The column; columns of a row sort by sequence."""
    return _COLUMN.pack(sequence, stream)


def stream_of(column: bytes) -> int:
    """The stream that a column is for. Raises: CorruptLog."""
    try:
        return int(_COLUMN.unpack(column)[1])
    except struct.error as error:
        raise CorruptLog(f"a pending column {column.hex()} cannot be read") from error


def encode_pending(timestamp_ms: int, message: bytes) -> bytes:
    """The cell."""
    return _TIME.pack(timestamp_ms) + message


def decode_pending(column: bytes, cell: bytes) -> Pending:
    """Decode a cell. Raises: CorruptLog."""
    try:
        sequence, stream = _COLUMN.unpack(column)
        (timestamp_ms,) = _TIME.unpack_from(cell)
    except struct.error as error:
        raise CorruptLog(f"a pending cell {column.hex()} cannot be read") from error
    return Pending(sequence, stream, timestamp_ms, cell[_TIME.size :])
