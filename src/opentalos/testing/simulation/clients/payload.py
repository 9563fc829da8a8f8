"""Payloads of simulated messages: they contain the messages' ids and a checksum."""

import random
import zlib
from collections.abc import Sequence

from opentalos.testing.simulation.world.world import NOISE, ZEROS

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
    check, body = payload[:CHECK_BYTES], payload[CHECK_BYTES:]
    if zlib.crc32(body).to_bytes(CHECK_BYTES, "big") != check:
        return [None] * messages
    ids: list[str | None] = [*body.split(b";", 1)[0].decode().split(",")]
    return ids if len(ids) == messages else [None] * messages
