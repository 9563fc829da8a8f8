"""What the files of a data directory prove, read without a server.

A message that a block holds was acknowledged: the workload has no put under way when it ends. One
that no block holds is proven if a file names a larger offset: ``committed`` of a block, the base
offset of a segment, the end in a side index or a manifest.
"""

import asyncio
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opentalos.adapters.sqlite.meta_store import open_sqlite_meta_store
from opentalos.log.journal.format import Kind as RecordKind
from opentalos.log.journal.format import records_of
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.manifest.store import ManifestStore
from opentalos.log.segment.format import (
    BLOCK_HEADER_BYTES,
    MARKER_POSITION,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    BlockHeader,
    SegmentHeader,
    block_fault,
    block_payload,
    read_header,
)
from opentalos.log.segment.index import SideIndex
from opentalos.model.errors import TalosError
from opentalos.model.message import PartitionKey

META, ROWS = "meta.sqlite", "rows.sqlite"
WAL, SHM = "-wal", "-shm"  # behind a database's name
LOG = "log/"
_MARKER_BYTES = 4
# Source: docs/internals/local-disk.md#sqlite.
_WAL_HEADER = struct.Struct(">8I")
_WAL_FRAME = struct.Struct(">6I")


@dataclass
class Contents:
    """What was found in a file."""

    proven: dict[PartitionKey, int] = field(default_factory=dict)  # messages below are
    created_ms: int = 0  # of a segment or journal
    base_offset: int = 0  # of a segment
    salts: tuple[int, ...] = ()  # of a WAL: which it is of those that its database has had
    ends: list[int] = field(default_factory=list)  # of its blocks, frames or transactions
    whole: bool = False  # it ends where one of them does, as an earlier crash could have left it

    def prove(self, key: PartitionKey, offset: int) -> None:
        self.proven[key] = max(offset, self.proven.get(key, 0))


def read_contents(name: str, raw: bytes) -> Contents:
    """Of a file of a data directory by its path there; nothing of kinds that prove nothing."""
    for suffix, read in _READERS.items():
        if name.endswith(suffix):
            return read(name, raw)
    return Contents()


def key_of(name: str) -> PartitionKey:
    """The partition of a path ``log/UUID/NUMBER/FILE``."""
    _, uuid, number, _ = name.split("/")
    return PartitionKey(uuid, int(number))


def blocks(raw: bytes, at: int) -> Iterator[tuple[int, BlockHeader]]:
    """Positions and headers of valid blocks, up to the first that is none."""
    while len(raw) - at >= BLOCK_HEADER_BYTES:
        marker = raw[at + MARKER_POSITION : at + MARKER_POSITION + _MARKER_BYTES]
        if block_fault(raw, at, int.from_bytes(marker, "big")):
            return
        header = read_header(raw, at)
        yield at, header
        at += header.block_bytes


def _segment(name: str, raw: bytes) -> Contents:
    found = Contents()
    try:
        header = SegmentHeader.decode(raw)
    except TalosError:
        return found
    found.created_ms, found.base_offset = header.created_ms, header.base_offset
    found.prove(key_of(name), header.base_offset)
    for position, block in blocks(raw, SEGMENT_HEADER_BYTES):
        found.prove(key_of(name), max(block.committed, block.next_offset))
        found.ends.append(position + block.block_bytes)
    found.whole = bool(found.ends) and found.ends[-1] == len(raw)
    return found


def _journal(_name: str, raw: bytes) -> Contents:
    found = Contents()
    try:
        found.created_ms = SegmentHeader.decode(raw).created_ms
    except TalosError:
        return found
    found.ends.append(SEGMENT_HEADER_BYTES)
    paths: dict[int, str] = {}  # of segments, by reference
    for position, frame in blocks(raw, SEGMENT_HEADER_BYTES):
        found.ends.append(position + frame.block_bytes)
        for record in records_of(block_payload(raw, position, frame)):
            if record.kind == RecordKind.NAME:
                paths[record.reference] = record.data.decode()
            elif record.kind == RecordKind.GROUP:
                start = SEGMENT_HEADER_BYTES if record.data.startswith(SEGMENT_MAGIC) else 0
                key = key_of(f"{LOG}{paths[record.reference]}")
                for _, block in blocks(record.data, start):
                    found.prove(key, max(block.committed, block.next_offset))
    found.whole = found.ends[-1] == len(raw)
    return found


def _side_index(name: str, raw: bytes) -> Contents:
    found = Contents()
    try:
        side = SideIndex.decode(raw, BLOCK_HEADER_BYTES)
    except TalosError:
        return found
    found.prove(key_of(name), side.next_offset)
    return found


def _wal(_name: str, raw: bytes) -> Contents:
    """Ends of transactions. What has other salts than the header is of a WAL before this one."""
    found = Contents(ends=[0])
    if len(raw) >= _WAL_HEADER.size:
        found.ends.append(_WAL_HEADER.size)
        _, _, page_bytes, _, *salts, _, _ = _WAL_HEADER.unpack_from(raw)
        found.salts = tuple(salts)
        at = _WAL_HEADER.size
        while len(raw) - at >= _WAL_FRAME.size:
            _, pages_after_commit, *frame_salts, _, _ = _WAL_FRAME.unpack_from(raw, at)
            if frame_salts != salts:
                break
            at += _WAL_FRAME.size + page_bytes
            if pages_after_commit and at <= len(raw):
                found.ends.append(at)
        found.whole = at == found.ends[-1]
    else:
        found.whole = not raw
    return found


_READERS = {".log": _segment, ".jnl": _journal, ".idx": _side_index, WAL: _wal}


def read_manifests(data: Path) -> Mapping[PartitionKey, Manifest]:
    """What a server would find in a copy of ``meta.sqlite`` and its WAL."""
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("", WAL):
            if (data / f"{META}{suffix}").exists():
                shutil.copy(data / f"{META}{suffix}", folder)
        return asyncio.run(_manifests(Path(folder) / META))


async def _manifests(path: Path) -> Mapping[PartitionKey, Manifest]:
    meta = await open_sqlite_meta_store(path)
    try:
        store = ManifestStore(meta, "read")
        return {key: (await store.load(key)).manifest for key in await store.partitions()}
    finally:
        await meta.close()


def proven_by(manifest: Manifest) -> int:
    """The offset below which a manifest says that there were messages."""
    unsealed = manifest.unsealed
    return manifest.sealed_next if unsealed is None else unsealed.base_offset
