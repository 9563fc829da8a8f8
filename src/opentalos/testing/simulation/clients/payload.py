"""Payloads of simulated messages: they contain the messages' ids and a checksum."""

import zlib
from collections.abc import Sequence

CHECK_BYTES = 4


def encode(ids: Sequence[str], filler_bytes: int = 0) -> bytes:
    """A block's payload with the ids of its messages."""
    body = ",".join(ids).encode() + b";" + b"." * filler_bytes
    return zlib.crc32(body).to_bytes(CHECK_BYTES, "big") + body


def decode(payload: bytes, messages: int) -> list[str | None]:
    """The ids, or None for each message if the payload is not what was sent."""
    check, body = payload[:CHECK_BYTES], payload[CHECK_BYTES:]
    if zlib.crc32(body).to_bytes(CHECK_BYTES, "big") != check:
        return [None] * messages
    ids: list[str | None] = [*body.split(b";", 1)[0].decode().split(",")]
    return ids if len(ids) == messages else [None] * messages
