"""Whole messages: calls, replies and exceptions in the three protocols."""

from enum import Enum, IntEnum
from typing import Any, NamedTuple

from opentalos.wire.thrift.error import ApplicationErrorKind
from opentalos.wire.thrift.spec import MethodSpec, ServiceSpec, ThriftStruct


class ThriftProtocol(Enum):
    """The three encodings; the value is the content type. Source: talos-http.md section 1."""

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


def protocol_of(content_type: str) -> ThriftProtocol | None:
    """Protocol of a content type, parameters and case ignored; None for any other."""
    raise NotImplementedError


def decode_call(protocol: ThriftProtocol, service: ServiceSpec, body: bytes) -> Call:
    """Decode a request body.

    Raises:  ThriftError: malformed; answer with HTTP 400. ApplicationError (a ThriftError):
             readable but unknown method, wrong message type or missing argument; answer with
             ``encode_exception`` of its name, seqid, kind and text.
    """
    raise NotImplementedError


def decode_reply(protocol: ThriftProtocol, method: MethodSpec, body: bytes) -> Reply:
    """Decode a reply body. Raises: ThriftError; ApplicationError for a TApplicationException."""
    raise NotImplementedError


def encode_call(protocol: ThriftProtocol, method: MethodSpec, seqid: int, *arguments: Any) -> bytes:
    """Encode a call."""
    raise NotImplementedError


def encode_reply(protocol: ThriftProtocol, method: MethodSpec, seqid: int, result: Any) -> bytes:
    """Encode a successful reply; ``result`` is None for a void method."""
    raise NotImplementedError


def encode_error(
    protocol: ThriftProtocol, method: MethodSpec, seqid: int, error: ThriftStruct
) -> bytes:
    """Encode the declared exception as a reply, or as TApplicationException if none is declared."""
    raise NotImplementedError


def encode_exception(
    protocol: ThriftProtocol, name: str, seqid: int, kind: ApplicationErrorKind | int, text: str
) -> bytes:
    """Encode a TApplicationException."""
    raise NotImplementedError
