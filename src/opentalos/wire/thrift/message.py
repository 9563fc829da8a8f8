"""Whole messages: calls, replies and exceptions in the three protocols."""

import struct
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple

from opentalos.wire.thrift.binary import BinaryCodec
from opentalos.wire.thrift.codec import Codec, Header
from opentalos.wire.thrift.compact import CompactCodec
from opentalos.wire.thrift.error import (
    ApplicationError,
    ApplicationErrorKind,
    LongMessage,
    ThriftError,
    TooManyValues,
)
from opentalos.wire.thrift.json_format import JsonCodec
from opentalos.wire.thrift.output import Output
from opentalos.wire.thrift.reader import (
    CALL_TEXT_BYTES_MAX,
    CALL_VALUES_MAX,
    PIECE_BYTES,
    PIECE_VALUES,
    REPLY_VALUES_MAX,
    Cursor,
    shown,
)
from opentalos.wire.thrift.spec import (
    I32,
    STRING,
    Field,
    MethodSpec,
    ServiceSpec,
    StructSpec,
    ThriftStruct,
)

SHORT_VALUES: Final = 1 << 9  # decoded at once; most calls have fewer than 100
SHORT_REPLY_VALUES: Final = 1 << 10  # encoded at once; it counts fields that are left out, too
_JSON_FACTOR: Final = 8  # how much longer a value takes to decode there, about
_SHORT_COMMAS: Final = 512  # of a JSON message that is decoded at once, in at most 4 ms
Pause = Callable[[], None]  # called after each piece of about 1 ms


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


class LongCall(LongMessage):
    """A call that takes long to decode: what its first bytes say."""

    def __init__(self, method: MethodSpec, seqid: int) -> None:
        super().__init__(method.name)
        self.method, self.seqid = method, seqid


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
    protocol: ThriftProtocol,
    service: ServiceSpec,
    body: bytes,
    *,
    partial: bool = False,
    pause: Pause | None = None,
) -> Call:
    """Decode a request body.

    Args:    partial: a missing argument is None. pause: None: all is decoded at once.
    Raises:  ThriftError: malformed; answer with HTTP 400. ApplicationError (a ThriftError):
             readable but unknown method, wrong message type or missing argument; answer with
             ``encode_exception`` of its name, seqid, kind and text.
    """
    piece = PIECE_VALUES // (_JSON_FACTOR if protocol is ThriftProtocol.JSON else 1)
    cursor = Cursor(body, CALL_VALUES_MAX, pause, CALL_TEXT_BYTES_MAX, piece)
    codec = _CODECS[protocol]
    try:
        call = _arguments(codec, cursor, *_method(codec, cursor, service))
    except (IndexError, struct.error):
        raise _cut_off(body) from None
    return call if partial else _complete(call)


def decode_short_call(
    protocol: ThriftProtocol, service: ServiceSpec, body: bytes, *, partial: bool = False
) -> Call:
    """``decode_call`` for an event loop. Raises: also LongCall: decode it in pieces."""
    cursor = Cursor(body, SHORT_VALUES, None, CALL_TEXT_BYTES_MAX)
    codec = _CODECS[protocol]
    try:
        method, seqid = _method(codec, cursor, service)
        if protocol is ThriftProtocol.JSON and _is_long_json(body):
            raise LongCall(method, seqid)
        try:
            call = _arguments(codec, cursor, method, seqid)
        except TooManyValues:
            raise LongCall(method, seqid) from None
    except (IndexError, struct.error):
        raise _cut_off(body) from None
    return call if partial else _complete(call)


def decode_head(
    protocol: ThriftProtocol, service: ServiceSpec, body: bytes
) -> tuple[MethodSpec, int]:
    """Method and sequence id of a call. Raises: as ``decode_call``."""
    try:
        return _method(_CODECS[protocol], Cursor(body, 0, None, CALL_TEXT_BYTES_MAX), service)
    except (IndexError, struct.error):
        raise _cut_off(body) from None


def _is_long_json(body: bytes) -> bool:
    """Fields and items have a comma each, so their number is known without reading them."""
    return len(body) > PIECE_BYTES or body.count(b",") > _SHORT_COMMAS


def _method(codec: Codec, cursor: Cursor, service: ServiceSpec) -> tuple[MethodSpec, int]:
    """The method that is called, and the sequence id."""
    name, kind, seqid = codec.read_header(cursor)
    if kind != MessageKind.CALL:
        text = f"message type {kind} is not a call"
        raise ApplicationError(name, seqid, ApplicationErrorKind.INVALID_MESSAGE_TYPE, text)
    method = service.methods.get(name)
    if method is None:
        text = f"{service.name} has no method {shown(name)}"
        raise ApplicationError(name, seqid, ApplicationErrorKind.UNKNOWN_METHOD, text)
    return method, seqid


def _arguments(codec: Codec, cursor: Cursor, method: MethodSpec, seqid: int) -> Call:
    values = codec.read_struct(cursor, method.args_spec)
    _finish(codec, cursor)
    return Call(method, seqid, tuple(values.get(field.name) for field in method.arguments))


def _complete(call: Call) -> Call:
    """The call if no argument is missing."""
    for field, value in zip(call.method.arguments, call.arguments, strict=True):
        if value is None:
            text = f"{call.method.name} misses its argument {field.name!r}"
            kind = ApplicationErrorKind.PROTOCOL_ERROR
            raise ApplicationError(call.method.name, call.seqid, kind, text)
    return call


def _cut_off(body: bytes) -> ThriftError:
    """The error of reading beyond the end."""
    return ThriftError(f"the message ends after {len(body)} bytes, in the middle")


def decode_reply(
    protocol: ThriftProtocol, method: MethodSpec, body: bytes, *, views: bool = False
) -> Reply:
    """Decode a reply body. ``views``: see ``Cursor``.

    Raises: ThriftError; ApplicationError for a TApplicationException.
    """
    try:
        return _decode_reply(_CODECS[protocol], method, Cursor(body, REPLY_VALUES_MAX, views=views))
    except (IndexError, struct.error):
        raise _cut_off(body) from None


def _decode_reply(codec: Codec, method: MethodSpec, cursor: Cursor) -> Reply:
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


def _finish(codec: Codec, cursor: Cursor) -> None:
    codec.read_end(cursor)
    left = len(cursor.data) - cursor.position
    if left:
        raise ThriftError(f"{left} bytes follow the end of the message")


def encode_call(protocol: ThriftProtocol, method: MethodSpec, seqid: int, *arguments: Any) -> bytes:
    """Encode a call. Raises: ThriftError if a value does not fit the schema."""
    values = {f.name: value for f, value in zip(method.arguments, arguments, strict=True)}
    header = Header(method.name, MessageKind.CALL, seqid)
    return _encoded(protocol, header, method.args_spec, values)


def encode_reply(
    protocol: ThriftProtocol,
    method: MethodSpec,
    seqid: int,
    result: Any,
    *,
    pause: Pause | None = None,
) -> bytes:
    """Encode a successful reply.

    Args: result: None for a void method. pause: None: all is encoded at once.
    """
    if (method.result is None) != (result is None):
        raise ThriftError(f"{method.name} got a result that does not fit its schema")
    header = Header(method.name, MessageKind.REPLY, seqid)
    return _encoded(protocol, header, method.result_spec, {"success": result}, pause)


def encode_short_reply(
    protocol: ThriftProtocol, method: MethodSpec, seqid: int, result: Any
) -> bytes:
    """``encode_reply`` for an event loop. Raises: also LongMessage: encode it in pieces."""
    return encode_reply(protocol, method, seqid, result, pause=_too_long)


def encode_error(
    protocol: ThriftProtocol, method: MethodSpec, seqid: int, error: ThriftStruct
) -> bytes:
    """Encode the declared exception as a reply, or as TApplicationException if none is declared."""
    if method.error is None:
        text = str(getattr(error, "errMsg", "") or "")
        kind = ApplicationErrorKind.INTERNAL_ERROR
        return encode_exception(protocol, method.name, seqid, kind, text)
    header = Header(method.name, MessageKind.REPLY, seqid)
    return _encoded(protocol, header, method.result_spec, {"error": error})


def encode_exception(
    protocol: ThriftProtocol, name: str, seqid: int, kind: ApplicationErrorKind | int, text: str
) -> bytes:
    """Encode a TApplicationException."""
    header = Header(name, MessageKind.EXCEPTION, seqid)
    return _encoded(protocol, header, _EXCEPTION_SPEC, {"message": text, "type": int(kind)})


def _encoded(
    protocol: ThriftProtocol,
    header: Header,
    spec: StructSpec,
    values: Mapping[str, Any],
    pause: Pause | None = None,
) -> bytes:
    out = Output(pause or _no_pause, SHORT_REPLY_VALUES, in_parts=True)
    _CODECS[protocol].write(out, header, spec, values)
    return out.whole()


def _no_pause() -> None:
    """No pause."""


def _too_long() -> None:
    raise LongMessage
