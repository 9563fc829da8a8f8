"""Our codec against kio: each reads what the other wrote, every message in every version."""

import struct
from random import Random
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.static.protocol import Entity
from tests.unit.matrix import matrix
from tests.unit.wire.kafka.foreign_codec import decoded, drawn, encoded, ours, plain

from opentalos.wire.kafka.apis import (
    ApiKey,
    api_of,
    read_header,
    read_request,
    write_request,
    write_response,
)
from opentalos.wire.kafka.codec import Cursor, decode, encode
from opentalos.wire.kafka.spec import KafkaStruct

VALUES = 8  # of each message and version
EVERY = [
    (key, version)
    for key in ApiKey
    for version in range(api_of(key).versions[0], api_of(key).versions[1] + 1)
]


def compare(kind: type[KafkaStruct], foreign: type[Entity], version: int, draw: Random) -> None:
    value = drawn(foreign, draw)
    theirs = encoded(value)
    cursor = Cursor(theirs)
    read = decode(kind, version, cursor)
    assert cursor.position == len(theirs)
    assert ours(read, version) == plain(value)
    out = bytearray()
    encode(read, version, out)
    assert plain(decoded(foreign, bytes(out))) == plain(value)
    assert out == theirs


@matrix(("key", "version"), EVERY)
def test_each_reads_what_the_other_wrote(key: ApiKey, version: int) -> None:
    """It knows all of our versions: a new one that it lacks fails here."""
    api, draw = api_of(key), Random(f"{key}/{version}")
    request, response = load_request_schema(key, version), load_response_schema(key, version)
    for _ in range(VALUES):
        compare(api.request, request, version, draw)
        compare(api.response, response, version, draw)


@matrix(("key", "version"), EVERY)
def test_headers(key: ApiKey, version: int) -> None:
    api, draw = api_of(key), Random(f"{key}|{version}")
    kind = load_request_schema(key, version)
    body = drawn(kind, draw)
    request_header: Any = kind.__header_schema__
    header = request_header(
        request_api_key=int(key),
        request_api_version=version,
        correlation_id=77,
        client_id="someone",
    )
    theirs = encoded(header) + encoded(body)
    cursor = Cursor(theirs)
    assert read_header(cursor) == (key, version, 77, "someone")
    request = read_request(api, version, cursor)
    raw = write_request(api, version, request, 77, "someone")
    assert raw == struct.pack(">i", len(theirs)) + theirs
    answer = api.response()
    out = bytearray()
    encode(answer, version, out)
    response_header: Any = load_response_schema(key, version).__header_schema__
    head = response_header(correlation_id=78)
    assert write_response(api, version, 78, answer)[4:] == encoded(head) + out
