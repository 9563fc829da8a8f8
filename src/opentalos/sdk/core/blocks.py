"""Encodes messages as blocks and decodes fetched blocks to records; no I/O."""

from collections.abc import Sequence

from opentalos.model.errors import BadRequest
from opentalos.model.message import Compression, MessageBlock, StoredBlock
from opentalos.sdk.core.trace_hooks import traceparent
from opentalos.sdk.core.values import Message, Record
from opentalos.wire.message import (
    MessageFormatError,
    Place,
    compress,
    decode_records,
    encode_messages,
)


def message_of(given: Message | bytes, now_ms: int) -> Message:
    """A message with a create time, by default ``now_ms``, as official clients set it, and with
    the caller's trace if traces are enabled.

    Raises: TypeError: neither bytes nor a Message of bytes.
    """
    new = tuple.__new__  # Source: docs/internals/hot-path.md#per-call-costs
    if type(given) is bytes:
        return new(Message, (given, None, None, now_ms, None, None, None, None, traceparent()))
    if not isinstance(given, Message) or not isinstance(given.data, bytes):
        raise TypeError(
            f"a message must be bytes or a Message of bytes, not {type(given).__name__}"
        )
    data, key, number, created, appended, kind, fingerprint, tag, trace = given
    found = trace or traceparent()
    if created is not None and found == trace:
        return given
    created = now_ms if created is None else created
    return new(Message, (data, key, number, created, appended, kind, fingerprint, tag, found))


def encode_records(messages: Sequence[Message], compression: Compression) -> MessageBlock:
    """Encode messages as a block of format V3; its create time is their average.

    Raises: MessageFormatError: a number does not fit its field; BadRequest: no messages.
    """
    if not messages:
        raise BadRequest("a block needs at least one message")
    payload = compress(encode_messages(messages), compression)
    times = [message.create_ms for message in messages if message.create_ms is not None]
    average_ms = sum(times) // len(times) if times else 0
    return MessageBlock(payload, len(messages), compression, average_ms)


def wanted_messages(block: StoredBlock, first_offset: int) -> int:
    """How many messages of a block are at or after ``first_offset``.

    Raises: MessageFormatError: the block claims to have none.
    """
    if block.messages <= 0:
        raise MessageFormatError(f"invalid block: it claims to have {block.messages} messages")
    return min(block.messages, max(0, block.next_offset - first_offset))


def decode_block_records(
    topic: str, partition: int, block: StoredBlock, first_offset: int
) -> list[Record]:
    """Decode the records of a block from ``first_offset`` on.

    The append time of a record is that of its block; records of a Kafka block have their own.

    Raises: MessageFormatError: damaged, or another number of messages than the block claims.
    """
    wanted = wanted_messages(block, first_offset)
    if not wanted:
        return []
    place = Place(topic, partition, max(first_offset, block.base_offset), block.append_ms)
    payload = bytes(block.payload)
    return decode_records(payload, block.compression, block.messages, wanted, place)
