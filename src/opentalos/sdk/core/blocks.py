"""Blocks as values: messages to the block that is put, a fetched block to records."""

from collections.abc import Sequence

from opentalos.model.errors import BadRequest
from opentalos.model.message import Compression, MessageBlock, StoredBlock
from opentalos.sdk.core.values import Message, Record
from opentalos.wire.message import (
    MessageFormatError,
    Place,
    compress,
    decode_records,
    encode_messages,
)


def message_of(given: Message | bytes, now_ms: int) -> Message:
    """A message with a create time, which every official client sets too: ``now_ms`` if none.

    Raises: TypeError: neither bytes nor a message of bytes.
    """
    new = tuple.__new__  # Source: docs/internals/hot-path.md#per-call-costs
    if type(given) is bytes:
        return new(Message, (given, None, None, now_ms, None, None, None, None))
    if not isinstance(given, Message) or not isinstance(given.data, bytes):
        raise TypeError(f"a message is bytes or a Message of bytes, not {type(given).__name__}")
    data, key, number, created, appended, kind, fingerprint, tag = given
    if created is not None:
        return given
    return new(Message, (data, key, number, now_ms, appended, kind, fingerprint, tag))


def encode_records(messages: Sequence[Message], compression: Compression) -> MessageBlock:
    """A block of these messages as they are, version 3; its create time is their average.

    Raises: MessageFormatError: a number does not fit its field; BadRequest: no messages. Not done.
    """
    if not messages:
        raise BadRequest("a block needs at least one message")
    payload = compress(encode_messages(messages), compression)
    times = [message.create_ms for message in messages if message.create_ms is not None]
    average_ms = sum(times) // len(times) if times else 0
    return MessageBlock(payload, len(messages), compression, average_ms)


def wanted_messages(block: StoredBlock, first_offset: int) -> int:
    """How many of a block's messages are at ``first_offset`` or behind.

    Raises: MessageFormatError: the block says that it has none.
    """
    if block.messages <= 0:
        raise MessageFormatError(f"a block of {block.messages} messages")
    return min(block.messages, max(0, block.next_offset - first_offset))


def decode_block_records(
    topic: str, partition: int, block: StoredBlock, first_offset: int
) -> list[Record]:
    """The records of a block from ``first_offset`` on; those before are passed over.

    A record's append time is the block's, but each record of a Kafka block has its own.

    Raises: MessageFormatError: damaged, or not as many messages as the block says.
    """
    wanted = wanted_messages(block, first_offset)
    if not wanted:
        return []
    place = Place(topic, partition, max(first_offset, block.base_offset), block.append_ms)
    payload = bytes(block.payload)
    return decode_records(payload, block.compression, block.messages, wanted, place)
