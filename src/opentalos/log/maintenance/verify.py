"""Verifies stored logs: every CRC, offset, ``committed``, side index and manifest.

For a storage that no server uses meanwhile. Damage is what no server can put right. What a crash
leaves behind (a torn tail, orphans) is a note: the next opening deals with it. A
side index that is missing or wrong can be rebuilt from its sound segment, which ``repair`` does;
nothing else is ever written.
"""

import math
from collections.abc import AsyncGenerator, Callable, Mapping
from enum import Enum
from typing import NamedTuple

from opentalos.log.maintenance.stored_journals import StoredJournals
from opentalos.log.manifest.aside import ROOT as ASIDE
from opentalos.log.manifest.aside import why_aside
from opentalos.log.manifest.end_proof import check_known, check_last_segment
from opentalos.log.manifest.leftovers import (
    NO_OFFSET,
    Verdict,
    examine,
    judge,
    least_base,
    split,
)
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import ManifestStore
from opentalos.log.partition.queue import name_of
from opentalos.log.segment.damage import JUDGED_BYTES_MAX, left_by_crash
from opentalos.log.segment.format import (
    BLOCK_HEADER_BYTES,
    SegmentHeader,
    index_path,
    parse_file_name,
    partition_and_epoch,
    segment_path,
)
from opentalos.log.segment.index import SideIndex, SparseIndex
from opentalos.log.segment.scan import (
    FoundBlock,
    Readable,
    SegmentScan,
    scan_segment,
    valid_blocks,
)
from opentalos.log.segment.view import (
    SIDE_INDEX_BYTES_MAX,
    read_segment_header,
    rebuild_side_index,
    store_side_index,
)
from opentalos.model.errors import CorruptLog, NewerFormat, NotFound
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability, PartitionKey
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore


class Kind(Enum):
    """What a finding means."""

    DAMAGE = "damage"  # bytes are wrong or gone
    REBUILDABLE = "rebuildable"  # a side index; the segment has all that it needs
    REPAIRED = "repaired"  # a side index was rebuilt just now
    NOTE = "note"  # the next opening of the log puts it right


class Finding(NamedTuple):
    """One line of the report. ``text`` names the partition; position and offset -1: none."""

    kind: Kind
    key: PartitionKey
    text: str
    file: str = ""
    position: int = -1
    offset: int = -1

    @property
    def problem(self) -> bool:
        """Whether something is lost or wrong."""
        return self.kind is Kind.DAMAGE


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

    def __init__(
        self,
        files: FileStore,
        meta: MetaStore,
        *,
        names: Mapping[str, str] | None = None,
        repair: bool = False,
    ) -> None:
        self._files, self._manifests = files, ManifestStore(meta, "verify")
        self._names, self._repair = names or {}, repair  # of topics, by uuid
        self._journals = StoredJournals(files)
        self._end, self._may_be_cut = 0, False  # of the partition that is being checked
        self.blocks = self.bytes = 0  # checked so far; for the summary

    def name_of(self, key: PartitionKey) -> str:
        """The partition by its topic's name, or the uuid of a topic that is not known."""
        return name_of(key._replace(topic_uuid=self._names.get(key.topic_uuid, key.topic_uuid)))

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
            yield Finding(Kind.DAMAGE, key, f"{self.name_of(key)}: {error}")
            return
        if manifest.deleted:
            text = f"{self.name_of(key)}: its deletion did not end; repeated at start"
            yield Finding(Kind.NOTE, key, text)
            return
        self._end, self._may_be_cut = manifest.sealed_next, False
        for segment in manifest.segments:
            async for finding in self._check_segment(key, segment, manifest):
                yield finding
            on_segment()
        try:
            await check_last_segment(self._files, key, manifest)
            if not self._may_be_cut:
                check_known(key, manifest, self._end)
        except (CorruptLog, NewerFormat) as error:
            yield Finding(Kind.DAMAGE, key, f"{self.name_of(key)}: {error}")
        async for finding in self._check_files(key, manifest):
            yield finding
        for text, damage in self._journals.findings():
            yield Finding(Kind.DAMAGE if damage else Kind.NOTE, key, text)

    async def segments(self, key: PartitionKey) -> int:
        """How many segments ``check`` will go through; 0 if the manifest cannot be read."""
        try:
            return len((await self._manifests.load(key)).manifest.segments)
        except (CorruptLog, NewerFormat):
            return 0

    async def _check_files(self, key: PartitionKey, manifest: Manifest) -> Findings:
        if manifest.state_of is not None:
            path = index_path(segment_path(key.topic_uuid, key.partition, *manifest.state_of))
            if (await self._read_side_index(path))[0] is None:
                yield self._found(Kind.DAMAGE, key, path, "with the log's state is unusable")
        folder = f"{key.topic_uuid}/{key.partition}"
        present = await self._files.list(folder)
        held = await self._journals.held(folder)
        for path in present:
            if parse_file_name(path) is None:
                yield self._found(Kind.NOTE, key, path, "is no file of a log")
        unnamed = split(key, manifest, {*present, *held})
        for path in sorted([*unnamed.doubtful, *unnamed.needless]):
            _, epoch = partition_and_epoch(path)
            if epoch > manifest.epoch:
                text = (
                    f"is of epoch {epoch}, the manifest only of {manifest.epoch}: a store was "
                    "rolled back; talos log repair adopts the file"
                )
                yield self._found(Kind.DAMAGE, key, path, text)
            elif path in unnamed.doubtful:
                yield await self._judged(key, manifest, path, held.get(path, ""))
            elif path in present:
                yield self._found(Kind.NOTE, key, path, "is an orphan")
        for path in await self._files.list(f"{ASIDE}/{folder}"):
            yield self._found(Kind.NOTE, key, path, f"is set aside: {why_aside(path)}")

    async def _judged(self, key: PartitionKey, manifest: Manifest, path: str, held: str) -> Finding:
        """What a file is that no manifest names."""
        files: Readable = self._files
        if held:
            files, _ = await self._journals.lay_over(path, held)
        found = await examine(files, path)
        if NO_OFFSET < found.base_offset < least_base(manifest):
            return self._found(Kind.NOTE, key, path, "is an orphan")
        place = f"in journal {held}, " if held else ""
        what = f"{place}has messages from offset {found.base_offset} to {found.next_offset - 1}"
        accepted = manifest.accepts_loss(partition_and_epoch(path)[1])
        verdict = judge(found, self._end, may_be_cut=self._may_be_cut, accepted=accepted)
        if verdict is Verdict.NEWER:
            text = (
                f"{what}, the manifest ends the log at {self._end}: a store was rolled back; talos "
                "log repair adopts the file"
            )
            return self._found(Kind.DAMAGE, key, path, text)
        if verdict is Verdict.UNPROVEN:
            text = f"{what}, and nothing proves that they were acknowledged: it will be set aside"
            return self._found(Kind.NOTE, key, path, text)
        return self._found(Kind.NOTE, key, path, "is an orphan")

    def _found(self, kind: Kind, key: PartitionKey, path: str, text: str) -> Finding:
        return Finding(kind, key, f"{self.name_of(key)}: {path} {text}", path)

    async def _check_segment(
        self, key: PartitionKey, segment: Segment, manifest: Manifest
    ) -> Findings:
        path = segment.path(key)
        files: Readable = self._files
        length = segment.bytes
        if not segment.sealed:
            laid_over, missing = await self._journals.lay_over(path, manifest.journal)
            files, length = laid_over, laid_over.length
            if missing:
                yield self._found(Kind.DAMAGE, key, path, missing)
        try:
            header = await read_segment_header(files, path)
        except (CorruptLog, NewerFormat) as error:
            text = f"{self.name_of(key)} offset {segment.base_offset}: {error}"
            yield Finding(Kind.DAMAGE, key, text, path, 0, segment.base_offset)
            return
        sound = True
        for text in _header_faults(header, key, segment):
            sound = False
            yield self._found(Kind.DAMAGE, key, path, f"position 0: {text}")._replace(position=0)
        side, fault = None, ""
        if segment.sealed:
            side, fault = await self._read_side_index(index_path(path))
        index = _IndexCheck(side)
        scan = SegmentScan(header.seed, segment.base_offset, index)
        accepted = manifest.accepts_loss(segment.epoch)
        at = _Before(key, path, segment, files, manifest.loss_end if accepted else math.inf)
        async for finding in self._scan(scan, at, length):
            sound = sound and not finding.problem
            yield finding
        self.bytes += scan.position
        self.blocks += index.blocks
        if not segment.sealed:
            self._end = scan.next_offset
            self._may_be_cut = header.durability is not Durability.SYNCED
            return
        if sound:
            for text in _seal_faults(segment, scan):
                sound = False
                text = f"position {scan.position}: {text}"
                yield self._found(Kind.DAMAGE, key, path, text)._replace(position=scan.position)
        if sound and side is not None:
            fault = _index_fault(segment, scan, side, index)
        if fault:
            async for finding in self._side_index(key, segment, fault, sound=sound):
                yield finding

    async def _side_index(
        self, key: PartitionKey, segment: Segment, fault: str, *, sound: bool
    ) -> Findings:
        """A side index that cannot be used: rebuilt if that is wanted and its segment is sound."""
        path = segment.path(key)
        if not (self._repair and sound):
            yield self._found(Kind.REBUILDABLE, key, index_path(path), fault)
            return
        interval_bytes = LogLimits().index_interval_bytes
        side, _ = await rebuild_side_index(self._files, path, segment, interval_bytes)
        await store_side_index(self._files, path, side)
        yield self._found(Kind.REPAIRED, key, index_path(path), f"{fault}; it was rebuilt")

    async def _scan(self, scan: SegmentScan, at: "_Before", length: int) -> Findings:
        """Every damaged place of a segment; the scan resumes after each."""
        while True:
            await scan_segment(at.files, at.path, scan, length)
            if not scan.fault:
                return
            behind = valid_blocks(at.files, at.path, scan.seed, scan.position + 1, length)
            first = block = await anext(behind, None)
            while block is not None and block.header.committed <= scan.next_offset:
                block = await anext(behind, None)
            await behind.aclose()
            torn = not at.segment.sealed and block is None and scan.state_end > 0
            if torn:
                torn = await _left_by_crash(scan, at, length, first)
            torn = torn or (scan.next_offset >= at.loss_end and not at.segment.sealed)
            place = f"{at.path} position {scan.position} offset {scan.next_offset}: {scan.fault}"
            yield Finding(
                Kind.NOTE if torn else Kind.DAMAGE,
                at.key,
                f"{self.name_of(at.key)}: {'torn tail in ' if torn else ''}{place}",
                *(at.path, scan.position, scan.next_offset),
            )
            if torn or first is None:
                return
            scan.resume(first.position, first.header.base_offset)

    async def _read_side_index(self, path: str) -> tuple[SideIndex | None, str]:
        """The side index, or why there is none."""
        try:
            raw = await self._files.read(path, position=0, bytes_max=SIDE_INDEX_BYTES_MAX)
            return SideIndex.decode(raw, BLOCK_HEADER_BYTES), ""
        except NotFound:
            return None, "is missing"
        except (CorruptLog, NewerFormat) as error:
            return None, str(error)


class _Before(NamedTuple):
    """Which segment a finding belongs to."""

    key: PartitionKey
    path: str
    segment: Segment
    files: Readable  # the segment with what its journal has of it
    loss_end: float  # from here on an operator has accepted that the log ends at a fault


async def _left_by_crash(
    scan: SegmentScan, at: _Before, length: int, behind: FoundBlock | None
) -> bool:
    """Whether the opening will cut the end of the segment; see segment/damage.py."""
    end = length if behind is None else behind.position
    room_bytes = end - scan.position
    raw = await at.files.read(
        at.path, position=scan.position, bytes_max=min(room_bytes, JUDGED_BYTES_MAX)
    )
    return left_by_crash(raw, scan.position, room_bytes, scan.seed, at_end=behind is None)


def _header_faults(header: SegmentHeader, key: PartitionKey, segment: Segment) -> list[str]:
    found = (header.base_offset, header.epoch, header.partition)
    wanted = (segment.base_offset, segment.epoch, key.partition)
    names = ("base offset", "epoch", "partition")
    return [
        f"the header has {name} {stored}, the manifest {named}"
        for name, stored, named in zip(names, found, wanted, strict=True)
        if stored != named
    ]


def _seal_faults(segment: Segment, scan: SegmentScan) -> list[str]:
    """Where the manifest and a sealed segment disagree."""
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
    return faults


def _index_fault(segment: Segment, scan: SegmentScan, side: SideIndex, index: _IndexCheck) -> str:
    """Where the side index of a sound segment is wrong, or an empty string."""
    named = (side.base_offset, side.epoch, side.next_offset, side.segment_bytes)
    if named != (segment.base_offset, segment.epoch, segment.next_offset, segment.bytes):
        return f"the side index is of {named}, the manifest of another state"
    if side.seed != scan.seed:
        return "the side index has another seed"
    for position, (offset, _) in index.expected.items():
        return f"the side index names offset {offset} at position {position}, no such block"
    if not scan.all_state().agrees(side.state):
        return "the log state in the side index is not the one at the segment's end"
    return ""
