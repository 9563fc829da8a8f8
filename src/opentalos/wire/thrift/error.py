"""Errors of the Thrift codec."""

from enum import IntEnum

from opentalos.model.errors import BadRequest


class ThriftError(BadRequest):
    """The bytes are no well-formed message of the schema; the text says why and where."""


class SchemaMismatch(ThriftError):
    """A field has another type than in the definitions, or a required one is missing.

    Definitions of another generation have such fields, so it is answered as the method declares.
    """


class TooManyValues(ThriftError):
    """The message has more values than its reader takes."""


class ApplicationErrorKind(IntEnum):
    """Type field of a TApplicationException. Source: Apache Thrift 0.17, TApplicationException."""

    UNKNOWN = 0
    UNKNOWN_METHOD = 1
    INVALID_MESSAGE_TYPE = 2
    WRONG_METHOD_NAME = 3
    BAD_SEQUENCE_ID = 4
    MISSING_RESULT = 5
    INTERNAL_ERROR = 6
    PROTOCOL_ERROR = 7


class LongMessage(Exception):
    """What was to be done at once takes longer: do it in pieces."""


class ApplicationError(ThriftError):
    """A readable message that no method can take; answered as TApplicationException.

    Servers raise it for an unknown method, a wrong message type or a missing argument; clients
    when they receive one.
    """

    def __init__(self, name: str, seqid: int, kind: int, text: str) -> None:
        super().__init__(text)
        self.name, self.seqid, self.kind, self.text = name, seqid, kind, text
