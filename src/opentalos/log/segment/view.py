"""A segment as readers see it: path, seed, durable bounds and index; made or found on demand."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from opentalos.log.manifest.manifest import Segment
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES, SegmentHeader, index_path
from opentalos.log.segment.index import SideIndex, SparseIndex
from opentalos.log.segment.scan import Readable, SegmentScan, scan_segment, valid_blocks
from opentalos.model.errors import AlreadyExists, CorruptLog, NotFound
from opentalos.model.message import Durability, PartitionKey
from opentalos.ports.file_store import FileStore

VIEWS_MAX = 128  # sealed segments whose index is kept in memory, whole server
SIDE_INDEX_BYTES_MAX = 64 << 20  # of a file; larger ones are rebuilt from the segment
_SIDE_INDEX_USUAL_BYTES = 256 << 10  # a segment of 128 MiB has about 50 KiB of entries
_REBUILDS_AT_ONCE_MAX = 4  # they read whole segments
# A former owner that handed the partition over writes the side index of its last segment behind
# the seal; waiting for it is quicker than scanning a segment of so many bytes.
_LATE_BYTES, _LATE_S = 8 << 20, 1.0

Rebuilt = Callable[[PartitionKey, Segment, SideIndex], None]


class SegmentView:
    """Durable bounds of a segment and where its blocks lie. Only its owner moves the bounds."""

    __slots__ = (
        "base_offset",
        "end_position",
        "hint_block_bytes",
        "hint_offset",
        "hint_position",
        "index",
        "next_offset",
        "path",
        "seed",
    )

    def __init__(self, path: str, seed: int, base_offset: int, index: SparseIndex) -> None:
        self.path, self.seed, self.base_offset, self.index = path, seed, base_offset, index
        self.next_offset = base_offset  # no message from here on may be shown
        self.end_position = SEGMENT_HEADER_BYTES
        self.hint_offset = -1  # where the last reader stopped, so the next one need not search
        self.hint_position = 0
        self.hint_block_bytes = 0  # about the size of its blocks; 0: nobody has read them

    def show_to(self, next_offset: int, end_position: int) -> None:
        """Readers may see what lies below these bounds."""
        self.next_offset, self.end_position = next_offset, end_position

    def position_of(self, offset: int) -> int:
        """A place at or before the block that contains ``offset``."""
        if offset == self.hint_offset:
            return self.hint_position
        return self.index.position_of(offset, SEGMENT_HEADER_BYTES)


async def read_segment_header(files: Readable, path: str) -> SegmentHeader:
    """Parse a segment's header. Raises: CorruptLog naming the file, NewerFormat."""
    try:
        raw = await files.read(path, position=0, bytes_max=SEGMENT_HEADER_BYTES)
    except NotFound as error:
        raise CorruptLog(f"segment file {path} is missing") from error
    try:
        return SegmentHeader.decode(raw)
    except CorruptLog as error:
        raise CorruptLog(f"{path}: {error}") from error


async def read_side_index(files: FileStore, path: str, interval_bytes: int) -> SideIndex | None:
    """The side index at ``path``; None if it is missing or damaged."""
    try:
        raw = await files.read(path, position=0, bytes_max=_SIDE_INDEX_USUAL_BYTES)
        if len(raw) == _SIDE_INDEX_USUAL_BYTES:
            left_bytes = SIDE_INDEX_BYTES_MAX - len(raw)
            raw += await files.read(path, position=len(raw), bytes_max=left_bytes)
        return SideIndex.decode(raw, interval_bytes)
    except (NotFound, CorruptLog):
        return None


async def store_side_index(files: FileStore, log_path: str, side: SideIndex) -> None:
    """Store a side index. Raises: Unavailable, OutcomeUnknown: it may be missing or damaged."""
    path = index_path(log_path)
    try:
        file = await files.create(path, durability=Durability.SYNCED)
    except AlreadyExists:
        # Another owner may have made it, and it may be the only place of the log's state by now.
        found = await read_side_index(files, path, side.sparse.interval_bytes)
        if found is not None and found[:5] == side[:5]:
            return
        await files.delete(path)  # of an attempt that did not end, or of another end
        file = await files.create(path, durability=Durability.SYNCED)
    await file.commit([side.encode()])
    await file.close()


async def find_side_index(
    files: FileStore, path: str, segment: Segment, interval_bytes: int
) -> SideIndex | None:
    """The stored side index of a sealed segment, if it is sound and of this very segment."""
    side = await read_side_index(files, index_path(path), interval_bytes)
    if side is None or (side.base_offset, side.epoch) != (segment.base_offset, segment.epoch):
        return None
    sealed = (segment.next_offset, segment.bytes)
    return side if (side.next_offset, side.segment_bytes) == sealed else None


async def load_side_index(
    files: FileStore, key: PartitionKey, segment: Segment, interval_bytes: int
) -> SideIndex:
    """A sealed segment's side index, rebuilt from the segment if the file cannot be used.

    Raises: CorruptLog: the segment is damaged too, or missing, so its state is not known.
    """
    path = segment.path(key)
    side = await find_side_index(files, path, segment, interval_bytes)
    if side is None:
        side, fault = await rebuild_side_index(files, path, segment, interval_bytes)
        if fault:
            raise CorruptLog(f"{path} has no sound side index, and at {fault}")
    return side


async def rebuild_side_index(
    files: FileStore, path: str, segment: Segment, interval_bytes: int
) -> tuple[SideIndex, str]:
    """Scan a sealed segment; also its first fault, or an empty string.

    After a damaged place the index continues, so that the other blocks stay readable.
    """
    header = await read_segment_header(files, path)
    scan = SegmentScan(header.seed, segment.base_offset, SparseIndex(interval_bytes))
    first_fault = ""
    while True:
        await scan_segment(files, path, scan, segment.bytes)
        if not scan.fault:
            break
        first_fault = first_fault or f"position {scan.position}: {scan.fault}"
        behind = valid_blocks(files, path, header.seed, scan.position + 1, segment.bytes)
        block = await anext(behind, None)
        await behind.aclose()
        if block is None:
            break
        scan.resume(block.position, block.header.base_offset)
    side = SideIndex(
        header.seed,
        segment.epoch,
        segment.base_offset,
        segment.next_offset or segment.base_offset,
        segment.bytes,
        scan.index,
        scan.all_state(),
    )
    return side, first_fault


class ViewCache:
    """Views of sealed segments, the ones used last; their indexes are loaded on demand."""

    __slots__ = ("_files", "_interval_bytes", "_rebuilds", "_rebuilt", "_views")

    def __init__(self, files: FileStore, interval_bytes: int) -> None:
        self._files, self._interval_bytes = files, interval_bytes
        self._views: OrderedDict[str, SegmentView] = OrderedDict()
        self._rebuilds = asyncio.Semaphore(_REBUILDS_AT_ONCE_MAX)
        self._rebuilt: Rebuilt | None = None

    def tell_rebuilt(self, rebuilt: Rebuilt) -> None:
        """Call ``rebuilt`` with each index that had to be made from an undamaged segment."""
        self._rebuilt = rebuilt

    async def get(self, key: PartitionKey, segment: Segment) -> SegmentView:
        """The view of a sealed segment. Raises: CorruptLog, Unavailable."""
        path = segment.path(key)
        view = self._views.get(path)
        if view is None:
            files, interval_bytes = self._files, self._interval_bytes
            side = await find_side_index(files, path, segment, interval_bytes)
            if side is None and segment.bytes > _LATE_BYTES:
                await asyncio.sleep(_LATE_S)
                side = await find_side_index(files, path, segment, interval_bytes)
            if side is None:
                async with self._rebuilds:
                    side, fault = await rebuild_side_index(files, path, segment, interval_bytes)
                if not fault and self._rebuilt is not None:
                    self._rebuilt(key, segment, side)
            view = self.put(path, side)
        self._views.move_to_end(path)
        return view

    def put(self, path: str, side: SideIndex) -> SegmentView:
        """Keep the view of a segment whose side index is at hand."""
        view = SegmentView(path, side.seed, side.base_offset, side.sparse)
        view.show_to(side.next_offset, side.segment_bytes)
        self._views[path] = view
        if len(self._views) > VIEWS_MAX:
            self._views.popitem(last=False)
        return view

    def forget(self, path: str) -> None:
        """The segment was dropped."""
        self._views.pop(path, None)
