"""Every struct in every version: round trips, and bytes that lie."""

import struct
from random import Random
from typing import Any

import msgspec
import pytest
from tests.unit.matrix import matrix

from opentalos.wire.kafka.apis import (
    Api,
    ApiKey,
    api_of,
    read_header,
    read_request,
    read_response,
    write_request,
    write_response,
)
from opentalos.wire.kafka.codec import (
    ITEMS_MAX,
    Cursor,
    KafkaFormatError,
    decode,
    encode,
    read_unsigned,
    write_unsigned,
)
from opentalos.wire.kafka.spec import KafkaStruct, KafkaType, StructSpec, includes


def versions_of(api: Api) -> range:
    return range(api.versions[0], api.versions[1] + 1)


EVERY = [(key, version) for key in ApiKey for version in versions_of(api_of(key))]
INTEGERS = {
    "int8": 7,
    "int16": 15,
    "uint16": 16,
    "int32": 31,
    "uint32": 32,
    "int64": 63,
}


def drawn(kind: KafkaType, version: int, nullable: bool, draw: Random) -> Any:
    """A value of a type as a version can say it."""
    if nullable and draw.random() < 0.3:
        return None
    if kind.item is not None:
        return [drawn(kind.item, version, False, draw) for _ in range(draw.randrange(3))]
    if kind.struct is not None:
        return struct_of(kind.struct.SPEC, version, draw)
    if kind.name in INTEGERS:
        value = draw.randrange(1 << INTEGERS[kind.name])
        return value if kind.name.startswith("u") or draw.random() < 0.5 else ~value
    if kind.name == "bool":
        return draw.random() < 0.5
    if kind.name == "float64":
        return draw.random()
    if kind.name == "uuid":
        return draw.randbytes(16)
    if kind.name == "string":
        return "".join(draw.choice("aé€😀 ") for _ in range(draw.randrange(200)))
    return draw.randbytes(draw.randrange(300))


def struct_of(spec: StructSpec, version: int, draw: Random) -> Any:
    values = {
        field.name: drawn(field.type, version, includes(field.nullable, version), draw)
        for field in spec.fields
        if includes(field.versions, version)
    }
    return spec.make(**values)


def plain(value: Any) -> Any:
    """Views of received bytes as bytes."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


def round_trip(kind: type[KafkaStruct], version: int, draw: Random) -> None:
    value = struct_of(kind.SPEC, version, draw)
    out = bytearray()
    encode(value, version, out)
    cursor = Cursor(out)
    assert plain(decode(kind, version, cursor)) == plain(value)
    assert cursor.position == len(out)


@matrix(("key", "version"), EVERY)
def test_round_trip(key: ApiKey, version: int) -> None:
    api, draw = api_of(key), Random(f"{key}-{version}")
    for _ in range(10):
        round_trip(api.request, version, draw)
        round_trip(api.response, version, draw)


@matrix("key", ApiKey)
def test_the_key_is_that_of_the_definition(key: ApiKey) -> None:
    api = api_of(key)
    for version in versions_of(api):
        raw = write_request(api, version, api.request(), 7, "client")
        cursor = Cursor(raw, 4)
        header = read_header(cursor)
        assert header == (key, version, 7, "client")
        assert struct.unpack_from(">i", raw) == (len(raw) - 4,)
        assert read_request(api, version, cursor) == api.request()
        raw = write_response(api, version, 9, api.response())
        assert read_response(api, version, Cursor(raw, 4)) == (9, api.response())


@matrix(("key", "version"), EVERY)
def test_damaged_bytes_are_refused_or_read_within_bounds(key: ApiKey, version: int) -> None:
    """Each byte in turn is changed: lengths lie, are negative or huge, and nothing else fails."""
    api, draw = api_of(key), Random(f"{key}+{version}")
    out = bytearray()
    encode(struct_of(api.request.SPEC, version, draw), version, out)
    for position in range(min(len(out), 300)):
        for value in (0, 0x7F, 0x80, 0xFF):
            changed = bytearray(out)
            changed[position] = value
            try:
                decode(api.request, version, Cursor(changed))
            except KafkaFormatError:
                continue
    for end in range(min(len(out), 300)):
        with pytest.raises(KafkaFormatError):
            decode(api.request, version, Cursor(bytes(out[:end])))


def test_an_array_is_not_longer_than_what_is_left() -> None:
    metadata = api_of(ApiKey.METADATA)
    for count in (2**31 - 1, 1_000, -2):
        with pytest.raises(KafkaFormatError, match=f"{count}"):
            decode(metadata.request, 1, Cursor(struct.pack(">i", count) + bytes(100)))


def test_arrays_have_a_limit_in_all() -> None:
    metadata = api_of(ApiKey.METADATA)
    empty_names = struct.pack(">i", ITEMS_MAX + 1) + bytes(2 * ITEMS_MAX + 2)
    with pytest.raises(KafkaFormatError, match="items are allowed"):
        decode(metadata.request, 1, Cursor(empty_names))


def test_unknown_tags_are_passed_over() -> None:
    heartbeat = api_of(ApiKey.HEARTBEAT)
    out = bytearray()
    encode(heartbeat.request(group_id="g"), 4, out)
    assert out[-1] == 0
    out[-1:] = b"\x02\x05\x03abc\x63\x00"
    assert decode(heartbeat.request, 4, Cursor(out)) == heartbeat.request(group_id="g")
    with pytest.raises(KafkaFormatError):
        decode(heartbeat.request, 4, Cursor(out[:-4] + b"\x7f"))


def test_bytes_behind_a_request_are_ignored() -> None:
    heartbeat = api_of(ApiKey.HEARTBEAT)
    raw = write_request(heartbeat, 0, heartbeat.request(group_id="g")) + b"\0"
    cursor = Cursor(raw, 4)
    read_header(cursor)
    assert read_request(heartbeat, 0, cursor) == heartbeat.request(group_id="g")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**32 - 1])
def test_varints(value: int) -> None:
    out = bytearray()
    write_unsigned(out, value)
    assert read_unsigned(Cursor(out)) == value
    with pytest.raises(KafkaFormatError):
        read_unsigned(Cursor(out[:-1]))


def test_a_varint_has_32_bits() -> None:
    for raw in (b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"):
        with pytest.raises(KafkaFormatError, match="32 bits"):
            read_unsigned(Cursor(raw))


def test_headers_that_lie() -> None:
    with pytest.raises(KafkaFormatError):
        read_header(Cursor(b"\0\x03\0"))
    with pytest.raises(KafkaFormatError):
        read_header(Cursor(struct.pack(">hhih", 3, 1, 7, 5) + b"abc"))
    with pytest.raises(KafkaFormatError, match="UTF-8"):
        read_header(Cursor(struct.pack(">hhih", 3, 1, 7, 1) + b"\xff"))
    assert read_header(Cursor(struct.pack(">hhih", 3, 1, 7, -1))).client_id is None


@pytest.mark.parametrize(("size", "served"), [(32_767, True), (32_768, False)])
def test_a_string_has_at_most_as_many_bytes_as_kafka_allows(size: int, served: bool) -> None:
    api = api_of(ApiKey.DESCRIBE_GROUPS)
    raw = bytearray(b"\x02")  # one group
    write_unsigned(raw, size + 1)
    raw += b"x" * size + b"\0\0"  # no operations, no tags
    if served:
        assert decode(api.request, 5, Cursor(raw)) == api.request(groups=["x" * size])
    else:
        with pytest.raises(KafkaFormatError, match="a string of 32768 bytes"):
            decode(api.request, 5, Cursor(raw))
