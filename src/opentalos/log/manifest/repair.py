"""Rebuilds a manifest from the files of its partition, for a storage that no server uses.

For a manifest that came back older than its files, is damaged or gone: the segments are adopted
again. From the last one backward, each begins where the one before it ends. The last stays
unsealed, so the next opening recovers its end as after a crash. Nothing is written but the
manifest, and no file is deleted.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from opentalos.log.maintenance.stored_journals import StoredJournals
from opentalos.log.manifest.chain import Piece, Place, Places, chain_to, last_of
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import ManifestStore, VersionedManifest
from opentalos.log.partition.queue import name_of
from opentalos.log.segment.format import (
    BLOCK_HEADER_BYTES,
    NUMBER_PREFIX,
    SegmentHeader,
    index_path,
    is_segment_of,
    parse_file_name,
)
from opentalos.log.segment.scan import Readable, SegmentScan, scan_to_end
from opentalos.log.segment.view import read_segment_header, read_side_index
from opentalos.model.errors import ConfigError, CorruptLog, NotFound
from opentalos.model.message import PartitionKey
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore

INSTANCE = "repair"


class _File(NamedTuple):
    """A segment's file, or what a journal has of one, of which only the header was read."""

    path: str
    header: SegmentHeader
    segment: Segment
    journal: str  # that has bytes of it; empty: none


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
        manifest = before.manifest
        if manifest.deleted:
            raise ConfigError(f"{name_of(key)}: the topic is being deleted")
        paths = await self._paths(key)
        pieces = await self._pieces(paths)
        with_messages = [piece for piece in pieces if piece.next_offset > piece.segment.base_offset]
        if not with_messages:  # retention may have deleted them all
            with_messages = [piece for piece in pieces if piece.begun]
        if not with_messages:
            raise ConfigError(f"{name_of(key)}: there is no segment with messages or a beginning")
        last = last_of(with_messages)
        chain = chain_to(last, with_messages, manifest)
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

    async def _pieces(self, paths: Sequence[str]) -> list[Piece]:
        """What is whole of each segment. What cannot begin another one is not kept in memory."""
        files = [found for path in paths if (found := await self._file(path))]
        begins = frozenset(found.segment.base_offset for found in files)
        return [await self._piece(found, begins) for found in files]

    async def _file(self, path: str) -> _File | None:
        """None: it is no segment of this partition, or its header is not whole."""
        parsed = parse_file_name(path)
        if parsed is None or parsed[2] != "log":
            return None
        held = await self._journals.holder(path)
        try:
            header = await read_segment_header(await self._readable(path, held), path)
        except CorruptLog:
            return None
        if not is_segment_of(header, path):
            return None
        numbered = path.rpartition("/")[2].startswith(NUMBER_PREFIX)
        segment = Segment(header.base_offset, parsed[1], number=parsed[0] if numbered else 0)
        return _File(path, header, segment, held)

    async def _piece(self, found: _File, begins: frozenset[int]) -> Piece:
        places = Places(begins)
        scan = SegmentScan(found.header.seed, found.segment.base_offset, places)
        await scan_to_end(await self._readable(found.path, found.journal), found.path, scan)
        return Piece(
            found.segment,
            scan.committed,
            scan.next_offset,
            Place(scan.position, scan.last_append_ms),
            found.header.durability,
            places.found,
            found.journal,
            late=not await _exists(self._files, found.path),
        )

    async def _readable(self, path: str, journal: str) -> Readable:
        """The file with what the journal has of it."""
        return (await self._journals.lay_over(path, journal))[0] if journal else self._files


def _lost_before(start: int, manifest: Manifest, pieces: Sequence[Piece]) -> list[str]:
    """What says that messages before ``start`` are missing."""
    if start <= manifest.start:  # files below wait for their deletion
        return []
    if manifest.segments or manifest.start:
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


async def _exists(files: Readable, path: str) -> bool:
    try:
        await files.read(path, position=0, bytes_max=1)
    except NotFound:
        return False
    return True
