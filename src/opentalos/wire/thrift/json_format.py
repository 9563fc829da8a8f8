"""The JSON protocol of Apache Thrift (TJSONProtocol), read and written by the schema.

Not plain JSON: a struct that is a map key stands where JSON wants a string, so the text is scanned
here token by token. A field is ``"id":{"type":value}``, a list ``["type",size,...]``, a map
``["key type","value type",size,{...}]``; bytes are base64, bools 1 and 0.
"""

import binascii
import json
import math
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from opentalos.wire.thrift.codec import Header
from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.reader import Cursor, built, enum_value, mismatch, shown
from opentalos.wire.thrift.spec import StructSpec, ThriftType, TType

VERSION: Final = 1
_NAME: Final[dict[int, str]] = {
    TType.BOOL: "tf",
    TType.BYTE: "i8",
    TType.I16: "i16",
    TType.I32: "i32",
    TType.I64: "i64",
    TType.DOUBLE: "dbl",
    TType.STRING: "str",
    TType.STRUCT: "rec",
    TType.MAP: "map",
    TType.SET: "set",
    TType.LIST: "lst",
}
_TTYPE: Final = {name: ttype for ttype, name in _NAME.items()}
_BITS: Final = {TType.BOOL: 2, TType.BYTE: 8, TType.I16: 16, TType.I32: 32, TType.I64: 64}
_INT: Final = re.compile(rb"-?[0-9]{1,20}")
_FLOAT: Final = re.compile(rb"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][-+]?[0-9]{1,4})?")
_NOT_FINITE: Final = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "-Infinity": -math.inf,
}
_STRING: Final = re.compile(rb'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")


# --- reading ----------------------------------------------------------------------------------


def _space(cursor: Cursor) -> int:
    match = _SPACE.match(cursor.data, cursor.position)
    assert match is not None
    cursor.position = match.end()
    return cursor.position


def _peek(cursor: Cursor) -> bytes:
    """The next byte that is no space; empty at the end."""
    start = _space(cursor)
    return cursor.data[start : start + 1]


def _expect(cursor: Cursor, mark: bytes) -> None:
    found = _peek(cursor)
    if found != mark:
        raise ThriftError(
            f"expected {mark.decode()!r} at position {cursor.position}, "
            f"found {found.decode('latin-1')!r}"
        )
    cursor.position += 1


def _token(cursor: Cursor, pattern: re.Pattern[bytes], what: str) -> re.Match[bytes]:
    start = _space(cursor)
    match = pattern.match(cursor.data, start)
    if match is None:
        raise ThriftError(f"expected {what} at position {start}")
    cursor.position = match.end()
    return match


def _read_text(cursor: Cursor) -> str:
    match = _token(cursor, _STRING, "a string")
    try:
        if b"\\" not in match[1]:
            return match[1].decode()
        text: str = json.loads(match[0].decode(), strict=False)
        text.encode()  # refuses half of a surrogate pair
        return text
    except ValueError:
        raise ThriftError(f"bad string before position {cursor.position}") from None


def _read_bytes(cursor: Cursor) -> bytes:
    data = _token(cursor, _STRING, "base64 text")[1].replace(b"\\/", b"/").rstrip(b"=")
    try:
        return binascii.a2b_base64(data + b"=" * (-len(data) % 4), strict_mode=True)
    except binascii.Error:
        raise ThriftError(f"bad base64 before position {cursor.position}") from None


def _read_int(cursor: Cursor, bits: int, quoted: bool = False) -> int:
    if quoted:
        _expect(cursor, b'"')
    value = int(_token(cursor, _INT, "a whole number")[0])
    if quoted:
        _expect(cursor, b'"')
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ThriftError(f"a number before position {cursor.position} exceeds i{bits}")
    return value


def _read_double(cursor: Cursor) -> float:
    if _peek(cursor) != b'"':
        return float(_token(cursor, _FLOAT, "a number")[0])
    text = _read_text(cursor)
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    if not _FLOAT.fullmatch(text.encode()):
        raise ThriftError(f"bad number before position {cursor.position}")
    return float(text)


def _read_ttype(cursor: Cursor) -> int:
    name = _read_text(cursor)
    ttype = _TTYPE.get(name)
    if ttype is None:
        raise ThriftError(f"unknown type {shown(name)} before position {cursor.position}")
    return ttype


def _read_value(cursor: Cursor, type_: ThriftType, key: bool = False) -> Any:
    """A value of the schema's type; numbers are quoted where they are map keys."""
    ttype = type_.ttype
    if ttype in _BITS:
        value = _read_int(cursor, _BITS[ttype], key)
        return value != 0 if ttype == TType.BOOL else enum_value(type_, value)
    match ttype:
        case TType.DOUBLE:
            return _read_double(cursor)
        case TType.STRING:
            return _read_text(cursor) if type_.text else _read_bytes(cursor)
        case TType.STRUCT:
            assert type_.struct is not None
            return _read_struct(cursor, type_.struct.SPEC)
        case TType.MAP:
            return _read_map(cursor, type_)
        case _:
            return _read_items(cursor, type_)


def _read_size(cursor: Cursor) -> int:
    _expect(cursor, b",")
    return cursor.count(_read_int(cursor, 32), 2)


def _read_items(cursor: Cursor, type_: ThriftType) -> Any:
    assert type_.item is not None
    _expect(cursor, b"[")
    ttype, size = _read_ttype(cursor), _read_size(cursor)
    if size and ttype != type_.item.ttype:
        raise ThriftError(f"a container has items of the wrong type {_NAME[ttype]}")
    cursor.enter()
    items = []
    for _ in range(size):
        _expect(cursor, b",")
        items.append(_read_value(cursor, type_.item))
    cursor.depth += 1
    _expect(cursor, b"]")
    return set(items) if type_.ttype == TType.SET else items


def _read_map(cursor: Cursor, type_: ThriftType) -> dict[Any, Any]:
    assert type_.key is not None
    assert type_.item is not None
    ttypes, size = _read_map_head(cursor)
    if size and ttypes != (type_.key.ttype, type_.item.ttype):
        raise ThriftError("a map has keys or values of the wrong type")
    cursor.enter()
    items = {}
    for index in range(size):
        if index:
            _expect(cursor, b",")
        key = _read_value(cursor, type_.key, key=True)
        _expect(cursor, b":")
        items[key] = _read_value(cursor, type_.item)
    cursor.depth += 1
    _expect(cursor, b"}")
    _expect(cursor, b"]")
    return items


def _read_map_head(cursor: Cursor) -> tuple[tuple[int, int], int]:
    """Key and value type, and the size; ends behind the brace."""
    _expect(cursor, b"[")
    key = _read_ttype(cursor)
    _expect(cursor, b",")
    ttypes = key, _read_ttype(cursor)
    size = _read_size(cursor)
    _expect(cursor, b",")
    _expect(cursor, b"{")
    return ttypes, size


def _read_struct(cursor: Cursor, spec: StructSpec) -> Any:
    plan = spec.plans.get("json")
    if plan is None:
        plan = spec.plans["json"] = {f.id: f for f in spec.fields}
    cursor.enter()
    values: dict[str, Any] = {}
    for number, ttype in _fields(cursor):
        field = plan.get(number)
        if field is None:
            _skip(cursor, ttype)
        elif ttype != field.type.ttype:
            raise mismatch(spec, field.name, _NAME[ttype])
        else:
            values[field.name] = _read_value(cursor, field.type)
    cursor.depth += 1
    return built(spec, values)


def _fields(cursor: Cursor) -> Any:
    """Id and type of each field, with the cursor before the value that the caller must read."""
    _expect(cursor, b"{")
    first = True
    while _peek(cursor) != b"}":
        if not first:
            _expect(cursor, b",")
        first = False
        cursor.spend(1)
        number = _read_int(cursor, 16, quoted=True)
        _expect(cursor, b":")
        _expect(cursor, b"{")
        ttype = _read_ttype(cursor)
        _expect(cursor, b":")
        yield number, ttype
        _expect(cursor, b"}")
    cursor.position += 1


def _skip(cursor: Cursor, ttype: int, key: bool = False) -> None:
    """Pass over a value of an unknown field."""
    if ttype in _BITS:
        _read_int(cursor, 64, key)
    elif ttype == TType.DOUBLE:
        _read_double(cursor)
    elif ttype == TType.STRING:
        _token(cursor, _STRING, "a string")
    elif ttype == TType.STRUCT:
        cursor.enter()
        for _, inner in _fields(cursor):
            _skip(cursor, inner)
        cursor.depth += 1
    elif ttype == TType.MAP:
        (key_ttype, item_ttype), size = _read_map_head(cursor)
        cursor.enter()
        for index in range(size):
            if index:
                _expect(cursor, b",")
            _skip(cursor, key_ttype, key=True)
            _expect(cursor, b":")
            _skip(cursor, item_ttype)
        cursor.depth += 1
        _expect(cursor, b"}")
        _expect(cursor, b"]")
    else:
        _expect(cursor, b"[")
        item, size = _read_ttype(cursor), _read_size(cursor)
        cursor.enter()
        for _ in range(size):
            _expect(cursor, b",")
            _skip(cursor, item)
        cursor.depth += 1
        _expect(cursor, b"]")


# --- writing ----------------------------------------------------------------------------------


def _text(type_: ThriftType, value: Any, key: bool = False) -> str:
    """A value as text; a number that is a map key is quoted."""
    ttype = type_.ttype
    if ttype in _BITS:
        return f'"{int(value)}"' if key else str(int(value))
    match ttype:
        case TType.DOUBLE:
            return _double_text(float(value), key)
        case TType.STRING:
            return json.dumps(value) if type_.text else _bytes_text(value)
        case TType.STRUCT:
            assert type_.struct is not None
            return _struct_text(type_.struct.SPEC, value)
        case TType.MAP:
            return _map_text(type_, value)
        case _:
            assert type_.item is not None
            parts = [f'"{_NAME[type_.item.ttype]}"', str(len(value))]
            parts += [_text(type_.item, item) for item in value]
            return f"[{','.join(parts)}]"


def _bytes_text(value: bytes) -> str:
    return f'"{binascii.b2a_base64(value, newline=False).decode()}"'


def _double_text(value: float, key: bool) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return f'"{value!r}"' if key else repr(value)


def _map_text(type_: ThriftType, value: Mapping[Any, Any]) -> str:
    assert type_.key is not None
    assert type_.item is not None
    key_type, item_type = type_.key, type_.item
    pairs = [
        f"{_text(key_type, key, key=True)}:{_text(item_type, item)}" for key, item in value.items()
    ]
    names = f'"{_NAME[key_type.ttype]}","{_NAME[item_type.ttype]}"'
    return f"[{names},{len(value)},{{{','.join(pairs)}}}]"


def _struct_text(spec: StructSpec, value: Any) -> str:
    parts = []
    for field in spec.fields:
        item = getattr(value, field.name, None)
        if item is not None:
            name = _NAME[field.type.ttype]
            parts.append(f'"{field.id}":{{"{name}":{_text(field.type, item)}}}')
        elif field.required:
            raise ThriftError(f"required field {field.name} of {spec.name} is not set")
    return f"{{{','.join(parts)}}}"


class JsonCodec:
    """The Apache JSON protocol as a Codec."""

    def read_header(self, cursor: Cursor) -> Header:
        """``[1,"name",kind,seqid,``."""
        _expect(cursor, b"[")
        if _read_int(cursor, 32) != VERSION:
            raise ThriftError("not a Thrift JSON message: wrong version")
        _expect(cursor, b",")
        name = _read_text(cursor)
        _expect(cursor, b",")
        kind = _read_int(cursor, 32)
        _expect(cursor, b",")
        seqid = _read_int(cursor, 32)
        _expect(cursor, b",")
        return Header(name, kind, seqid)

    def read_struct(self, cursor: Cursor, spec: StructSpec) -> Any:
        """Read one struct."""
        return _read_struct(cursor, spec)

    def read_end(self, cursor: Cursor) -> None:
        """The closing bracket."""
        _expect(cursor, b"]")
        _space(cursor)

    def write(self, header: Header, spec: StructSpec, values: Mapping[str, Any]) -> bytes:
        """A whole message."""
        body = _struct_text(spec, SimpleNamespace(**values))
        name = json.dumps(header.name)
        return f"[{VERSION},{name},{header.kind},{header.seqid},{body}]".encode()
