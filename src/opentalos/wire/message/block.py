"""Whole blocks: the payload of a MessageBlock to messages and back."""

from collections.abc import Sequence

from opentalos.model.message import Compression
from opentalos.wire.message.compression import DECODED_BYTES_MAX, compress, decompress
from opentalos.wire.message.kafka_format import decode_kafka_block, is_kafka_block
from opentalos.wire.message.message import Message, MessageFormatError, Place, Record
from opentalos.wire.message.talos_format import decode_messages, encode_messages
from opentalos.wire.message.talos_format import decode_records as decode_talos_records


def decode_block(
    payload: bytes, compression: int, messages: int, bytes_max: int = DECODED_BYTES_MAX
) -> list[Message]:
    """The messages of a block.

    Args:    messages: how many the block says it has; bytes_max: of the decompressed payload.
    Raises:  MessageFormatError.
    """
    data = decompress(payload, compression, bytes_max)
    if not is_kafka_block(data):
        return decode_messages(data, messages)
    if compression != Compression.NONE:
        raise MessageFormatError("a compressed Kafka block")
    return decode_kafka_block(data, messages, bytes_max)


def decode_records(
    payload: bytes, compression: int, messages: int, wanted: int, place: Place
) -> list[Record]:
    """The last ``wanted`` messages of a block as records, the first of them at ``place``.

    Each record of a Kafka block keeps its own append time. Raises: MessageFormatError.
    """
    data = decompress(payload, compression)
    if not is_kafka_block(data):
        return decode_talos_records(data, messages, max(0, messages - wanted), place)
    found = decode_block(payload, compression, messages)[max(0, messages - wanted) :]
    return [
        place._replace(append_ms=message.append_ms or 0).record(message, index)
        for index, message in enumerate(found)
    ]


def encode_block(
    messages: Sequence[Message], compression: int = Compression.SNAPPY, version: int = 3
) -> bytes:
    """The payload of a block. Raises: MessageFormatError: a value does not fit the version."""
    return compress(encode_messages(messages, version), compression)
