"""The binary protocol, strict form: fixed-size numbers, big endian.

Source: Apache Thrift 0.17, TBinaryProtocol, version 1. Readers and writers are made
once per type from its spec and kept in ``StructSpec.plans``.
"""

import struct
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

from opentalos.wire.thrift.codec import Header
from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.output import Output, counted, values_of
from opentalos.wire.thrift.reader import Cursor, built, enum_value, mismatch
from opentalos.wire.thrift.spec import StructSpec, ThriftType, TType

Read = Callable[[Cursor], Any]
Write = Callable[[bytearray, Any], None]

VERSION_1: Final = 0x80010000
_NUMBER: Final = {
    TType.BYTE: struct.Struct(">b"),
    TType.I16: struct.Struct(">h"),
    TType.I32: struct.Struct(">i"),
    TType.I64: struct.Struct(">q"),
    TType.DOUBLE: struct.Struct(">d"),
}
_U32: Final = struct.Struct(">I")
_I32: Final = _NUMBER[TType.I32]
_I16: Final = _NUMBER[TType.I16]
_unpack_i32: Final = _I32.unpack_from
_BYTES_MIN: Final[dict[int, int]] = {  # of one item; fixed size where it is a number
    TType.BOOL: 1,
    TType.BYTE: 1,
    TType.DOUBLE: 8,
    TType.I16: 2,
    TType.I32: 4,
    TType.I64: 8,
    TType.STRING: 4,
    TType.STRUCT: 1,
    TType.MAP: 6,
    TType.SET: 5,
    TType.LIST: 5,
}
_FIXED: Final = (TType.BOOL, TType.BYTE, TType.DOUBLE, TType.I16, TType.I32, TType.I64)


# --- reading ----------------------------------------------------------------------------------


def _number_reader(layout: struct.Struct) -> Read:
    size, unpack = layout.size, layout.unpack_from

    def read(cursor: Cursor) -> Any:
        value = unpack(cursor.data, cursor.position)[0]
        cursor.position += size
        return value

    return read


_read_i32 = _number_reader(_I32)
_read_i16 = _number_reader(_I16)


def _read_u8(cursor: Cursor) -> int:
    value = cursor.data[cursor.position]
    cursor.position += 1
    return value


def _read_bool(cursor: Cursor) -> bool:
    return _read_u8(cursor) != 0


def _read_bytes(cursor: Cursor) -> bytes:
    length: int = _unpack_i32(cursor.data, cursor.position)[0]
    cursor.position += 4
    return cursor.take(length)


def _read_text(cursor: Cursor) -> str:
    length: int = _unpack_i32(cursor.data, cursor.position)[0]
    cursor.position += 4
    return cursor.text(length)


def _reader(type_: ThriftType) -> Read:
    if type_.enum is not None:
        return lambda cursor: enum_value(type_, _read_i32(cursor))
    if type_.ttype in _NUMBER:
        return _number_reader(_NUMBER[type_.ttype])
    match type_.ttype:
        case TType.BOOL:
            return _read_bool
        case TType.STRING:
            return _read_text if type_.text else _read_bytes
        case TType.STRUCT:
            assert type_.struct is not None
            cls = type_.struct
            return lambda cursor: _read_struct(cursor, cls.SPEC)
        case TType.MAP:
            return _map_reader(type_)
        case _:
            return _items_reader(type_)


def _read_size(cursor: Cursor, *ttypes: int) -> int:
    """Size of a container whose items are of the given types."""
    size: int = _read_i32(cursor)
    least = 0
    for ttype in ttypes:
        known = _BYTES_MIN.get(ttype)
        if known is None and size:
            raise ThriftError(f"unknown item type before position {cursor.position}")
        least += known or 1
    return cursor.count(size, least)


def _items_reader(type_: ThriftType) -> Read:
    assert type_.item is not None
    read_item, wanted = _reader(type_.item), type_.item.ttype
    make = set if type_.ttype == TType.SET else list

    def read(cursor: Cursor) -> Any:
        ttype = _read_u8(cursor)
        size = _read_size(cursor, ttype)
        if size and ttype != wanted:
            raise ThriftError(f"a container has items of the wrong type {ttype}")
        cursor.enter()
        items = make([read_item(cursor) for _ in cursor.indexes(size)])
        cursor.depth += 1
        return items

    return read


def _map_reader(type_: ThriftType) -> Read:
    assert type_.key is not None
    assert type_.item is not None
    read_key, read_item = _reader(type_.key), _reader(type_.item)
    wanted = (type_.key.ttype, type_.item.ttype)

    def read(cursor: Cursor) -> dict[Any, Any]:
        ttypes = _read_u8(cursor), _read_u8(cursor)
        size = _read_size(cursor, *ttypes)
        if size and ttypes != wanted:
            raise ThriftError(f"a map has keys or values of the wrong type {ttypes}")
        cursor.enter()
        items = {read_key(cursor): read_item(cursor) for _ in cursor.indexes(size)}
        cursor.depth += 1
        return items

    return read


def _read_struct(cursor: Cursor, spec: StructSpec) -> Any:
    plan: dict[int, tuple[str, int, Read]] | None = spec.plans.get("binary")
    if plan is None:
        plan = {f.id: (f.name, f.type.ttype, _reader(f.type)) for f in spec.fields}
        spec.plans["binary"] = plan
    cursor.enter()
    values: dict[str, Any] = {}
    data, position = cursor.data, cursor.position
    while ttype := data[position]:
        # A negative id is no field of ours, so its sign makes no difference.
        number = data[position + 1] << 8 | data[position + 2]
        cursor.position = position + 3
        cursor.spend(1)
        field = plan.get(number)
        if field is None:
            _skip(cursor, ttype)
        else:
            name, wanted, read = field
            if ttype != wanted:
                raise mismatch(spec, name, ttype)
            values[name] = read(cursor)
        position = cursor.position
    cursor.position = position + 1
    cursor.depth += 1
    return built(spec, values)


def _skip(cursor: Cursor, ttype: int) -> None:
    """Pass over a value of an unknown field."""
    if ttype in _FIXED:
        cursor.take(_BYTES_MIN[ttype])
    elif ttype == TType.STRING:
        cursor.take(_read_i32(cursor))
    elif ttype in (TType.LIST, TType.SET):
        item = _read_u8(cursor)
        _skip_items(cursor, _read_size(cursor, item), item)
    elif ttype == TType.MAP:
        pair = _read_u8(cursor), _read_u8(cursor)
        _skip_items(cursor, _read_size(cursor, *pair), *pair)
    elif ttype == TType.STRUCT:
        cursor.enter()
        while inner := _read_u8(cursor):
            _read_i16(cursor)
            cursor.spend(1)
            _skip(cursor, inner)
        cursor.depth += 1
    else:
        raise ThriftError(f"unknown type {ttype} before position {cursor.position}")


def _skip_items(cursor: Cursor, size: int, *ttypes: int) -> None:
    cursor.enter()
    for _ in cursor.indexes(size):
        for ttype in ttypes:
            _skip(cursor, ttype)
    cursor.depth += 1


# --- writing ----------------------------------------------------------------------------------


def _number_writer(layout: struct.Struct) -> Write:
    def write(out: bytearray, value: Any) -> None:
        try:
            out += layout.pack(value)
        except struct.error as error:
            raise ThriftError(f"{value} does not fit its field: {error}") from None

    return write


_write_i32 = _number_writer(_I32)


def _write_bool(out: bytearray, value: bool) -> None:
    out.append(1 if value else 0)


def _write_bytes(out: bytearray, value: bytes) -> None:
    _write_i32(out, len(value))
    out += value


def _write_text(out: bytearray, value: str) -> None:
    _write_bytes(out, value.encode())


def _writer(type_: ThriftType) -> Write:
    if type_.ttype in _NUMBER:
        return _number_writer(_NUMBER[type_.ttype])
    match type_.ttype:
        case TType.BOOL:
            return _write_bool
        case TType.STRING:
            return _write_text if type_.text else _write_bytes
        case TType.STRUCT:
            assert type_.struct is not None
            cls = type_.struct
            return lambda out, value: _write_struct(out, cls.SPEC, value)
        case TType.MAP:
            return _map_writer(type_)
        case _:
            return _items_writer(type_)


def _items_writer(type_: ThriftType) -> Write:
    assert type_.item is not None
    write_item, ttype = _writer(type_.item), type_.item.ttype
    values = values_of(type_.item)

    def write(out: bytearray, value: Any) -> None:
        out.append(ttype)
        _write_i32(out, len(value))
        for item in counted(out, value, values):
            write_item(out, item)

    return write


def _map_writer(type_: ThriftType) -> Write:
    assert type_.key is not None
    assert type_.item is not None
    write_key, write_item = _writer(type_.key), _writer(type_.item)
    ttypes = (type_.key.ttype, type_.item.ttype)
    values = values_of(type_.key, type_.item)

    def write(out: bytearray, value: Mapping[Any, Any]) -> None:
        out.extend(ttypes)
        _write_i32(out, len(value))
        for key, item in counted(out, value.items(), values):
            write_key(out, key)
            write_item(out, item)

    return write


def _write_struct(out: bytearray, spec: StructSpec, value: Any) -> None:
    plan = spec.plans.get("binary_write")
    if plan is None:
        heads = [bytes((f.type.ttype,)) + _I16.pack(f.id) for f in spec.fields]
        plan = [(f, head, _writer(f.type)) for f, head in zip(spec.fields, heads, strict=True)]
        spec.plans["binary_write"] = plan
    for field, head, write in plan:
        item = getattr(value, field.name, None)
        if item is not None:
            out += head
            write(out, item)
        elif field.required:
            raise ThriftError(f"required field {field.name} of {spec.name} is not set")
    out.append(0)


class BinaryCodec:
    """The strict binary protocol as a Codec."""

    def read_header(self, cursor: Cursor) -> Header:
        """Version and kind in one word, then name and sequence id."""
        word = _U32.unpack_from(cursor.data, 0)[0]
        if word & 0xFFFFFF00 != VERSION_1:
            raise ThriftError("not a strict binary message: wrong version")
        cursor.position = 4
        name = _read_text(cursor)
        return Header(name, word & 0xFF, _read_i32(cursor))

    def read_struct(self, cursor: Cursor, spec: StructSpec) -> Any:
        """Read one struct."""
        return _read_struct(cursor, spec)

    def read_end(self, cursor: Cursor) -> None:
        """Nothing follows."""

    def write(
        self, out: Output, header: Header, spec: StructSpec, values: Mapping[str, Any]
    ) -> None:
        """Write a whole message."""
        out += _U32.pack(VERSION_1 | header.kind)
        _write_text(out, header.name)
        _write_i32(out, header.seqid)
        _write_struct(out, spec, SimpleNamespace(**values))
