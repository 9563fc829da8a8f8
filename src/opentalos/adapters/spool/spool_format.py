"""A file of the spool: one event a line, behind the CRC-32 of its bytes in hex.

    0c1d2e3f {"v":1,...}

The checksum detects a torn or damaged line; only that line is lost.
"""

import zlib
from collections.abc import Sequence

_CRC_CHARS = 8


def encode_lines(events: Sequence[bytes]) -> bytes:
    """The lines of events. Raises: ValueError: an event has a line break in it."""
    lines: list[bytes] = []
    for event in events:
        if b"\n" in event:
            raise ValueError("an event of the spool is one line")
        lines.append(b"%08x %b\n" % (zlib.crc32(event), event))
    return b"".join(lines)


def decode_line(line: bytes) -> bytes | None:
    """The event of a line; None: it is damaged."""
    event = line[_CRC_CHARS + 1 : -1]
    wanted = b"%08x " % zlib.crc32(event)
    return event if line.endswith(b"\n") and line.startswith(wanted) else None
