"""Own Thrift codec over generated specs: compact, binary (strict) and Apache JSON."""

from opentalos.wire.thrift.error import ApplicationError, ApplicationErrorKind, ThriftError
from opentalos.wire.thrift.message import (
    Call,
    MessageKind,
    Reply,
    ThriftProtocol,
    decode_call,
    decode_reply,
    encode_call,
    encode_error,
    encode_exception,
    encode_reply,
    protocol_of,
)
from opentalos.wire.thrift.spec import MethodSpec, ServiceSpec, ThriftStruct

__all__ = [
    "ApplicationError",
    "ApplicationErrorKind",
    "Call",
    "MessageKind",
    "MethodSpec",
    "Reply",
    "ServiceSpec",
    "ThriftError",
    "ThriftProtocol",
    "ThriftStruct",
    "decode_call",
    "decode_reply",
    "encode_call",
    "encode_error",
    "encode_exception",
    "encode_reply",
    "protocol_of",
]
