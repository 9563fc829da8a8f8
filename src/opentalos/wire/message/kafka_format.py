"""Kafka blocks (K0): one uncompressed Kafka record batch, magic 2, behind eight bytes.

Shape:   "K" 0 0 0 [batch length u32][batch]; batch: base offset 8, length 4, leader epoch 4,
         magic 1, crc 4, attributes 2, last offset delta 4, first timestamp 8, max timestamp 8,
         producer id 8, producer epoch 2, base sequence 4, record count 4, records. A record:
         varint length, attributes 1, varlong time delta, varint offset delta, key, value, headers.
Source: docs/protocol/messages.md#kafka-block; the Kafka protocol for CRC and headers.
"""

import struct
from collections.abc import Sequence
from typing import Final

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
_NO_SEQUENCE: Final = -1


def is_kafka_block(payload: bytes) -> bool:
    """Whether a payload is a Kafka block and not Talos messages."""
    return payload[:4] == MAGIC


def decode_kafka_block(payload: bytes, count: int) -> list[Message]:
    """The records of a Kafka block; each key is a partition key, each time create and append time.

    Raises: MessageFormatError: damaged, compressed, or not exactly ``count`` dense records.
    """
    try:
        return _decode(payload, count)
    except (struct.error, IndexError):
        raise MessageFormatError("the Kafka block ends too early") from None


def _decode(payload: bytes, count: int) -> list[Message]:
    start = len(MAGIC) + _U32.size
    batch = payload[start:]
    if not is_kafka_block(payload) or _U32.unpack_from(payload, len(MAGIC))[0] != len(batch):
        raise MessageFormatError("no Kafka block, or its length is wrong")
    head = _BATCH.unpack_from(batch)
    _, length, _, magic, crc, attributes, _, first_ms, _, _, _, sequence, records = head
    if magic != _BATCH_MAGIC or length != len(batch) - _LENGTH_END:
        raise MessageFormatError(f"no Kafka batch of magic 2: magic {magic}, length {length}")
    if attributes & _CODEC_MASK:
        raise MessageFormatError("a compressed Kafka batch")
    if google_crc32c.value(batch[_CRC_END:]) != crc:
        raise MessageFormatError("the Kafka batch's CRC is wrong")
    if records != count or not 0 <= count <= len(batch) // _RECORD_BYTES_MIN:
        raise MessageFormatError(f"a Kafka batch of {records} records, expected {count}")
    position = _BATCH.size
    found = []
    for index in range(count):
        number = None if sequence <= _NO_SEQUENCE else str(sequence + index)
        message, position = _record(batch, position, index, first_ms)
        found.append(message._replace(sequence_number=number))
    if position != len(batch):
        raise MessageFormatError(f"{len(batch) - position} bytes follow the last record")
    return found


def _record(batch: bytes, position: int, index: int, first_ms: int) -> tuple[Message, int]:
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


def _nullable(data: bytes, position: int) -> tuple[bytes | None, int]:
    length, position = _varint(data, position)
    if length < 0:
        return None, position
    if length > len(data) - position:
        raise MessageFormatError(f"a field of {length} bytes goes beyond its record")
    return data[position : position + length], position + length


def _varint(data: bytes, position: int) -> tuple[int, int]:
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
