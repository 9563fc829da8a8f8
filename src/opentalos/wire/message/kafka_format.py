"""Kafka blocks (K0): one uncompressed Kafka record batch, magic 2, behind eight bytes.

Shape:   "K" 0 0 0 [batch length u32][batch]; batch: base offset 8, length 4, leader epoch 4,
         magic 1, crc 4, attributes 2, last offset delta 4, first timestamp 8, max timestamp 8,
         producer id 8, producer epoch 2, base sequence 4, record count 4, records. A record:
         varint length, attributes 1, varlong time delta, varint offset delta, key, value, headers.
Source: docs/protocol/messages.md#kafka-block; the Kafka protocol for CRC and headers.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import google_crc32c

from opentalos.wire.message.message import Message, MessageFormatError

MAGIC: Final = b"K\0\0\0"
_U32: Final = struct.Struct(">I")
_BATCH: Final = struct.Struct(">qiibIhiqqqhii")
_CRC_END: Final = 21  # the CRC covers the batch from here on
_LENGTH_END: Final = 12  # the batch's own length counts from here on
_BATCH_MAGIC: Final = 2
_CODEC_MASK: Final = 7
_RECORD_BYTES_MIN: Final = 7
_PIECE_BYTES: Final = 256 << 10
_NO_SEQUENCE: Final = -1


def is_kafka_block(payload: bytes) -> bool:
    """Whether a payload is a Kafka block and not Talos messages."""
    return payload[:4] == MAGIC


class KafkaBatch(NamedTuple):
    """A verified record batch; ``view`` ends with it, ``position`` is that of its first record."""

    view: memoryview
    position: int
    records: int
    first_ms: int
    sequence: int  # of the first record; -1: none


def decode_kafka_block(payload: bytes, count: int) -> list[Message]:
    """The records of a Kafka block; each key is a partition key, each time create and append time.

    Raises: MessageFormatError: damaged, compressed, or not exactly ``count`` dense records.
    """
    batch = open_kafka_block(payload, count)
    return read_kafka_records(batch, batch.position, range(count))[0]


def open_kafka_block(payload: bytes, count: int) -> KafkaBatch:
    """The batch of a Kafka block, its CRC checked. Raises: MessageFormatError."""
    try:
        return _opened(payload, count)
    except (struct.error, IndexError):
        raise MessageFormatError("the Kafka block ends too early") from None


def read_kafka_records(
    batch: KafkaBatch, position: int, numbers: range
) -> tuple[list[Message], int]:
    """Some records and the position behind them. Raises: MessageFormatError."""
    found = []
    view, sequence = batch.view, batch.sequence
    try:
        for index in numbers:
            number = None if sequence <= _NO_SEQUENCE else str(sequence + index)
            message, position = _record(view, position, index, batch.first_ms)
            found.append(message._replace(sequence_number=number))
    except (struct.error, IndexError):
        raise MessageFormatError("the Kafka block ends too early") from None
    if numbers and numbers[-1] == batch.records - 1 and position != len(view):
        raise MessageFormatError(f"{len(view) - position} bytes follow the last record")
    return found, position


def pass_over_kafka_records(batch: KafkaBatch, position: int, numbers: range) -> int:
    """The position behind some records. Raises: MessageFormatError."""
    try:
        for index in numbers:
            length, position = _varint(batch.view, position)
            if not 0 <= length <= len(batch.view) - position:
                raise MessageFormatError(f"record {index} goes beyond its batch")
            position += length
    except IndexError:
        raise MessageFormatError("the Kafka block ends too early") from None
    return position


def _opened(payload: bytes, count: int) -> KafkaBatch:
    start = len(MAGIC) + _U32.size
    batch = memoryview(payload)[start:]  # a slice of bytes would be a copy of the rest
    if not is_kafka_block(payload) or _U32.unpack_from(payload, len(MAGIC))[0] != len(batch):
        raise MessageFormatError("no Kafka block, or its length is wrong")
    head = _BATCH.unpack_from(batch)
    _, length, _, magic, crc, attributes, _, first_ms, _, _, _, sequence, records = head
    if magic != _BATCH_MAGIC or length != len(batch) - _LENGTH_END:
        raise MessageFormatError(f"no Kafka batch of magic 2: magic {magic}, length {length}")
    if attributes & _CODEC_MASK:
        raise MessageFormatError("a compressed Kafka batch")
    if _crc_of(batch[_CRC_END:]) != crc:
        raise MessageFormatError("the Kafka batch's CRC is wrong")
    if records != count or not 0 <= count <= len(batch) // _RECORD_BYTES_MIN:
        raise MessageFormatError(f"a Kafka batch of {records} records, expected {count}")
    if not count and len(batch) != _BATCH.size:
        raise MessageFormatError(f"{len(batch) - _BATCH.size} bytes follow the last record")
    return KafkaBatch(batch, _BATCH.size, records, first_ms, sequence)


def _crc_of(view: memoryview) -> int:
    """In pieces, since the library takes no views and a copy of all would be large."""
    crc = 0
    for start in range(0, len(view), _PIECE_BYTES):
        crc = google_crc32c.extend(crc, bytes(view[start : start + _PIECE_BYTES]))
    return crc


def _record(batch: memoryview, position: int, index: int, first_ms: int) -> tuple[Message, int]:
    length, position = _varint(batch, position)
    end = position + length
    if length < 0 or end > len(batch):
        raise MessageFormatError(f"record {index} goes beyond its batch")
    record = batch[:end]
    time_delta, position = _varint(record, position + 1)
    offset_delta, position = _varint(record, position)
    if offset_delta != index:
        raise MessageFormatError(f"record {index} has the offset delta {offset_delta}")
    key, position = _nullable(record, position)
    value, position = _nullable(record, position)
    try:
        text = None if key is None else key.decode()
    except UnicodeDecodeError:
        raise MessageFormatError(f"the key of record {index} is not UTF-8") from None
    time_ms = first_ms + time_delta
    return Message(value or b"", partition_key=text, create_ms=time_ms, append_ms=time_ms), end


def _nullable(data: memoryview, position: int) -> tuple[bytes | None, int]:
    length, position = _varint(data, position)
    if length < 0:
        return None, position
    if length > len(data) - position:
        raise MessageFormatError(f"a field of {length} bytes goes beyond its record")
    return bytes(data[position : position + length]), position + length


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """A zigzag number of at most 64 bits."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise MessageFormatError("a varint longer than 64 bits")
    return (value >> 1) ^ -(value & 1), position


def encode_kafka_block(messages: Sequence[Message], base_sequence: int = _NO_SEQUENCE) -> bytes:
    """A Kafka block of messages with create times; for tests and gateways."""
    times = [message.create_ms or 0 for message in messages] or [0]
    body = b"".join(
        _encode_record(message, index, times[0]) for index, message in enumerate(messages)
    )
    last = len(messages) - 1
    length = _BATCH.size - _LENGTH_END + len(body)
    fixed = (0, last, times[0], max(times), -1, -1, base_sequence, len(messages))
    batch = bytearray(_BATCH.pack(0, length, 0, _BATCH_MAGIC, 0, *fixed) + body)
    crc = google_crc32c.value(bytes(batch[_CRC_END:]))
    batch[_CRC_END - _U32.size : _CRC_END] = _U32.pack(crc)
    return MAGIC + _U32.pack(len(batch)) + batch


def _encode_record(message: Message, index: int, first_ms: int) -> bytes:
    key = None if message.partition_key is None else message.partition_key.encode()
    delta = (message.create_ms or 0) - first_ms
    body = b"\0%b%b%b%b\0" % (
        _encode_varint(delta),
        _encode_varint(index),
        _encode_nullable(key),
        _encode_nullable(message.data),
    )
    return _encode_varint(len(body)) + body


def _encode_nullable(data: bytes | None) -> bytes:
    return _encode_varint(-1) if data is None else _encode_varint(len(data)) + data


def _encode_varint(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
