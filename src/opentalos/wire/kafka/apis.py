"""Frames of the Kafka protocol: headers, and which struct a request has.

Shape:   [size i32][request header][request]; the size counts what follows it. A response has the
         correlation id of its request. Header version 1 has a client id, 2 also tagged fields.
Source: Apache Kafka 4.3, protocol guide; KIP-482 for the headers, KIP-511 for ApiVersions.
"""

import importlib
import struct
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

from opentalos.wire.kafka.codec import Cursor, KafkaFormatError, decode, encode, read_unsigned
from opentalos.wire.kafka.pace import Pace, Paced
from opentalos.wire.kafka.spec import KafkaStruct, Versions, includes

_GENERATED: Final = "opentalos.wire.kafka._generated"
_HEAD: Final = struct.Struct(">hhi")
_ANSWER_HEAD: Final = struct.Struct(">i")
_TEXT_LENGTH: Final = struct.Struct(">h")
SIZE: Final = struct.Struct(">i")


class ApiKey(IntEnum):
    """The requests we know. Source: apiKey in idl/kafka."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    DESCRIBE_TOPIC_PARTITIONS = 75


class RequestHeader(NamedTuple):
    """What every request begins with."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None


class Api(NamedTuple):
    """Request and response of a key, with the versions that the definitions have."""

    key: ApiKey
    request: type[KafkaStruct]
    response: type[KafkaStruct]
    versions: Versions

    def is_flexible(self, version: int) -> bool:
        """Whether headers of that version have tagged fields."""
        return includes(self.request.SPEC.flexible, version)


@cache
def api_of(key: ApiKey) -> Api:
    """The structs of a request; their modules are imported when first asked for."""
    stem = key.name.lower()
    name = "".join(word.capitalize() for word in key.name.split("_"))
    request = importlib.import_module(f"{_GENERATED}.{stem}_request")
    response = importlib.import_module(f"{_GENERATED}.{stem}_response")
    made: Callable[..., type[KafkaStruct]] = getattr
    return Api(
        key,
        made(request, f"{name}Request"),
        made(response, f"{name}Response"),
        request.VERSIONS,
    )


def read_header(cursor: Cursor) -> RequestHeader:
    """The header up to the client id; ``read_request`` reads the tags. Raises: KafkaFormatError."""
    key, version, correlation_id = _HEAD.unpack(cursor.take(_HEAD.size))
    (length,) = _TEXT_LENGTH.unpack(cursor.take(_TEXT_LENGTH.size))
    if length < 0:
        return RequestHeader(key, version, correlation_id, None)
    try:
        client_id = str(cursor.take(length), "utf-8")
    except UnicodeDecodeError:
        raise KafkaFormatError("the client id is not UTF-8") from None
    return RequestHeader(key, version, correlation_id, client_id)


def skip_tags(cursor: Cursor) -> None:
    """Pass over tagged fields that nobody knows. Raises: KafkaFormatError."""
    for piece in cursor.pieces(read_unsigned(cursor)):
        for _ in piece:
            read_unsigned(cursor)
            cursor.take(read_unsigned(cursor))


def read_request(api: Api, version: int, cursor: Cursor) -> Any:
    """The request behind its header. Raises: KafkaFormatError.

    Bytes behind it are ignored, as Kafka's own servers do: librdkafka 2.16 asks for all topics with
    three bytes too many.
    """
    if api.is_flexible(version):
        skip_tags(cursor)
    return decode(api.request, version, cursor)


def write_answer_head(
    api: Api, version: int, correlation_id: int, pace: Pace | None = None
) -> bytearray:
    """The header of a response, behind four bytes for the size; ``finish`` sets them."""
    out = bytearray() if pace is None else Paced(pace)
    out += bytes(SIZE.size)
    out += _ANSWER_HEAD.pack(correlation_id)
    # Clients read the answer to ApiVersions before they know what the server supports.
    if api.is_flexible(version) and api.key is not ApiKey.API_VERSIONS:
        out.append(0)
    return out


def write_response(
    api: Api, version: int, correlation_id: int, response: KafkaStruct, pace: Pace | None = None
) -> bytearray:
    """A whole response with its size. Raises: what the pace raises; with one: MessageTooLarge."""
    out = write_answer_head(api, version, correlation_id, pace)
    encode(response, version, out)
    return finish(out)


def finish(out: bytearray) -> bytearray:
    """The same bytes with their size in front."""
    SIZE.pack_into(out, 0, len(out) - SIZE.size)
    return out


def write_request(
    api: Api, version: int, request: KafkaStruct, correlation_id: int = 0, client_id: str = ""
) -> bytearray:
    """A whole request with its size; for tests and tools."""
    out = bytearray(SIZE.size)
    out += _HEAD.pack(api.key, version, correlation_id)
    name = client_id.encode()
    out += _TEXT_LENGTH.pack(len(name)) + name
    if api.is_flexible(version):
        out.append(0)
    encode(request, version, out)
    return finish(out)


def read_response(api: Api, version: int, cursor: Cursor) -> tuple[int, Any]:
    """Correlation id and response behind the size; for tests and tools."""
    (correlation_id,) = _ANSWER_HEAD.unpack(cursor.take(_ANSWER_HEAD.size))
    if api.is_flexible(version) and api.key is not ApiKey.API_VERSIONS:
        skip_tags(cursor)
    return correlation_id, decode(api.response, version, cursor)
