"""Bytes of a segment file: one segment header, then blocks. Sans-io.

Shape: segment header, 64 bytes, big endian
    [magic 8][version u16][header bytes u16][seed u32][epoch u64][base offset u64]
    [created ms u64][partition u32][durability u8][reserved 15]
    [crc u32 of the bytes before, not seeded]
    Version 2 may have encrypted blocks (encrypted_format.py), version 1 has none.
    The durability is that of every commit of the file: 1 synced, 2 flushed; 0 in files of older
    servers, which do not say. The first commit is synced in every file.
Shape: block, big endian
    [crc u32][block bytes u32][marker u32][messages u32][base offset u64][committed u64]
    [producer id u64][append ms i64][create ms i64][principal u64][producer epoch u32]
    [producer sequence i64][format u8][compression u8][flags u16][extras bytes u16][reserved u16]
    [extras][payload]
    The CRC-32C starts from the segment's seed and covers everything after itself, so bytes of
    another segment never pass. The marker is the seed again: it lets a scan find the next block
    behind a damaged one. ``committed`` is the next offset that was durable when the block was
    written, so a scan knows how far the log was acknowledged.
Flags: 1 the log's own state, 2 a producer epoch announcement, 4 an end mark; 0x00f0 is kept for
    transactions.
"""

import struct
from typing import Any, NamedTuple

from google_crc32c import extend as _crc32c

from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.model.message import (
    Durability,
    MessageBlock,
    PartitionKey,
    PayloadFormat,
    ProducerStamp,
    StoredBlock,
)

SEGMENT_MAGIC = b"\x89TALOSEG"
SEGMENT_VERSION = 2
PLAIN_VERSION = 1  # no block is encrypted, so servers that know no encryption read it
SEGMENT_HEADER = struct.Struct(">8sHHIQQQIB15xI")
SEGMENT_HEADER_BYTES = SEGMENT_HEADER.size
BLOCK_HEADER = struct.Struct(">IIIIQQQqqQIqBBHHH")
BLOCK_HEADER_BYTES = BLOCK_HEADER.size
_BLOCK_REST = struct.Struct(">IIIQQQqqQIqBBHHH")  # the header without its CRC
SCAN_HEADER = struct.Struct(">IIIIQQQq")  # the part a scan needs of every block
_CRC = struct.Struct(">I")
_pack_rest, _pack_crc = _BLOCK_REST.pack, _CRC.pack
_NO_PRODUCER = (0, 0, 0)
CRC_BYTES = _CRC.size
BLOCK_SIZE_POSITION = 4  # of the block's length inside its header
MARKER_POSITION = 8  # of the marker inside a block header
# No block is larger: bounds every length field before it is believed. The largest block that
# a gateway accepts is 20 MiB by default.
BLOCK_BYTES_MAX = 256 << 20
EXTRAS_BYTES_MAX = (64 << 10) - 1
PAYLOAD_BYTES_MAX = BLOCK_BYTES_MAX - BLOCK_HEADER_BYTES - EXTRAS_BYTES_MAX
MESSAGES_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

_DURABILITIES: dict[int, Durability | None] = {1: Durability.SYNCED, 2: Durability.FLUSHED}
_DURABILITY_CODES = {durability: code for code, durability in _DURABILITIES.items()} | {None: 0}
NUMBER_PREFIX = "n"  # of file names without a base offset

FLAG_STATE = 1
FLAG_PRODUCER_FENCE = 2
FLAG_END_MARK = 4


class SegmentHeader(NamedTuple):
    """First bytes of a segment file."""

    seed: int
    epoch: int
    base_offset: int
    created_ms: int
    partition: int
    durability: Durability | None = None  # of every commit; None: the file does not say
    version: int = PLAIN_VERSION

    def encode(self) -> bytes:
        """The 64 bytes of the header."""
        raw = SEGMENT_HEADER.pack(
            SEGMENT_MAGIC,
            self.version,
            SEGMENT_HEADER_BYTES,
            self.seed,
            self.epoch,
            self.base_offset,
            self.created_ms,
            self.partition,
            _DURABILITY_CODES[self.durability],
            0,
        )
        return raw[:-CRC_BYTES] + _CRC.pack(_crc32c(0, raw[:-CRC_BYTES]))

    @classmethod
    def decode(cls, raw: bytes) -> "SegmentHeader":
        """Parse a file's first bytes. Raises: CorruptLog, NewerFormat."""
        if len(raw) < SEGMENT_HEADER_BYTES or raw[: len(SEGMENT_MAGIC)] != SEGMENT_MAGIC:
            raise CorruptLog("no segment header at position 0")
        _, version, _, *places, durability, crc = SEGMENT_HEADER.unpack_from(raw)
        if crc != _crc32c(0, raw[: SEGMENT_HEADER_BYTES - CRC_BYTES]):
            raise CorruptLog("segment header fails its check at position 0")
        if version > SEGMENT_VERSION:  # not before: every version has this check
            raise NewerFormat(f"segment version {version}, this server knows {SEGMENT_VERSION}")
        return cls._make((*places, _DURABILITIES.get(durability), version))


class BlockHeader(NamedTuple):
    """A block's header fields in file order; sizes in bytes, times in ms."""

    crc: int
    block_bytes: int
    marker: int
    messages: int
    base_offset: int
    committed: int
    producer_id: int
    append_ms: int
    create_ms: int
    principal: int
    producer_epoch: int
    producer_sequence: int
    format: int
    compression: int
    flags: int
    extras_bytes: int
    reserved: int

    @property
    def next_offset(self) -> int:
        """Offset after the block's last message."""
        return self.base_offset + self.messages

    @property
    def producer(self) -> ProducerStamp | None:
        """The idempotent producer's stamp, if the block has one."""
        if not self.producer_id:
            return None
        return ProducerStamp(self.producer_id, self.producer_epoch, self.producer_sequence)


def block_error(block: MessageBlock) -> str:
    """Why the block cannot be stored, or an empty string.

    Keeps every header field inside its width, so that encoding a group can never raise. A field of
    a wrong type is found only there, also where this is compiled, so nothing is unpacked by type.
    """
    fields: tuple[Any, ...] = block
    payload, messages, compression, create_ms, payload_format, principal, extras, stamp = fields
    if (
        0 < messages <= MESSAGES_MAX
        and len(payload) <= PAYLOAD_BYTES_MAX
        and len(extras) <= EXTRAS_BYTES_MAX
        and 0 <= compression <= 0xFF
        and 0 <= payload_format <= 0xFF
        and -INT64_MAX <= create_ms <= INT64_MAX
        and 0 <= principal <= INT64_MAX
    ):
        return "" if stamp is None else _stamp_error(stamp)
    return _block_error(block)


def _block_error(block: MessageBlock) -> str:
    """The reason in words, for a block that failed the quick check."""
    if not 0 < block.messages <= MESSAGES_MAX:
        return f"messageNumber {block.messages}: need 1 to {MESSAGES_MAX}"
    if len(block.payload) > PAYLOAD_BYTES_MAX:
        return f"block of {len(block.payload)} bytes: need at most {PAYLOAD_BYTES_MAX}"
    if len(block.extras) > EXTRAS_BYTES_MAX:
        return f"{len(block.extras)} bytes of extra fields: need at most {EXTRAS_BYTES_MAX}"
    if not 0 <= block.compression <= 0xFF or not 0 <= block.format <= 0xFF:
        return f"compression {block.compression} or format {block.format}: need 0 to 255"
    return "a time or principal number is out of its range"


def _stamp_error(stamp: ProducerStamp) -> str:
    if not (
        0 < stamp.producer_id <= INT64_MAX
        and 0 <= stamp.epoch <= 0xFFFFFFFF
        and 0 <= stamp.sequence <= INT64_MAX
    ):
        return "a producer id, epoch or sequence is out of its range"
    return ""


class BlockPlace(NamedTuple):
    """What the log gives to every block of a group."""

    seed: int
    committed: int
    append_ms: int


def encode_block(block: MessageBlock, base_offset: int, place: BlockPlace, flags: int = 0) -> bytes:
    """Header and extras of a block; its payload follows unchanged. Fields must be in range."""
    seed, committed, append_ms = place
    payload, messages, compression, create_ms, payload_format, principal, extras, stamp = block
    producer_id, epoch, sequence = _NO_PRODUCER if stamp is None else stamp[:3]
    rest = _pack_rest(
        BLOCK_HEADER_BYTES + len(extras) + len(payload),
        seed,
        messages,
        base_offset,
        committed,
        producer_id,
        append_ms,
        create_ms,
        principal,
        epoch,
        sequence,
        payload_format,
        compression,
        flags,
        len(extras),
        0,
    )
    if extras:
        rest += extras
    return _pack_crc(_crc32c(_crc32c(seed, rest), payload)) + rest


def state_block(payload: bytes, base_offset: int, place: BlockPlace) -> bytes:
    """The zero-message block that carries the log's own state."""
    block = MessageBlock(payload=payload, messages=0, format=PayloadFormat.STATE)
    return encode_block(block, base_offset, place, FLAG_STATE) + payload


def end_mark_block(base_offset: int, place: BlockPlace) -> bytes:
    """The empty block that says up to where the log is committed, once nothing else does."""
    block = MessageBlock(payload=b"", messages=0, format=PayloadFormat.STATE)
    return encode_block(block, base_offset, place, FLAG_END_MARK)


def reseeded(raw: bytes, seed: int) -> bytes:
    """A valid block as it stands in a segment with another seed; nothing else of it changes."""
    marker_at = MARKER_POSITION - CRC_BYTES
    rest = bytearray(raw[CRC_BYTES:])
    rest[marker_at : marker_at + _CRC.size] = _CRC.pack(seed)
    return _pack_crc(_crc32c(seed, bytes(rest))) + rest


def block_fault(raw: bytes, start: int, seed: int) -> str:
    """Why no valid block starts at ``raw[start]``, or an empty string. Believes no length."""
    left = len(raw) - start
    if left < BLOCK_HEADER_BYTES:
        return f"only {left} bytes are left for a block header"
    header = BLOCK_HEADER.unpack_from(raw, start)
    crc, block_bytes, marker, extras_bytes = header[0], header[1], header[2], header[15]
    if marker != seed:
        return "the segment's marker is missing"
    if not BLOCK_HEADER_BYTES + extras_bytes <= block_bytes <= BLOCK_BYTES_MAX:
        return f"block length {block_bytes} is impossible"
    if block_bytes > left:
        return f"block of {block_bytes} bytes, only {left} are left"
    if crc != _crc32c(seed, raw[start + CRC_BYTES : start + block_bytes]):
        return "the block fails its CRC-32C check"
    return ""


def block_end(raw: bytes, start: int) -> int:
    """Where the block at ``raw[start]`` says that it ends; nothing of it has been checked."""
    return start + int(SCAN_HEADER.unpack_from(raw, start)[1])


def read_header(raw: bytes, start: int) -> BlockHeader:
    """Header fields of the block at ``raw[start]``, which ``block_fault`` has passed."""
    return BlockHeader._make(BLOCK_HEADER.unpack_from(raw, start))


def stored_block(raw: bytes, start: int, header: BlockHeader) -> StoredBlock:
    """The block at ``raw[start]`` as readers get it; the payload is a copy."""
    extras_at = start + BLOCK_HEADER_BYTES
    payload_at = extras_at + header.extras_bytes
    return StoredBlock(
        header.base_offset,
        header.messages,
        header.append_ms,
        header.create_ms,
        header.compression,
        header.format,
        raw[payload_at : start + header.block_bytes],
        raw[extras_at:payload_at],
    )


def block_payload(raw: bytes, start: int, header: BlockHeader) -> bytes:
    """Payload of the block at ``raw[start]``."""
    at = start + BLOCK_HEADER_BYTES + header.extras_bytes
    return raw[at : start + header.block_bytes]


def segment_path(
    topic_uuid: str, partition: int, base_offset: int, epoch: int, number: int = 0
) -> str:
    """Where a segment lies in the file store.

    A file that was made before its base offset was known has a random ``number`` in its name.
    """
    name = f"{NUMBER_PREFIX}{number}" if number else f"{base_offset:020d}"
    return f"{topic_uuid}/{partition}/{name}-{epoch}.log"


def index_path(log_path: str) -> str:
    """The side index that belongs to a segment."""
    return log_path.removesuffix(".log") + ".idx"


def parse_file_name(path: str) -> tuple[int, int, str] | None:
    """``(base offset or number, epoch, suffix)`` of a segment or side index; else None."""
    name, _, suffix = path.rsplit("/", 1)[-1].rpartition(".")
    base, _, epoch = name.removeprefix(NUMBER_PREFIX).partition("-")
    if suffix not in ("log", "idx") or not (base.isdecimal() and epoch.isdecimal()):
        return None
    return int(base), int(epoch), suffix


def partition_and_epoch(path: str) -> tuple[PartitionKey, int]:
    """What the path of a segment says beside its base offset."""
    topic_uuid, partition, name = path.split("/")
    parsed = parse_file_name(name)
    assert parsed is not None
    return PartitionKey(topic_uuid, int(partition)), parsed[1]


def is_segment_of(header: SegmentHeader, path: str) -> bool:
    """Whether a header is that of the segment which the path names, and not of another one."""
    key, epoch = partition_and_epoch(path)
    if (header.partition, header.epoch) != (key.partition, epoch):
        return False
    numbered = path.rpartition("/")[2].startswith(NUMBER_PREFIX)
    parsed = parse_file_name(path)
    return numbered or (parsed is not None and parsed[0] == header.base_offset)
