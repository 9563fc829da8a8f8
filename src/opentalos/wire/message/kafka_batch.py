"""Kafka record batches, magic 2: head, checksum, decompression, and a walk that proves the records.

Shape:   base offset 8, length 4, leader epoch 4, magic 1, crc 4, attributes 2, last offset delta 4,
         first timestamp 8, max timestamp 8, producer id 8, producer epoch 2, base sequence 4,
         record count 4, records, which a codec may have compressed as a whole. A record:
         varint length, attributes 1, varlong time delta, varint offset delta, key, value, headers.
Source:  Apache Kafka 4.3, documentation, "Record Batch" and "Record".
"""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import google_crc32c

from opentalos.model.message import Compression
from opentalos.wire.message.compression import DECODED_BYTES_MAX
from opentalos.wire.message.message import MessageFormatError
from opentalos.wire.message.unpacking import Unpacked, unpack, unpack_lz4_frame

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEAD: Final = struct.Struct(">qiibIhiqqqhii")
LENGTH_END: Final = 12  # the batch's own length counts from here on
CRC_END: Final = 21  # the CRC covers the batch from here on
BATCH_MAGIC: Final = 2
CODEC_MASK: Final = 0x07
APPEND_TIME: Final = 0x08  # the timestamps are the server's
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
RECORD_BYTES_MIN: Final = 7
_PIECE_BYTES: Final = 256 << 10
_NUMBER_MASK: Final = (1 << 64) - 1

Walk = Callable[["Buffer", int, int], int]


class BatchHead(NamedTuple):
    """The fixed fields of a batch; times in ms, -1 where there is none."""

    base_offset: int
    length: int  # of what follows it
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_delta: int
    first_ms: int
    max_ms: int
    producer_id: int
    producer_epoch: int
    sequence: int  # of the first record; -1: none
    records: int


class Codec(NamedTuple):
    """How Kafka compresses: by which of our compressions, and whether in the LZ4 frame format."""

    compression: Compression
    framed: bool = False


CODECS: Final = {
    1: Codec(Compression.GZIP),
    2: Codec(Compression.SNAPPY),
    3: Codec(Compression.LZ4, framed=True),
    4: Codec(Compression.ZSTD),
}


def read_head(batch: memoryview) -> BatchHead:
    """The head of a batch that fills the view. Raises: MessageFormatError."""
    if len(batch) < HEAD.size:
        raise MessageFormatError(f"a Kafka batch of {len(batch)} bytes ends within its head")
    head = BatchHead._make(HEAD.unpack_from(batch))
    if head.magic != BATCH_MAGIC or head.length != len(batch) - LENGTH_END:
        text = f"magic {head.magic}, length {head.length}"
        raise MessageFormatError(f"no Kafka batch of magic 2: {text}")
    return head


def has_crc(batch: memoryview, crc: int) -> bool:
    """Whether the checksum of a batch is right."""
    return _crc_of(batch) == crc


def _crc_of(batch: memoryview) -> int:
    """In pieces, since the library takes no views and a copy of all would be large."""
    found = 0
    for start in range(CRC_END, len(batch), _PIECE_BYTES):
        found = google_crc32c.extend(found, bytes(batch[start : start + _PIECE_BYTES]))
    return found


def set_crc(batch: bytearray) -> None:
    """Write the checksum of a batch into it."""
    with memoryview(batch) as view:
        struct.pack_into(">I", batch, CRC_END - 4, _crc_of(view))


def records_of(
    batch: memoryview, head: BatchHead, bytes_max: int = DECODED_BYTES_MAX
) -> tuple[Unpacked | memoryview, int]:
    """What has the records, decompressed, and the position of the first one.

    Raises: DecodedTooLarge: more than ``bytes_max`` come out; MessageFormatError: damaged.
    """
    kind = head.attributes & CODEC_MASK
    if not kind:
        return batch, HEAD.size
    codec = CODECS.get(kind)
    if codec is None:
        raise MessageFormatError(f"a Kafka batch of the unknown codec {kind}")
    packed = bytes(batch[HEAD.size :])
    if codec.framed:
        return unpack_lz4_frame(packed, bytes_max), 0
    return unpack(packed, codec.compression, bytes_max, bytes_max)[0], 0


def check_records(data: "Buffer", position: int, count: int) -> None:
    """Prove that exactly ``count`` records follow, numbered from 0. Raises: MessageFormatError."""
    bad = walk(data, position, count)
    if bad == count:
        raise MessageFormatError(f"bytes follow the last of {count} records")
    if bad >= 0:
        raise MessageFormatError(f"record {bad} of {count} is damaged or not where it belongs")


def varint(data: "memoryview | bytes", position: int) -> tuple[int, int]:
    """A zigzag number of at most 64 bits and the position behind it.

    Raises: IndexError: the data ends first; MessageFormatError.
    """
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise MessageFormatError("a varint longer than 64 bits")
    value &= _NUMBER_MASK
    return (value >> 1) ^ -(value & 1), position


def python_walk(data: "Buffer", position: int, count: int) -> int:
    """Number of the first bad record; ``count``: bytes follow the last one; -1: all are right."""
    view = memoryview(data)
    for index in range(count):
        try:
            length, position = varint(view, position)
            end = position + length
            if length < 1 or end > len(view) or not _is_record(view[position:end], index):
                return index
        except (IndexError, MessageFormatError):
            return index
        position = end
    return -1 if position == len(view) else count


def _is_record(record: memoryview, index: int) -> bool:
    _, position = varint(record, 1)
    offset, position = varint(record, position)
    if offset != index:
        return False
    for _ in ("key", "value"):
        length, position = varint(record, position)
        if not -1 <= length <= len(record) - position:
            return False
        position += max(0, length)
    headers, position = varint(record, position)
    if not 0 <= headers <= (len(record) - position) // 2:
        return False
    for number in range(2 * headers):
        length, position = varint(record, position)
        if not -(number % 2) <= length <= len(record) - position:  # only a value may be null
            return False
        position += max(0, length)
    return position == len(record)


def _fastest() -> Walk:
    try:
        import opentalos.wire.message._records as compiled
    except ImportError:
        return python_walk
    return compiled.walk


walk: Final[Walk] = _fastest()
# Records that are walked over within a millisecond.
EASY_RECORDS: Final = 100 if walk is python_walk else 20_000
