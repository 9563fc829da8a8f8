"""Verifies stored logs: every CRC, offset, ``committed``, side index and manifest; only reads.

For a storage that no server uses meanwhile. What a crash leaves behind (a torn tail, orphans of
smaller epochs, a missing side index) is a note, not a problem: the next opening deals with it.
"""

from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import ManifestStore
from opentalos.log.partition.queue import name_of
from opentalos.log.segment.format import (
    BLOCK_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    index_path,
    parse_file_name,
    segment_path,
)
from opentalos.log.segment.index import CUT_SHORT, SideIndex, SparseIndex
from opentalos.log.segment.scan import SegmentScan, scan_segment, valid_blocks
from opentalos.log.segment.view import SIDE_INDEX_BYTES_MAX, read_segment_header
from opentalos.model.errors import CorruptLog, NewerFormat, NotFound
from opentalos.model.message import PartitionKey
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore

_LENGTH_MAX = 1 << 62  # of a file, to search its end


class Finding(NamedTuple):
    """One line of the report. A note is what the next opening of the log puts right itself."""

    problem: bool
    text: str


Findings = AsyncGenerator[Finding, None]


class _IndexCheck(SparseIndex):
    """Takes the blocks of a scan and strikes out the side index entries that they confirm."""

    __slots__ = ("blocks", "expected")

    def __init__(self, side: SideIndex | None) -> None:
        super().__init__(0)  # every block is offered
        self.blocks = 0
        columns = (side.sparse.offsets, side.sparse.append_times) if side else ([], [])
        positions = side.sparse.positions if side else []
        self.expected = dict(zip(positions, zip(*columns, strict=True), strict=True))

    def add(self, offset: int, position: int, append_ms: int) -> None:
        self.blocks += 1
        if self.expected.get(position) == (offset, append_ms):
            del self.expected[position]


class LogVerifier:
    """Checks the logs of one storage, partition by partition."""

    def __init__(self, files: FileStore, meta: MetaStore) -> None:
        self._files, self._manifests = files, ManifestStore(meta, "verify")
        self.blocks = self.bytes = 0  # checked so far; for the summary

    async def partitions(self) -> list[PartitionKey]:
        """Every partition that has a manifest or files, sorted."""
        found = set(await self._manifests.partitions())
        for path in await self._files.list(""):
            parts = path.split("/")
            if len(parts) == 3 and parts[1].isdecimal():
                found.add(PartitionKey(parts[0], int(parts[1])))
        return sorted(found)

    async def check(self, key: PartitionKey, on_segment: Callable[[], None]) -> Findings:
        """Everything that is wrong with one partition; ``on_segment`` is called after each."""
        try:
            manifest = (await self._manifests.load(key)).manifest
        except (CorruptLog, NewerFormat) as error:
            yield Finding(True, f"{name_of(key)}: {error}")
            return
        if manifest.deleted:
            yield Finding(False, f"{name_of(key)}: its deletion did not end; repeated at start")
            return
        async for finding in self._check_files(key, manifest):
            yield finding
        for segment in manifest.segments:
            async for finding in self._check_segment(key, segment):
                yield finding
            on_segment()

    async def segments(self, key: PartitionKey) -> int:
        """How many segments ``check`` will go through; 0 if the manifest cannot be read."""
        try:
            return len((await self._manifests.load(key)).manifest.segments)
        except (CorruptLog, NewerFormat):
            return 0

    async def _check_files(self, key: PartitionKey, manifest: Manifest) -> Findings:
        named = {segment.path(key) for segment in manifest.segments}
        kept = named | {index_path(path) for path in named}
        if manifest.state_of is not None:
            path = index_path(segment_path(key.topic_uuid, key.partition, *manifest.state_of))
            kept.add(path)
            if (await self._read_side_index(path))[0] is None:
                yield Finding(True, f"{name_of(key)}: {path} with the log's state is unusable")
        for path in await self._files.list(f"{key.topic_uuid}/{key.partition}"):
            parsed = parse_file_name(path)
            if path in kept:
                continue
            if parsed is None:
                yield Finding(False, f"{name_of(key)}: {path} is no file of a log")
            elif parsed[1] > manifest.epoch:
                yield Finding(
                    True,
                    f"{name_of(key)}: {path} is of epoch {parsed[1]}, the manifest only of "
                    f"{manifest.epoch}: the coordination data was rolled back",
                )
            else:
                yield Finding(False, f"{name_of(key)}: {path} is an orphan")

    async def _check_segment(self, key: PartitionKey, segment: Segment) -> Findings:
        path = segment.path(key)
        try:
            header = await read_segment_header(self._files, path)
        except (CorruptLog, NewerFormat) as error:
            yield Finding(True, f"{name_of(key)} offset {segment.base_offset}: {error}")
            return
        for text in _header_faults(header, key, segment):
            yield Finding(True, f"{name_of(key)}: {path} position 0: {text}")
        side, fault = None, ""
        if segment.sealed:
            side, fault = await self._read_side_index(index_path(path))
            length = segment.bytes
        else:
            length = await self._length(path)
        if fault:
            torn = fault == CUT_SHORT  # by a crash while it was written
            yield Finding(not torn, f"{name_of(key)}: {index_path(path)}: {fault}")
        index = _IndexCheck(side)
        scan = SegmentScan(header.seed, segment.base_offset, index)
        before = _Before(key, path, segment)
        damaged = False
        async for finding in self._scan(scan, before, length):
            damaged = True
            yield finding
        self.bytes += scan.position
        self.blocks += index.blocks
        if segment.sealed and not damaged:
            for text in _seal_faults(segment, scan, side, index):
                yield Finding(True, f"{name_of(key)}: {path} position {scan.position}: {text}")

    async def _scan(self, scan: SegmentScan, at: "_Before", length: int) -> Findings:
        """Every damaged place of a segment; the scan resumes after each."""
        while True:
            await scan_segment(self._files, at.path, scan, length)
            if not scan.fault:
                return
            place = f"{at.path} position {scan.position} offset {scan.next_offset}: {scan.fault}"
            behind = valid_blocks(self._files, at.path, scan.seed, scan.position + 1, length)
            block = await anext(behind, None)
            acknowledged = block.header.committed if block is not None else 0
            while block is not None and acknowledged <= scan.next_offset:
                block = await anext(behind, None)
                acknowledged = block.header.committed if block is not None else 0
            await behind.aclose()
            if not at.segment.sealed and block is None:
                if scan.state_end:
                    yield Finding(False, f"{name_of(at.key)}: torn tail in {place}")
                else:
                    yield Finding(True, f"{name_of(at.key)}: {place}")
                return
            yield Finding(True, f"{name_of(at.key)}: {place}")
            first = valid_blocks(self._files, at.path, scan.seed, scan.position + 1, length)
            block = await anext(first, None)
            await first.aclose()
            if block is None:
                return
            scan.resume(block.position, block.header.base_offset)

    async def _read_side_index(self, path: str) -> tuple[SideIndex | None, str]:
        """The side index and an empty string; a missing one is no fault, a damaged one is."""
        try:
            raw = await self._files.read(path, position=0, bytes_max=SIDE_INDEX_BYTES_MAX)
            return SideIndex.decode(raw, BLOCK_HEADER_BYTES), ""
        except NotFound:
            return None, ""
        except (CorruptLog, NewerFormat) as error:
            return None, str(error)

    async def _length(self, path: str) -> int:
        """Length of a file; the port has no call for it, so search with one-byte reads."""
        low, high = SEGMENT_HEADER_BYTES, 2 * SEGMENT_HEADER_BYTES
        while high < _LENGTH_MAX and await self._files.read(path, position=high, bytes_max=1):
            low, high = high, high * 2
        while high - low > 1:
            middle = (low + high) // 2
            if await self._files.read(path, position=middle, bytes_max=1):
                low = middle
            else:
                high = middle
        return high


class _Before(NamedTuple):
    """Which segment a finding belongs to."""

    key: PartitionKey
    path: str
    segment: Segment


def _header_faults(header: SegmentHeader, key: PartitionKey, segment: Segment) -> list[str]:
    found = (header.base_offset, header.epoch, header.partition)
    wanted = (segment.base_offset, segment.epoch, key.partition)
    names = ("base offset", "epoch", "partition")
    return [
        f"the header has {name} {stored}, the manifest {named}"
        for name, stored, named in zip(names, found, wanted, strict=True)
        if stored != named
    ]


def _seal_faults(
    segment: Segment, scan: SegmentScan, side: SideIndex | None, index: _IndexCheck
) -> list[str]:
    """Where manifest, segment and side index disagree about a sealed segment."""
    faults = []
    if scan.next_offset != segment.next_offset:
        faults.append(
            f"it ends at offset {scan.next_offset}, the manifest says {segment.next_offset}"
        )
    if scan.last_append_ms != segment.last_append_ms:
        faults.append(
            f"its last append time is {scan.last_append_ms}, "
            f"the manifest says {segment.last_append_ms}"
        )
    if side is None:
        return faults
    named = (side.base_offset, side.epoch, side.next_offset, side.segment_bytes)
    if named != (segment.base_offset, segment.epoch, segment.next_offset, segment.bytes):
        faults.append(f"the side index is of {named}, the manifest of another state")
    if side.seed != scan.seed:
        faults.append("the side index has another seed")
    faults += [
        f"the side index names offset {offset} at position {position}, which is no such block"
        for position, (offset, _) in list(index.expected.items())[:1]
    ]
    state = scan.all_state()
    if state.encode() != side.state.encode():
        faults.append("the log state in the side index is not the one at the segment's end")
    return faults
