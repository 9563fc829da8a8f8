"""Own Thrift codec over generated specs: compact, binary (strict) and Apache JSON."""

from opentalos.wire.thrift.error import (
    ApplicationError,
    ApplicationErrorKind,
    LongMessage,
    ThriftError,
)
from opentalos.wire.thrift.message import (
    Call,
    LongCall,
    MessageKind,
    Reply,
    ThriftProtocol,
    decode_call,
    decode_reply,
    decode_short_call,
    encode_call,
    encode_error,
    encode_exception,
    encode_reply,
    encode_short_reply,
    protocol_of,
)
from opentalos.wire.thrift.spec import MethodSpec, ServiceSpec, ThriftStruct

__all__ = [
    "ApplicationError",
    "ApplicationErrorKind",
    "Call",
    "LongCall",
    "LongMessage",
    "MessageKind",
    "MethodSpec",
    "Reply",
    "ServiceSpec",
    "ThriftError",
    "ThriftProtocol",
    "ThriftStruct",
    "decode_call",
    "decode_reply",
    "decode_short_call",
    "encode_call",
    "encode_error",
    "encode_exception",
    "encode_reply",
    "encode_short_reply",
    "protocol_of",
]
