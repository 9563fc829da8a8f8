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
from opentalos.wire.thrift.output import Output, counted, values_of
from opentalos.wire.thrift.reader import (
    PIECE_BYTES,
    Cursor,
    built,
    enum_value,
    mismatch,
    shown,
)
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
_CHARS: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)  # inside a string
_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_PADDING_MAX: Final = 8  # characters at the end of base64 that may be padding
_COMMA: Final = ord(",")
_BASE64_BYTES: Final = 48 << 10  # encoded at once; a multiple of 3
_BASE64_VALUES: Final = 512  # that so many bytes take as long as
_VALUE_CHARS: Final = 128  # of a text that take as long as a value


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


def _string(cursor: Cursor) -> bytes:
    """The inside of a string, with its escapes."""
    start = _space(cursor) + 1
    data = cursor.data
    if len(data) - start <= PIECE_BYTES:
        return _token(cursor, _STRING, "a string")[1]
    if data[start - 1 : start] != b'"':
        raise ThriftError(f"expected a string at position {start - 1}")
    position = start
    while True:
        match = _CHARS.match(data, position, position + PIECE_BYTES)
        assert match is not None
        end = match.end()
        if data[end : end + 1] == b'"':
            cursor.position = end + 1
            return data[start:end]
        if end == position:  # not even an escape and its character
            raise ThriftError(f"expected a string at position {start - 1}")
        position = end
        if cursor.pause is not None:
            cursor.pause()


def _read_text(cursor: Cursor) -> str:
    inside = _string(cursor)
    cursor.check_text(len(inside))
    try:
        plain = inside.decode()  # of bytes with a NUL json.loads would guess UTF-16 or UTF-32
        if "\\" not in plain:
            return plain
        text: str = json.loads(f'"{plain}"', strict=False)
        text.encode()  # refuses half of a surrogate pair
        return text
    except ValueError:
        raise ThriftError(f"bad string before position {cursor.position}") from None


def _read_bytes(cursor: Cursor) -> bytes:
    inside = _string(cursor)
    try:
        if len(inside) <= PIECE_BYTES:
            return _base64(inside.replace(b"\\/", b"/"))
        return _long_base64(cursor, inside)
    except binascii.Error:
        raise ThriftError(f"bad base64 before position {cursor.position}") from None


def _base64(data: bytes) -> bytes:
    data = data.rstrip(b"=")
    return binascii.a2b_base64(data + b"=" * (-len(data) % 4), strict_mode=True)


def _long_base64(cursor: Cursor, inside: bytes) -> bytes:
    """The same in pieces."""
    out, raw, chars = bytearray(), b"", b""
    for start in range(0, len(inside), PIECE_BYTES):
        raw += inside[start : start + PIECE_BYTES]
        end = len(raw) - raw.endswith(b"\\")  # without half of an escape
        chars += raw[:end].replace(b"\\/", b"/")
        raw = raw[end:]
        # Only of the last piece is it known where its padding begins.
        ready = max(len(chars) - _PADDING_MAX, 0) // 4 * 4
        if b"=" in chars[:ready]:
            raise binascii.Error("padding before the end")
        out += binascii.a2b_base64(chars[:ready], strict_mode=True)
        chars = chars[ready:]
        if cursor.pause is not None:
            cursor.pause()
    out += _base64(chars + raw)
    return bytes(out)


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
    for _ in cursor.indexes(size):
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
    for index in cursor.indexes(size):
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
        _string(cursor)
    elif ttype == TType.STRUCT:
        cursor.enter()
        for _, inner in _fields(cursor):
            _skip(cursor, inner)
        cursor.depth += 1
    elif ttype == TType.MAP:
        (key_ttype, item_ttype), size = _read_map_head(cursor)
        cursor.enter()
        for index in cursor.indexes(size):
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
        for _ in cursor.indexes(size):
            _expect(cursor, b",")
            _skip(cursor, item)
        cursor.depth += 1
        _expect(cursor, b"]")


# --- writing ----------------------------------------------------------------------------------


def _write(out: Output, type_: ThriftType, value: Any, key: bool = False) -> None:
    """Write a value; a number that is a map key is quoted."""
    ttype = type_.ttype
    if ttype in _BITS:
        out += b'"%d"' % value if key else b"%d" % value
        return
    match ttype:
        case TType.DOUBLE:
            out += _double_text(float(value), key).encode()
        case TType.STRING if type_.text:
            out.spend(len(value) // _VALUE_CHARS)
            out += json.dumps(value).encode()
        case TType.STRING:
            _write_bytes(out, value)
        case TType.STRUCT:
            assert type_.struct is not None
            _write_struct(out, type_.struct.SPEC, value)
        case TType.MAP:
            _write_map(out, type_, value)
        case _:
            assert type_.item is not None
            out += b'["%b",%d' % (_NAME[type_.item.ttype].encode(), len(value))
            for item in counted(out, value, values_of(type_.item)):
                out.append(_COMMA)
                _write(out, type_.item, item)
            out += b"]"


def _write_bytes(out: Output, value: bytes) -> None:
    out += b'"'
    if len(value) <= _BASE64_BYTES:
        out += binascii.b2a_base64(value, newline=False)
    else:
        for start in range(0, len(value), _BASE64_BYTES):
            out.spend(_BASE64_VALUES)
            out += binascii.b2a_base64(value[start : start + _BASE64_BYTES], newline=False)
    out += b'"'


def _double_text(value: float, key: bool) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return f'"{value!r}"' if key else repr(value)


def _write_map(out: Output, type_: ThriftType, value: Mapping[Any, Any]) -> None:
    assert type_.key is not None
    assert type_.item is not None
    key_type, item_type = type_.key, type_.item
    names = _NAME[key_type.ttype].encode(), _NAME[item_type.ttype].encode()
    out += b'["%b","%b",%d,{' % (*names, len(value))
    first = True
    for key, item in counted(out, value.items(), values_of(key_type, item_type)):
        if not first:
            out.append(_COMMA)
        first = False
        _write(out, key_type, key, key=True)
        out += b":"
        _write(out, item_type, item)
    out += b"}]"


def _write_struct(out: Output, spec: StructSpec, value: Any) -> None:
    plan = spec.plans.get("json_write")
    if plan is None:
        names = [_NAME[field.type.ttype] for field in spec.fields]
        heads = [
            f'"{field.id}":{{"{name}":'.encode()
            for field, name in zip(spec.fields, names, strict=True)
        ]
        plan = spec.plans["json_write"] = list(zip(spec.fields, heads, strict=True))
    out += b"{"
    first = True
    for field, head in plan:
        item = getattr(value, field.name, None)
        if item is not None:
            if not first:
                out.append(_COMMA)
            first = False
            out += head
            _write(out, field.type, item)
            out += b"}"
        elif field.required:
            raise ThriftError(f"required field {field.name} of {spec.name} is not set")
    out += b"}"


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

    def write(
        self, out: Output, header: Header, spec: StructSpec, values: Mapping[str, Any]
    ) -> None:
        """Write a whole message."""
        name = json.dumps(header.name)
        out += f"[{VERSION},{name},{header.kind},{header.seqid},".encode()
        _write_struct(out, spec, SimpleNamespace(**values))
        out += b"]"
