"""Batches that producers send: what is stored, what is refused and why, and both walks agree."""

import gzip
import mmap
import struct
import zlib
from collections.abc import Callable
from random import Random

import cramjam
import pytest
from tests.unit.matrix import matrix

from opentalos.model.message import Compression
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.kafka.records import (
    EASY_BYTES,
    RefusedRecords,
    is_stored_batch_now,
    prove_now,
    prove_records,
    read_batch,
    stored_batch,
    stored_batch_bytes,
    unpacking_cost,
)
from opentalos.wire.message import kafka_batch, unpacking
from opentalos.wire.message.compression import DECODED_BYTES_MAX, compress
from opentalos.wire.message.kafka_batch import HEAD, python_walk, set_crc, walk
from opentalos.wire.message.kafka_format import decode_kafka_block, encode_kafka_batch
from opentalos.wire.message.message import Message

MESSAGES = [
    Message(b"v%d" % number * 20, partition_key=f"k{number}", create_ms=5_000 + number)
    for number in range(100)
]
PACKERS: dict[int, Callable[[bytes], bytes]] = {
    1: gzip.compress,
    2: lambda data: compress(data, Compression.SNAPPY),
    3: lambda data: bytes(cramjam.lz4.compress(data)),
    4: lambda data: bytes(cramjam.zstd.compress(data)),
}
ATTRIBUTES_AT, LAST_DELTA_AT, PRODUCER_AT, COUNT_AT = 21, 23, 43, 57


def plain() -> bytearray:
    return encode_kafka_batch(MESSAGES)


def packed(codec: int, body: bytes | None = None) -> bytearray:
    return wrapped(codec, PACKERS[codec](bytes(plain()[HEAD.size :]) if body is None else body))


def wrapped(codec: int, body: bytes) -> bytearray:
    batch = plain()
    batch[HEAD.size :] = body
    struct.pack_into(">h", batch, ATTRIBUTES_AT, codec)
    return resized(batch)


def resized(batch: bytearray) -> bytearray:
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    set_crc(batch)
    return batch


def changed(form: str, place: int, *values: int) -> bytearray:
    batch = plain()
    struct.pack_into(form, batch, place, *values)
    return resized(batch)


def code_of(batch: bytes | bytearray | None) -> ErrorCode:
    with pytest.raises(RefusedRecords) as caught:
        prove_records(read_batch(batch))
    return caught.value.code


@pytest.mark.parametrize("codec", [0, *PACKERS])
def test_a_batch_of_every_codec_is_stored_and_read(codec: int) -> None:
    received = read_batch(packed(codec) if codec else plain())
    assert prove_now(received)
    found = decode_kafka_block(received.payload, len(MESSAGES))
    assert [(m.data, m.partition_key, m.create_ms) for m in found] == [
        (m.data, m.partition_key, m.create_ms) for m in MESSAGES
    ]
    assert stored_batch_bytes(received.payload, len(MESSAGES))
    assert not stored_batch_bytes(received.payload, len(MESSAGES) - 1)
    assert is_stored_batch_now(received.payload, len(MESSAGES))[0]
    assert is_stored_batch_now(received.payload, len(MESSAGES) - 1)[0] is False


def test_a_raw_snappy_block_is_read_too() -> None:
    batch = plain()
    batch[HEAD.size :] = bytes(cramjam.snappy.compress_raw(bytes(batch[HEAD.size :])))
    struct.pack_into(">h", batch, ATTRIBUTES_AT, 2)
    assert prove_now(read_batch(resized(batch)))


def test_only_offset_and_epoch_change_on_the_way_back() -> None:
    batch = plain()
    pieces = stored_batch(read_batch(batch).payload, 1_234_567)
    back = b"".join(pieces)
    assert back[:8] == struct.pack(">q", 1_234_567)
    assert back[12:16] == struct.pack(">i", -1)
    assert back[8:12] + back[16:] == batch[8:12] + batch[16:]
    assert prove_now(read_batch(back))


@matrix(
    ("batch", "code"),
    [
        (None, ErrorCode.CORRUPT_MESSAGE),
        (plain()[:40], ErrorCode.CORRUPT_MESSAGE),
        (plain()[:-1], ErrorCode.CORRUPT_MESSAGE),
        (plain()[:-1] + b"\1", ErrorCode.CORRUPT_MESSAGE),  # another checksum
        (plain() + plain(), ErrorCode.INVALID_RECORD),
        (changed(">b", 16, 1), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (changed(">h", ATTRIBUTES_AT, 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (changed(">h", ATTRIBUTES_AT, 0x10), ErrorCode.INVALID_TXN_STATE),
        (changed(">h", ATTRIBUTES_AT, 0x20), ErrorCode.INVALID_TXN_STATE),
        (changed(">h", ATTRIBUTES_AT, 0x08), ErrorCode.INVALID_TIMESTAMP),
        (changed(">h", ATTRIBUTES_AT, 1), ErrorCode.CORRUPT_MESSAGE),  # not gzip
        (changed(">i", LAST_DELTA_AT, 7), ErrorCode.INVALID_RECORD),
        (changed(">i", COUNT_AT, 99), ErrorCode.INVALID_RECORD),
        (changed(">qhi", PRODUCER_AT, 5, 0, -1), ErrorCode.INVALID_RECORD),
        (resized(plain() + b"\0"), ErrorCode.INVALID_RECORD),
        (resized(plain()[:-3]), ErrorCode.INVALID_RECORD),
        (packed(1, b"\0" * 700), ErrorCode.INVALID_RECORD),
        (packed(4, bytes(plain()[HEAD.size :]) + b"\0"), ErrorCode.INVALID_RECORD),
    ],
)
def test_what_is_refused_says_why(batch: bytearray | None, code: ErrorCode) -> None:
    assert code_of(batch) is code


def test_counts_that_agree_with_each_other_and_not_with_the_records() -> None:
    batch = plain()
    struct.pack_into(">i", batch, LAST_DELTA_AT, 49)
    struct.pack_into(">i", batch, COUNT_AT, 50)
    assert code_of(resized(batch)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", PACKERS)
def test_a_bomb_is_left_to_a_thread_and_then_refused(codec: int) -> None:
    received = read_batch(packed(codec, bytes(65 << 20)))
    assert not prove_now(received)
    with pytest.raises(RefusedRecords) as caught:
        prove_records(received)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", PACKERS)
def test_a_bomb_never_gets_more_memory_than_the_limit(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def mapping(size: int) -> mmap.mmap:
        sizes.append(size)
        return mmap.mmap(-1, size)

    monkeypatch.setattr(unpacking, "_mapping", mapping)
    received = read_batch(packed(codec, bytes(65 << 20)))
    assert not prove_now(received)
    assert max(sizes, default=0) <= EASY_BYTES
    with pytest.raises(RefusedRecords):
        prove_records(received)
    assert max(sizes, default=0) <= DECODED_BYTES_MAX


def with_nothing(codec: int, count: int) -> bytearray:
    """A sound batch with so many things in its compressed form that nothing comes out of."""
    body = bytes(plain()[HEAD.size :])
    match codec:
        case 1:  # deflate's stored blocks; those with tables of codes take forty times as long
            packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
            end = struct.pack("<II", zlib.crc32(body), len(body))
            data = packer.compress(body) + packer.flush() + end
            return wrapped(1, b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + b"\0\0\0\xff\xff" * count + data)
        case 2:
            data = PACKERS[2](body)
            return wrapped(2, data[:16] + b"\0\0\0\1\0" * count + data[16:])
        case _:  # frames to skip
            return wrapped(codec, PACKERS[codec](body) + struct.pack("<II", 0x184D2A50, 0) * count)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_much_from_which_nothing_comes_out_is_left_to_a_thread(codec: int) -> None:
    received = read_batch(with_nothing(codec, 20_000))
    assert not prove_now(received)
    assert prove_records(received) == len(plain()) - HEAD.size


@pytest.mark.parametrize("codec", PACKERS)
def test_a_little_from_which_nothing_comes_out_is_counted(codec: int) -> None:
    without, batch = read_batch(packed(codec)), read_batch(with_nothing(codec, 16))
    assert prove_now(batch) >= prove_now(without)
    assert 0 < unpacking_cost(without) <= unpacking_cost(batch)
    assert not unpacking_cost(read_batch(plain()))


def test_a_snappy_stream_of_empty_chunks_is_refused() -> None:
    assert code_of(with_nothing(2, 20)) is ErrorCode.CORRUPT_MESSAGE


def test_what_a_batch_cost_counts_all_that_came_out_of_it() -> None:
    body = len(plain()) - HEAD.size
    assert prove_now(read_batch(packed(1))) > body
    many = read_batch(encode_kafka_batch([Message(b"")] * 5_000))
    assert prove_now(many) > len(many.batch) // 8


@pytest.mark.skipif(walk is python_walk, reason="the compiled walk is not built")
def test_a_walk_over_large_data_finds_the_same() -> None:
    batch = encode_kafka_batch([Message(bytes(3 << 20))])
    data = batch[HEAD.size :]
    assert walk(bytes(data), 0, 1) == -1
    assert walk(bytes(data) + b"\0", 0, 1) == 1


def test_a_large_batch_without_compression_is_left_to_a_thread() -> None:
    received = read_batch(encode_kafka_batch([Message(bytes(2 << 20))]))
    assert not prove_now(received)
    assert prove_records(received)


def test_the_compiled_walk_and_the_one_in_python_agree() -> None:
    random = Random(61)
    whole = bytes(plain())
    for _ in range(3_000):
        batch = bytearray(whole)
        for _ in range(random.randint(1, 4)):
            batch[random.randrange(HEAD.size, len(batch))] = random.randrange(256)
        if random.random() < 0.3:
            del batch[random.randrange(HEAD.size, len(batch)) :]
        args = (bytes(batch), HEAD.size, random.choice([100, 99, 101, 3]))
        assert walk(*args) == python_walk(*args)


def test_without_the_compiled_walk_many_records_are_left_to_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_batch, "walk", python_walk)
    monkeypatch.setattr("opentalos.wire.kafka.records.EASY_RECORDS", 10)
    received = read_batch(plain())
    assert not prove_now(received)
    assert prove_records(received)
