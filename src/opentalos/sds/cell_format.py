"""Cells of a row of a structured table (family "data"), as typed bytes. Sans-io.

Shape: cell "!": [version u8][flags u8: 1 deleted][timestamp ms i64be][sequence u64be];
    cell "=" and a column's name: [type u8][value]. Values: BOOL [0 or 1], INT8 to INT64 [big
    endian], FLOAT and DOUBLE [IEEE double, big endian], STRING [UTF-8], BINARY and RAWBINARY
    [bytes]; sets: their elements one after another, of strings and binaries [length u32be][bytes].
    There is no cell for null.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from opentalos.model.datum import Columns, DataType, Datum
from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.model.mutation import NOTHING
from opentalos.sds.layout import COLUMN_PREFIX
from opentalos.sds.value_rules import SET_OFFSET, value_fault

FORMAT_VERSION: Final = 1
HEADER_CELL: Final = b"!"
_HEADER: Final = struct.Struct(">BBqQ")
_DELETED: Final = 1
_LENGTH: Final = struct.Struct(">I")
_SHOWN_BYTES: Final = 64  # of a damaged value in a message


class StoredRow(NamedTuple):
    """A row as it is stored. ``columns``: those beside the key, including some that the schema no
    longer has, and those of an expired record. ``deleted``: only time and sequence remain."""

    timestamp_ms: int
    sequence: int
    deleted: bool
    columns: Columns


ABSENT: Final = StoredRow(0, 0, True, NOTHING)  # no row is stored at all

_CODES: Final[Mapping[DataType, str]] = {
    DataType.BOOL: "?",
    DataType.INT8: "b",
    DataType.INT16: "h",
    DataType.INT32: "i",
    DataType.INT64: "q",
    DataType.FLOAT: "d",
    DataType.DOUBLE: "d",
}
_Encode = Callable[[Any], bytes]
_Decode = Callable[[bytes], Any]


def _fixed(code: str) -> tuple[_Encode, _Decode]:
    form = struct.Struct(f">{code}")
    return form.pack, lambda raw: form.unpack(raw)[0]


def _fixed_set(code: str) -> tuple[_Encode, _Decode]:
    size = struct.calcsize(f">{code}")

    def encode(value: tuple[Any, ...]) -> bytes:
        return struct.pack(f">{len(value)}{code}", *value)

    def decode(raw: bytes) -> tuple[Any, ...]:
        return struct.unpack(f">{len(raw) // size}{code}", raw)

    return encode, decode


def _parts_bytes(elements: Iterable[bytes]) -> bytes:
    return b"".join(_LENGTH.pack(len(element)) + element for element in elements)


def _parts_of(raw: bytes) -> list[bytes]:
    elements = []
    position = 0
    while position < len(raw):
        start = position + _LENGTH.size
        position = start + _LENGTH.unpack_from(raw, position)[0]
        if position > len(raw):
            raise ValueError("an element of a set is cut short")
        elements.append(raw[start:position])
    return elements


def _codecs() -> dict[DataType, tuple[_Encode, _Decode]]:
    codecs: dict[DataType, tuple[_Encode, _Decode]] = {
        DataType.STRING: (str.encode, bytes.decode),
        DataType.BINARY: (bytes, bytes),
        DataType.RAWBINARY: (bytes, bytes),
        DataType.STRING_SET: (
            lambda value: _parts_bytes(element.encode() for element in value),
            lambda raw: tuple(element.decode() for element in _parts_of(raw)),
        ),
        DataType.BINARY_SET: (_parts_bytes, lambda raw: tuple(_parts_of(raw))),
    }
    for type_, code in _CODES.items():
        codecs[type_] = _fixed(code)
        codecs[DataType(type_ + SET_OFFSET)] = _fixed_set(code)
    return codecs


_CODECS: Final = _codecs()
_SIZES: Final = {type_: 1 + struct.calcsize(f">{code}") for type_, code in _CODES.items()}
_ENCODERS: Final = {type_: (bytes([type_]), encode) for type_, (encode, _) in _CODECS.items()}
_DECODERS: Final = {int(type_): (type_, decode) for type_, (_, decode) in _CODECS.items()}


def encode_header(timestamp_ms: int, sequence: int, deleted: bool) -> bytes:
    """Cell "!" of a row."""
    return _HEADER.pack(FORMAT_VERSION, _DELETED if deleted else 0, timestamp_ms, sequence)


def encode_cell(datum: Datum) -> bytes:
    """Cell of a column, whose value kept the rules of its type and is not null."""
    mark, encode = _ENCODERS[datum.type]
    return mark + encode(datum.value)


def cell_bytes(datum: Datum) -> int:
    """Length of what `encode_cell` gives."""
    size = _SIZES.get(datum.type)
    if size is not None:
        return size
    value = datum.value
    if type(value) is bytes or (type(value) is str and value.isascii()):
        return 1 + len(value)
    return len(encode_cell(datum))


def decode_cell(raw: bytes) -> Datum:
    """Inverse of `encode_cell`. Raises: CorruptLog."""
    try:
        type_, decode = _DECODERS[raw[0]]
        datum = Datum(type_, decode(raw[1:]))
    except (ValueError, LookupError, struct.error) as error:
        raise CorruptLog(f"stored value {raw[:_SHOWN_BYTES].hex()} cannot be read") from error
    if value_fault(*datum):
        text = raw[:_SHOWN_BYTES].hex()
        raise CorruptLog(f"stored {type_.name} {text} {value_fault(*datum)}")
    return datum


def decode_row(cells: Mapping[bytes, bytes]) -> StoredRow:
    """A row from its cells of family "data"; ABSENT if it has none.

    Raises: CorruptLog, NewerFormat.
    """
    if not cells:
        return ABSENT
    header = cells.get(HEADER_CELL)
    if not header:
        raise CorruptLog("a stored row has columns but no header")
    if header[0] != FORMAT_VERSION:
        raise NewerFormat(f"row format {header[0]}, this server knows {FORMAT_VERSION}")
    if len(header) != _HEADER.size or header[1] > _DELETED:
        raise CorruptLog(f"stored row header {header.hex()} cannot be read")
    _, flags, timestamp_ms, sequence = _HEADER.unpack(header)
    columns = {}
    for cell, raw in cells.items():
        if cell[:1] == COLUMN_PREFIX:
            columns[_name_of(cell)] = decode_cell(raw)
        elif cell != HEADER_CELL:
            raise CorruptLog(f"stored row has a cell {cell.hex()} of an unknown kind")
    return StoredRow(timestamp_ms, sequence, flags == _DELETED, columns)


def _name_of(cell: bytes) -> str:
    try:
        return cell[1:].decode()
    except UnicodeDecodeError as error:
        raise CorruptLog(
            f"stored row has a column {cell.hex()}, which is not a valid name"
        ) from error
