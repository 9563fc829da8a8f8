"""Message formats V1 to V3 and Kafka blocks, and their compression."""

from opentalos.wire.message.block import decode_block, decode_records, encode_block
from opentalos.wire.message.compression import DECODED_BYTES_MAX, compress, decompress
from opentalos.wire.message.kafka_format import (
    decode_kafka_block,
    encode_kafka_block,
    is_kafka_block,
)
from opentalos.wire.message.message import Message, MessageFormatError, Place, Record
from opentalos.wire.message.talos_format import decode_messages, encode_messages

__all__ = [
    "DECODED_BYTES_MAX",
    "Message",
    "MessageFormatError",
    "Place",
    "Record",
    "compress",
    "decode_block",
    "decode_kafka_block",
    "decode_messages",
    "decode_records",
    "decompress",
    "encode_block",
    "encode_kafka_block",
    "encode_messages",
    "is_kafka_block",
]
