"""What journals hold of segments that are not sealed: a segment's own file follows later.

Like ``stored_logs`` it uses the documented layout and not the log's own code.
"""

import struct
from collections.abc import Iterable

from google_crc32c import extend

from opentalos.testing.simulation.stores.stored_logs import (
    BLOCK_HEADER,
    SEGMENT_HEADER_BYTES,
)

JOURNAL_SUFFIX = ".jnl"
_RECORD = struct.Struct(">BIQI")  # see log/journal/format.py
_NAME, _GROUP = 1, 2
_EXTRAS_BYTES = 15  # index of the field
_CRC_BYTES = 4  # at the start of a block, over all that follows
_MARKER = 8  # position in a block, of the seed
SEED = slice(12, 16)  # in the header of a file


def name_of_journal(path: str) -> str:
    """The journal of one of its files."""
    return path.split("/")[1]


def journals_with_files(paths: Iterable[str]) -> dict[str, None]:
    """Names of the journals that have not ended."""
    return {name_of_journal(path): None for path in paths if path.endswith(JOURNAL_SUFFIX)}


def laid_over(segments: dict[str, bytes], journals: Iterable[bytes]) -> dict[str, bytes]:
    """The segments with all that any of the journal files has of them."""
    found = {path: bytearray(content) for path, content in segments.items()}
    for content in journals:
        names: dict[int, str] = {}
        for kind, reference, position, data in _records(content):
            if kind == _NAME:
                names[reference] = data.decode()
            elif kind == _GROUP and reference in names:
                whole = found.setdefault(names[reference], bytearray())  # a late one has no file
                if position <= len(whole):
                    whole[position : position + len(data)] = data
    return {path: bytes(content) for path, content in found.items()}


def _records(content: bytes) -> Iterable[tuple[int, int, int, bytes]]:
    if len(content) < SEGMENT_HEADER_BYTES:
        return
    marker = content[SEED]
    at = SEGMENT_HEADER_BYTES
    # A power loss may have taken pages of a frame whose sync had not ended.
    while (found := content.find(marker, at + _MARKER)) >= 0:
        at = found - _MARKER
        end = whole_end(content, at, int.from_bytes(marker, "big"))
        if not end:
            at += 1
            continue
        at += BLOCK_HEADER.size + BLOCK_HEADER.unpack_from(content, at)[_EXTRAS_BYTES]
        while at < end:
            kind, reference, position, count_bytes = _RECORD.unpack_from(content, at)
            at += _RECORD.size
            yield kind, reference, position, content[at : at + count_bytes]
            at += count_bytes


def whole_end(content: bytes, at: int, seed: int) -> int:
    """Where the block or frame at this position ends; 0: it is none, or not whole."""
    if at + BLOCK_HEADER.size > len(content):
        return 0
    crc, size = BLOCK_HEADER.unpack_from(content, at)[:2]
    end = at + int(size)
    if size < BLOCK_HEADER.size or end > len(content):
        return 0
    return end if extend(seed, content[at + _CRC_BYTES : end]) == crc else 0
