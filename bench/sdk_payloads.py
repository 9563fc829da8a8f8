"""Payloads of the SDK benchmarks: lines of JSON, which snappy compresses about three to one."""

import functools
import random
from typing import Any

SEED = 20_240_501  # the same messages in every run
MESSAGES = 10_000


@functools.cache
def payloads_of(size: int) -> tuple[bytes, ...]:
    """Ten thousand different payloads of ``size`` bytes."""
    lots = random.Random(SEED)
    return tuple(_payload(lots, number, size) for number in range(MESSAGES))


def _payload(lots: random.Random, number: int, size: int) -> bytes:
    lines: list[bytes] = []
    length = 0
    while length < size:
        line = b'{"order":%d,"user":"user-%05d","amount":%d.%02d,"city":"%b"}\n' % (
            number * 1_000 + len(lines),
            lots.randrange(100_000),
            lots.randrange(1_000),
            lots.randrange(100),
            lots.choice((b"Beijing", b"Wuhan", b"Nanjing", b"Chengdu", b"Shenzhen")),
        )
        lines.append(line)
        length += len(line)
    return b"".join(lines)[:size]


@functools.cache
def messages_of(size: int) -> Any:
    """The payloads as a list of our ``Message``; the official SDK's process does not have it."""
    from opentalos.wire.message.message import Message

    return [Message(payload, message_type=1) for payload in payloads_of(size)]


@functools.cache
def table_of(size: int) -> Any:
    """The payloads as a ``pyarrow.Table``."""
    import pyarrow as pa

    return pa.table({"data": pa.array(payloads_of(size), pa.binary())})
