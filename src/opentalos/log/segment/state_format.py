"""Bytes of the log's own state, kept in state blocks and side indexes. Sans-io.

Shape: big endian [version u16][flags u16: 1 producers were forgotten][last append ms i64]
    [kept -1 i64][block bytes ever appended u64][producers u32], then per producer
    [id u64][epoch u32][next sequence u64][batches u8], then per batch
    [sequence u64][messages u32][base offset u64].
"""

import struct

from opentalos.log.segment.producers import (
    BATCHES_KEPT,
    PRODUCERS_MAX,
    Batch,
    Producer,
    ProducerTable,
)
from opentalos.model.errors import CorruptLog, NewerFormat

STATE_VERSION = 1
_KEPT = -1  # once meant for the metered offset, which is in the manifest
_HEAD = struct.Struct(">HHqqQI")
_PRODUCER = struct.Struct(">QIQB")
_BATCH = struct.Struct(">QIQ")
_FLAG_FORGOTTEN = 1


class LogState:
    """What a log must remember besides its blocks, as of one offset."""

    __slots__ = ("last_append_ms", "producers", "total_bytes")

    def __init__(self) -> None:
        self.last_append_ms = 0
        self.total_bytes = 0
        self.producers = ProducerTable()

    def encode(self) -> bytes:
        """The state as bytes."""
        producers = self.producers.items()
        flags = _FLAG_FORGOTTEN if self.producers.forgotten else 0
        parts = [
            _HEAD.pack(
                STATE_VERSION,
                flags,
                self.last_append_ms,
                _KEPT,
                self.total_bytes,
                len(producers),
            )
        ]
        for producer_id, producer in producers:
            batches = producer.batches
            parts.append(
                _PRODUCER.pack(producer_id, producer.epoch, producer.next_sequence, len(batches))
            )
            parts += [_BATCH.pack(*batch) for batch in batches]
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
        version, flags, last_append_ms, _, total_bytes, producers = _HEAD.unpack_from(raw)
        if version > STATE_VERSION:
            raise NewerFormat(f"log state version {version}, this server knows {STATE_VERSION}")
        if producers > PRODUCERS_MAX:
            raise CorruptLog(f"log state names {producers} producers, at most {PRODUCERS_MAX}")
        state = cls()
        state.last_append_ms = last_append_ms
        state.total_bytes = total_bytes
        state.producers.forgotten = bool(flags & _FLAG_FORGOTTEN)
        position = _HEAD.size
        for _ in range(producers):
            producer_id, epoch, next_sequence, batches = _PRODUCER.unpack_from(raw, position)
            position += _PRODUCER.size
            if batches > BATCHES_KEPT:
                raise CorruptLog(f"log state keeps {batches} batches, at most {BATCHES_KEPT}")
            producer = Producer(epoch)
            producer.next_sequence = next_sequence
            for _ in range(batches):
                producer.batches.append(Batch._make(_BATCH.unpack_from(raw, position)))
                position += _BATCH.size
            state.producers.restore(producer_id, producer)
        return state
