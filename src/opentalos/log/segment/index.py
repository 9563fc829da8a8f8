"""The sparse index of a segment and the side index file of a sealed one. Sans-io.

Shape: side index, big endian
    [magic 8][version u16][reserved u16][seed u32][epoch u64][base offset u64][next offset u64]
    [segment bytes u64][entries u32][state bytes u32]
    then entries x [offset i64], entries x [position i64], entries x [append ms i64],
    then the log state at the segment's end, then [crc u32 of everything before].
    It holds nothing that a scan of the segment does not give again.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from google_crc32c import extend as _crc32c

from opentalos.log.segment.state_format import LogState
from opentalos.model.errors import CorruptLog, NewerFormat

INDEX_MAGIC = b"\x89TALOIDX"
INDEX_VERSION = 1
CUT_SHORT = "the side index is cut short"
_HEAD = struct.Struct(">8sHHIQQQQII")
_CRC = struct.Struct(">I")
_COLUMN_ENTRY_BYTES = 8
_COLUMNS = 3
_INT64 = "q"


class SparseIndex:
    """Offset to position and append time to position, one entry per so many bytes.

    An entry names a block: its base offset, its position, its append time. All three grow.
    """

    __slots__ = ("append_times", "interval_bytes", "offsets", "positions")

    def __init__(self, interval_bytes: int) -> None:
        self.interval_bytes = interval_bytes
        # Arrays take a fifth of what lists of numbers take; many segments are in memory at once.
        self.offsets = array(_INT64)
        self.positions = array(_INT64)
        self.append_times = array(_INT64)

    def add(self, offset: int, position: int, append_ms: int) -> None:
        """Note the block at ``position`` if it is far enough behind the last entry."""
        if not self.positions or position - self.positions[-1] >= self.interval_bytes:
            self.offsets.append(offset)
            self.positions.append(position)
            self.append_times.append(append_ms)

    def position_of(self, offset: int, default: int) -> int:
        """Position of the last entry at or before ``offset``, else ``default``."""
        at = bisect_right(self.offsets, offset) - 1
        return self.positions[at] if at >= 0 else default

    def position_before(self, append_ms: int, default: int) -> int:
        """Position of the last entry with an earlier append time, else ``default``."""
        at = bisect_left(self.append_times, append_ms) - 1
        return self.positions[at] if at >= 0 else default

    def cut(self, position: int) -> None:
        """Forget the entries at or behind ``position``."""
        at = bisect_left(self.positions, position)
        del self.offsets[at:], self.positions[at:], self.append_times[at:]


class SideIndex(NamedTuple):
    """A sealed segment's index and the log state at its end."""

    seed: int
    epoch: int
    base_offset: int
    next_offset: int
    segment_bytes: int
    sparse: SparseIndex
    state: LogState

    def encode(self) -> bytes:
        """The whole side index file."""
        state, entries = self.state.encode(), len(self.sparse.offsets)
        head = _HEAD.pack(
            INDEX_MAGIC,
            INDEX_VERSION,
            0,
            self.seed,
            self.epoch,
            self.base_offset,
            self.next_offset,
            self.segment_bytes,
            entries,
            len(state),
        )
        columns = (
            struct.pack(f">{entries}q", *self.sparse.offsets)
            + struct.pack(f">{entries}q", *self.sparse.positions)
            + struct.pack(f">{entries}q", *self.sparse.append_times)
        )
        body = head + columns + state
        return body + _CRC.pack(_crc32c(0, body))

    @classmethod
    def decode(cls, raw: bytes, interval_bytes: int) -> "SideIndex":
        """Parse a whole file. Raises: CorruptLog (rebuild it from the segment), NewerFormat."""
        if len(raw) < _HEAD.size:
            raise CorruptLog(CUT_SHORT)
        if raw[: len(INDEX_MAGIC)] != INDEX_MAGIC:
            raise CorruptLog("no side index header")
        _, version, _, seed, epoch, base, next_offset, size, entries, state_bytes = (
            _HEAD.unpack_from(raw)
        )
        if version > INDEX_VERSION:
            # Every version ends with this check; a version without it is rot.
            if _CRC.unpack(raw[-_CRC.size :])[0] != _crc32c(0, raw[: -_CRC.size]):
                raise CorruptLog("the side index fails its check")
            raise NewerFormat(f"side index version {version}, this server knows {INDEX_VERSION}")
        state_at = _HEAD.size + entries * _COLUMN_ENTRY_BYTES * _COLUMNS
        end = state_at + state_bytes
        if end + _CRC.size > len(raw):
            raise CorruptLog(CUT_SHORT)
        if end + _CRC.size != len(raw) or _CRC.unpack_from(raw, end)[0] != _crc32c(0, raw[:end]):
            raise CorruptLog("the side index fails its check")
        index = SparseIndex(interval_bytes)
        column = entries * _COLUMN_ENTRY_BYTES
        for number, kept in enumerate((index.offsets, index.positions, index.append_times)):
            kept.extend(struct.unpack_from(f">{entries}q", raw, _HEAD.size + number * column))
        state = LogState.decode(raw[state_at:end])
        return cls(seed, epoch, base, next_offset, size, index, state)
