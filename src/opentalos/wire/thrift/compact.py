"""The compact protocol: varints, zigzag numbers and field ids as differences.

Source: Apache Thrift 0.17, TCompactProtocol, version 1. Readers and writers are made
once per type from its spec and kept in ``StructSpec.plans``.
"""

import struct
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

from opentalos.wire.thrift.codec import Header
from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.output import APART_BYTES, Output, counted, values_of
from opentalos.wire.thrift.reader import Cursor, built, enum_value, mismatch
from opentalos.wire.thrift.spec import StructSpec, ThriftType, TType

Read = Callable[[Cursor], Any]
Write = Callable[[bytearray, Any], None]

PROTOCOL_ID: Final = 0x82
VERSION: Final = 1
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
CODE: Final[dict[TType, int]] = {
    TType.BOOL: TRUE,
    TType.BYTE: BYTE,
    TType.I16: I16,
    TType.I32: I32,
    TType.I64: I64,
    TType.DOUBLE: DOUBLE,
    TType.STRING: BINARY,
    TType.LIST: LIST,
    TType.SET: SET,
    TType.MAP: MAP,
    TType.STRUCT: STRUCT,
}
_BITS: Final = {TType.I16: 16, TType.I32: 32, TType.I64: 64}
_LONG_SIZE: Final = 15  # in a list's head: the size follows as varint
STOP: Final = b"\0"  # ends a struct
_DELTA_MAX: Final = 15  # in a field's head; a larger step has the id itself
ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))  # varints
_double = struct.Struct("<d")


# --- reading ----------------------------------------------------------------------------------


def read_varint(cursor: Cursor) -> int:
    """An unsigned number of at most 64 bits."""
    data, position = cursor.data, cursor.position
    byte = data[position]
    value, shift = byte & 0x7F, 7
    while byte & 0x80:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            break
    if value >> 64:
        raise ThriftError(f"the number at position {cursor.position} is longer than 64 bits")
    cursor.position = position + 1
    return value


def _int_reader(bits: int) -> Read:
    limit = 1 << bits  # of the zigzag form

    def read(cursor: Cursor) -> int:
        value = read_varint(cursor)
        if value >= limit:
            raise ThriftError(f"a number before position {cursor.position} exceeds i{bits}")
        return (value >> 1) ^ -(value & 1)

    return read


_read_i16 = _int_reader(16)


def _read_byte(cursor: Cursor) -> int:
    value = cursor.data[cursor.position]
    cursor.position += 1
    return value - 256 if value > 127 else value


def _read_bool(cursor: Cursor) -> bool:
    """A bool inside a container; in a struct it is part of the field's head."""
    return _read_byte(cursor) == TRUE


def _read_double(cursor: Cursor) -> float:
    value: float = _double.unpack(cursor.take(8))[0]
    return value


def _read_bytes(cursor: Cursor) -> bytes | memoryview:
    return cursor.take_binary(read_varint(cursor))


def _read_text(cursor: Cursor) -> str:
    return cursor.text(read_varint(cursor))


def _reader(type_: ThriftType) -> Read:
    """The reader of a type, outside of a struct's field head."""
    if type_.enum is not None:
        read_int = _int_reader(32)
        return lambda cursor: enum_value(type_, read_int(cursor))
    if type_.ttype in _BITS:
        return _int_reader(_BITS[type_.ttype])
    match type_.ttype:
        case TType.BOOL:
            return _read_bool
        case TType.BYTE:
            return _read_byte
        case TType.DOUBLE:
            return _read_double
        case TType.STRING:
            return _read_text if type_.text else _read_bytes
        case TType.STRUCT:
            assert type_.struct is not None
            cls = type_.struct
            return lambda cursor: read_struct(cursor, cls.SPEC)
        case TType.MAP:
            return _map_reader(type_)
        case _:
            return _items_reader(type_)


def _read_size(cursor: Cursor) -> tuple[int, int]:
    """Size and item type of a list or set."""
    head = cursor.data[cursor.position]
    cursor.position += 1
    size, code = head >> 4, head & 15
    if size == _LONG_SIZE:
        size = read_varint(cursor)
    return cursor.count(size, 1), code


def _items_reader(type_: ThriftType) -> Read:
    assert type_.item is not None
    read_item, wanted = _reader(type_.item), CODE[type_.item.ttype]
    make = set if type_.ttype == TType.SET else list

    def read(cursor: Cursor) -> Any:
        size, code = _read_size(cursor)
        if size and not _same(code, wanted):
            raise ThriftError(f"a container has items of the wrong type {code}")
        cursor.enter()
        items = make([read_item(cursor) for _ in cursor.indexes(size)])
        cursor.depth += 1
        return items

    return read


def _map_reader(type_: ThriftType) -> Read:
    assert type_.key is not None
    assert type_.item is not None
    read_key, key_code = _reader(type_.key), CODE[type_.key.ttype]
    read_item, item_code = _reader(type_.item), CODE[type_.item.ttype]

    def read(cursor: Cursor) -> dict[Any, Any]:
        size = cursor.count(read_varint(cursor), 2)
        if not size:
            return {}
        codes = cursor.data[cursor.position]
        cursor.position += 1
        if not (_same(codes >> 4, key_code) and _same(codes & 15, item_code)):
            raise ThriftError(f"a map has keys or values of the wrong type {codes:#x}")
        cursor.enter()
        items = {read_key(cursor): read_item(cursor) for _ in cursor.indexes(size)}
        cursor.depth += 1
        return items

    return read


def _same(code: int, wanted: int) -> bool:
    """Whether a container's item type is the schema's; writers disagree on that of bool."""
    return code == wanted or (code == FALSE and wanted == TRUE)


def _read_plan(spec: StructSpec) -> dict[int, tuple[str, int, Read]]:
    plan: dict[int, tuple[str, int, Read]] | None = spec.plans.get("compact")
    if plan is None:
        plan = {f.id: (f.name, CODE[f.type.ttype], _reader(f.type)) for f in spec.fields}
        spec.plans["compact"] = plan
    return plan


def read_struct(cursor: Cursor, spec: StructSpec, last: int = 0) -> Any:
    """Read a struct whose previous field had the id ``last``."""
    plan = _read_plan(spec)
    cursor.enter()
    values: dict[str, Any] = {}
    data = cursor.data
    while True:
        head = data[cursor.position]
        cursor.position += 1
        code = head & 15
        if not code:
            break
        delta = head >> 4
        last = last + delta if delta else _read_i16(cursor)
        cursor.spend(1)
        field = plan.get(last)
        if field is None:
            _skip_field(cursor, code)
            continue
        name, wanted, read = field
        if wanted == TRUE:
            if code > FALSE:
                raise mismatch(spec, name, code)
            values[name] = code == TRUE
        elif code != wanted:
            raise mismatch(spec, name, code)
        else:
            values[name] = read(cursor)
    cursor.depth += 1
    return built(spec, values)


def _skip_field(cursor: Cursor, code: int) -> None:
    if code > FALSE:
        _skip(cursor, code)


def _skip(cursor: Cursor, code: int) -> None:
    """Pass over a value of an unknown field."""
    if code <= BYTE:
        cursor.take(1)
    elif code <= I64:
        read_varint(cursor)
    elif code == DOUBLE:
        cursor.take(8)
    elif code == BINARY:
        cursor.take(read_varint(cursor))
    elif code in (LIST, SET):
        size, item = _read_size(cursor)
        _skip_items(cursor, size, item)
    elif code == MAP:
        size = cursor.count(read_varint(cursor), 2)
        if size:
            codes = cursor.data[cursor.position]
            cursor.position += 1
            _skip_items(cursor, size, codes >> 4, codes & 15)
    elif code == STRUCT:
        _skip_struct(cursor)
    else:
        raise ThriftError(f"unknown type {code} before position {cursor.position}")


def _skip_items(cursor: Cursor, size: int, *codes: int) -> None:
    if size and not all(codes):
        raise ThriftError("a container of items without a type")
    cursor.enter()
    for _ in cursor.indexes(size):
        for code in codes:
            _skip(cursor, code)
    cursor.depth += 1


def _skip_struct(cursor: Cursor) -> None:
    cursor.enter()
    while True:
        head = cursor.data[cursor.position]
        cursor.position += 1
        code = head & 15
        if not code:
            break
        if not head >> 4:
            _read_i16(cursor)
        cursor.spend(1)
        _skip_field(cursor, code)
    cursor.depth += 1


# --- writing ----------------------------------------------------------------------------------


def write_varint(out: bytearray, value: int) -> None:
    """Write an unsigned number."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def varint(value: int) -> bytes:
    """An unsigned number by itself; quick for lengths and times."""
    if value < 0x80:
        return ONE_BYTE[value]
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    if 1 << 35 <= value < 1 << 42:  # times in ms of this century
        return bytes(
            (
                value & 0x7F | 0x80,
                value >> 7 & 0x7F | 0x80,
                value >> 14 & 0x7F | 0x80,
                value >> 21 & 0x7F | 0x80,
                value >> 28 & 0x7F | 0x80,
                value >> 35,
            )
        )
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def _int_writer(bits: int) -> Write:
    limit = 1 << (bits - 1)

    def write(out: bytearray, value: int) -> None:
        if not -limit <= value < limit:
            raise ThriftError(f"{value} exceeds i{bits}")
        write_varint(out, (value << 1) ^ (value >> 63))

    return write


def _write_byte(out: bytearray, value: int) -> None:
    if not -128 <= value < 128:
        raise ThriftError(f"{value} exceeds i8")
    out.append(value & 0xFF)


def _write_bool(out: bytearray, value: bool) -> None:
    out.append(TRUE if value else FALSE)


def _write_double(out: bytearray, value: float) -> None:
    out += _double.pack(value)


def _write_bytes(out: bytearray, value: bytes) -> None:
    write_varint(out, len(value))
    if len(value) >= APART_BYTES and isinstance(out, Output) and out.in_parts:
        out.set_apart(value)
    else:
        out += value


def write_text(out: bytearray, value: str) -> None:
    """Write text with its length."""
    _write_bytes(out, value.encode())


def writer_of(type_: ThriftType) -> Write:
    """The writer of a type, outside of a struct's field head."""
    if type_.ttype in _BITS:
        return _int_writer(_BITS[type_.ttype])
    match type_.ttype:
        case TType.BOOL:
            return _write_bool
        case TType.BYTE:
            return _write_byte
        case TType.DOUBLE:
            return _write_double
        case TType.STRING:
            return write_text if type_.text else _write_bytes
        case TType.STRUCT:
            assert type_.struct is not None
            cls = type_.struct
            return lambda out, value: write_struct(out, cls.SPEC, value)
        case TType.MAP:
            return _map_writer(type_)
        case _:
            return _items_writer(type_)


def _items_writer(type_: ThriftType) -> Write:
    assert type_.item is not None
    write_item, code = writer_of(type_.item), CODE[type_.item.ttype]
    values = values_of(type_.item)

    def write(out: bytearray, value: Any) -> None:
        size = len(value)
        if size < _LONG_SIZE:
            out.append(size << 4 | code)
        else:
            out.append(_LONG_SIZE << 4 | code)
            write_varint(out, size)
        for item in counted(out, value, values):
            write_item(out, item)

    return write


def _map_writer(type_: ThriftType) -> Write:
    assert type_.key is not None
    assert type_.item is not None
    write_key, key_code = writer_of(type_.key), CODE[type_.key.ttype]
    write_item, item_code = writer_of(type_.item), CODE[type_.item.ttype]
    values = values_of(type_.key, type_.item)

    def write(out: bytearray, value: Mapping[Any, Any]) -> None:
        write_varint(out, len(value))
        if value:
            out.append(key_code << 4 | item_code)
        for key, item in counted(out, value.items(), values):
            write_key(out, key)
            write_item(out, item)

    return write


def field_head(field_id: int, code: int, last: int = 0) -> bytes:
    """Head of a field; the one before it had the id ``last``."""
    delta = field_id - last
    if 0 < delta <= _DELTA_MAX:
        return bytes((delta << 4 | code,))
    return bytes((code,)) + varint((field_id << 1) ^ (field_id >> 63))


def write_struct(out: bytearray, spec: StructSpec, value: Any, last: int = 0) -> None:
    """Write a struct's set fields and its end; the previous field had the id ``last``."""
    plan = spec.plans.get("compact_write")
    if plan is None:
        plan = [(f, CODE[f.type.ttype], writer_of(f.type)) for f in spec.fields]
        spec.plans["compact_write"] = plan
    for field, code, write in plan:
        item = getattr(value, field.name, None)
        if item is None:
            if field.required:
                raise ThriftError(f"required field {field.name} of {spec.name} is not set")
            continue
        if code == TRUE and not item:
            code = FALSE
        delta = field.id - last
        if 0 < delta <= _DELTA_MAX:
            out.append(delta << 4 | code)
        else:
            out += field_head(field.id, code, last)
        last = field.id
        if code > FALSE:
            write(out, item)
    out.append(0)


class CompactCodec:
    """The compact protocol as a Codec."""

    def read_header(self, cursor: Cursor) -> Header:
        """Two bytes of protocol, version and kind, then sequence id and name."""
        data = cursor.data
        if data[0] != PROTOCOL_ID or data[1] & 0x1F != VERSION:
            raise ThriftError("not a compact message: wrong protocol id or version")
        cursor.position = 2
        seqid = read_varint(cursor)
        if seqid >> 32:
            raise ThriftError("the sequence id exceeds 32 bits")
        seqid = seqid - (1 << 32) if seqid >> 31 else seqid
        return Header(_read_text(cursor), data[1] >> 5, seqid)

    def read_struct(self, cursor: Cursor, spec: StructSpec) -> Any:
        """Read one struct."""
        return read_struct(cursor, spec)

    def read_end(self, cursor: Cursor) -> None:
        """Nothing follows."""

    def write(
        self, out: Output, header: Header, spec: StructSpec, values: Mapping[str, Any]
    ) -> None:
        """Write a whole message."""
        out += bytes((PROTOCOL_ID, header.kind << 5 | VERSION))
        write_varint(out, header.seqid & 0xFFFFFFFF)
        write_text(out, header.name)
        write_struct(out, spec, SimpleNamespace(**values))
