"""Rebuilds a manifest from the files of its partition, for a storage that no server uses.

For a manifest that came back older than its files, is damaged or gone: the segments are adopted
again. From the last one backward, each begins where the one before it ends. The last stays
unsealed, so the next opening recovers its end as after a crash. Nothing is written but the
manifest, and no file is deleted.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from opentalos.log.maintenance.stored_journals import StoredJournals
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import ManifestStore, VersionedManifest
from opentalos.log.partition.queue import name_of
from opentalos.log.segment.format import (
    BLOCK_HEADER_BYTES,
    NUMBER_PREFIX,
    index_path,
    parse_file_name,
)
from opentalos.log.segment.index import SparseIndex
from opentalos.log.segment.scan import Readable, SegmentScan, scan_to_end
from opentalos.log.segment.view import read_segment_header, read_side_index
from opentalos.model.errors import ConfigError, CorruptLog, NotFound
from opentalos.model.message import Durability, PartitionKey
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore

INSTANCE = "repair"
PLACES_BYTES = 1  # every block is a place where the segment may end


class Piece(NamedTuple):
    """A file, or what a journal has of one, with the blocks that are whole from its start on."""

    segment: Segment  # base offset, epoch and number
    committed: int
    next_offset: int
    position: int  # after the last whole block
    durability: Durability | None
    scan: SegmentScan
    journal: str = ""  # that has bytes of it
    late: bool = False  # it has no file

    @property
    def rank(self) -> tuple[int, int, bool, int]:
        """The last segment of a log has the largest."""
        base, epoch = self.segment.base_offset, self.segment.epoch
        return epoch, base, self.committed > base, self.next_offset

    @property
    def witness(self) -> int:
        """All messages below were acknowledged, as far as this file proves; 0: it proves nothing.

        Merged files and what was only flushed may have lost their end with the power.
        """
        proves = self.durability is Durability.SYNCED and self.committed > self.segment.base_offset
        return self.committed if proves else 0

    def sealed_at(self, offset: int) -> Segment | None:
        """The segment if it ends at ``offset``; None: no block begins or ends there."""
        if offset == self.next_offset:
            last_ms, position = self.scan.last_append_ms, self.position
        else:
            index = self.scan.index
            at = bisect_left(index.offsets, offset)
            if at == len(index.offsets) or index.offsets[at] != offset:
                return None
            position, last_ms = index.positions[at], index.append_times[at - 1]
        return self.segment._replace(next_offset=offset, bytes=position, last_append_ms=last_ms)


class Repair(NamedTuple):
    """The manifest before and after."""

    before: VersionedManifest
    after: Manifest
    adopted: list[str]  # files that it names and the one before did not
    end: int  # offset after the last whole message


class ManifestRepair:
    """Plans and makes the repair of one partition."""

    def __init__(self, files: FileStore, meta: MetaStore) -> None:
        self._files, self._manifests = files, ManifestStore(meta, INSTANCE)
        self._journals = StoredJournals(files)

    async def plan(self, key: PartitionKey, *, accept_loss: bool = False) -> Repair:
        """What the files say. ``accept_loss``: the log may end, or begin, elsewhere than other
        records prove; it continues with what is there.

        Raises: ConfigError: nothing to adopt, or messages in between are missing.
        """
        before = await self._before(key)
        paths = await self._paths(key)
        pieces = [piece for path in paths if (piece := await self._piece(path))]
        with_messages = [piece for piece in pieces if piece.next_offset > piece.segment.base_offset]
        if not with_messages:
            raise ConfigError(f"{name_of(key)}: there is no segment with messages")
        last = max(with_messages, key=lambda piece: piece.rank)
        manifest = before.manifest
        chain = _chain(last, with_messages, manifest)
        start, end = chain[0].base_offset, last.next_offset
        if not accept_loss:
            lost = [
                *_lost_before(start, manifest, with_messages),
                *_lost_behind(end, manifest, pieces),
                *await self._lost_in_last(key, manifest, last, pieces),
            ]
            if lost:
                raise ConfigError(
                    f"{name_of(key)}: the files have offsets {start} to {end - 1}, but "
                    f"{'; '.join(lost)}: --accept-loss continues without what is missing"
                )
        epoch = max(manifest.epoch, *map(_epoch_of, paths))
        after = replace(
            manifest,
            epoch=epoch,
            owner="",
            start=start,
            floor=manifest.floor if manifest.floor > start else 0,
            deleted=False,
            state_of=None,
            segments=tuple(chain),
            end_state=b"",
            handed_over=False,
            journal=last.journal,
            late=last.late,
            cut=manifest.cut or accept_loss,
        )
        if after.metered is not None and accept_loss:
            mark = after.metered
            after = replace(after, metered=mark._replace(offset=min(mark.offset, last.next_offset)))
        known = {segment.path(key) for segment in manifest.segments}
        adopted = [path for each in chain if (path := each.path(key)) not in known]
        return Repair(before, after, adopted, end)

    async def _lost_in_last(
        self, key: PartitionKey, manifest: Manifest, last: Piece, pieces: Sequence[Piece]
    ) -> list[str]:
        """What the last segment had that is gone; all before it is there, if nothing lacks."""
        lost = []
        unsealed = manifest.unsealed
        if unsealed is not None and unsealed.base_offset >= last.segment.base_offset:
            path = unsealed.path(key)
            _, fault = await self._journals.lay_over(path, manifest.journal)
            if path not in {piece.segment.path(key) for piece in pieces}:
                fault = fault or "the file is missing, or its header is damaged"
            if fault:
                lost.append(f"of {path}, which was written last: {fault}")
        path = index_path(last.segment.path(key))
        side = await read_side_index(self._files, path, BLOCK_HEADER_BYTES)
        if side is not None and side.epoch == last.segment.epoch:
            if side.next_offset > last.next_offset:
                lost.append(f"{path} ends at {side.next_offset - 1}")
        return lost

    async def make(self, key: PartitionKey, repair: Repair) -> None:
        """Store the manifest. Raises: TalosError: not done."""
        await self._manifests.change(key, repair.before, repair.after)

    async def _before(self, key: PartitionKey) -> VersionedManifest:
        try:
            return await self._manifests.load(key)
        except CorruptLog:  # only its version is needed, so that it can be replaced
            return VersionedManifest(Manifest(), await self._manifests.version_of(key))

    async def _paths(self, key: PartitionKey) -> list[str]:
        folder = f"{key.topic_uuid}/{key.partition}"
        held = await self._journals.held(folder)
        return sorted({*await self._files.list(folder), *held})

    async def _piece(self, path: str) -> Piece | None:
        """What is whole of a segment; None: it is none, or its header is not whole."""
        parsed = parse_file_name(path)
        if parsed is None or parsed[2] != "log":
            return None
        held = await self._journals.holder(path)
        laid_over, _ = await self._journals.lay_over(path, held)
        try:
            header = await read_segment_header(laid_over, path)
        except CorruptLog:
            return None
        scan = SegmentScan(header.seed, header.base_offset, SparseIndex(PLACES_BYTES))
        await scan_to_end(laid_over, path, scan)
        numbered = path.rpartition("/")[2].startswith(NUMBER_PREFIX)
        segment = Segment(header.base_offset, parsed[1], number=parsed[0] if numbered else 0)
        return Piece(
            segment,
            scan.committed,
            scan.next_offset,
            scan.position,
            header.durability,
            scan,
            held,
            late=not await _exists(self._files, path),
        )


def _lost_before(start: int, manifest: Manifest, pieces: Sequence[Piece]) -> list[str]:
    """What says that messages before ``start`` are missing."""
    if start > manifest.start and manifest.segments:
        text = f"the manifest begins at {manifest.start}"
        return [f"{text}: retention has deleted what is missing, or it is lost"]
    below = min((piece.segment.base_offset for piece in pieces), default=start)
    if below < start:
        return [f"there are messages from offset {below} on, and a gap between"]
    return []


def _lost_behind(end: int, manifest: Manifest, pieces: Sequence[Piece]) -> list[str]:
    """What says that messages from ``end`` on are missing."""
    lost = []
    metered = 0 if manifest.metered is None else manifest.metered.offset
    if (known := max(manifest.sealed_next, manifest.first, metered)) > end:
        lost.append(f"the manifest knows of messages up to {known - 1}")
    witness = max((piece.witness for piece in pieces), default=0)
    if witness > end:
        lost.append(f"other files prove messages up to {witness - 1}")
    return lost


def _epoch_of(path: str) -> int:
    parsed = parse_file_name(path)
    return 0 if parsed is None else parsed[1]


def _chain(last: Piece, pieces: Sequence[Piece], manifest: Manifest) -> list[Segment]:
    """The segments up to ``last``, each of which begins where the one before ends."""
    chain = [last.segment]
    named = set(manifest.segments)
    while chain[0].base_offset > manifest.start:
        end = chain[0].base_offset
        before = [
            sealed
            for piece in pieces
            if piece.segment.base_offset < end <= piece.next_offset
            and (piece.committed <= end or piece.durability is not Durability.SYNCED)
            and (sealed := piece.sealed_at(end)) is not None
        ]
        if not before:
            break
        # As the manifest names it; else the newest file, which a merge may have made.
        chain.insert(0, max(before, key=lambda each: (each in named, each.epoch, each.number)))
    return chain


async def _exists(files: Readable, path: str) -> bool:
    try:
        await files.read(path, position=0, bytes_max=1)
    except NotFound:
        return False
    return True
