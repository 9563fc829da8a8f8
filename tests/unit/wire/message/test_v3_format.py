"""The quick codec of version 3 against the generic compact codec: same bytes, same messages."""

import struct

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from opentalos.wire._generated import message as generated
from opentalos.wire.message import (
    Message,
    MessageFormatError,
    decode_messages,
    encode_messages,
)
from opentalos.wire.message.v3_format import read_plain
from opentalos.wire.thrift.compact import read_struct, write_struct
from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.reader import Cursor

TEXTS = st.none() | st.text(st.characters(codec="utf-8"), max_size=8)
LONG_TEXTS = st.just("k" * 127) | st.just("é" * 64) | st.just("k" * 256)
TIMES = st.none() | st.sampled_from([0, 1, -1, 1700000000000]) | st.integers(-(2**63), 2**63 - 1)
KINDS = st.none() | st.sampled_from([1, 2, 63, 64, -1]) | st.integers(-(2**31), 2**31 - 1)
DATA = st.binary(max_size=20) | st.sampled_from([b"x" * 127, b"x" * 128, b"x" * 16384, b"\0" * 9])
MESSAGES = st.lists(
    st.builds(
        Message,
        DATA,
        partition_key=TEXTS | LONG_TEXTS,
        sequence_number=TEXTS | LONG_TEXTS,
        create_ms=TIMES,
        append_ms=st.none() | TIMES,
        message_type=KINDS,
        schema_fingerprint=st.none() | TEXTS,
        tag=st.none() | TEXTS,
        traceparent=st.none() | TEXTS,
    ),
    max_size=6,
)
PLAIN = Message(b"data", "key", "7", 1700000000000, None, 1)


def generic_encode(message: Message) -> bytes:
    out = bytearray()
    value = generated.Message(
        partitionKey=message.partition_key,
        sequenceNumber=message.sequence_number,
        message=message.data,
        createTimestamp=message.create_ms,
        appendTimestamp=message.append_ms,
        messageType=message.message_type,
        SchemaFingerprint=message.schema_fingerprint,
        tag=message.tag,
        traceparent=message.traceparent,
    )
    write_struct(out, generated.Message.SPEC, value)
    return b"V\0\3\0" + struct.pack(">I", len(out)) + out


def generic_decode(data: bytes, count: int) -> list[Message] | None:
    """The messages, or None for a damaged block."""
    found, position = [], 0
    try:
        for _ in range(count):
            mark, length = struct.unpack_from(">4sI", data, position)
            position += 8
            cursor = Cursor(data[position : position + length], 64)
            value: generated.Message = read_struct(cursor, generated.Message.SPEC)
            if mark != b"V\0\3\0" or len(cursor.data) != length or cursor.position != length:
                return None
            position += length
            kind = value.messageType
            found.append(
                Message(
                    value.message,
                    value.partitionKey,
                    value.sequenceNumber,
                    value.createTimestamp,
                    value.appendTimestamp,
                    None if kind is None else int(kind),
                    value.SchemaFingerprint,
                    value.tag,
                    value.traceparent,
                )
            )
    except (struct.error, IndexError, ThriftError):
        return None
    return found if position == len(data) else None


@settings(max_examples=60, deadline=None)
@given(messages=MESSAGES)
def test_both_encoders_write_the_same_bytes_and_both_decoders_read_them(
    messages: list[Message],
) -> None:
    encoded = encode_messages(messages)
    assert encoded == b"".join(map(generic_encode, messages))
    assert decode_messages(encoded, len(messages)) == messages


@settings(max_examples=120, deadline=None)
@given(
    messages=st.lists(
        st.builds(
            Message,
            st.binary(max_size=6),
            st.none() | st.just("key"),
            st.none() | st.just("7"),
            st.none() | st.just(1700000000000),
            append_ms=st.none(),
            message_type=st.none() | st.just(1),
            schema_fingerprint=st.none(),
            tag=st.none(),
            traceparent=st.none(),
        ),
        min_size=1,
        max_size=3,
    ),
    place=st.integers(0, 120),
    value=st.integers(0, 255),
    cut=st.integers(0, 12),
)
def test_damaged_messages_are_what_the_generic_codec_makes_of_them(
    messages: list[Message], place: int, value: int, cut: int
) -> None:
    data = bytearray(encode_messages(messages))
    place %= len(data)
    # Another version would be read by its own rules, of which the generic codec knows nothing.
    data[place] = value if data[place] != ord("V") else ord("V")
    damaged = bytes(data[: len(data) - cut])
    assume(b"V\0\2\0" not in damaged)
    expected = generic_decode(damaged, len(messages))
    try:
        assert decode_messages(damaged, len(messages)) == expected
    except MessageFormatError:
        assert expected is None


@settings(max_examples=80, deadline=None)
@given(content=st.binary(max_size=24), behind=st.binary(max_size=12))
@example(content=b"\x38\x09x\0", behind=b"\x16\x02\0\0\0\0\0\0")  # data that reach the next message
@example(content=b"\x38\x81\0x\0", behind=b"")  # a length in two bytes that fits one
@example(content=b"\x38\x81\x80\0x\0", behind=b"")
@example(content=b"\x38\x81\x80\x80\0x\0", behind=b"")
@example(content=b"\x38\1x\x38\1y\0", behind=b"")  # the same field again
@example(content=b"\x38\1x\x08\x02\1k\0", behind=b"")  # the key behind the data
@example(content=b"\x08\x06\1x\0", behind=b"")  # a field head in the long form
@example(content=b"\x38\1x\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03\0", behind=b"")
@example(content=b"\x38\1x\x35\xff\xff\xff\xff\x1f\0", behind=b"")  # a type beyond 32 bits
@example(content=b"\x18\1\xff\x28\1x\0", behind=b"")  # no UTF-8
@example(content=b"\x38\1x\0\0", behind=b"")  # a byte too many
@example(content=b"\x18\1k\0", behind=b"")  # no data
def test_any_struct_is_what_the_generic_codec_makes_of_it(content: bytes, behind: bytes) -> None:
    block = b"V\0\3\0" + struct.pack(">I", len(content)) + content + behind
    expected = generic_decode(block, 1)
    try:
        assert decode_messages(block, 1) == expected
    except MessageFormatError:
        assert expected is None


def test_a_length_beyond_the_block_is_refused_even_with_a_known_tail() -> None:
    good = generic_encode(PLAIN)
    longer = good[:7] + bytes((good[7] + 1,)) + good[8:]
    with pytest.raises(MessageFormatError, match="beyond the block"):
        decode_messages(good + longer, 2)


@pytest.mark.parametrize(
    "shape",
    [
        PLAIN,
        PLAIN._replace(partition_key=None),
        PLAIN._replace(sequence_number=None),
        PLAIN._replace(partition_key=None, sequence_number=None),
        PLAIN._replace(create_ms=None),
        PLAIN._replace(message_type=None),
        PLAIN._replace(create_ms=None, message_type=None, data=b"x" * 16_383),
    ],
)
def test_what_producers_write_takes_the_quick_way(shape: Message) -> None:
    found: list[Message] = []
    data = encode_messages([shape, shape])
    assert read_plain(data, 0, 2, found) == len(data)
    assert found == [shape, shape]


@pytest.mark.parametrize(
    "message", [PLAIN._replace(create_ms=1 << 63), PLAIN._replace(message_type=1 << 31)]
)
def test_a_number_that_does_not_fit_is_an_error(message: Message) -> None:
    with pytest.raises(MessageFormatError, match="exceeds"):
        encode_messages([PLAIN, message])
