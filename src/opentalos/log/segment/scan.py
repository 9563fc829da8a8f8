"""Reading a segment from its start: every valid block, how far it was acknowledged, where it ends.

``SegmentScan`` is sans-io; ``scan_segment`` and ``valid_blocks`` feed it from the file store.
"""

import asyncio
import math
from collections.abc import AsyncGenerator
from typing import NamedTuple, Protocol

from google_crc32c import extend as _crc32c

from opentalos.log.segment.damage import JUDGED_BYTES_MAX, left_by_crash
from opentalos.log.segment.format import (
    BLOCK_BYTES_MAX,
    BLOCK_HEADER_BYTES,
    CRC_BYTES,
    FLAG_STATE,
    MARKER_POSITION,
    SCAN_HEADER,
    SEGMENT_HEADER_BYTES,
    BlockHeader,
    block_fault,
    block_payload,
    read_header,
)
from opentalos.log.segment.index import SparseIndex
from opentalos.log.segment.state_format import LogState
from opentalos.model.errors import CorruptLog
from opentalos.model.message import ProducerStamp

# One step of a scan: small enough that 100-byte blocks keep the loop for a few milliseconds only.
SCAN_WINDOW_BYTES = 256 << 10
_MARKER_BYTES = 4


class Readable(Protocol):
    """What a scan needs of a file store; see its port."""

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes: ...


class FixedFile:
    """A file that never changes again, its first bytes read once; short ones need no other read."""

    def __init__(self, files: Readable, head: bytes) -> None:
        self._files, self._head = files, head

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        """See the port."""
        if position + bytes_max <= len(self._head):
            return self._head[position : position + bytes_max]
        return await self._files.read(path, position=position, bytes_max=bytes_max)


async def read_head(files: Readable, path: str, length: int) -> FixedFile:
    """A fenced file of ``length`` bytes, ready to be scanned."""
    count = min(length, SCAN_WINDOW_BYTES)
    return FixedFile(files, await files.read(path, position=0, bytes_max=count))


class SegmentScan:
    """Walks the blocks of one segment and stops at the first bad one.

    The state is that at ``committed``: what the blocks of the tail (those written with the
    largest ``committed``) add is kept apart until a later group proves them durable. The tail
    begins at ``tail_from`` at the latest: what the file may not hold is part of it.
    """

    __slots__ = (
        "_tail_notes",
        "committed",
        "fault",
        "index",
        "last_append_ms",
        "next_offset",
        "position",
        "seed",
        "state",
        "state_end",
        "tail_from",
        "tail_offset",
        "tail_position",
    )

    def __init__(
        self, seed: int, base_offset: int, index: SparseIndex, tail_from: float = math.inf
    ) -> None:
        self.seed, self.index, self.tail_from = seed, index, tail_from
        self.position = SEGMENT_HEADER_BYTES  # of the next block
        self.next_offset = self.committed = self.tail_offset = base_offset
        self.state_end = 0  # position after the state block; 0: not seen yet
        self.tail_position = 0  # of the first block of the last group
        self.last_append_ms = 0
        self.state = LogState()
        self.fault = ""  # why no valid block starts at ``position``
        self._tail_notes: list[tuple[int, ProducerStamp, int, int]] = []

    def feed(self, raw: bytes, *, last: bool) -> int:
        """Scan ``raw``, which starts at ``position``; return how many bytes to bring next.

        ``last``: the file has no byte behind ``raw``, so an incomplete block is a fault.
        """
        start, want = 0, SCAN_WINDOW_BYTES
        if not self.state_end and not self.fault:
            start, want = self._first_block(raw, last)
        if self.state_end and not self.fault:
            start, want = self._walk(raw, start, last)
        self.position += start
        return want

    def all_state(self) -> LogState:
        """The state behind every valid block, the tail included; ends the scan."""
        self._settle_tail()
        self.state.last_append_ms = self.last_append_ms
        self.state.total_bytes += self.position - self.tail_position
        self.tail_position = self.position
        return self.state

    def resume(self, position: int, offset: int) -> None:
        """Resume after a damaged place, at a valid block."""
        self.position, self.next_offset, self.fault = position, offset, ""
        self.state_end = self.state_end or position
        self.tail_position = self.tail_position or position

    def _first_block(self, raw: bytes, last: bool) -> tuple[int, int]:
        need = BLOCK_HEADER_BYTES
        if len(raw) >= need:
            need = min(SCAN_HEADER.unpack_from(raw)[1], BLOCK_BYTES_MAX)
        if len(raw) < need and not last:
            return 0, max(need, SCAN_WINDOW_BYTES)
        self.fault = block_fault(raw, 0, self.seed)
        if self.fault:
            return 0, 0
        header = read_header(raw, 0)
        if not header.flags & FLAG_STATE or header.base_offset != self.next_offset:
            self.fault = "the first block is not the log's state at the base offset"
            return 0, 0
        try:
            self.state = LogState.decode(block_payload(raw, 0, header))
        except CorruptLog as error:
            self.fault = str(error)
            return 0, 0
        self.last_append_ms = self.state.last_append_ms
        self.state_end = self.tail_position = self.position + header.block_bytes
        return header.block_bytes, SCAN_WINDOW_BYTES

    def _walk(self, raw: bytes, start: int, last: bool) -> tuple[int, int]:
        """The hot loop of recovery: about one microsecond per block."""
        unpack, seed, end, at = SCAN_HEADER.unpack_from, self.seed, len(raw), self.position
        positions = self.index.positions
        interval = self.index.interval_bytes
        index_at = positions[-1] + interval if positions else 0
        next_offset, committed, append_ms = self.next_offset, self.committed, self.last_append_ms
        want = SCAN_WINDOW_BYTES
        fault = ""
        while start < end:
            if end - start < BLOCK_HEADER_BYTES:
                fault = f"only {end - start} bytes are left for a block header" if last else ""
                break
            crc, size, marker, messages, base, durable, producer_id, ms = unpack(raw, start)
            if marker != seed or not BLOCK_HEADER_BYTES <= size <= BLOCK_BYTES_MAX:
                fault = block_fault(raw, start, seed)
                break
            stop = start + size
            if stop > end:
                fault = f"block of {size} bytes, only {end - start} are left" if last else ""
                want = max(size, want)
                break
            if crc != _crc32c(seed, raw[start + CRC_BYTES : stop]):
                fault = "the block fails its CRC-32C check"
                break
            if base != next_offset or not committed <= durable <= base:
                fault = f"block of offset {base}, committed {durable}, expected {next_offset}"
                break
            if durable > committed:
                committed = durable
                if at + start <= self.tail_from:
                    self._new_group(at + start, base, append_ms)
            if producer_id:
                self._note(raw, start)
            if at + start >= index_at:
                self.index.add(base, at + start, ms)
                index_at = at + start + interval
            next_offset += messages
            append_ms = ms
            start = stop
        self.next_offset, self.committed, self.last_append_ms = next_offset, committed, append_ms
        self.fault = fault
        return start, want

    def _new_group(self, position: int, offset: int, append_ms: int) -> None:
        """Everything before ``position`` is proven durable."""
        if self._tail_notes:
            self._settle_tail()
        self.state.last_append_ms = append_ms
        self.state.total_bytes += position - self.tail_position
        self.tail_position, self.tail_offset = position, offset

    def _settle_tail(self) -> None:
        for note in self._tail_notes:
            self.state.producers.note(*note)
        self._tail_notes.clear()

    def _note(self, raw: bytes, start: int) -> None:
        header = read_header(raw, start)
        stamp = header.producer
        if stamp is not None:
            note = header.principal, stamp, header.messages, header.base_offset
            self._tail_notes.append(note)


async def scan_segment(files: Readable, path: str, scan: SegmentScan, length: int) -> None:
    """Drive ``scan`` over the file up to ``length``, giving way to the loop at each window."""
    want = SCAN_WINDOW_BYTES
    while not scan.fault:
        left = length - scan.position
        if left <= 0:
            break
        raw = await files.read(path, position=scan.position, bytes_max=min(want, left))
        if len(raw) < min(want, left):
            scan.fault = f"the file ends {left - len(raw)} bytes early"
            scan.feed(raw, last=True)
            break
        want = scan.feed(raw, last=len(raw) == left)
        await asyncio.sleep(0)
    if not scan.state_end and not scan.fault:
        scan.fault = "the file ends before its state block"


async def scan_to_end(files: Readable, path: str, scan: SegmentScan) -> None:
    """Drive ``scan`` over a file whose length nobody knows."""
    want, ended = SCAN_WINDOW_BYTES, False
    while not (scan.fault or ended):
        raw = await files.read(path, position=scan.position, bytes_max=want)
        ended = len(raw) < want
        want = scan.feed(raw, last=ended)
        await asyncio.sleep(0)


class FoundBlock(NamedTuple):
    """A valid block found by searching: its place in the file and its bytes."""

    position: int
    header: BlockHeader
    raw: bytes


async def valid_blocks(
    files: Readable, path: str, seed: int, position: int, end: int
) -> AsyncGenerator[FoundBlock, None]:
    """Every valid block at or behind ``position``, found by the segment's marker.

    For damaged segments: no length field of a bad block is needed to find the next good one.
    """
    marker = seed.to_bytes(_MARKER_BYTES, "big")
    while end - position >= BLOCK_HEADER_BYTES:
        window = min(SCAN_WINDOW_BYTES, end - position)
        raw = await files.read(path, position=position, bytes_max=window)
        await asyncio.sleep(0)
        at, passed = 0, False
        while (found := raw.find(marker, at + MARKER_POSITION)) >= 0:
            at = found - MARKER_POSITION
            head = raw[at : at + _claimed_bytes(raw, at)]
            block = await _whole_block(files, path, position + at, head, end, seed)
            if block is not None:
                yield block
                at += block.header.block_bytes
                passed = at > len(raw)
                if passed:
                    break
            else:
                at += 1
        if passed:
            position += at
        elif len(raw) < window or position + len(raw) >= end:
            return
        else:
            # A marker may lie across the window's end, so the next window overlaps this one.
            position += max(at, len(raw) - BLOCK_HEADER_BYTES)


class BadBlock(NamedTuple):
    """What lies at a position without a valid block."""

    acknowledged: int  # the largest ``committed`` of the valid blocks behind; 0: there are none
    crash: bool  # whether a crash can have left the bytes up to the next of them
    followed: bool  # whether there is a valid block behind


async def judge_bad_block(
    files: Readable, path: str, seed: int, position: int, length: int
) -> BadBlock:
    """Read what follows ``position``, up to ``length``."""
    acknowledged, behind = 0, length
    async for found in valid_blocks(files, path, seed, position + 1, length):
        behind = min(behind, found.position)
        acknowledged = max(acknowledged, found.header.committed)
    room_bytes = behind - position
    raw = await files.read(path, position=position, bytes_max=min(room_bytes, JUDGED_BYTES_MAX))
    crash = left_by_crash(raw, position, room_bytes, seed, at_end=behind == length)
    return BadBlock(acknowledged, crash, behind < length)


def _claimed_bytes(raw: bytes, at: int) -> int:
    """Length that the header at ``raw[at]`` claims; a header's bytes if it is cut or absurd."""
    if len(raw) - at < BLOCK_HEADER_BYTES:
        return BLOCK_HEADER_BYTES
    return max(int(SCAN_HEADER.unpack_from(raw, at)[1]), BLOCK_HEADER_BYTES)


async def _whole_block(
    files: Readable, path: str, position: int, raw: bytes, end: int, seed: int
) -> FoundBlock | None:
    """The block at ``position`` if a valid one starts there; ``raw`` are its first bytes."""
    if len(raw) < BLOCK_HEADER_BYTES:
        raw = await files.read(path, position=position, bytes_max=BLOCK_HEADER_BYTES)
        if len(raw) < BLOCK_HEADER_BYTES:
            return None
    size = SCAN_HEADER.unpack_from(raw)[1]
    if not BLOCK_HEADER_BYTES <= size <= min(BLOCK_BYTES_MAX, end - position):
        return None
    if size > len(raw):
        raw = await files.read(path, position=position, bytes_max=size)
    if block_fault(raw, 0, seed):
        return None
    return FoundBlock(position, read_header(raw, 0), raw[:size])
