"""What journals hold of segments that are not sealed: a segment's own file follows later.

Like ``stored_logs`` it uses the documented layout and not the log's own code.
"""

import struct
from collections.abc import Iterable

from opentalos.testing.simulation.stores.stored_logs import (
    BLOCK_HEADER,
    SEGMENT_HEADER_BYTES,
)

JOURNAL_SUFFIX = ".jnl"
_RECORD = struct.Struct(">BIQI")  # see log/journal/format.py
_NAME, _GROUP = 1, 2
_EXTRAS_BYTES = 15  # index of the field


def laid_over(segments: dict[str, bytes], journals: Iterable[bytes]) -> dict[str, bytes]:
    """The segments with all that any of the journal files has of them."""
    found = {path: bytearray(content) for path, content in segments.items()}
    for content in journals:
        names: dict[int, str] = {}
        for kind, reference, position, data in _records(content):
            if kind == _NAME:
                names[reference] = data.decode()
            elif kind == _GROUP and reference in names:
                whole = found.get(names[reference])
                if whole is not None and position <= len(whole):
                    whole[position : position + len(data)] = data
    return {path: bytes(content) for path, content in found.items()}


def _records(content: bytes) -> Iterable[tuple[int, int, int, bytes]]:
    at = SEGMENT_HEADER_BYTES
    while at + BLOCK_HEADER.size <= len(content):
        header = BLOCK_HEADER.unpack_from(content, at)
        end = at + header[1]
        if header[1] < BLOCK_HEADER.size or end > len(content):
            return
        at += BLOCK_HEADER.size + header[_EXTRAS_BYTES]
        while at < end:
            kind, reference, position, count_bytes = _RECORD.unpack_from(content, at)
            at += _RECORD.size
            yield kind, reference, position, content[at : at + count_bytes]
            at += count_bytes
