"""Whole messages: calls, replies and exceptions in the three protocols."""

import struct
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from opentalos.wire.thrift.binary import BinaryCodec
from opentalos.wire.thrift.codec import Codec, Header
from opentalos.wire.thrift.compact import CompactCodec
from opentalos.wire.thrift.error import ApplicationError, ApplicationErrorKind, ThriftError
from opentalos.wire.thrift.json_format import JsonCodec
from opentalos.wire.thrift.reader import CALL_VALUES_MAX, REPLY_VALUES_MAX, Cursor, shown
from opentalos.wire.thrift.spec import (
    I32,
    STRING,
    Field,
    MethodSpec,
    ServiceSpec,
    StructSpec,
    ThriftStruct,
)


class ThriftProtocol(Enum):
    """The three encodings; the value is the content type.

    Source: docs/protocol/wire.md#content-types.
    """

    COMPACT = "application/x-thrift-compact"
    BINARY = "application/x-thrift-binary"
    JSON = "application/x-thrift-json"


class MessageKind(IntEnum):
    """Type of a Thrift message."""

    CALL = 1
    REPLY = 2
    EXCEPTION = 3
    ONEWAY = 4


class Call(NamedTuple):
    """A decoded call; ``arguments`` in the order of the method's fields."""

    method: MethodSpec
    seqid: int
    arguments: tuple[Any, ...]

    @property
    def request(self) -> Any:
        """The first argument, which is the only one of a Talos RPC; None without arguments."""
        return self.arguments[0] if self.arguments else None


class Reply(NamedTuple):
    """A decoded reply: the result (None for void), or the exception the method declares."""

    seqid: int
    result: Any
    error: ThriftStruct | None


_CODECS: Final[dict[ThriftProtocol, Codec]] = {
    ThriftProtocol.COMPACT: CompactCodec(),
    ThriftProtocol.BINARY: BinaryCodec(),
    ThriftProtocol.JSON: JsonCodec(),
}
_BY_CONTENT_TYPE: Final = {protocol.value: protocol for protocol in ThriftProtocol} | {
    "application/x-thrift": ThriftProtocol.JSON  # an alias
}
# Source: Apache Thrift 0.17, TApplicationException.
_EXCEPTION_SPEC: Final = StructSpec(
    "TApplicationException", (Field(1, "message", STRING), Field(2, "type", I32)), dict
)


def protocol_of(content_type: str) -> ThriftProtocol | None:
    """Protocol of a content type, parameters and case ignored; None for any other."""
    return _BY_CONTENT_TYPE.get(content_type.partition(";")[0].strip().lower())


def decode_call(
    protocol: ThriftProtocol, service: ServiceSpec, body: bytes, *, partial: bool = False
) -> Call:
    """Decode a request body.

    Args:    partial: a missing argument is None.
    Raises:  ThriftError: malformed; answer with HTTP 400. ApplicationError (a ThriftError):
             readable but unknown method, wrong message type or missing argument; answer with
             ``encode_exception`` of its name, seqid, kind and text.
    """
    return _guarded(_decode_part if partial else _decode_call, protocol, service, body)


def _decode_call(codec: Codec, service: ServiceSpec, body: bytes) -> Call:
    call = _decode_part(codec, service, body)
    for field, value in zip(call.method.arguments, call.arguments, strict=True):
        if value is None:
            text = f"{call.method.name} misses its argument {field.name!r}"
            kind = ApplicationErrorKind.PROTOCOL_ERROR
            raise ApplicationError(call.method.name, call.seqid, kind, text)
    return call


def _decode_part(codec: Codec, service: ServiceSpec, body: bytes) -> Call:
    cursor = Cursor(body, CALL_VALUES_MAX)
    name, kind, seqid = codec.read_header(cursor)
    if kind != MessageKind.CALL:
        text = f"message type {kind} is not a call"
        raise ApplicationError(name, seqid, ApplicationErrorKind.INVALID_MESSAGE_TYPE, text)
    method = service.methods.get(name)
    if method is None:
        text = f"{service.name} has no method {shown(name)}"
        raise ApplicationError(name, seqid, ApplicationErrorKind.UNKNOWN_METHOD, text)
    values = codec.read_struct(cursor, method.args_spec)
    _finish(codec, cursor)
    return Call(method, seqid, tuple(values.get(field.name) for field in method.arguments))


def decode_reply(protocol: ThriftProtocol, method: MethodSpec, body: bytes) -> Reply:
    """Decode a reply body. Raises: ThriftError; ApplicationError for a TApplicationException."""
    return _guarded(_decode_reply, protocol, method, body)


def _decode_reply(codec: Codec, method: MethodSpec, body: bytes) -> Reply:
    cursor = Cursor(body, REPLY_VALUES_MAX)
    name, kind, seqid = codec.read_header(cursor)
    if kind == MessageKind.EXCEPTION:
        values = codec.read_struct(cursor, _EXCEPTION_SPEC)
        _finish(codec, cursor)
        code = values.get("type", ApplicationErrorKind.UNKNOWN)
        raise ApplicationError(name, seqid, code, values.get("message", ""))
    if kind != MessageKind.REPLY or name != method.name:
        raise ThriftError(f"message {shown(name)} of type {kind} is no reply to {method.name}")
    values = codec.read_struct(cursor, method.result_spec)
    _finish(codec, cursor)
    result, error = values.get("success"), values.get("error")
    if method.result is not None and result is None and error is None:
        raise ThriftError(f"the reply to {name} holds neither result nor exception")
    return Reply(seqid, result, error)


_Schema = TypeVar("_Schema")
_Decoded = TypeVar("_Decoded")


def _guarded(
    decode: Callable[[Codec, _Schema, bytes], _Decoded],
    protocol: ThriftProtocol,
    schema: _Schema,
    body: bytes,
) -> _Decoded:
    """Turn the errors of reading past the end into ThriftError."""
    try:
        return decode(_CODECS[protocol], schema, body)
    except (IndexError, struct.error):
        raise ThriftError(f"the message ends after {len(body)} bytes, in the middle") from None


def _finish(codec: Codec, cursor: Cursor) -> None:
    codec.read_end(cursor)
    left = len(cursor.data) - cursor.position
    if left:
        raise ThriftError(f"{left} bytes follow the end of the message")


def encode_call(protocol: ThriftProtocol, method: MethodSpec, seqid: int, *arguments: Any) -> bytes:
    """Encode a call. Raises: ThriftError if a value does not fit the schema."""
    values = {f.name: value for f, value in zip(method.arguments, arguments, strict=True)}
    header = Header(method.name, MessageKind.CALL, seqid)
    return _CODECS[protocol].write(header, method.args_spec, values)


def encode_reply(protocol: ThriftProtocol, method: MethodSpec, seqid: int, result: Any) -> bytes:
    """Encode a successful reply; ``result`` is None for a void method."""
    if (method.result is None) != (result is None):
        raise ThriftError(f"{method.name} got a result that does not fit its schema")
    header = Header(method.name, MessageKind.REPLY, seqid)
    return _CODECS[protocol].write(header, method.result_spec, {"success": result})


def encode_error(
    protocol: ThriftProtocol, method: MethodSpec, seqid: int, error: ThriftStruct
) -> bytes:
    """Encode the declared exception as a reply, or as TApplicationException if none is declared."""
    if method.error is None:
        text = str(getattr(error, "errMsg", "") or "")
        kind = ApplicationErrorKind.INTERNAL_ERROR
        return encode_exception(protocol, method.name, seqid, kind, text)
    header = Header(method.name, MessageKind.REPLY, seqid)
    return _CODECS[protocol].write(header, method.result_spec, {"error": error})


def encode_exception(
    protocol: ThriftProtocol, name: str, seqid: int, kind: ApplicationErrorKind | int, text: str
) -> bytes:
    """Encode a TApplicationException."""
    header = Header(name, MessageKind.EXCEPTION, seqid)
    return _CODECS[protocol].write(header, _EXCEPTION_SPEC, {"message": text, "type": int(kind)})
