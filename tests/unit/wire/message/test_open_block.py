"""OpenBlock: a few messages of a block, in pieces, without decoding the others."""

from collections.abc import Sequence

import pytest

from opentalos.model.message import Compression
from opentalos.wire.message import (
    Message,
    MessageFormatError,
    decode_block,
    encode_block,
    encode_kafka_block,
)
from opentalos.wire.message.open_block import PIECE_MESSAGES, BlockCut, OpenBlock, open_block
from opentalos.wire.message.talos_format import encode_messages

COUNT = 5_000
MIB = 1 << 20
MESSAGES = [
    Message(b"%05d" % number * (number % 40), sequence_number=str(number), create_ms=number)
    for number in range(COUNT)
]
NONE = Compression.NONE


def read(opened: OpenBlock, first: int, wanted: int, bytes_max: int = MIB) -> Sequence[Message]:
    return [message for piece in opened.read(first, wanted, bytes_max) for message in piece]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("compression", list(Compression))
def test_any_range_is_what_the_whole_block_has_there(
    compression: Compression, version: int
) -> None:
    payload = encode_block(MESSAGES, compression, version)
    whole = decode_block(payload, compression, COUNT)
    opened = open_block(payload, compression, COUNT, 64 * MIB)
    for first, wanted in ((0, 1), (0, 70), (4_321, 200), (100, 65), (4_990, 100), (4_999, 1)):
        assert read(opened, first, wanted) == whole[first : first + wanted]
    opened.close()


def test_a_range_of_a_kafka_block_is_what_the_whole_block_has_there() -> None:
    sent = [Message(b"v%d" % number, "k", create_ms=number) for number in range(3_000)]
    payload = encode_kafka_block(sent, base_sequence=5)
    whole = decode_block(payload, NONE, 3_000)
    opened = open_block(payload, NONE, 3_000, 1)
    for first, wanted in ((0, 1), (2_500, 100), (10, 300), (2_999, 9)):
        assert read(opened, first, wanted) == whole[first : first + wanted]


def test_reading_ends_with_the_piece_that_reaches_the_byte_bound() -> None:
    opened = open_block(encode_block(MESSAGES, NONE), NONE, COUNT, 1)
    size = sum(len(message.data) for message in read(opened, 1_000, COUNT, 10_000))
    assert 10_000 <= size <= 10_000 + PIECE_MESSAGES * 5 * 40


def test_no_piece_is_long() -> None:
    opened = open_block(encode_block(MESSAGES, NONE), NONE, COUNT, 1)
    pieces = [len(piece) for piece in opened.read(0, COUNT, 64 * MIB)]
    assert max(pieces) <= PIECE_MESSAGES


def test_a_reader_who_continues_passes_nothing_over() -> None:
    opened = open_block(encode_block(MESSAGES, NONE), NONE, COUNT, 1)
    read(opened, 0, 4_000)
    pieces = list(opened.read(4_000, 10, MIB))
    assert [len(piece) for piece in pieces] == [10]
    passed = list(open_block(encode_block(MESSAGES, NONE), NONE, COUNT, 1).read(4_000, 10, MIB))
    assert [len(piece) for piece in passed] == [0, 0, 10]


def test_many_reads_in_any_order_are_right() -> None:
    opened = open_block(encode_block(MESSAGES, NONE), NONE, COUNT, 1)
    for number in range(300):
        first = number * 977 % COUNT
        assert read(opened, first, 3) == MESSAGES[first : first + 3]


def test_a_message_beyond_the_opened_part_asks_for_more_of_it() -> None:
    payload = encode_block(MESSAGES, Compression.ZSTD)
    opened = open_block(payload, Compression.ZSTD, COUNT, 10_000)
    assert not opened.complete
    assert read(opened, 0, 5) == MESSAGES[:5]
    with pytest.raises(BlockCut):
        read(opened, 4_000, 5)
    assert opened.bytes_count == 10_000


def test_bytes_behind_the_last_message_are_an_error_when_it_is_read() -> None:
    opened = open_block(encode_block(MESSAGES, NONE) + b"x", NONE, COUNT, 1)
    assert read(opened, 0, 5) == MESSAGES[:5]
    with pytest.raises(MessageFormatError, match="1 bytes follow"):
        read(opened, COUNT - 1, 5)


def test_damaged_messages_are_an_error() -> None:
    payload = encode_block(MESSAGES[:10], NONE)
    for wrong in (payload[:-1], b"\xff" + payload, b"V\0\x09\0" * 30):
        with pytest.raises(MessageFormatError):
            read(open_block(wrong, NONE, 10, 1), 0, 10)
    with pytest.raises(MessageFormatError, match="cannot be in"):
        open_block(b"x", NONE, 10, 1)
    packed = encode_kafka_block([Message(b"x", create_ms=1)])
    with pytest.raises(MessageFormatError, match="CRC"):
        open_block(packed[:-1] + b"\xff", NONE, 1, 1)


@pytest.mark.parametrize("version", [1, 2])
def test_messages_of_the_old_formats_are_read_many_at_a_time(version: int) -> None:
    messages, count = [Message(b"x", create_ms=5)] * 200, 200
    data = encode_messages(messages, version)
    pieces = list(OpenBlock(data, count, complete=True).read(0, count, MIB))
    assert [len(piece) for piece in pieces] == [64, 64, 64, 8]
    cut = OpenBlock(data[: len(data) // 2 + 1], count, complete=False)
    assert sum(map(len, cut.read(0, 100, MIB))) == 100
    with pytest.raises(BlockCut):
        list(cut.read(0, count, MIB))
    large = encode_messages([Message(bytes(MIB), create_ms=5)] * 3, version)
    pieces = list(OpenBlock(large, 3, complete=True).read(0, 3, 9 * MIB))
    assert [len(piece) for piece in pieces] == [1, 1, 1]
