"""Payloads of simulated messages: they contain the messages' ids and a checksum.

A block of a topic that decoding readers read, of Kafka or of Talos, has such a payload in each of
its messages.
"""

import random
import zlib
from collections.abc import Sequence

from opentalos.model.message import Compression
from opentalos.testing.simulation.world.world import NOISE, ZEROS
from opentalos.wire.message import MessageFormatError, decode_block, decode_kafka_block
from opentalos.wire.message.kafka_format import is_kafka_block

CHECK_BYTES = 4


def filler(kind: str, count_bytes: int, rng: random.Random) -> bytes:
    """Bytes of one kind: text, zeros as of a page that was never written, or noise."""
    if kind == NOISE:
        return rng.randbytes(count_bytes)
    return (b"\0" if kind == ZEROS else b".") * count_bytes


def encode(ids: Sequence[str], rest: bytes = b"") -> bytes:
    """A block's payload with the ids of its messages."""
    body = ",".join(ids).encode() + b";" + rest
    return zlib.crc32(body).to_bytes(CHECK_BYTES, "big") + body


def decode(payload: bytes, messages: int) -> list[str | None]:
    """The ids, or None for each message if the payload is not what was sent."""
    if not _is_whole(payload):
        return _decode_each(payload, messages)
    ids: list[str | None] = [*payload[CHECK_BYTES:].split(b";", 1)[0].decode().split(",")]
    return ids if len(ids) == messages else [None] * messages


def decode_one(data: bytes) -> str | None:
    """The id of a decoded message, or None if its data are not what was sent."""
    return decode(data, 1)[0] if _is_whole(data) else None


def _is_whole(payload: bytes) -> bool:
    return zlib.crc32(payload[CHECK_BYTES:]).to_bytes(CHECK_BYTES, "big") == payload[:CHECK_BYTES]


def _decode_each(payload: bytes, messages: int) -> list[str | None]:
    try:
        if is_kafka_block(payload):
            found = decode_kafka_block(payload, messages)
        else:
            found = decode_block(payload, Compression.NONE, messages)
    except MessageFormatError:
        return [None] * messages
    return [decode_one(message.data) for message in found]
