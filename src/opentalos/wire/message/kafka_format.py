"""Kafka blocks (K0): one Kafka record batch behind eight bytes, to messages and back.

A batch may be compressed; Kafka's producers choose that. What a message cannot express is in
docs/how-to/kafka.md: a null value is empty data, a key that is not UTF-8 has its other bytes as
\\xNN, headers are dropped but for those that this module writes itself.

Shape:   "K" 0 0 0 [batch length u32][batch]; the batch: kafka_batch.py.
Source:  docs/protocol/messages.md#kafka-block.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from opentalos.wire.message.compression import DECODED_BYTES_MAX
from opentalos.wire.message.kafka_batch import (
    BATCH_MAGIC,
    CODEC_MASK,
    CRC_END,
    HEAD,
    LENGTH_END,
    RECORD_BYTES_MIN,
    has_crc,
    read_head,
    records_of,
    set_crc,
    varint,
)
from opentalos.wire.message.message import Message, MessageFormatError
from opentalos.wire.message.unpacking import Unpacked

MAGIC: Final = b"K\0\0\0"
WRAPPER_BYTES: Final = 8
SEQUENCE_MASK: Final = 0x7FFFFFFF  # sequence numbers of Kafka begin again at 0
TRACE_HEADER: Final = b"traceparent"
SEQUENCE_HEADER: Final = b"talos-sequence-number"
_U32: Final = struct.Struct(">I")
_NO_SEQUENCE: Final = -1


def is_kafka_block(payload: bytes) -> bool:
    """Whether a payload is a Kafka block and not Talos messages."""
    return payload[:4] == MAGIC


def is_packed_kafka_block(payload: bytes | memoryview) -> bool:
    """Whether a payload seems to be a Kafka block whose records are compressed."""
    at = WRAPPER_BYTES + CRC_END + 1
    return payload[:4] == MAGIC and len(payload) > at and bool(payload[at] & CODEC_MASK)


class KafkaBatch(NamedTuple):
    """A verified record batch; ``view`` ends with it, ``position`` is that of its first record."""

    view: memoryview
    position: int
    records: int
    first_ms: int
    sequence: int  # of the first record; -1: none
    data: Unpacked | None = None  # what was decompressed and ``view`` shows


def decode_kafka_block(
    payload: bytes, count: int, bytes_max: int = DECODED_BYTES_MAX
) -> list[Message]:
    """The records of a Kafka block; each key is a partition key, each time create and append time.

    Raises: MessageFormatError: damaged, or not exactly ``count`` dense records.
    """
    batch = open_kafka_block(payload, count, bytes_max)
    return read_kafka_records(batch, batch.position, range(count))[0]


def open_kafka_block(payload: bytes, count: int, bytes_max: int = DECODED_BYTES_MAX) -> KafkaBatch:
    """The batch of a Kafka block, its CRC checked and decompressed.

    Raises: DecodedTooLarge: more than ``bytes_max`` come out; MessageFormatError.
    """
    batch = memoryview(payload)[WRAPPER_BYTES:]  # a slice of bytes would be a copy of the rest
    if len(payload) < WRAPPER_BYTES or not is_kafka_block(payload):
        raise MessageFormatError("no Kafka block")
    if _U32.unpack_from(payload, len(MAGIC))[0] != len(batch):
        raise MessageFormatError("a Kafka block whose length is wrong")
    head = read_head(batch)
    if not has_crc(batch, head.crc):
        raise MessageFormatError("the Kafka batch's CRC is wrong")
    data, position = records_of(batch, head, bytes_max)
    view = memoryview(data)
    if head.records != count or not 0 <= count <= len(view) // RECORD_BYTES_MIN:
        raise MessageFormatError(f"a Kafka batch of {head.records} records, expected {count}")
    if not count and len(view) != position:
        raise MessageFormatError(f"{len(view) - position} bytes follow the last record")
    unpacked = None if isinstance(data, memoryview) else data
    return KafkaBatch(view, position, count, head.first_ms, head.sequence, unpacked)


def read_kafka_records(
    batch: KafkaBatch, position: int, numbers: range
) -> tuple[list[Message], int]:
    """Some records and the position behind them. Raises: MessageFormatError."""
    found = []
    view, sequence = batch.view, batch.sequence
    try:
        for index in numbers:
            message, position = _record(view, position, index, batch.first_ms)
            if message.sequence_number is None and sequence > _NO_SEQUENCE:
                number = str((sequence + index) & SEQUENCE_MASK)
                message = message._replace(sequence_number=number)
            found.append(message)
    except (struct.error, IndexError):
        raise MessageFormatError("the Kafka block ends too early") from None
    if numbers and numbers[-1] == batch.records - 1 and position != len(view):
        raise MessageFormatError(f"{len(view) - position} bytes follow the last record")
    return found, position


def pass_over_kafka_records(batch: KafkaBatch, position: int, numbers: range) -> int:
    """The position behind some records. Raises: MessageFormatError."""
    try:
        for index in numbers:
            length, position = varint(batch.view, position)
            if not 0 <= length <= len(batch.view) - position:
                raise MessageFormatError(f"record {index} goes beyond its batch")
            position += length
    except IndexError:
        raise MessageFormatError("the Kafka block ends too early") from None
    return position


def _record(batch: memoryview, position: int, index: int, first_ms: int) -> tuple[Message, int]:
    length, position = varint(batch, position)
    end = position + length
    if length < 0 or end > len(batch):
        raise MessageFormatError(f"record {index} goes beyond its batch")
    record = batch[:end]
    time_delta, position = varint(record, position + 1)
    offset_delta, position = varint(record, position)
    if offset_delta != index:
        raise MessageFormatError(f"record {index} has the offset delta {offset_delta}")
    key, position = _nullable(record, position)
    value, position = _nullable(record, position)
    number = trace = None
    # Other writers may leave headers out altogether.
    if position < end and record[position]:
        number, trace = _known_headers(record, position)
    return (
        Message(
            value or b"",
            partition_key=None if key is None else _text(key),
            sequence_number=number,
            create_ms=first_ms + time_delta,
            append_ms=first_ms + time_delta,
            traceparent=trace,
        ),
        end,
    )


def _text(data: bytes) -> str:
    """A key that is not UTF-8 stays readable and distinct; no consumer is stopped by it."""
    return data.decode(errors="backslashreplace")


def _known_headers(record: memoryview, position: int) -> tuple[str | None, str | None]:
    """Sequence number and trace of a record's headers, None each without it."""
    count, position = varint(record, position)
    number = trace = None
    for _ in range(min(max(count, 0), len(record))):
        name, position = _nullable(record, position)
        value, position = _nullable(record, position)
        if value and name == SEQUENCE_HEADER:
            number = _text(value)
        elif value and name == TRACE_HEADER:
            trace = _text(value)
    return number, trace


def _nullable(data: memoryview, position: int) -> tuple[bytes | None, int]:
    length, position = varint(data, position)
    if length < 0:
        return None, position
    if length > len(data) - position:
        raise MessageFormatError(f"a field of {length} bytes goes beyond its record")
    return bytes(data[position : position + length]), position + length


def encode_kafka_block(messages: Sequence[Message], base_sequence: int = _NO_SEQUENCE) -> bytes:
    """A Kafka block of messages with create times; for tests and gateways."""
    batch = encode_kafka_batch(messages, base_sequence)
    return MAGIC + _U32.pack(len(batch)) + batch


def encode_kafka_batch(
    messages: Sequence[Message],
    base_sequence: int = _NO_SEQUENCE,
    base_offset: int = 0,
    leader_epoch: int = 0,
) -> bytearray:
    """A record batch of messages with create times, uncompressed.

    Their sequence numbers are those that ``base_sequence`` says, else each goes into a header.
    """
    if base_sequence > _NO_SEQUENCE:
        messages = [message._replace(sequence_number=None) for message in messages]
    times = [message.create_ms or 0 for message in messages] or [0]
    first_ms = times[0]
    body = b"".join(
        [_encode_record(message, index, first_ms) for index, message in enumerate(messages)]
    )
    length = HEAD.size - LENGTH_END + len(body)
    fixed = (0, len(messages) - 1, first_ms, max(times), -1, -1, base_sequence, len(messages))
    batch = bytearray(HEAD.pack(base_offset, length, leader_epoch, BATCH_MAGIC, 0, *fixed))
    batch += body
    set_crc(batch)
    return batch


def _encode_record(message: Message, index: int, first_ms: int) -> bytes:
    key = None if message.partition_key is None else message.partition_key.encode()
    delta = (message.create_ms or 0) - first_ms
    body = b"\0%b%b%b%b%b" % (
        encode_varint(delta),
        encode_varint(index),
        _encode_nullable(key),
        _encode_nullable(message.data),
        _encode_headers(message),
    )
    return encode_varint(len(body)) + body


def _encode_headers(message: Message) -> bytes:
    pairs = (
        (SEQUENCE_HEADER, message.sequence_number),
        (TRACE_HEADER, message.traceparent),
    )
    given = [(name, text.encode()) for name, text in pairs if text]
    if not given:
        return b"\0"
    parts = [_encode_nullable(name) + _encode_nullable(value) for name, value in given]
    return encode_varint(len(given)) + b"".join(parts)


def _encode_nullable(data: bytes | None) -> bytes:
    return b"\x01" if data is None else encode_varint(len(data)) + data


def encode_varint(value: int) -> bytes:
    """A zigzag number of at most 64 bits."""
    number = (value << 1) ^ (value >> 63)
    if number < 0x80:
        return _ONE_BYTE[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))
