"""Message formats: golden bytes, round trips, and one error for everything damaged."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.matrix import matrix

from opentalos.model.errors import BadRequest
from opentalos.model.message import Compression
from opentalos.wire.message import (
    Message,
    MessageFormatError,
    compress,
    decode_block,
    decode_kafka_block,
    decode_messages,
    decompress,
    encode_block,
    encode_kafka_block,
    encode_messages,
)

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "messages"
TIME_MS = 1700000000000
V3 = Message(b"hi", partition_key="k", sequence_number="7", create_ms=TIME_MS, message_type=1)
V2 = V3._replace(partition_key=None)
V1 = Message(b"hi", sequence_number="7")
KAFKA = [
    Message(b"hi", partition_key="k", sequence_number="7", create_ms=TIME_MS, append_ms=TIME_MS),
    Message(b"yo", sequence_number="8", create_ms=TIME_MS + 5, append_ms=TIME_MS + 5),
]
NONE, SNAPPY, GZIP, ZSTD, LZ4 = Compression

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
INTS = st.integers(0, 2**62)
MESSAGES = st.lists(
    st.builds(
        Message,
        st.binary(max_size=40),
        partition_key=st.none() | TEXTS,
        sequence_number=st.none() | TEXTS,
        create_ms=st.none() | INTS,
        append_ms=st.none(),
        message_type=st.none() | st.integers(1, 9),
        schema_fingerprint=st.none() | TEXTS,
        tag=st.none() | TEXTS,
        traceparent=st.none() | TEXTS,
    ),
    max_size=5,
)


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


@pytest.mark.parametrize(
    ("name", "compression", "expected"),
    [
        ("v1", NONE, [V1]),
        ("v2", NONE, [V2]),
        ("v3", NONE, [V3]),
        ("v3_snappy", SNAPPY, [V3]),
        ("v3_gzip", GZIP, [V3] * 8),
        ("v3_zstd", ZSTD, [V3] * 8),
        ("v3_lz4", LZ4, [V3] * 8),
        ("k0", NONE, KAFKA),
    ],
)
def test_golden_blocks_are_decoded(
    name: str, compression: Compression, expected: list[Message]
) -> None:
    assert decode_block(golden(name), compression, len(expected)) == expected


def test_golden_blocks_are_encoded() -> None:
    assert encode_messages([V1], 1) == golden("v1")
    assert encode_messages([V2], 2) == golden("v2")
    assert encode_messages([V3], 3) == golden("v3")
    assert encode_block([V3]) == golden("v3_snappy")
    assert encode_kafka_block(KAFKA, base_sequence=7) == golden("k0")


def test_versions_may_be_mixed_in_a_block() -> None:
    payload = golden("v1") + golden("v3") + golden("v2") + golden("v1")
    assert decode_block(payload, NONE, 4) == [V1, V3, V2, V1]


@pytest.mark.parametrize("skipped", [0, 1, 2, 3])
def test_damage_among_the_messages_that_are_not_wanted_is_an_error(skipped: int) -> None:
    payload = golden("v3") + golden("v2") + golden("v1")
    for wrong in (payload[:-1], payload + b"x", b"\xff" + payload, payload[:3], b"V\0\x09\0" * 9):
        with pytest.raises(MessageFormatError):
            decode_messages(wrong, 3, skipped)


def test_a_bare_snappy_block_is_read() -> None:
    xerial = compress(golden("v3"), SNAPPY)
    assert decode_block(xerial[20:], SNAPPY, 1) == [V3]


@settings(max_examples=40, deadline=None)
@given(messages=MESSAGES, compression=st.sampled_from(Compression))
def test_every_field_survives_version_3(messages: list[Message], compression: Compression) -> None:
    block = encode_block(messages, compression)
    assert decode_block(block, compression, len(messages)) == messages


@settings(max_examples=30, deadline=None)
@given(messages=MESSAGES)
def test_older_versions_keep_what_they_carry(messages: list[Message]) -> None:
    v1 = [Message(m.data, sequence_number=m.sequence_number) for m in messages]
    assert decode_messages(encode_messages(messages, 1), len(messages)) == v1
    v2 = [
        Message(
            m.data,
            sequence_number=m.sequence_number,
            create_ms=m.create_ms or 0,
            message_type=m.message_type or 1,
        )
        for m in messages
    ]
    assert decode_messages(encode_messages(messages, 2), len(messages)) == v2


@settings(max_examples=30, deadline=None)
@given(messages=MESSAGES)
def test_kafka_blocks_keep_key_value_and_time(messages: list[Message]) -> None:
    expected = [
        Message(
            m.data,
            m.partition_key,
            m.sequence_number or None,
            m.create_ms or 0,
            m.create_ms or 0,
            traceparent=m.traceparent or None,
        )
        for m in messages
    ]
    assert decode_kafka_block(encode_kafka_block(messages), len(messages)) == expected


@pytest.mark.parametrize("compression", Compression)
def test_large_blocks_of_every_compression_come_back(compression: Compression) -> None:
    data = b"".join(b"line %d\n" % number for number in range(20_000))
    packed = compress(data, compression)
    assert decompress(packed, compression) == data
    assert decompress(compress(b"", compression), compression) == b""


@pytest.mark.parametrize("compression", Compression)
def test_a_decompression_bomb_is_refused(compression: Compression) -> None:
    bomb = compress(bytes(1 << 20), compression)
    with pytest.raises(MessageFormatError, match="at most"):
        decompress(bomb, compression, bytes_max=1 << 16)


@matrix(
    ("data", "compression", "reason"),
    [
        (b"\xff\xff\xff\xff\x0fabc", SNAPPY, "at most"),  # declares 4 GiB
        (b"\xff\xff\xff\xffabc", LZ4, "at most"),
        (b"\x10\0\0\0\x00", LZ4, "LZ4"),
        (b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 8, ZSTD, "at most"),
        (b"\x28\xb5\x2f\xfd\x00\xff", ZSTD, "window"),
        (b"\x28\xb5\x2f\xfd", ZSTD, "ZSTD"),
        (b"plain", ZSTD, "no zstd frame"),
        (b"plain", GZIP, "GZIP"),
        (compress(b"x" * 99, GZIP)[:-1], GZIP, "too early"),
        (compress(b"x" * 99, GZIP) * 2, GZIP, "followed"),
        (b"\x82SNAPPY\0", SNAPPY, "header"),
        (compress(b"x" * 99, SNAPPY)[:-1], SNAPPY, "beyond"),
        (b"", 9, "unknown compression type 9"),
    ],
)
def test_damaged_compression_says_what_is_wrong(data: bytes, compression: int, reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason) as caught:
        decompress(data, compression)
    assert isinstance(caught.value, BadRequest)


@pytest.mark.parametrize(
    ("data", "count", "reason"),
    [
        (golden("v1"), 2, "2 messages cannot be in"),
        (golden("v1") * 2, 1, "11 bytes follow message 1"),
        (golden("v3"), -1, "cannot be in"),
        (golden("v3")[:-1], 1, "goes beyond the block"),
        (golden("v2")[:14], 1, "ends within message 0 of 1"),
        (b"V\0\x04\0" + bytes(8), 1, "unknown message version 4"),
        (b"V\0\x03\0\0\0\0\x01\0" + bytes(8), 1, "required field message"),
        (b"\0\0\0\x01\xff\0\0\0\0", 1, "message 0 of 1: 'utf-8'"),
        (golden("v3")[:7] + b"\x15" + golden("v3")[8:] + b"\0", 1, "1 bytes follow a V3 message"),
    ],
)
def test_damaged_messages_say_what_is_wrong(data: bytes, count: int, reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason):
        decode_messages(data, count)


def test_damaged_kafka_blocks_say_what_is_wrong() -> None:
    block = golden("k0")
    cases = {
        "CRC": block[:-1] + b"\1",
        "length is wrong": block + b"\0",
        "magic": block[:24] + b"\1" + block[25:],
        "no Kafka block": b"X" + block[1:],
    }
    for reason, damaged in cases.items():
        with pytest.raises(MessageFormatError, match=reason):
            decode_kafka_block(damaged, 2)
    with pytest.raises(MessageFormatError, match="expected 3"):
        decode_kafka_block(block, 3)
    with pytest.raises(MessageFormatError, match="compressed Kafka block"):
        decode_block(compress(block, GZIP), GZIP, 2)


@settings(max_examples=80, deadline=None)
@given(
    data=st.binary(max_size=80),
    start=st.sampled_from([b"", b"V\0\2\0", b"V\0\3\0\0\0\0", b"K\0\0\0\0\0\0"]),
    compression=st.integers(0, 5),
    count=st.integers(-1, 4),
)
def test_any_bytes_are_messages_or_one_error(
    data: bytes, start: bytes, compression: int, count: int
) -> None:
    try:
        assert len(decode_block(start + data, compression, count)) == count
    except MessageFormatError:
        pass


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(["v1", "v2", "v3", "v3_snappy", "v3_gzip", "v3_zstd", "v3_lz4", "k0"]),
    place=st.integers(0, 200),
    value=st.integers(0, 255),
)
def test_damaged_golden_blocks_are_messages_or_one_error(name: str, place: int, value: int) -> None:
    data = bytearray(golden(name))
    data[place % len(data)] = value
    for compression in Compression:
        try:
            messages = decode_block(bytes(data), compression, 1)
        except MessageFormatError:
            continue
        assert len(messages) == 1
