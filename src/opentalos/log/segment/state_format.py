"""Bytes of the log's own state, kept in state blocks and side indexes. Sans-io.

Shape: big endian [version u16][flags u16: 1 a producer of any principal may be forgotten]
    [last append ms i64][kept -1 i64][block bytes ever appended u64][shares u32], then per share
    [principal u64][flags u8: 1 producers of it were forgotten][producers u32], then per producer
    [id u64][epoch u32][next sequence u64][batches u8], then per batch
    [sequence u64][messages u32][base offset u64].
    Principals beyond 63 bits are the shares of ``producers``: the server's own, and no principal.
Version 1 has no shares: its producers, counted where the shares are, follow the head, and name no
    principal.
"""

import struct
from itertools import chain

from opentalos.log.segment.producers import (
    BATCHES_KEPT,
    PRODUCERS_MAX,
    UNOWNED_SHARE,
    Batch,
    Producer,
    ProducerTable,
)
from opentalos.model.errors import CorruptLog, NewerFormat

STATE_VERSION = 2
_UNOWNED_VERSION = 1  # the last version whose producers name no principal
_KEPT = -1  # once meant for the metered offset, which is in the manifest
_HEAD = struct.Struct(">HHqqQI")
_SHARE = struct.Struct(">QBI")
_PRODUCER_FIELDS, _BATCH_FIELDS = ">QIQB", "QIQ"
# A producer by the number of its batches, so that one call packs it.
_PRODUCERS = [
    struct.Struct(_PRODUCER_FIELDS + count * _BATCH_FIELDS) for count in range(BATCHES_KEPT + 1)
]
_BATCHES_POSITION = _PRODUCERS[0].size - 1  # of the number of batches in a producer
_BATCH_SIZE = len(_BATCH_FIELDS)
_FLAG_FORGOTTEN = 1


class LogState:
    """What a log must remember besides its blocks, as of one offset."""

    __slots__ = ("last_append_ms", "producers", "total_bytes", "version")

    def __init__(self) -> None:
        self.last_append_ms = 0
        self.total_bytes = 0
        self.producers = ProducerTable()
        self.version = STATE_VERSION  # in which it began: blocks were added since

    def agrees(self, stored: "LogState") -> bool:
        """Whether this state, made from blocks, is the stored one.

        Blocks name the principals of producers, but an older server stored them without. So of a
        state that began in such a version the producers are not compared.
        """
        if self.version <= _UNOWNED_VERSION:
            return (self.last_append_ms, self.total_bytes) == (
                stored.last_append_ms,
                stored.total_bytes,
            )
        return self.encode() == stored.encode()

    def encode(self) -> bytes:
        """The state as bytes."""
        shares = self.producers.shares()
        flags = _FLAG_FORGOTTEN if self.producers.forgotten else 0
        times = self.last_append_ms, _KEPT, self.total_bytes
        parts = [_HEAD.pack(STATE_VERSION, flags, *times, len(shares))]
        for principal, share in shares:
            flags = _FLAG_FORGOTTEN if share.forgotten else 0
            parts.append(_SHARE.pack(principal, flags, len(share.producers)))
            for producer_id, producer in share.producers.items():
                count = len(producer.batches)
                numbers = producer_id, producer.epoch, producer.next_sequence, count
                batches = chain.from_iterable(producer.batches)
                parts.append(_PRODUCERS[count].pack(*numbers, *batches))
        return b"".join(parts)

    @classmethod
    def decode(cls, raw: bytes) -> "LogState":
        """Parse ``raw``. Raises: CorruptLog, NewerFormat."""
        try:
            return cls._decode(raw)
        except struct.error as error:
            raise CorruptLog(f"log state of {len(raw)} bytes is cut short") from error

    @classmethod
    def _decode(cls, raw: bytes) -> "LogState":
        version, flags, last_append_ms, _, total_bytes, count = _HEAD.unpack_from(raw)
        if version > STATE_VERSION:
            raise NewerFormat(f"log state version {version}, this server knows {STATE_VERSION}")
        if count > PRODUCERS_MAX:
            raise CorruptLog(f"log state has {count} entries, at most {PRODUCERS_MAX}")
        state = cls()
        state.version = version
        state.last_append_ms = last_append_ms
        state.total_bytes = total_bytes
        state.producers.forgotten = bool(flags & _FLAG_FORGOTTEN)
        position = _HEAD.size
        if version <= _UNOWNED_VERSION:
            _decode_producers(state.producers, UNOWNED_SHARE, count, raw, position)
            return state
        for _ in range(count):
            principal, flags, producers = _SHARE.unpack_from(raw, position)
            state.producers.share(principal).forgotten = bool(flags & _FLAG_FORGOTTEN)
            position = _decode_producers(
                state.producers, principal, producers, raw, position + _SHARE.size
            )
        return state


def _decode_producers(
    table: ProducerTable, principal: int, count: int, raw: bytes, position: int
) -> int:
    """Put the producers of one share into ``table``; return the position after them."""
    if len(table) + count > PRODUCERS_MAX:
        raise CorruptLog(f"log state has {len(table) + count} producers, at most {PRODUCERS_MAX}")
    end = len(raw)
    for _ in range(count):
        batches = raw[position + _BATCHES_POSITION] if position + _BATCHES_POSITION < end else 0
        if batches > BATCHES_KEPT:
            raise CorruptLog(f"log state keeps {batches} batches, at most {BATCHES_KEPT}")
        known = _PRODUCERS[batches]
        producer_id, epoch, next_sequence, _, *numbers = known.unpack_from(raw, position)
        position += known.size
        producer = Producer(epoch)
        producer.next_sequence = next_sequence
        for at in range(0, len(numbers), _BATCH_SIZE):
            producer.batches.append(Batch._make(numbers[at : at + _BATCH_SIZE]))
        table.restore(principal, producer_id, producer)
    return position
