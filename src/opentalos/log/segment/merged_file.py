"""Copies adjacent sealed segments into one file, block by block, each checked before and after.

``SegmentMerger`` calls it. Only the segment's header and the seed of the blocks are new: offsets,
times, principals, producer stamps, formats, flags and payload bytes stay. The log's state comes
first, once; the state blocks of the later segments say what the blocks before them say.
"""

import asyncio
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

from opentalos.log.context import LogContext
from opentalos.log.journal.store import create_whole
from opentalos.log.manifest.manifest import Segment
from opentalos.log.segment.format import (
    FLAG_STATE,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    index_path,
    reseeded,
)
from opentalos.log.segment.index import SideIndex
from opentalos.log.segment.next_file import NUMBER_BYTES
from opentalos.log.segment.scan import valid_blocks
from opentalos.log.segment.view import (
    load_side_index,
    read_segment_header,
    rebuild_side_index,
    store_side_index,
)
from opentalos.log.segment.writer import SEED_BYTES
from opentalos.model.errors import CorruptLog, OutcomeUnknown, TalosError
from opentalos.model.message import Durability, PartitionKey
from opentalos.ports.file_store import AppendFile

BYTES_PER_S = 16 << 20  # so that puts keep the disk
WINDOW_BYTES = 256 << 10  # written with one call


class MergeStopped(Exception):
    """The server is closing; the file was deleted."""


class UnsoundSegment(Exception):
    """A segment cannot be copied; it stays as it is, and so do the others."""

    def __init__(self, segment: Segment, text: str) -> None:
        super().__init__(text)
        self.segment = segment


class Merged(NamedTuple):
    """The segment that may replace a run, its file closed and verified."""

    segment: Segment
    side: SideIndex


async def write_merged(
    context: LogContext, key: PartitionKey, epoch: int, run: tuple[Segment, ...]
) -> Merged:
    """Copy ``run`` into a file of ``epoch``, with its side index.

    Raises: UnsoundSegment, MergeStopped, TalosError: the file was deleted, or is an orphan.
    """
    number = max(int.from_bytes(context.clock.token(NUMBER_BYTES), "big"), 1)
    last = run[-1]
    merged = last._replace(base_offset=run[0].base_offset, epoch=epoch, number=number)
    path = merged.path(key)
    # Its close makes all of it durable, so its commits need not.
    file = await create_whole(context.journaled, path)
    try:
        copy = _Copy(context, file, merged)
        for segment in run:
            await copy.add(key, segment)
        merged = merged._replace(bytes=await copy.finish())
        side = await _verified(context, key, merged, last)
        await store_side_index(context.files, path, side)
    except (TalosError, UnsoundSegment, MergeStopped):
        await _discard(context, file, path)
        raise
    except asyncio.CancelledError:  # the storage hangs, and so may the close
        if not context.closing:
            context.background.start(partial(_discard, context, file, path))
        raise
    return Merged(merged, side)


class _Copy:
    """The file that is written, and how far."""

    def __init__(self, context: LogContext, file: AppendFile, merged: Segment) -> None:
        self._context, self._file, self._merged = context, file, merged
        self._seed = max(int.from_bytes(context.clock.token(SEED_BYTES), "big"), 1)
        self._chunks: list[bytes | memoryview] = []
        self._waiting_bytes = self._length = 0
        self._next_offset = merged.base_offset

    async def add(self, key: PartitionKey, segment: Segment) -> None:
        """Append all blocks of ``segment``. Raises: UnsoundSegment, MergeStopped."""
        files, path = self._context.files, segment.path(key)
        try:
            header = await read_segment_header(files, path)
        except CorruptLog as error:
            raise UnsoundSegment(segment, str(error)) from error
        first = not self._length and not self._chunks
        if first:
            await self._put(self._head(header))
        position = SEGMENT_HEADER_BYTES
        blocks = valid_blocks(files, path, header.seed, position, segment.bytes)
        async with aclosing(blocks):
            async for found in blocks:
                block = found.header
                if found.position != position or block.base_offset != self._next_offset:
                    break
                if first or not block.flags & FLAG_STATE:
                    await self._put(reseeded(found.raw, self._seed))
                position += block.block_bytes
                self._next_offset = block.next_offset
        if (position, self._next_offset) != (segment.bytes, segment.next_offset):
            raise UnsoundSegment(
                segment, f"{path} position {position} offset {self._next_offset}: no valid block"
            )

    async def finish(self) -> int:
        """Close the file; its length."""
        await self._flush()
        length = await self._file.close()
        if length != self._length:
            raise OutcomeUnknown(f"{length} bytes long, {self._length} were written")
        return length

    def _head(self, first: SegmentHeader) -> bytes:
        return first._replace(
            seed=self._seed,
            epoch=self._merged.epoch,
            durability=Durability.FLUSHED,
            version=self._context.segment_version,
        ).encode()

    async def _put(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._waiting_bytes += len(chunk)
        if self._waiting_bytes >= WINDOW_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        if self._context.closing:
            raise MergeStopped
        count_bytes = self._waiting_bytes
        chunks, self._chunks, self._waiting_bytes = self._chunks, [], 0
        self._length += count_bytes
        if chunks:
            await self._file.commit([b"".join(chunks)])
            self._context.note_written(count_bytes)
            await asyncio.sleep(count_bytes / BYTES_PER_S)


async def _verified(
    context: LogContext, key: PartitionKey, merged: Segment, last: Segment
) -> SideIndex:
    """The side index, made by reading the whole file; it ends with the state of ``last``."""
    files, interval_bytes = context.files, context.limits.index_interval_bytes
    side, fault = await rebuild_side_index(files, merged.path(key), merged, interval_bytes)
    if fault:
        raise UnsoundSegment(last, f"the merged file {merged.path(key)} is not sound: {fault}")
    try:
        wanted = await load_side_index(files, key, last, interval_bytes)
    except CorruptLog as error:
        raise UnsoundSegment(last, str(error)) from error
    if not side.state.agrees(wanted.state):
        raise UnsoundSegment(last, f"{merged.path(key)} would end with another state of the log")
    return side._replace(state=wanted.state)


async def _discard(context: LogContext, file: AppendFile, path: str) -> None:
    """No manifest names the file. What cannot be deleted now is left to the next owner."""
    context.schedule_deletion(path, 0.0)
    context.schedule_deletion(index_path(path), 0.0)
    try:
        await file.close()
    except TalosError:
        return
