"""Messages of version 3, quick for the shapes that producers write.

Shape:   "V" 0 3 0 [t u32][Message in the Thrift compact protocol: t], big endian. Plain is:
         partition key, sequence number, data, create time and type in this order with short field
         heads, each but the data optional, the data below 16 KiB.
Source: docs/protocol/messages.md#v3. The bytes equal those of the generic codec, which reads
whatever is not plain.
"""

import struct
from collections.abc import Iterable
from typing import Any, Final

from opentalos.wire._generated import message as generated
from opentalos.wire.message.message import Message, Place, Record
from opentalos.wire.thrift.compact import read_varint, varint, write_struct
from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.reader import Cursor

VERSION_WORD: Final = 0x56000300
# Field heads of the compact protocol: difference of the field ids, then the type.
BYTES_HEADS: Final = (0x08, 0x18, 0x28, 0x38)  # by difference
TIME_HEAD: Final = 0x16  # field 4 after the data
TYPE_HEADS: Final = (0x35, 0x25)  # field 6: without, with a time before it
_START: Final = struct.Struct(">IIBB")  # mark, length, the first field's head and size
_HEAD_AND_SIZE: Final = 2  # bytes of them; the length counts them
_U32: Final = struct.Struct(">I")
_EMPTY_DATA: Final = b"\x38\0"
_VARINT_MORE: Final = 0x7F  # a larger byte is not a varint's last
_TIME_MAX: Final = 1 << 62  # below, the zigzag form is the double
_KIND_MAX: Final = 1 << 30
_VALUES_MAX: Final = 2  # of a plain tail

Tail = tuple[int | None, int | None]  # create time and type


def encode_v3(messages: Iterable[Message]) -> bytes:
    """Messages one after the other. Raises: ThriftError, struct.error: a number is too large."""
    parts: list[bytes] = []
    add, pack = parts.append, _U32.pack
    last: tuple[object, ...] = ()
    tail = b""
    heads: dict[int, bytes] = {}  # of messages without texts, by size; at most one each
    for message in messages:
        data, key, number, created, appended, kind, fingerprint, tag, trace = message
        # Neighbours were often made in the same millisecond.
        if (created, appended, kind, fingerprint, tag, trace) != last:
            last, former, tail = message[3:], len(tail), _encode_tail(message)
            if len(tail) != former:
                heads.clear()
        size = len(data)
        if key is None and number is None:
            head = heads.get(size)
            if head is None:
                head = b"\x38" + varint(size)
                head = b"V\0\3\0%b%b" % (pack(len(head) + size + len(tail)), head)
                heads[size] = head
        else:
            head = _encode_texts(key, number) + varint(size)
            head = b"V\0\3\0%b%b" % (pack(len(head) + size + len(tail)), head)
        add(head)
        add(data)
        add(tail)
    return b"".join(parts)


def _encode_texts(key: str | None, number: str | None) -> bytes:
    """Partition key, sequence number and the head of the data; not both are None."""
    head, missing = b"", 3  # difference to the data's field id
    if key is not None:
        text = key.encode()
        head, missing = b"\x18%b%b" % (varint(len(text)), text), 2
    if number is not None:
        text = number.encode()
        head += b"%c%b%b" % (BYTES_HEADS[missing - 1], varint(len(text)), text)
        missing = 1
    return head + b"%c" % BYTES_HEADS[missing]


def _encode_tail(message: Message) -> bytes:
    """What follows the data."""
    _, _, _, created, appended, kind, fingerprint, tag, trace = message
    if (
        appended is None
        and fingerprint is None
        and tag is None
        and trace is None
        and created is not None
        and 0 <= created < _TIME_MAX
        and (kind is None or 0 <= kind < _KIND_MAX)
    ):
        shown = b"" if kind is None else b"\x25" + varint(kind << 1)
        return b"".join((b"\x16", varint(created << 1), shown, b"\0"))
    out = bytearray()
    value = generated.Message(
        message=b"",
        createTimestamp=created,
        appendTimestamp=appended,
        messageType=kind,
        SchemaFingerprint=fingerprint,
        tag=tag,
        traceparent=trace,
    )
    write_struct(out, generated.Message.SPEC, value)
    return bytes(out[len(_EMPTY_DATA) :])


def read_plain(
    data: bytes, position: int, wanted: int, found: list[Any], place: Place | None = None
) -> int:
    """Append up to ``wanted`` plain messages to ``found``; return the position behind them.

    Ends early at a message that is not plain or is damaged; the generic codec reads it or says
    what is wrong. Records are made at once, without a message before: 0.5 against 0.9 us.

    Args:    place: makes records of them; ``found`` then has those of the same place only.
    """
    total, new, unpack, add = len(data), tuple.__new__, _START.unpack_from, found.append
    topic, partition, offset, append_ms = place or (None, 0, 0, 0)
    offset += len(found)
    tails: dict[bytes, Tail | None] = {}  # at most ``wanted``
    tail_of = tails.get
    try:
        for _ in range(wanted):
            version, length, head, size = unpack(data, position)
            at = position + _START.size
            end = at + length - _HEAD_AND_SIZE
            if version != VERSION_WORD or end > total:
                break
            key = number = None
            if head != BYTES_HEADS[3]:
                texts = _decode_texts(data, at, head, size)
                if texts is None:
                    break
                key, number, size, at = texts
            if size > _VARINT_MORE:
                more = data[at]
                at += 1
                if more > _VARINT_MORE:
                    break
                size = size & 0x7F | more << 7
            content = data[at : at + size]
            at += size
            # Every place above only grew: a field beyond the message leaves an empty tail.
            tail = data[at:end]
            known = tail_of(tail)
            if known is None:
                known = tails[tail] = _decode_tail(tail)
                if known is None:
                    break
            created, kind = known
            if topic is None:
                add(new(Message, (content, key, number, created, None, kind, None, None, None)))
            else:
                add(new(Record, (
                    topic, partition, offset, content, key, number, created, append_ms, kind,
                    None, None, None,
                )))  # fmt: skip
                offset += 1
            position = end
    except (struct.error, IndexError, UnicodeDecodeError):
        pass
    return position


def _decode_texts(
    data: bytes, at: int, head: int, size: int
) -> tuple[str | None, str | None, int, int] | None:
    """Partition key, sequence number, the first byte of the data's length and the position behind.

    Args:    at: behind ``head`` and ``size``, those of the first field.
    """
    key, number, missing = None, None, 3
    if head == BYTES_HEADS[1] and size <= _VARINT_MORE:
        key = data[at : at + size].decode()
        at += size + 2
        head, size, missing = data[at - 2], data[at - 1], 2
    if head == BYTES_HEADS[missing - 1] and size <= _VARINT_MORE:
        number = data[at : at + size].decode()
        at += size + 2
        head, size, missing = data[at - 2], data[at - 1], 1
    return (key, number, size, at) if head == BYTES_HEADS[missing] else None


def _decode_tail(tail: bytes) -> Tail | None:
    """Create time and type of a plain tail, else None."""
    cursor = Cursor(tail, _VALUES_MAX)
    created = kind = None
    try:
        if tail[0] == TIME_HEAD:
            cursor.position = 1
            raw = read_varint(cursor)
            created = (raw >> 1) ^ -(raw & 1)
        if tail[cursor.position] == TYPE_HEADS[created is not None]:
            cursor.position += 1
            raw = read_varint(cursor)
            if raw >> 32:
                return None
            kind = (raw >> 1) ^ -(raw & 1)
    except (IndexError, ThriftError):
        return None
    return (created, kind) if tail[cursor.position :] == b"\0" else None
