"""A journal whose writer is gone, or takes part no more: fenced and read once, for all partitions.

Several servers may do it at the same time. After the fence nothing can be added, so all find the
same; and each takes only partitions whose manifest it has claimed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple

from opentalos.log.journal.extents import Extents
from opentalos.log.journal.format import (
    Kind,
    ended_path,
    file_path,
    folder_of,
    number_of,
    records_of,
)
from opentalos.log.segment.damage import JUDGED_BYTES_MAX, left_by_crash
from opentalos.log.segment.format import (
    SEGMENT_HEADER_BYTES,
    BlockHeader,
    SegmentHeader,
    block_payload,
)
from opentalos.log.segment.scan import valid_blocks
from opentalos.model.errors import CorruptLog, NotFound, StoreUnavailable
from opentalos.ports.file_store import FileStore

_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Of a frame in a journal; places compare in the order of writing."""

    number: int
    position: int


class FormerJournal:
    """What a fenced journal says of each segment. The bytes are in memory until ``forget``.

    They are what the former server held in its memory: its ``journal_bytes_max`` bounds them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.damage = ""  # why frames may be missing that were acknowledged
        self._damaged: Place | None = None  # behind which all is whole
        self._extents: dict[str, Extents] = {}
        self._last: dict[str, Place] = {}  # the last frame with a group of the segment
        self._references: dict[int, str] = {}

    def segments(self) -> list[str]:
        """Paths of the segments that need this journal."""
        return list(self._extents)

    def forget(self, path: str) -> None:
        """The segment needs the journal no more."""
        self._extents.pop(path, None)

    def extents(self, path: str) -> Extents:
        """Bytes that the segment's file may lack. Raises: CorruptLog: some may be missing."""
        if self.damage and not self._whole(path):
            raise CorruptLog(f"{self.damage}; it may have held acknowledged messages of {path}")
        return self._extents.get(path) or Extents()

    def _whole(self, path: str) -> bool:
        """Whether a frame behind the damage continues the segment without a gap."""
        last, found = self._last.get(path), self._extents.get(path)
        if last is None or found is None or self._damaged is None or last < self._damaged:
            return False
        return found.start is not None and found.first_gap(found.start) is None

    # --- reading --------------------------------------------------------------------------------

    def begin_file(self) -> None:
        """References mean something within one file only."""
        self._references = {}

    def take(self, place: Place, raw: bytes, header: BlockHeader) -> int | None:
        """Take in one frame; the number of the file that continues, if it says so.

        Raises: CorruptLog.
        """
        following = None
        for kind, reference, position, data in records_of(block_payload(raw, 0, header)):
            if kind == Kind.NAME:
                self._references[reference] = data.decode()
                continue
            if kind == Kind.NEXT:
                following = position
                continue
            path = self._references.get(reference)
            if path is None:  # its name was in a damaged frame
                continue
            if kind == Kind.GROUP:
                self._group(path, position, data)
                self._last[path] = place
            elif kind == Kind.WRITTEN and path in self._extents:
                self._extents[path].drop_below(position)
                if not self._extents[path].bytes:
                    del self._extents[path]
        return following

    def _group(self, path: str, position: int, data: bytes) -> None:
        try:
            self._extents.setdefault(path, Extents()).add(position, data)
        except ValueError as error:
            raise CorruptLog(f"journal {self.name}: {path}: {error}") from error

    def note_damage(self, place: Place, text: str) -> None:
        """Bytes before ``place`` are not what was written."""
        self.damage = self.damage or f"journal {self.name} is damaged: {text}"
        self._damaged = place


Fence = Callable[[str], Awaitable[int]]  # of a file; returns its length


async def read_former(files: FileStore, name: str, fence: Fence) -> FormerJournal:
    """Fence every file of the journal, then read it.

    Raises: CorruptLog: it is missing. Unavailable, RecoveryStuck, OutcomeUnknown: call again.
    """
    paths = await files.list(folder_of(name))
    found = FormerJournal(name)
    if ended_path(name) in paths:
        return found
    run = last_run([number for path in paths if (number := number_of(path)) is not None])
    if not run:
        raise CorruptLog(f"journal {name} is missing")
    number, end = run[0], run[-1]
    lengths = await _fenced_all(name, run, fence)
    while True:
        path = file_path(name, number)
        try:
            length = lengths[number] if number in lengths else await fence(path)
            following = await _read_file(files, path, number, length, found)
        except NotFound as error:
            raise await _gone(files, name, number, end) from error
        if following is None:
            break
        number = following
    if number < end:
        await _check_unused(file_path(name, number + 1), found, fence)
    if found.damage:
        _log.error("%s", found.damage)
    _log.info("journal %s is fenced: %d segments need it", name, len(found.segments()))
    return found


def last_run(numbers: Sequence[int]) -> list[int]:
    """The numbers up to the largest without a gap.

    Files are deleted oldest first, so one before a gap is not needed: a loss of power has brought
    back what was deleted.
    """
    run: list[int] = []
    for number in sorted(numbers):
        if run and number != run[-1] + 1:
            run = []
        run.append(number)
    return run


async def _fenced_all(name: str, run: Sequence[int], fence: Fence) -> dict[int, int]:
    """Fence all at the same time, since each may take long; the lengths of those that are there."""
    outcomes = await asyncio.gather(
        *(fence(file_path(name, number)) for number in run), return_exceptions=True
    )
    lengths: dict[int, int] = {}
    for number, outcome in zip(run, outcomes, strict=True):
        if isinstance(outcome, int):
            lengths[number] = outcome
        elif not isinstance(outcome, NotFound):
            raise outcome
    return lengths


async def _gone(files: FileStore, name: str, number: int, end: int) -> Exception:
    """What a file that is not there means."""
    left = await files.list(folder_of(name))
    if number <= end or ended_path(name) in left:
        return StoreUnavailable(f"journal {name} was trimmed while it was read")
    return CorruptLog(f"{file_path(name, number)} is missing")


async def _check_unused(path: str, found: FormerJournal, fence: Fence) -> None:
    """A file that no record names was made, but never written to."""
    try:
        length = await fence(path)
    except NotFound:
        return
    if length > SEGMENT_HEADER_BYTES:
        number = number_of(path) or 0
        found.note_damage(Place(number, length), f"{path} is used, but no record names it")


async def _read_file(
    files: FileStore, path: str, number: int, length: int, found: FormerJournal
) -> int | None:
    """Take in the frames of a fenced file; the number of the one that continues it.

    Raises: NotFound: it was deleted meanwhile, which is no damage.
    """
    found.begin_file()
    if length < SEGMENT_HEADER_BYTES:  # the file was being made, nothing was written to it
        return None
    start = await files.read(path, position=0, bytes_max=SEGMENT_HEADER_BYTES)
    try:
        header = SegmentHeader.decode(start)
    except CorruptLog as error:
        found.note_damage(Place(number, length), f"{path}: {error}")
        return None
    position, following = SEGMENT_HEADER_BYTES, None
    async with aclosing(valid_blocks(files, path, header.seed, position, length)) as frames:
        async for frame in frames:
            place = Place(number, frame.position)
            if frame.position != position:  # a later frame proves the bytes before it
                found.note_damage(place, f"{path} position {position}")
            following = found.take(place, frame.raw, frame.header)
            position = frame.position + frame.header.block_bytes
    if position < length:
        raw = await files.read(
            path, position=position, bytes_max=min(length - position, JUDGED_BYTES_MAX)
        )
        if not left_by_crash(raw, position, length - position, header.seed, at_end=True):
            found.note_damage(Place(number, length), f"{path} position {position}")
        following = None
    return following
