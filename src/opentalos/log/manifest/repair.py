"""Rebuilds a manifest from the files of its partition, for a storage that no server uses.

For a manifest that came back older than its files, is damaged or gone: the segments are adopted
again (``chain``). The last stays unsealed, so the next opening recovers its end as after a crash.
No file is changed or deleted. Besides the manifest, copies are made: a file for a segment of which
only a journal has the end, and, if a loss is accepted, one set aside of each file beyond a gap.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from opentalos.log.maintenance.stored_journals import StoredJournals
from opentalos.log.manifest.aside import aside_path, copy_file
from opentalos.log.manifest.chain import Piece, Place, Places, chain_to, last_of
from opentalos.log.manifest.leftovers import (
    least_base,
)
from opentalos.log.manifest.losses import (
    Losses,
    Stored,
    epoch_of,
    is_numbered,
    lost_text,
)
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import ABSENT, ManifestStore, VersionedManifest
from opentalos.log.partition.queue import name_of
from opentalos.log.segment.format import (
    SegmentHeader,
    is_segment_of,
    parse_file_name,
)
from opentalos.log.segment.scan import SegmentScan, scan_segment, scan_to_end
from opentalos.log.segment.view import read_segment_header
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


class Copy(NamedTuple):
    """A file to make, with what a journal has of its source."""

    source: str
    journal: str  # empty: none
    target: str
    length: float = math.inf


class Repair(NamedTuple):
    """The manifest before and after."""

    before: VersionedManifest
    after: Manifest
    adopted: list[str]  # files that it names and the one before did not
    end: int  # offset after the last whole message
    written: list[Copy]  # files that it names and that are to be made
    left_out: list[str]  # files with messages that the log lacks, to be set aside
    lost: list[str]  # what says that there was more


class ManifestRepair:
    """Plans and makes the repair of one partition."""

    def __init__(self, files: FileStore, meta: MetaStore) -> None:
        self._files, self._manifests = files, ManifestStore(meta, INSTANCE)
        self._journals = StoredJournals(files)
        self._losses = Losses(files, self._journals)

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
        stored = Stored(key, manifest, paths, await self._pieces(paths))
        found = _candidates(stored.pieces, manifest)
        if not found:
            text = f"{name_of(key)}: there is no segment with messages"
            end = await self._losses.known_end(stored)
            if before.version == ABSENT and not paths:
                raise ConfigError(text)
            if not accept_loss:
                raise ConfigError(f"{text}: --accept-loss continues with an empty log at {end}")
            after = _with_loss(replace(_offline(stored), start=end, floor=0), end)
            left_out = await self._left_out(after, end, stored)
            return Repair(before, after, [], end, [], left_out, [text])
        last = last_of(found)
        chain = chain_to(last, found, manifest, _damaged(stored))
        start, end = chain[0].base_offset, last.next_offset
        lost = []
        _, fault = await self._journals.lay_over(last.segment.path(key), last.journal)
        if fault:
            lost.append(lost_text(last.segment.path(key), fault))
            last = last._replace(journal="", late=False)  # it would refuse the next opening
        segments, written = await self._written(chain, last, stored)
        after = replace(
            _offline(stored),
            start=start,
            floor=manifest.first if manifest.first > start else 0,
            segments=tuple(segments),
            journal=last.journal,
            late=last.late,
        )
        lost += await self._losses.found(last, after, stored)
        if lost and not accept_loss:
            have = f"offsets {start} to {end - 1}" if start < end else f"none from {start} on"
            raise ConfigError(
                f"{name_of(key)}: the files have {have}, but "
                f"{'; '.join(dict.fromkeys(lost))}: --accept-loss continues without what is missing"
            )
        if accept_loss:
            after = _with_loss(after, end)
        left_out = await self._left_out(after, end, stored)
        if accept_loss and await self._losses.ends_within(last, key):
            left_out.append(last.segment.path(key))  # what follows is in no file that stays
        known = {segment.path(key) for segment in manifest.segments}
        adopted = [path for each in segments if (path := each.path(key)) not in known]
        return Repair(before, after, adopted, end, written, left_out, lost)

    async def make(self, key: PartitionKey, repair: Repair, now_ms: int) -> None:
        """Store the manifest, after the copies that are to be made.

        Raises: TalosError: not done.
        """
        copies = repair.written[:]
        for path in repair.left_out:
            held = await self._journals.holder(path)
            copies.append(Copy(path, held, aside_path(path, now_ms, of_repair=True)))
        for source, journal, target, length in copies:
            readable = await self._journals.rest(source, journal)
            await copy_file(self._files, target, readable, source, length)
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
            header = await read_segment_header(await self._journals.rest(path, held), path)
        except CorruptLog:
            return None
        if not is_segment_of(header, path):
            return None
        number = parsed[0] if is_numbered(path) else 0
        segment = Segment(header.base_offset, parsed[1], number=number)
        return _File(path, header, segment, held)

    async def _piece(self, found: _File, begins: frozenset[int]) -> Piece:
        places = Places(begins)
        scan = SegmentScan(found.header.seed, found.segment.base_offset, places)
        await scan_to_end(await self._journals.rest(found.path, found.journal), found.path, scan)
        return Piece(
            found.segment,
            scan.committed,
            scan.next_offset,
            Place(scan.position, scan.last_append_ms),
            found.header.durability,
            places.found,
            found.header.seed,
            found.journal,
            late=not await self._exists(found.path),
        )

    async def _exists(self, path: str) -> bool:
        try:
            await self._files.read(path, position=0, bytes_max=1)
        except NotFound:
            return False
        return True

    async def _is_whole(self, path: str, piece: Piece, length: int) -> bool:
        """Whether the file itself is sound up to ``length``, without its journal."""
        scan = SegmentScan(piece.seed, piece.segment.base_offset, Places(frozenset()))
        try:
            await read_segment_header(self._files, path)
            await scan_segment(self._files, path, scan, length)
        except (CorruptLog, NotFound):
            return False
        return not scan.fault

    async def _is_empty(self, path: str) -> bool:
        readable = await self._journals.rest(path, await self._journals.holder(path))
        try:
            return not await readable.read(path, position=0, bytes_max=1)
        except NotFound:  # a journal has some later bytes of it
            return True

    async def _written(
        self, chain: Sequence[Segment], last: Piece, stored: Stored
    ) -> tuple[list[Segment], list[Copy]]:
        """Only the last segment may need its journal: others whose file lacks what a journal has
        get a file that has all of it.
        """
        held = {piece.segment: piece for piece in stored.pieces if piece.journal}
        segments, copies = list[Segment](), list[Copy]()
        for segment in chain:
            piece = held.get(Segment(segment.base_offset, segment.epoch, number=segment.number))
            segments.append(segment)
            if piece is None or (last.journal and not segment.sealed):
                continue
            length, path = segment.bytes or piece.end.position, segment.path(stored.key)
            if piece.end.position < length or await self._is_whole(path, piece, length):
                continue
            named = segment._replace(number=max(segment.base_offset, 1))
            while named.path(stored.key) in stored.paths:
                named = named._replace(number=named.number + 1)
            segments[-1] = named
            copies.append(Copy(path, piece.journal, named.path(stored.key), length))
        return segments, copies

    async def _left_out(self, after: Manifest, end: int, stored: Stored) -> list[str]:
        """Files with messages that the log lacks, or may lack, and that the next opening deletes
        without a look.
        """
        key, manifest, paths, pieces = stored
        known = {piece.segment.path(key): piece for piece in pieces}
        named = {segment.path(key) for segment in after.segments}
        hurt = set(_damaged(stored)).intersection(after.segments)
        gap = after.start > manifest.start
        found = []
        for path in paths:
            parsed = parse_file_name(path)
            if parsed is None or parsed[2] != "log" or path in named:
                continue
            piece = known.get(path)
            if piece is not None:
                base = piece.segment.base_offset
                following = max(piece.next_offset, base + 1)  # its first block may be damaged
            elif is_numbered(path):  # the opening sets it aside
                continue
            else:  # damaged at its start, or of another partition
                base, following = parsed[0], parsed[0] + 1
            lacks = gap and base < after.start and following > manifest.start
            lacks = lacks or (base < least_base(after) and following > end)
            lacks = lacks or any(
                base < (each.next_offset or 0) and following > each.base_offset for each in hurt
            )
            if lacks and not await self._is_empty(path):
                found.append(path)
        return found


def _candidates(pieces: Sequence[Piece], manifest: Manifest) -> list[Piece]:
    """What may be segments of the log: with messages, unless retention has deleted them all; and
    the one that the manifest says is the last, whose registration followed its first block.
    """
    unsealed = {segment.name for segment in manifest.segments if not segment.sealed}
    found = [
        piece
        for piece in pieces
        if piece.next_offset > piece.segment.base_offset
        or (piece.begun and piece.segment.name in unsealed)
    ]
    return found or [piece for piece in pieces if piece.begun]


def _damaged(stored: Stored) -> list[Segment]:
    """Sealed segments that the manifest names and whose files are there, but not whole."""
    reach = {piece.segment.path(stored.key): piece.end.position for piece in stored.pieces}
    return [
        segment
        for segment in stored.manifest.sealed
        if (path := segment.path(stored.key)) in stored.paths and reach.get(path, 0) < segment.bytes
    ]


def _offline(stored: Stored) -> Manifest:
    """The manifest without its segments, and without what only its former owner knew."""
    return replace(
        stored.manifest,
        epoch=max([stored.manifest.epoch, *map(epoch_of, stored.paths)]),
        owner="",
        state_of=None,
        segments=(),
        end_state=b"",
        handed_over=False,
        journal="",
        late=False,
    )


def _with_loss(manifest: Manifest, end: int) -> Manifest:
    """With nothing that says that the log reached beyond ``end``."""
    mark = manifest.metered
    return replace(
        manifest,
        floor=min(manifest.floor, end),
        metered=None if mark is None else mark._replace(offset=min(mark.offset, end)),
        cut=True,
        loss_epoch=manifest.epoch,
        loss_end=end,
    )
