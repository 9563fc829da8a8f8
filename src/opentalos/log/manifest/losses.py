"""What says that a log had more than a repair of its manifest gives it.

Every text names a file or the manifest. The rules are those of an opening, which would refuse the
log otherwise: what it says of the end of the last segment (``log_end``), and of the files that the
manifest does not name (``leftovers``).
"""

from collections.abc import Sequence
from typing import NamedTuple

from opentalos.log.maintenance.stored_journals import StoredJournals
from opentalos.log.manifest.chain import Piece
from opentalos.log.manifest.leftovers import (
    NO_OFFSET,
    Verdict,
    examine,
    judge,
    least_base,
    split,
)
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.segment.format import (
    BLOCK_HEADER_BYTES,
    NUMBER_PREFIX,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    index_path,
    is_segment_of,
    parse_file_name,
)
from opentalos.log.segment.scan import BadBlock, judge_bad_block
from opentalos.log.segment.view import read_side_index
from opentalos.model.errors import CorruptLog, NotFound
from opentalos.model.message import Durability, PartitionKey
from opentalos.ports.file_store import FileStore


class Stored(NamedTuple):
    """What there is of a partition."""

    key: PartitionKey
    manifest: Manifest
    paths: Sequence[str]
    pieces: Sequence[Piece]


class Losses:
    """Looks for them in the storage of one repair."""

    def __init__(self, files: FileStore, journals: StoredJournals) -> None:
        self._files, self._journals = files, journals

    async def found(self, last: Piece, after: Manifest, stored: Stored) -> list[str]:
        """What is missing if the log is as ``after`` says and ends with ``last``."""
        return [
            *_lost_before(after.start, stored),
            *_lost_behind(last.next_offset, stored),
            *await self._lost_files(last.next_offset, stored),
            *await self._lost_in_last(last, stored),
            *await self._lost_in_others(last, after, stored),
        ]

    async def known_end(self, stored: Stored) -> int:
        """Where the log ended at least, as manifest, names and side indexes say."""
        sides = [end for _, end in await self._side_ends(stored)]
        return max([known_next(stored.manifest), *map(base_of, stored.paths), *sides])

    async def _side_ends(self, stored: Stored) -> list[tuple[str, int]]:
        """Side indexes whose segments are gone, and the offset where these ended."""
        found = []
        for path in stored.paths:
            parsed = parse_file_name(path)
            if parsed is None or parsed[2] == "log":
                continue
            if path.removesuffix(parsed[2]) + "log" not in stored.paths:
                side = await read_side_index(self._files, path, BLOCK_HEADER_BYTES)
                if side is not None:
                    found.append((path, side.next_offset))
        return found

    async def _lost_files(self, end: int, stored: Stored) -> list[str]:
        """Segments behind ``end`` of which only the side index is left."""
        return [
            f"{path} ends at {next_offset - 1}, and its segment is missing"
            for path, next_offset in await self._side_ends(stored)
            if next_offset > end
        ]

    async def _lost_in_last(self, last: Piece, stored: Stored) -> list[str]:
        """What the last segment had that is gone; all before it is there, if nothing lacks."""
        lost = []
        key, unsealed = stored.key, stored.manifest.unsealed
        if unsealed is not None and unsealed.base_offset >= last.segment.base_offset:
            path = unsealed.path(key)
            _, fault = await self._journals.lay_over(path, stored.manifest.journal)
            if path not in {piece.segment.path(key) for piece in stored.pieces}:
                fault = fault or "the file is missing, or its header is damaged"
            if fault:
                lost.append(lost_text(path, fault))
        path = last.segment.path(key)
        bad = await self._behind(path, last.journal, last.seed, last.end.position)
        if bad is not None:
            flushed = last.durability is Durability.FLUSHED
            if not (bad.crash and (bad.acknowledged <= last.next_offset or flushed)):
                lost.append(f"{path} is damaged at position {last.end.position}")
        path = index_path(last.segment.path(key))
        side = await read_side_index(self._files, path, BLOCK_HEADER_BYTES)
        if side is not None and side.epoch == last.segment.epoch:
            if side.next_offset > last.next_offset:
                lost.append(f"{path} ends at {side.next_offset - 1}")
        return lost

    async def _lost_in_others(self, last: Piece, after: Manifest, stored: Stored) -> list[str]:
        """What the next opening would find in files that ``after`` does not name."""
        lost = []
        begun = {piece.segment.path(stored.key) for piece in stored.pieces if piece.begun}
        may_be_cut = last.durability is Durability.FLUSHED
        for path in stored.paths:
            if path not in begun and await self._is_damaged(path):
                if _may_lack(path, last, after, stored.manifest):
                    lost.append(f"{path} is damaged at its start")
        for path in split(stored.key, after, stored.paths).doubtful:
            held = await self._journals.holder(path)
            found = await examine(await self._journals.rest(path, held), path)
            if NO_OFFSET < found.base_offset < least_base(after):
                continue
            if judge(found, last.next_offset, may_be_cut=may_be_cut) is Verdict.NEWER:
                reached = max(found.base_offset, found.committed, found.next_offset)
                lost.append(f"{path} proves messages up to {reached - 1}")
        return lost

    async def _is_damaged(self, path: str) -> bool:
        """Whether its header or its first block is not what was written: no crash left that."""
        parsed = parse_file_name(path)
        if parsed is None or parsed[2] != "log":
            return False
        held = await self._journals.holder(path)
        files = await self._journals.rest(path, held)
        try:
            raw = await files.read(path, position=0, bytes_max=SEGMENT_HEADER_BYTES)
            header = SegmentHeader.decode(raw)
        except NotFound:
            return False
        except CorruptLog:
            return len(raw) == SEGMENT_HEADER_BYTES and any(raw)
        if not is_segment_of(header, path):
            return False  # of another partition
        bad = await self._behind(path, held, header.seed, SEGMENT_HEADER_BYTES)
        return bad is not None and not bad.crash

    async def _behind(self, path: str, journal: str, seed: int, position: int) -> BadBlock | None:
        """What there is from ``position`` on, where no valid block begins; None: nothing."""
        files, _ = await self._journals.lay_over(path, journal)
        if position >= files.length:
            return None
        return await judge_bad_block(files, path, seed, position, files.length)

    async def ends_within(self, last: Piece, key: PartitionKey) -> bool:
        """Whether the last segment has messages, or may have, behind those that are whole."""
        path = last.segment.path(key)
        bad = await self._behind(path, last.journal, last.seed, last.end.position)
        return bad is not None and (bad.followed or not bad.crash)


def _may_lack(path: str, last: Piece, after: Manifest, before: Manifest) -> bool:
    """Whether the log may lack messages of a file of which only its name is known."""
    gap, end = after.start > before.start, last.next_offset
    parsed = parse_file_name(path)
    assert parsed is not None
    base, epoch, _ = parsed
    behind = epoch >= last.segment.epoch
    if is_numbered(path):
        return gap or behind
    newer = epoch > last.segment.epoch  # it begins with the last group of the one before
    return (gap and base < after.start) or (behind and (newer or base >= end))


def _lost_before(start: int, stored: Stored) -> list[str]:
    """What says that messages before ``start`` are missing."""
    manifest = stored.manifest
    if start <= manifest.start:  # files below wait for their deletion
        return []
    if manifest.segments or manifest.start:
        text = f"the manifest begins at {manifest.start}"
        return [f"{text}: retention has deleted what is missing, or it is lost"]
    below = min(piece.segment.base_offset for piece in stored.pieces)
    if below < start:
        return [f"there are messages from offset {below} on, and a gap between"]
    return []


def _lost_behind(end: int, stored: Stored) -> list[str]:
    """What says that messages from ``end`` on are missing."""
    lost = []
    if (known := known_next(stored.manifest)) > end:
        lost.append(f"the manifest knows of messages up to {known - 1}")
    witness = max(piece.witness for piece in stored.pieces)
    if witness > end:
        lost.append(f"other files prove messages up to {witness - 1}")
    return lost


def known_next(manifest: Manifest) -> int:
    """Offset below which the manifest knows of messages, or of their deletion."""
    metered = 0 if manifest.metered is None else manifest.metered.offset
    return max(manifest.sealed_next, manifest.first, metered)


def lost_text(path: str, fault: str) -> str:
    return f"of {path}, which was written last: {fault}"


def epoch_of(path: str) -> int:
    parsed = parse_file_name(path)
    return 0 if parsed is None else parsed[1]


def base_of(path: str) -> int:
    """The base offset in a file's name; 0: it has none."""
    parsed = parse_file_name(path)
    return 0 if parsed is None or is_numbered(path) else parsed[0]


def is_numbered(path: str) -> bool:
    return path.rpartition("/")[2].startswith(NUMBER_PREFIX)
