"""Blocks to records and back: offsets, append times, and one error for everything damaged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.model.errors import BadRequest
from opentalos.model.message import Compression, PayloadFormat, StoredBlock
from opentalos.sdk.core.blocks import decode_block_records, encode_records, message_of
from opentalos.sdk.core.values import Message, Record
from opentalos.wire.message import (
    MessageFormatError,
    decode_block,
    encode_block,
    encode_kafka_block,
)

APPEND_MS = 1700000009000
TIME_MS = 1700000000000
MESSAGES = [
    Message(b"a", "key", "1", TIME_MS, None, 1),
    Message(b"b", None, None, TIME_MS + 5, None, 2, "print", "tag"),
    Message(b"c"),
]


def stored(payload: bytes, compression: int, messages: int, base: int = 10) -> StoredBlock:
    return StoredBlock(base, messages, APPEND_MS, 0, compression, PayloadFormat.TALOS, payload)


def test_a_message_without_a_create_time_gets_one() -> None:
    assert message_of(b"a", TIME_MS) == Message(b"a", create_ms=TIME_MS)
    assert message_of(MESSAGES[0], 5) is MESSAGES[0]
    given = Message(b"a", "key", "1", None, 7, 2, "print", "tag")
    assert message_of(given, TIME_MS) == given._replace(create_ms=TIME_MS)
    assert type(message_of(given, TIME_MS)) is Message
    for wrong in ("text", bytearray(b"a"), Message("text")):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="bytes"):
            message_of(wrong, TIME_MS)  # type: ignore[arg-type]


@pytest.mark.parametrize("compression", Compression)
def test_records_are_the_messages_with_place_and_append_time(compression: Compression) -> None:
    block = encode_records(MESSAGES, compression)
    assert (block.messages, block.compression, block.create_ms) == (3, compression, TIME_MS + 2)
    assert decode_block(block.payload, compression, 3) == MESSAGES
    found = decode_block_records("t", 4, stored(block.payload, compression, 3), 0)
    assert found == [
        Record("t", 4, 10, b"a", "key", "1", TIME_MS, APPEND_MS, 1, None, None),
        Record("t", 4, 11, b"b", None, None, TIME_MS + 5, APPEND_MS, 2, "print", "tag"),
        Record("t", 4, 12, b"c", None, None, None, APPEND_MS, None, None, None),
    ]
    assert all(type(record) is Record for record in found)


@settings(max_examples=60, deadline=None)
@given(
    messages=st.lists(
        st.builds(
            Message,
            st.binary(max_size=6) | st.just(b"x" * 20_000),
            partition_key=st.none() | st.text(max_size=3),
            sequence_number=st.none() | st.just("7"),
            create_ms=st.none() | st.integers(-1, 2**40),
            append_ms=st.none() | st.just(5),
            message_type=st.none() | st.integers(-1, 3),
            schema_fingerprint=st.none() | st.just("print"),
            tag=st.none() | st.just("tag"),
        ),
        min_size=1,
        max_size=6,
    ),
    first=st.integers(8, 17),
)
def test_messages_and_records_of_a_block_agree(messages: list[Message], first: int) -> None:
    block = stored(encode_block(messages), Compression.SNAPPY, len(messages))
    expected = [
        Record("t", 0, offset, *item[:4], APPEND_MS, *item[5:])
        for offset, item in enumerate(messages, 10)
        if offset >= first
    ]
    assert decode_block_records("t", 0, block, first) == expected


@pytest.mark.parametrize(("first", "left"), [(9, 3), (10, 3), (11, 2), (12, 1), (13, 0), (99, 0)])
def test_records_before_the_first_offset_are_dropped(first: int, left: int) -> None:
    block = stored(encode_block(MESSAGES), Compression.SNAPPY, 3)
    found = decode_block_records("t", 0, block, first)
    assert [record.offset for record in found] == [10, 11, 12][3 - left :]
    assert [record.data for record in found] == [b"a", b"b", b"c"][3 - left :]


def test_a_payload_may_be_a_view_of_a_reply() -> None:
    payload = encode_block(MESSAGES, Compression.NONE)
    block = stored(payload, Compression.NONE, 3)._replace(payload=memoryview(payload))
    assert [type(record.data) for record in decode_block_records("t", 0, block, 0)] == [bytes] * 3


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_are_read(version: int) -> None:
    payload = encode_block(MESSAGES, Compression.GZIP, version)
    found = decode_block_records("t", 0, stored(payload, Compression.GZIP, 3), 11)
    assert [(record.offset, record.data) for record in found] == [(11, b"b"), (12, b"c")]


def test_records_of_a_kafka_block_keep_their_own_times() -> None:
    payload = encode_kafka_block(MESSAGES[:2], base_sequence=7)
    found = decode_block_records("t", 0, stored(payload, Compression.NONE, 2), 11)
    assert found == [
        Record("t", 0, 11, b"b", None, "8", TIME_MS + 5, TIME_MS + 5, None, None, None)
    ]


def test_a_block_without_messages_is_refused() -> None:
    with pytest.raises(BadRequest):
        encode_records([], Compression.NONE)


@pytest.mark.parametrize("messages", [0, -1])
def test_a_block_that_says_it_has_no_messages_is_damaged(messages: int) -> None:
    with pytest.raises(MessageFormatError, match=f"{messages} messages"):
        decode_block_records("t", 0, stored(b"", Compression.NONE, messages), 99)


@settings(max_examples=80, deadline=None)
@given(
    compression=st.sampled_from(Compression),
    place=st.integers(0, 200),
    value=st.integers(0, 255),
    messages=st.integers(1, 4),
    first=st.integers(9, 14),
)
def test_a_damaged_block_is_records_of_its_own_bytes_or_one_error(
    compression: Compression, place: int, value: int, messages: int, first: int
) -> None:
    payload = bytearray(encode_block(MESSAGES, compression))
    payload[place % len(payload)] = value
    block = stored(bytes(payload), compression, messages)
    try:
        expected = decode_block(bytes(payload), compression, messages)[max(0, first - 10) :]
    except MessageFormatError:
        expected = None
    try:
        found = decode_block_records("t", 0, block, first)
    except MessageFormatError:
        assert expected is None
        return
    # Messages that are passed over are not looked into, so their damage may stay unseen.
    if expected is not None:
        assert [record.data for record in found] == [message.data for message in expected]
