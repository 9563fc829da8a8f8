"""Talos message formats V1, V2 and V3: a decompressed block is their concatenation.

Shape:   V1: [s u32][sequence number: s][d u32][data: d]
         V2: "V" 0 2 0 [create ms u64][type u16][s u16][sequence number: s][d u32][data: d]
         V3: "V" 0 3 0 [t u32][Message in the Thrift compact protocol: t]
         All numbers big endian; the first byte distinguishes V1 from the others, so versions mix.
Source: docs/protocol/messages.md#formats.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final

from opentalos.wire._generated import message as generated
from opentalos.wire.message.message import Message, MessageFormatError, Place, Record
from opentalos.wire.message.v3_format import encode_v3, read_plain
from opentalos.wire.thrift.compact import read_struct
from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.reader import Cursor

_VERSIONED: Final = ord("V")
_HEAD: Final = struct.Struct(">BHB")
_V3_HEAD: Final = _HEAD.pack(_VERSIONED, 3, 0)
_PIECE_BYTES: Final = 256 << 10
_V2_FIELDS: Final = struct.Struct(">qhH")
_U32: Final = struct.Struct(">I")
_V1_BYTES_MIN: Final = 8  # the shortest message of all versions
_VALUES_MAX: Final = 64  # fields of one V3 message, unknown ones included
_DAMAGE: Final = (struct.error, IndexError, ThriftError, UnicodeDecodeError)


def encode_messages(messages: Sequence[Message], version: int = 3) -> bytes:
    """The payload of a block before compression. Raises: MessageFormatError."""
    try:
        if version == 3:
            return encode_v3(messages)
        if version in (1, 2):
            return b"".join(map(_encode_v1 if version == 1 else _encode_v2, messages))
    except (struct.error, ThriftError) as error:
        raise MessageFormatError(f"a message does not fit version {version}: {error}") from error
    raise MessageFormatError(f"unknown message version {version}")


def _encode_v1(message: Message) -> bytes:
    sequence = (message.sequence_number or "").encode()
    data = message.data
    return b"%b%b%b%b" % (_U32.pack(len(sequence)), sequence, _U32.pack(len(data)), data)


def _encode_v2(message: Message) -> bytes:
    sequence = (message.sequence_number or "").encode()
    kind = generated.MessageType.BINARY if message.message_type is None else message.message_type
    head = _HEAD.pack(_VERSIONED, 2, 0)
    fields = _V2_FIELDS.pack(message.create_ms or 0, kind, len(sequence))
    return b"".join((head, fields, sequence, _U32.pack(len(message.data)), message.data))


def decode_messages(data: bytes, count: int, skipped: int = 0) -> list[Message]:
    """The messages of a decompressed block, without the first ``skipped`` ones.

    Those are passed over by their lengths alone, for a reader who wants the last few of many.

    Raises: MessageFormatError: damaged, or not exactly ``count`` messages.
    """
    return _decoded(data, count, skipped, None)


def decode_records(data: bytes, count: int, skipped: int, place: Place) -> list[Record]:
    """The same messages as records; the first one that is not skipped is at ``place``."""
    return _decoded(data, count, skipped, place)


def _decoded(data: bytes, count: int, skipped: int, place: Place | None) -> list[Any]:
    check_count(data, count)
    found: list[Any] = []
    position = index = 0
    while index < count:
        try:
            if index < skipped:
                position = _behind_one(data, position)
                index += 1
                continue
            position = read_plain(data, position, count - index, found, place)
            index = skipped + len(found)
            if index == count:
                break
            message, position = _decode_one(data, position)
        except _DAMAGE as error:
            raise _damaged(error, index, count) from None
        found.append(message if place is None else place.record(message, len(found)))
        index += 1
    check_end(data, position, count)
    return found


def check_count(data: bytes, count: int) -> None:
    """Raises: MessageFormatError: so many messages do not fit."""
    if count < 0 or count * _V1_BYTES_MIN > len(data):
        raise MessageFormatError(f"{count} messages cannot be in {len(data)} bytes")


def check_end(data: bytes, position: int, count: int) -> None:
    """Raises: MessageFormatError: the last message does not end where the block does."""
    if position != len(data):
        left = len(data) - position
        raise MessageFormatError(f"{left} bytes follow message {count}, the last one")


def pass_over(data: bytes, position: int, numbers: range, count: int) -> int:
    """The position behind some messages. Raises: MessageFormatError."""
    index = numbers.start
    try:
        while index < numbers.stop:
            position = _behind_one(data, position)
            index += 1
    except _DAMAGE as error:
        raise _damaged(error, index, count) from None
    return position


def read_some(data: bytes, position: int, numbers: range, count: int) -> tuple[list[Message], int]:
    """Some messages and the position behind them: all that are decoded fast, or the next one.

    Raises: MessageFormatError.
    """
    found: list[Message] = []
    try:
        position = start = read_plain(data, position, len(numbers), found)
        while not found or (
            len(found) < len(numbers)
            and position - start < _PIECE_BYTES
            and data[position : position + _HEAD.size] != _V3_HEAD
        ):
            message, position = _decode_one(data, position)
            found.append(message)
    except (*_DAMAGE, MessageFormatError) as error:
        if found:
            return found, position  # the next read says what is wrong, if anybody wants more
        if isinstance(error, MessageFormatError):
            raise
        raise _damaged(error, numbers.start, count) from None
    return found, position


def _damaged(error: Exception, index: int, count: int) -> MessageFormatError:
    if isinstance(error, (struct.error, IndexError)):
        return MessageFormatError(f"the block ends within message {index} of {count}")
    return MessageFormatError(f"message {index} of {count}: {error}")


def _decode_one(data: bytes, position: int) -> tuple[Message, int]:
    if data[position] != _VERSIONED:
        sequence, position = _counted(data, position)
        content, position = _counted(data, position)
        return Message(content, sequence_number=_text(sequence)), position
    _, version, mark = _HEAD.unpack_from(data, position)
    position += _HEAD.size
    if mark == 0 and version == 2:
        return _decode_v2(data, position)
    if mark == 0 and version == 3:
        content, position = _counted(data, position)
        return _decode_v3(content), position
    raise MessageFormatError(f"unknown message version {version} at position {position}")


def _behind_one(data: bytes, position: int) -> int:
    """Position after one message; may be beyond the block, which the next read detects."""
    if data[position] != _VERSIONED:
        position += _U32.size + _U32.unpack_from(data, position)[0]
    else:
        _, version, mark = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        if mark == 0 and version == 2:
            position += _V2_FIELDS.size + _V2_FIELDS.unpack_from(data, position)[2]
        elif mark or version != 3:
            raise MessageFormatError(f"unknown message version {version} at position {position}")
    return position + _U32.size + int(_U32.unpack_from(data, position)[0])


def _decode_v2(data: bytes, position: int) -> tuple[Message, int]:
    create_ms, kind, length = _V2_FIELDS.unpack_from(data, position)
    position += _V2_FIELDS.size
    sequence = _slice(data, position, length)
    content, position = _counted(data, position + length)
    message = Message(
        content, sequence_number=_text(sequence), create_ms=create_ms, message_type=kind
    )
    return message, position


def _decode_v3(data: bytes) -> Message:
    cursor = Cursor(data, _VALUES_MAX)
    value: generated.Message = read_struct(cursor, generated.Message.SPEC)
    if cursor.position != len(data):
        raise MessageFormatError(f"{len(data) - cursor.position} bytes follow a V3 message")
    return Message(
        value.message,
        partition_key=value.partitionKey,
        sequence_number=value.sequenceNumber,
        create_ms=value.createTimestamp,
        append_ms=value.appendTimestamp,
        message_type=None if value.messageType is None else int(value.messageType),
        schema_fingerprint=value.SchemaFingerprint,
        tag=value.tag,
        traceparent=value.traceparent,
    )


def _counted(data: bytes, position: int) -> tuple[bytes, int]:
    """Bytes behind their length, and the position after them."""
    length = _U32.unpack_from(data, position)[0]
    position += _U32.size
    return _slice(data, position, length), position + length


def _slice(data: bytes, position: int, length: int) -> bytes:
    if length > len(data) - position:
        raise MessageFormatError(f"a field of {length} bytes goes beyond the block")
    return data[position : position + length]


def _text(data: bytes) -> str | None:
    return data.decode() if data else None
