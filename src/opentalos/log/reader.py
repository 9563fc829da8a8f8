"""Reading blocks of one segment from storage, each with its CRC checked."""

from typing import NamedTuple

from opentalos.log.segment_format import (
    BLOCK_BYTES_MAX,
    BLOCK_HEADER_BYTES,
    SCAN_HEADER,
    SEGMENT_HEADER_BYTES,
    block_fault,
    read_header,
    stored_block,
)
from opentalos.log.segment_scan import valid_blocks
from opentalos.log.segment_view import SegmentView
from opentalos.model.errors import CorruptLog
from opentalos.model.message import StoredBlock
from opentalos.ports.file_store import FileStore

# One step of a read; with 100-byte blocks it keeps the loop for some milliseconds.
READ_WINDOW_BYTES = 512 << 10


class Wanted(NamedTuple):
    """How much a reader wants; one block is given even if it is more than that."""

    offset: int
    messages_max: int
    bytes_max: int  # of payloads


class SegmentReader:
    """One read of one segment: walks from an indexed place to the offset, then collects."""

    def __init__(self, files: FileStore, view: SegmentView, name: str) -> None:
        self._files, self._view, self._name = files, view, name
        # Taken once: a writer may move both on while this read is under way.
        self._end, self._next_offset = view.end_position, view.next_offset
        self._blocks: list[StoredBlock] = []
        self._messages = self._taken_bytes = 0

    async def collect(self, wanted: Wanted) -> list[StoredBlock]:
        """Contiguous blocks from the one that contains ``wanted.offset``.

        Raises: CorruptLog if that block is damaged; damage behind it ends the list. NotFound.
        """
        position = self._view.position_of(wanted.offset)
        while position < self._end:
            window = min(self._window(wanted), self._end - position)
            raw = await self._files.read(self._view.path, position=position, bytes_max=window)
            walked, full = self._walk(raw, wanted)
            position += walked
            if full:
                break
            if walked:
                continue
            grown = self._claimed(raw, position)
            if grown > len(raw):
                raw = await self._files.read(self._view.path, position=position, bytes_max=grown)
                walked, full = self._walk(raw, wanted)
                position += walked
                if full:
                    break
            if not walked:
                if self._blocks:
                    break
                fault = block_fault(raw, 0, self._view.seed)
                position = await self._behind(position, wanted, fault)
        if self._blocks:
            self._view.hint_offset = self._blocks[-1].next_offset
            self._view.hint_position = position
        return self._blocks

    async def first_at(self, append_ms: int) -> int:
        """Offset of the first block appended at or after the time, or the next offset."""
        position = self._view.index.position_before(append_ms, SEGMENT_HEADER_BYTES)
        async for found in valid_blocks(
            self._files, self._view.path, self._view.seed, position, self._end
        ):
            header = found.header
            if header.base_offset >= self._next_offset:
                break
            if header.messages and header.append_ms >= append_ms:
                return header.base_offset
        return self._next_offset

    def _window(self, wanted: Wanted) -> int:
        left = max(wanted.bytes_max - self._taken_bytes, 0)
        return min(READ_WINDOW_BYTES, left + self._view.index.interval_bytes)

    def _walk(self, raw: bytes, wanted: Wanted) -> tuple[int, bool]:
        """Take what ``raw`` holds; bytes walked over, and whether the reader has enough."""
        start, seed, blocks = 0, self._view.seed, self._blocks
        while not block_fault(raw, start, seed):
            header = read_header(raw, start)
            if header.next_offset > self._next_offset:
                return start, True
            if header.messages and header.next_offset > wanted.offset:
                if not blocks and header.base_offset > wanted.offset:
                    return start, True  # its block is missing; the caller finds no block
                stored = stored_block(raw, start, header)
                if blocks and self._enough(stored, wanted):
                    return start, True
                blocks.append(stored)
                self._messages += stored.messages
                self._taken_bytes += len(stored.payload)
            start += header.block_bytes
        return start, False

    def _enough(self, stored: StoredBlock, wanted: Wanted) -> bool:
        return (
            stored.base_offset != self._blocks[-1].next_offset
            or self._messages + stored.messages > wanted.messages_max
            or self._taken_bytes + len(stored.payload) > wanted.bytes_max
        )

    def _claimed(self, raw: bytes, position: int) -> int:
        """Length the block at ``raw[0]`` claims, if it can be true."""
        if len(raw) < BLOCK_HEADER_BYTES:
            return 0
        claimed = int(SCAN_HEADER.unpack_from(raw)[1])
        return claimed if claimed <= min(BLOCK_BYTES_MAX, self._end - position) else 0

    async def _behind(self, position: int, wanted: Wanted, fault: str) -> int:
        """Position of the wanted block behind a damaged place. Raises: CorruptLog."""
        async for found in valid_blocks(
            self._files, self._view.path, self._view.seed, position + 1, self._end
        ):
            if found.header.base_offset > wanted.offset:
                break
            if found.header.next_offset > wanted.offset:
                return found.position
        raise CorruptLog(
            f"{self._name}: {self._view.path} position {position} offset {wanted.offset}: {fault}"
        )
