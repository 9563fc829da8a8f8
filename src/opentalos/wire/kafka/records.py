"""Records of Produce and Fetch: what a producer may store, and how it is given back.

A batch is stored byte for byte, behind eight bytes that make it a block of ours. When it is given
back only its base offset and leader epoch are other ones, which its checksum does not cover.

Source: Apache Kafka 4.3, documentation, "Record Batch"; docs/adr/0061-kafka-records.md.
"""

import struct
from typing import Final, NamedTuple

from opentalos.model.message import Compression
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.message.compression import DECODED_BYTES_MAX
from opentalos.wire.message.kafka_batch import (
    APPEND_TIME,
    BATCH_MAGIC,
    CODEC_MASK,
    CODECS,
    CONTROL,
    EASY_RECORDS,
    HEAD,
    LENGTH_END,
    TRANSACTIONAL,
    BatchHead,
    check_records,
    has_crc,
    records_of,
)
from opentalos.wire.message.kafka_format import MAGIC, WRAPPER_BYTES
from opentalos.wire.message.message import MessageFormatError
from opentalos.wire.message.unpacking import DecodedTooLarge, free

NO_EPOCH: Final = -1  # clients do not ask then whether their position was cut off
EASY_BYTES: Final = 256 << 10  # decompressed within a millisecond, so at once
_EASY_PLAIN_BYTES: Final = 1 << 20  # of a batch without compression, whatever its records are
_UNPACKING_COST: Final = 8 << 10  # of any decompression, however little comes out of it
_PACKED_COST_MAX: Final = 3 * EASY_BYTES // 2  # of what goes in
# Of a byte that goes in, even if nothing comes out: tables of codes and empty frames take time.
_PACKED_COSTS: Final = {Compression.GZIP: 40, Compression.ZSTD: 40}
_PACKED_COST: Final = 4  # with the other codecs
_RECORD_COST: Final = EASY_BYTES // EASY_RECORDS
_PLAIN_SHIFT: Final = 3  # a checksum and a walk take an eighth of what decompression takes
_U32: Final = struct.Struct(">I")
_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22  # the byte of the attributes that has the codec


class RefusedRecords(Exception):
    """Records that are not stored; ``code`` says why to the client."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class ReceivedBatch(NamedTuple):
    """A batch as received, its head and checksum verified."""

    batch: memoryview
    head: BatchHead

    @property
    def payload(self) -> bytes:
        """Of the block that stores it."""
        return b"".join((MAGIC, _U32.pack(len(self.batch)), self.batch))


def is_packed(records: bytes | bytearray | memoryview | None) -> bool:
    """Whether a batch says that its records are compressed; it may be none."""
    if records is None or len(records) <= _ATTRIBUTES_AT:
        return False
    return records[_ATTRIBUTES_AT] & CODEC_MASK != 0


def read_batch(records: bytes | bytearray | memoryview | None) -> ReceivedBatch:
    """The only batch of a partition in a Produce request. Raises: RefusedRecords."""
    batch = memoryview(records or b"")
    if len(batch) < HEAD.size:
        text = f"records of {len(batch)} bytes are no batch"
        raise RefusedRecords(ErrorCode.CORRUPT_MESSAGE, text)
    if batch[_MAGIC_AT] != BATCH_MAGIC:
        text = f"the message format is {batch[_MAGIC_AT]}, and only 2 is stored"
        raise RefusedRecords(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, text)
    head = BatchHead._make(HEAD.unpack_from(batch))
    end = LENGTH_END + head.length
    if not HEAD.size <= end <= len(batch):
        text = f"a batch of {end} bytes, where {len(batch)} were sent"
        raise RefusedRecords(ErrorCode.CORRUPT_MESSAGE, text)
    if end < len(batch):
        text = "a Produce request has one batch for each partition"
        raise RefusedRecords(ErrorCode.INVALID_RECORD, text)
    if not has_crc(batch, head.crc):
        raise RefusedRecords(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    _check_head(head)
    return ReceivedBatch(batch, head)


def _check_head(head: BatchHead) -> None:
    attributes = head.attributes
    if attributes & (TRANSACTIONAL | CONTROL):
        raise RefusedRecords(ErrorCode.INVALID_TXN_STATE, "transactions are not served")
    if attributes & APPEND_TIME:
        text = "a producer's timestamps are create times"
        raise RefusedRecords(ErrorCode.INVALID_TIMESTAMP, text)
    kind = attributes & CODEC_MASK
    if kind and kind not in CODECS:
        text = f"the codec {kind} is not known"
        raise RefusedRecords(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
    if head.records <= 0 or head.records != head.last_delta + 1:
        text = f"a batch of {head.records} records whose last offset delta is {head.last_delta}"
        raise RefusedRecords(ErrorCode.INVALID_RECORD, text)
    # Without a producer id some clients leave 0 as the sequence.
    if head.producer_id >= 0 > min(head.producer_epoch, head.sequence):
        text = f"a producer id without epoch or sequence: {head.producer_epoch}, {head.sequence}"
        raise RefusedRecords(ErrorCode.INVALID_RECORD, text)


def prove_now(received: ReceivedBatch) -> int:
    """``prove_records`` if it takes no more than two or three milliseconds.

    Returns: what it cost, as bytes decompressed; 0: it takes longer, and nothing is proven.
    """
    batch, head = received
    unpacking = unpacking_cost(received)
    plain = not unpacking and len(batch) > _EASY_PLAIN_BYTES
    if head.records > EASY_RECORDS or unpacking > _PACKED_COST_MAX or plain:
        return 0
    size = prove_records(received, EASY_BYTES)
    if not size:
        return 0
    cost = reading_cost(batch) + unpacking + head.records * _RECORD_COST
    return cost + size if unpacking else cost


def unpacking_cost(received: ReceivedBatch) -> int:
    """What decompressing a batch may cost, as bytes decompressed, without those that come out.

    0: it is not compressed.
    """
    codec = CODECS.get(received.head.attributes & CODEC_MASK)
    if codec is None:
        return 0
    cost = _PACKED_COSTS.get(codec.compression, _PACKED_COST)
    return max(len(received.batch) * cost, _UNPACKING_COST)


def reading_cost(records: bytes | bytearray | memoryview | None) -> int:
    """What ``read_batch`` costs, as bytes decompressed."""
    return (len(records or b"") >> _PLAIN_SHIFT) + 1


def prove_records(received: ReceivedBatch, bytes_max: int = DECODED_BYTES_MAX) -> int:
    """Walk over all records.

    Returns: their bytes; 0: more than ``bytes_max`` come out of the compression.

    Called on a thread for what may be large: nothing here touches what others share.
    Raises: RefusedRecords: they are not those that the head says.
    """
    batch, head = received
    try:
        data, position = records_of(batch, head, bytes_max)
    except DecodedTooLarge as error:
        if bytes_max < DECODED_BYTES_MAX:
            return 0
        raise RefusedRecords(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
    except MessageFormatError as error:
        raise RefusedRecords(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    size = len(data)
    try:
        check_records(data, position, head.records)
    except MessageFormatError as error:
        raise RefusedRecords(ErrorCode.INVALID_RECORD, str(error)) from error
    finally:
        if not isinstance(data, memoryview):
            free(data)
    return size


def stored_batch(payload: bytes | memoryview, base_offset: int) -> list[bytes | memoryview]:
    """The batch of a stored block as consumers get it: a new beginning, and the rest as it is."""
    batch = memoryview(payload)[WRAPPER_BYTES:]
    length = batch[_OFFSET.size : LENGTH_END]
    head = b"".join((_OFFSET.pack(base_offset), length, _EPOCH.pack(NO_EPOCH)))
    return [head, batch[len(head) :]]


def seems_batch(payload: bytes | memoryview) -> bool:
    """Whether a block that a client of Talos stored begins like one with a batch."""
    return payload[: len(MAGIC)] == MAGIC


def is_stored_batch_now(payload: bytes | memoryview, messages: int) -> tuple[bool | None, int]:
    """Whether such a block is a sound batch of so many records; None: to find that takes longer
    than ``prove_now`` may. Second: what it cost, in the unit of ``prove_now``."""
    if len(payload) > _EASY_PLAIN_BYTES:
        return None, 1
    cost = reading_cost(payload)
    try:
        received = _batch_in(payload, messages)
        cost += EASY_BYTES + unpacking_cost(received)
        proving = prove_now(received)
    except RefusedRecords:
        return False, cost
    return (True, proving) if proving else (None, cost)


def stored_batch_bytes(payload: bytes | memoryview, messages: int) -> int:
    """Bytes of the records of such a block, decompressed; 0: it is no sound batch of so many.

    Called on a thread.
    """
    try:
        return prove_records(_batch_in(payload, messages))
    except RefusedRecords:
        return 0


def _batch_in(payload: bytes | memoryview, messages: int) -> ReceivedBatch:
    received = read_batch(memoryview(payload)[WRAPPER_BYTES:])
    if not seems_batch(payload) or received.head.records != messages:
        text = f"a batch of {received.head.records} records in a block of {messages} messages"
        raise RefusedRecords(ErrorCode.INVALID_RECORD, text)
    return received
