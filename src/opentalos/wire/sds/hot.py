"""Fast decoding of the most frequent SDS calls: put and get in the binary protocol.

The bytes up to a value name its type and its branch of the union, so a value is one table
look-up and one read. Every other form, and every error, is left to the generic codec.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import ValidationFailed
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import CheckedColumns, branch_of, to_single
from opentalos.wire.thrift.message import Call, ThriftProtocol, encode_reply
from opentalos.wire.thrift.spec import MethodSpec, TType

_HEADER: Final = b"\x80\x01\x00\x01"  # strict binary, a call
_REQUEST: Final = b"\x0c\x00\x01\x0b\x00\x01"  # argument 1, its field 1: the table's name
_COLUMNS: Final = b"\x0d\x00\x02\x0b\x0c"  # field 2: a map of text to structs
_END: Final = b"\0\0"  # of two structs
_COLUMNS_MAX: Final = 512
_i32: Final = struct.Struct(">i")
_u32: Final = struct.Struct(">I")
_METHODS: Final = sds.SERVICES["TableService"].methods

_Read = Callable[[bytes, int], tuple[Any, int]]


class _NotPlain(Exception):
    """Not of the plain form."""


def _fixed(layout: struct.Struct) -> _Read:
    size, unpack = layout.size, layout.unpack_from
    return lambda data, position: (unpack(data, position)[0], position + size)


_double: Final = _fixed(struct.Struct(">d"))


def _float(data: bytes, position: int) -> tuple[Any, int]:
    value, position = _double(data, position)
    return to_single(value), position


def _bytes(data: bytes, position: int) -> tuple[bytes, int]:
    start = position + 4
    end = start + _u32.unpack_from(data, position)[0]
    if end > len(data):
        raise _NotPlain
    return data[start:end], end


def _text(data: bytes, position: int) -> tuple[str, int]:
    value, position = _bytes(data, position)
    return value.decode(), position


_READERS: Final[Mapping[DataType, _Read]] = {
    DataType.BOOL: _fixed(struct.Struct("?")),
    DataType.INT8: _fixed(struct.Struct(">b")),
    DataType.INT16: _fixed(struct.Struct(">h")),
    DataType.INT32: _fixed(_i32),
    DataType.INT64: _fixed(struct.Struct(">q")),
    DataType.FLOAT: _float,
    DataType.DOUBLE: _double,
    DataType.STRING: _text,
    DataType.BINARY: _bytes,
    DataType.RAWBINARY: _bytes,
}


def _before(type_: DataType) -> bytes:
    """Everything of a Datum up to its value."""
    (field,) = (field for field in sds.Value.SPEC.fields if field.name == branch_of(type_))
    kind = bytes((TType.I32, 0, 1)) + _i32.pack(type_)
    return kind + bytes((TType.STRUCT, 0, 2, field.type.ttype, 0, field.id))


_BEFORE_BYTES: Final = len(_before(DataType.BOOL))
_VALUES: Final = {_before(type_): (type_, read) for type_, read in _READERS.items()}


class _Rpc(NamedTuple):
    method: MethodSpec
    make: Callable[[str, Any], Any]  # the request of a table's name and its columns


_RPCS: Final = {
    b"put": _Rpc(_METHODS["put"], lambda name, found: sds.PutRequest(tableName=name, record=found)),
    b"get": _Rpc(_METHODS["get"], lambda name, found: sds.GetRequest(tableName=name, keys=found)),
}


_REPLIES: Final = {
    success: encode_reply(ThriftProtocol.BINARY, _METHODS["put"], 0, sds.PutResult(success=success))
    for success in (False, True)
}
_SEQID: Final = len(_HEADER) + 4 + len(b"put")  # where it stands in them


def put_reply(seqid: int, *, success: bool) -> bytes:
    """The reply to a put in the binary protocol."""
    reply = _REPLIES[success]
    return reply[:_SEQID] + _i32.pack(seqid) + reply[_SEQID + _i32.size :]


def decode_hot(body: bytes) -> Call | None:
    """A put or get without condition and attributes; None: for the generic codec.

    Its columns are ``CheckedColumns`` in the place of structs.
    """
    if body[:4] != _HEADER:
        return None
    rpc = _RPCS.get(body[8:11])
    if rpc is None or body[4:8] != b"\0\0\0\x03":
        return None
    try:
        return _decode(rpc, body)
    except (_NotPlain, ValidationFailed, struct.error, UnicodeDecodeError):
        return None


def _decode(rpc: _Rpc, body: bytes) -> Call:
    seqid = _i32.unpack_from(body, 11)[0]
    if body[15:21] != _REQUEST:
        raise _NotPlain
    table, position = _text(body, 21)
    if body[position : position + 5] != _COLUMNS:
        raise _NotPlain
    count = _u32.unpack_from(body, position + 5)[0]
    if count > _COLUMNS_MAX:
        raise _NotPlain
    columns, position = CheckedColumns(), position + 9
    for _ in range(count):
        name, position = _text(body, position)
        found = _VALUES.get(body[position : position + _BEFORE_BYTES])
        if found is None:
            raise _NotPlain
        type_, read = found
        value, position = read(body, position + _BEFORE_BYTES)
        if body[position : position + 2] != _END:
            raise _NotPlain
        columns[name] = Datum(type_, value)
        position += 2
    if body[position:] != _END:
        raise _NotPlain
    return Call(rpc.method, seqid, (rpc.make(table, columns),))
