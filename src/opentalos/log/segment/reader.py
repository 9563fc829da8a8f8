"""Reading blocks of one segment from storage, each with its CRC checked."""

from typing import NamedTuple

from google_crc32c import extend as _crc32c

from opentalos.log.segment.format import (
    BLOCK_BYTES_MAX,
    BLOCK_HEADER,
    BLOCK_HEADER_BYTES,
    CRC_BYTES,
    SCAN_HEADER,
    SEGMENT_HEADER_BYTES,
    block_fault,
)
from opentalos.log.segment.scan import valid_blocks
from opentalos.log.segment.view import SegmentView
from opentalos.model.errors import CorruptLog
from opentalos.model.message import StoredBlock
from opentalos.ports.file_store import FileStore

# One step of a read; 1 KiB blocks then keep the loop for about two milliseconds. Where blocks are
# larger, a step may be as well: it is their number that takes the time.
READ_WINDOW_BYTES = 768 << 10
READ_WINDOW_BYTES_MAX = 2 << 20
_WINDOW_BLOCKS = 768


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
            if full or self._ends_at(raw, walked, wanted):
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
            self._view.hint_block_bytes = self._taken_bytes // len(self._blocks)
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
        """Bytes to read next: what is still wanted, as far as the blocks so far let one guess."""
        left_bytes = wanted.bytes_max - self._taken_bytes
        if self._messages:
            left_messages = wanted.messages_max - self._messages
            left_bytes = min(left_bytes, left_messages * self._taken_bytes // self._messages)
        most = self._view.hint_block_bytes * _WINDOW_BLOCKS
        most = min(max(READ_WINDOW_BYTES, most), READ_WINDOW_BYTES_MAX)
        return min(most, max(left_bytes, 0) + self._view.index.interval_bytes)

    def _walk(self, raw: bytes, wanted: Wanted) -> tuple[int, bool]:
        """Take what ``raw`` holds; bytes walked over, and whether the reader has enough.

        The hot loop of cold reads, so it checks a block inline as ``block_fault`` does.
        """
        unpack, seed, end, blocks = (
            BLOCK_HEADER.unpack_from,
            self._view.seed,
            len(raw),
            self._blocks,
        )
        start, full = 0, False
        while end - start >= BLOCK_HEADER_BYTES:
            header = unpack(raw, start)
            crc, size, marker, messages, base = header[:5]
            payload_at = start + BLOCK_HEADER_BYTES + header[15]
            stop = start + size
            if marker != seed or not payload_at <= stop <= end:
                break
            # The payload is copied once, for its check and for the reader.
            payload = raw[payload_at:stop]
            if crc != _crc32c(_crc32c(seed, raw[start + CRC_BYTES : payload_at]), payload):
                break
            next_offset = base + messages
            if next_offset > self._next_offset:
                full = True
                break
            if messages and next_offset > wanted.offset:
                if self._refused(base, messages, stop - payload_at, wanted):
                    full = True
                    break
                blocks.append(
                    StoredBlock(
                        base,
                        messages,
                        header[7],
                        header[8],
                        header[13],
                        header[12],
                        payload,
                        raw[start + BLOCK_HEADER_BYTES : payload_at],
                    )
                )
                self._messages += messages
                self._taken_bytes += stop - payload_at
            start = stop
        return start, full

    def _ends_at(self, raw: bytes, start: int, wanted: Wanted) -> bool:
        """Whether the block at ``raw[start]``, which is not all there, is too much: then its rest
        is not read in vain. Its header may lie, which the next reader finds out."""
        if not self._blocks or len(raw) - start < BLOCK_HEADER_BYTES:
            return False
        header = BLOCK_HEADER.unpack_from(raw, start)
        payload_bytes = header[1] - BLOCK_HEADER_BYTES - header[15]
        return header[2] == self._view.seed and self._refused(
            header[4], header[3], payload_bytes, wanted
        )

    def _refused(self, base: int, messages: int, payload_bytes: int, wanted: Wanted) -> bool:
        """Whether the block is too much, or does not follow: then its neighbour is missing."""
        if not self._blocks:
            return base > wanted.offset
        return (
            base != self._blocks[-1].next_offset
            or self._messages + messages > wanted.messages_max
            or self._taken_bytes + payload_bytes > wanted.bytes_max
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
