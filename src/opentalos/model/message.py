"""Message blocks as they cross the core: what a producer sent and what the log stored."""

from enum import Enum, IntEnum
from typing import NamedTuple

_HASH_MASK = 0xFFFFFFFF
_POSITIVE_MASK = 0x7FFFFFFF


class Durability(Enum):
    """What an acknowledged write survives (promise I1)."""

    SYNCED = "synced"  # power loss: fdatasync, or HDFS hsync
    FLUSHED = "flushed"  # crash of processes: page cache, or HDFS hflush


class Compression(IntEnum):
    """How a block's payload is compressed. Source: idl/message.thrift MessageCompressionType."""

    NONE = 0
    SNAPPY = 1
    GZIP = 2
    ZSTD = 3
    LZ4 = 4


class PayloadFormat(IntEnum):
    """Who can read a block's payload; stored in every block header."""

    STATE = 0  # zero messages: the log's own state
    TALOS = 1  # concatenated Talos messages V1 to V3
    KAFKA = 2  # one Kafka record batch v2


# Bit of a stored format: the payload is encrypted; see log/segment/encrypted_format.py.
ENCRYPTED = 0x80


class PartitionKey(NamedTuple):
    """Identifies a partition; a recreated topic has another uuid."""

    topic_uuid: str
    partition: int


UNKNOWN_OFFSET = -1  # of a stored block whose place is not known any more


class StoredBefore(int):
    """The base offset of a block that an earlier put with the same stamp has stored."""

    __slots__ = ()


# Not just ``int``: compiled code would make a plain one of it.
BaseOffset = int | StoredBefore

PRODUCER_ID_MAX = (1 << 62) - 1  # that a client may choose; the ids behind it are the server's


class ProducerStamp(NamedTuple):
    """Identity of an idempotent put: the log stores each (id, epoch, sequence) once."""

    producer_id: int  # > 0
    epoch: int  # >= 0; a larger one fences smaller ones
    sequence: int  # of the first message of the block; the next block starts at + messages
    repeated: bool = False  # the put was sent before, so it may be stored; not kept with the block


class MessageBlock(NamedTuple):
    """A block as a producer sent it. The payload is never re-encoded on the write path."""

    payload: bytes
    messages: int  # in the payload, > 0
    compression: int = 0  # a Compression value, kept as sent
    create_ms: int = 0
    format: int = PayloadFormat.TALOS
    principal: int = 0  # billing number of the principal
    extras: bytes = b""  # opaque protocol fields kept with the block, < 64 KiB
    producer: ProducerStamp | None = None


class StoredBlock(NamedTuple):
    """A durable block with the offsets and time the log gave it."""

    base_offset: int
    messages: int
    append_ms: int
    create_ms: int
    compression: int
    format: int
    payload: bytes | memoryview
    extras: bytes = b""

    @property
    def next_offset(self) -> int:
        """Offset after the block's last message."""
        return self.base_offset + self.messages


class OffsetRange(NamedTuple):
    """Retained offsets of a partition: ``start`` <= offset < ``next``; empty when equal."""

    start: int
    next: int

    @property
    def end(self) -> int:
        """Offset of the last message as the protocol shows it; ``start - 1`` when empty."""
        return self.next - 1

    def lag(self, checkpoint: int) -> int:
        """Retained messages after a checkpoint, which is the last processed offset; -1: none."""
        return max(0, self.next - max(checkpoint + 1, self.start))


def partition_of(key: str, partitions: int) -> int:
    """Partition of a key among ``partitions``, 0 or more.

    Java's hash code of the text, divided into intervals of equal length.

    Source: docs/protocol/consumers.md#partition-of-a-key.
    """
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _HASH_MASK
    interval = _POSITIVE_MASK // partitions
    return ((value & _POSITIVE_MASK) // interval) % partitions
