"""Bytes of a journal: files of frames, each with the groups of many partitions. Sans-io.

Shape: a journal file has a segment's header and then blocks of the segment format, so it is scanned
    and judged like a segment. Each block is one commit, a *frame*: ``messages`` is the number of
    its records, its offsets count the records of the journal from 0. A commit begins when the one
    before has returned, so a frame proves every frame before it.
    ``committed`` is the record below which all was synced when the frame began: its own first one,
    unless frames before it were only flushed, which a loss of power may take.
Shape: the payload of a frame: records, big endian
    [kind u8][reference u32][position u64][count u32][data: count bytes]
    NAME: from here on, in this file, the reference stands for the segment file whose path is data.
    GROUP: data are bytes of that segment at the position.
    WRITTEN: below the position the segment file itself holds everything durably.
    NEXT: the journal continues in the file with the number ``position``; the last record of a file.
    TRIMMED: files with a number below ``position`` are needed no more, and may be deleted. A file's
    header says the same in the place of the partition: the oldest file that was needed when it was
    made; 0: an earlier version made it, which said nothing of this.
Files: ``journal/NAME/NUMBER.jnl``, numbers ascend by one; ``journal/NAME/ended``: no file of it is
    needed any more.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from opentalos.log.segment.format import BlockPlace, encode_block
from opentalos.model.errors import CorruptLog
from opentalos.model.message import MessageBlock, PayloadFormat

ROOT = "journal"
_SUFFIX = ".jnl"
_ENDED = "ended"
_RECORD = struct.Struct(">BIQI")
RECORD_HEADER_BYTES = _RECORD.size
_pack_record = _RECORD.pack


class Kind(IntEnum):
    """What a record says."""

    NAME = 1
    GROUP = 2
    WRITTEN = 3
    NEXT = 4
    TRIMMED = 5


class Record(NamedTuple):
    """One record of a frame; see the shape."""

    kind: int
    reference: int
    position: int
    data: bytes


def record_header(kind: Kind, reference: int, position: int, count_bytes: int) -> bytes:
    """What precedes the record's data."""
    return _pack_record(kind, reference, position, count_bytes)


def encode_frame(parts: list[bytes], number: int, place: BlockPlace) -> bytes:
    """A frame whose first record has the number.

    ``parts`` alternate between a record's header and its data.
    """
    payload = b"".join(parts)
    block = MessageBlock(payload=payload, messages=len(parts) // 2, format=PayloadFormat.STATE)
    return encode_block(block, number, place) + payload


def records_of(payload: bytes) -> Iterator[Record]:
    """The records of a frame whose check passed. Raises: CorruptLog: it was not made by us."""
    at, end = 0, len(payload)
    while at < end:
        if end - at < RECORD_HEADER_BYTES:
            raise CorruptLog(f"a journal record has only {end - at} bytes")
        kind, reference, position, count_bytes = _RECORD.unpack_from(payload, at)
        at += RECORD_HEADER_BYTES
        if count_bytes > end - at:
            raise CorruptLog(f"a journal record of {count_bytes} bytes, only {end - at} are left")
        yield Record(kind, reference, position, payload[at : at + count_bytes])
        at += count_bytes


def journal_name(instance: str, count: int) -> str:
    """Of the journal that a server makes after ``count - 1`` others."""
    return f"{instance}-{count}"


def instance_of(name: str) -> str:
    """The server that made the journal; see ``JournalSettings``."""
    return name.rpartition("-")[0]


def folder_of(name: str) -> str:
    """Where the files of a journal lie."""
    return f"{ROOT}/{name}"


def file_path(name: str, number: int) -> str:
    """One file of a journal."""
    return f"{ROOT}/{name}/{number:08d}{_SUFFIX}"


def ended_path(name: str) -> str:
    """The file that says that no other file of the journal is needed."""
    return f"{ROOT}/{name}/{_ENDED}"


def number_of(path: str) -> int | None:
    """The number of a journal file; None: it is another file."""
    name = path.rpartition("/")[2]
    number = name.removesuffix(_SUFFIX)
    return int(number) if name != number and number.isdecimal() else None
