"""Hand-written compact codec of putMessage and getMessage, the two calls of the data path.

The decoders know the shapes that the official clients send and return None for every other one,
also for every malformed one: the generic codec then decodes it or says what is wrong.
Source: docs/internals/hot-path.md#rule-5.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, cast

from opentalos.model.message import (
    PRODUCER_ID_MAX,
    BaseOffset,
    MessageBlock,
    PayloadFormat,
    ProducerStamp,
    StoredBefore,
    StoredBlock,
)
from opentalos.wire.thrift.compact import ONE_BYTE, varint

# Field heads of the compact protocol: difference of the field ids and type.
_NEXT_I32: Final = 0x15
_NEXT_I64: Final = 0x16
_NEXT_BYTES: Final = 0x18
_NEXT_STRUCT: Final = 0x1C
_LIST_OF_ONE_STRUCT: Final = b"\x19\x1c\x16"  # field head, list head, head of the first field
_CALL: Final = b"\x82\x21"  # protocol id; version 1, message type call
_PUT_START: Final = b"\x0aputMessage\x1c\x1c\x18"  # up to the length of topicName
_GET_START: Final = b"\x0agetMessage\x1c\x1c\x18"
_PUT_REPLY: Final = b"\x0aputMessage\x0c\x00\x18"  # success is field 0; head of sequenceId
_GET_REPLY: Final = b"\x0agetMessage\x0c\x00\x19"  # head of messageBlocks
_TRANSFERRED: Final = b"\x11\0\0"  # isTransfer follows sequenceId in both replies; the ends
# Fields with high ids, see idl/opentalos.thrift: the first one is named by its id, after any other.
_PRODUCER_ID: Final = b"\x06\xd2\x0f"  # i64, field 1001
_BASE_OFFSET: Final = b"\x06\xd2\x0f%b\0\0"
_BASE_OFFSET_BEFORE: Final = b"\x06\xd2\x0f%b\x11\0\0"  # and storedBefore
_BEFORE: Final = b"\x01\xd4\x0f\0\0"  # storedBefore alone
_TRANSFERRED_HEAD: Final = b"\x11"
UNKNOWN: Final = -1  # as unHandledMessageNumber: the log is damaged, so nobody knows
_UNKNOWN: Final = b"\x01"  # the same as it is sent
_COMPRESSION_MAX: Final = 4
_GET_MESSAGES_DEFAULT: Final = 2000  # Source: idl/message.thrift GetMessageRequest
_GET_BYTES_DEFAULT: Final = 10 << 20
_TARGETS_MAX: Final = 4096
# Encoded TopicAndPartition to its values: a producer sends few of them again and again, and equal
# strings that are one object are found faster in the tables behind this.
_targets: dict[bytes, tuple[str, str, int]] = {}


class HotPut(NamedTuple):
    """A putMessage call in the one shape that clients send: one block, no transaction."""

    seqid: int
    topic: str
    resource: str
    partition: int
    block: MessageBlock
    sequence_id: bytes  # UTF-8, echoed in the reply
    deadline_ms: int  # wall time; 0: none


class HotGet(NamedTuple):
    """A getMessage call without tag filters."""

    seqid: int
    topic: str
    resource: str
    partition: int
    offset: int
    messages_max: int
    bytes_max: int
    sequence_id: bytes  # UTF-8, echoed in the reply
    deadline_ms: int  # wall time; 0: none


class _Unknown(Exception):
    """A shape that this decoder does not know."""


# The constructors of named tuples are Python functions: 0.3 us each, this 0.15 us.
_message_block = cast(
    Callable[[tuple[object, ...]], MessageBlock], partial(tuple.__new__, MessageBlock)
)
_hot_put = cast(Callable[[tuple[object, ...]], HotPut], partial(tuple.__new__, HotPut))
_TALOS: Final = PayloadFormat.TALOS


def _long(data: bytes, position: int, byte: int) -> tuple[int, int]:
    """Rest of a varint whose first byte ``byte``, at ``position - 1``, has the continuation bit."""
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise _Unknown


def _number(data: bytes, position: int) -> tuple[int, int]:
    """An unsigned varint and the position behind it."""
    byte = data[position]
    if byte < 0x80:
        return byte, position + 1
    return _long(data, position + 1, byte)


def decode_put(body: bytes, principal: int = 0) -> HotPut | None:
    """Decode a compact putMessage call; None for every shape this decoder does not know.

    ``principal`` is the billing number put into the block.
    """
    try:
        return _decode_put(body, principal)
    except (IndexError, UnicodeDecodeError, _Unknown):
        return None


def _decode_put(body: bytes, principal: int) -> HotPut | None:
    seqid, topic, resource, partition, at = _target(body, _PUT_START)
    # MessageBlock: startMessageOffset, messageNumber, compressionType, messageBlock
    if body[at : at + 3] != _LIST_OF_ONE_STRUCT:
        return None
    start, at = _number(body, at + 3)
    if body[at] != _NEXT_I32 or start >> 64:
        return None
    messages, at = _number(body, at + 1)
    if body[at] != _NEXT_I32 or body[at + 2] != _NEXT_BYTES:
        return None
    compression = body[at + 1]
    if compression & 1 or compression > 2 * _COMPRESSION_MAX:
        return None
    length, at = _number(body, at + 3)
    payload = body[at : at + length]
    create_ms, at = _block_rest(body, at + length)
    # PutMessageRequest: messageNumber, sequenceId, timeoutTimestamp
    if body[at] != _NEXT_I32:
        return None
    total, at = _number(body, at + 1)
    if total != messages or messages & 1 or not messages or messages >> 32:
        return None  # not one number above 0: the generic way says what is wrong
    if body[at] != _NEXT_BYTES:
        return None
    size, at = _number(body, at + 1)
    sequence_id = body[at : at + size]
    if not sequence_id.isascii():
        sequence_id.decode()
    at += size
    deadline_ms = 0
    if body[at] == _NEXT_I64:
        deadline_ms, at = _deadline(body, at)
    stamp = None
    if body[at] == 6:
        stamp, at = _stamp(body, at)
    if body[at:] != b"\0\0":
        return None
    block = _message_block(
        (payload, messages >> 1, compression >> 1, create_ms, _TALOS, principal, b"", stamp)
    )
    return _hot_put((seqid, topic, resource, partition, block, sequence_id, deadline_ms))


def _target(body: bytes, start: bytes) -> tuple[int, str, str, int, int]:
    """Header and TopicAndPartition: seqid, topic, resource, partition, position behind."""
    seqid = body[2]
    if seqid >= 0x80 or not body.startswith(_CALL) or not body.startswith(start, 3):
        raise _Unknown
    at = 3 + len(start)
    end, key = 0, b""
    if body[at] < 0x80:
        resource_at = at + body[at] + 3
        end = resource_at + body[resource_at] + 5
        key = body[at:end]  # the whole struct, if its lengths and number have one byte each
        known = _targets.get(key)
        if known is not None:
            return seqid, known[0], known[1], known[2], end
    topic, resource, partition, position = _parse_target(body, at)
    if position == end:
        if len(_targets) >= _TARGETS_MAX:
            _targets.clear()
        _targets[key] = topic, resource, partition
    return seqid, topic, resource, partition, position


def _parse_target(body: bytes, at: int) -> tuple[str, str, int, int]:
    """TopicAndPartition from the length of its first field on, and the position behind it."""
    length, at = _number(body, at)
    topic = body[at : at + length]
    at += length
    if body[at] != _NEXT_STRUCT or body[at + 1] != _NEXT_BYTES:
        raise _Unknown
    length, at = _number(body, at + 2)
    resource = body[at : at + length]
    at += length
    if body[at] or body[at + 1] != _NEXT_I32:
        raise _Unknown
    partition, at = _number(body, at + 2)
    if body[at] or partition & 1 or partition >> 32:
        raise _Unknown
    return topic.decode(), resource.decode(), partition >> 1, at + 1


def _block_rest(body: bytes, at: int) -> tuple[int, int]:
    """Optional numbers of a block: create time, and the position behind the block's end."""
    field, create_ms = 4, 0
    while head := body[at]:
        field += head >> 4
        value, at = _number(body, at + 1)
        kind = head & 15
        if kind == 6 and value < 1 << 64:
            if field == 7:  # createTimestamp
                if value & 1:
                    raise _Unknown
                create_ms = value >> 1
            elif field == 9:  # transactionId
                if value:
                    raise _Unknown
            elif field != 6:  # appendTimestamp, which the server sets
                raise _Unknown
        elif kind != 5 or field != 5 or value & 1 or value >> 32:  # messageBlockSize >= 0
            raise _Unknown
    return create_ms, at + 1


def _deadline(body: bytes, at: int) -> tuple[int, int]:
    """timeoutTimestamp whose field begins here, and the position behind it."""
    deadline, at = _number(body, at + 1)
    if deadline & 1 or deadline >> 64:
        raise _Unknown
    return deadline >> 1, at


def _stamp(body: bytes, at: int) -> tuple[ProducerStamp, int]:
    """The fields of an idempotent put, which begin here, and the position behind them."""
    if body[at : at + 3] != _PRODUCER_ID:
        raise _Unknown
    producer_id, at = _number(body, at + 3)
    if body[at] != _NEXT_I32 or producer_id & 1 or not 0 < producer_id >> 1 <= PRODUCER_ID_MAX:
        raise _Unknown
    epoch, at = _number(body, at + 1)
    if body[at] != _NEXT_I64 or epoch & 1 or epoch >> 32:
        raise _Unknown
    sequence, at = _number(body, at + 1)
    if sequence & 1 or sequence >> 64:
        raise _Unknown
    repeated = body[at] == 0x11  # a boolean is in its field's head
    if repeated or body[at] == 0x12:
        at += 1
    return ProducerStamp(producer_id >> 1, epoch >> 1, sequence >> 1, repeated), at


def decode_get(body: bytes) -> HotGet | None:
    """Decode a compact getMessage call; None for every shape this decoder does not know."""
    try:
        return _decode_get(body)
    except (IndexError, UnicodeDecodeError, _Unknown):
        return None


def _decode_get(body: bytes) -> HotGet | None:
    seqid, topic, resource, partition, at = _target(body, _GET_START)
    if body[at] != 0x26:  # messageOffset is field 3
        return None
    offset, at = _number(body, at + 1)
    if offset >> 64:
        return None
    values = {4: _GET_MESSAGES_DEFAULT << 1, 5: _GET_BYTES_DEFAULT << 1}
    field = 3
    while (head := body[at]) & 15 in (1, 2, 5):
        field += head >> 4
        if head & 15 == 5:
            if field not in (4, 5):
                return None
            values[field], at = _number(body, at + 1)
            if values[field] >> 32:
                return None
        elif field != 6:  # showUnHandledMessageNumber: the number is always sent
            return None
        else:
            at += 1
    if head != (7 - field) << 4 | 8:  # sequenceId
        return None
    size, at = _number(body, at + 1)
    sequence_id = body[at : at + size]
    sequence_id.decode()
    at += size
    deadline_ms = 0
    if body[at] == _NEXT_I64:
        deadline_ms, at = _deadline(body, at)
    if body[at:] != b"\0\0":
        return None
    messages, size = values[4], values[5]
    return HotGet(
        seqid,
        topic,
        resource,
        partition,
        (offset >> 1) ^ -(offset & 1),
        (messages >> 1) ^ -(messages & 1),
        (size >> 1) ^ -(size & 1),
        sequence_id,
        deadline_ms,
    )


def put_reply(
    seqid: int, sequence_id: bytes, base_offset: BaseOffset, *, transferred: bool = False
) -> bytes:
    """Compact reply of a successful putMessage; ``seqid`` >= 0.

    Args: base_offset: below 0 it is left out; transferred: isTransfer.
    """
    length = len(sequence_id)
    if base_offset >= 0:
        before = type(base_offset) is StoredBefore
        end = (_BASE_OFFSET_BEFORE if before else _BASE_OFFSET) % varint(base_offset << 1)
        if transferred:
            end = _TRANSFERRED_HEAD + end
    elif type(base_offset) is StoredBefore:
        end = _TRANSFERRED_HEAD + _BEFORE if transferred else _BEFORE
    else:
        end = _TRANSFERRED if transferred else b"\0\0"
    if seqid < 0x80 and length < 0x80:
        return b"\x82\x41%c%b%c%b%b" % (seqid, _PUT_REPLY, length, sequence_id, end)
    return b"\x82\x41%b%b%b%b%b" % (
        varint(seqid & 0xFFFFFFFF),
        _PUT_REPLY,
        varint(length),
        sequence_id,
        end,
    )


def get_reply_chunks(
    seqid: int,
    sequence_id: bytes,
    blocks: Sequence[StoredBlock],
    unhandled: int,
    *,
    transferred: bool = False,
) -> list[bytes | memoryview]:
    """Compact reply of a getMessage as chunks; payloads are passed through without a copy.

    ``unhandled`` is the number of messages after the last returned one, or UNKNOWN; always sent,
    since the Python client fails without it. ``transferred``: isTransfer.
    """
    count = len(blocks)
    size = bytes((count << 4 | 12,)) if count < 15 else b"\xfc" + varint(count)
    head = b"\x82\x41%b%b%b" % (varint(seqid & 0xFFFFFFFF), _GET_REPLY, size)
    chunks: list[bytes | memoryview] = []
    add, messages, last_ms, shown_ms = chunks.append, 0, -1, b""
    for base, number, append_ms, create_ms, compression, _, payload, extras in blocks:
        length = len(payload)
        add(
            b"%b\x16%b\x15%b\x15%b\x18%b"
            % (
                head,
                varint(base << 1),
                varint(number << 1),
                ONE_BYTE[compression << 1],
                varint(length),
            )
        )
        add(payload)
        if append_ms != last_ms:  # neighbours were often appended together
            last_ms, shown_ms = append_ms, varint(append_ms << 1)
        # A create time of 0 is an absent one, but the extras follow field 7.
        created = b"\x16" + varint(create_ms << 1) if create_ms or extras else b""
        head = b"\x15%b\x16%b%b%b\0" % (varint(length << 1), shown_ms, created, extras)
        messages += number
    add(
        b"%b\x15%b\x16%b\x18%b%b%b"
        % (
            head,
            varint(messages << 1),
            varint(unhandled << 1) if unhandled >= 0 else _UNKNOWN,
            varint(len(sequence_id)),
            sequence_id,
            _TRANSFERRED if transferred else b"\0\0",
        )
    )
    return chunks
