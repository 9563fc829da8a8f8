"""A journal whose writer is gone, or takes part no more: fenced and read once, for all partitions.

Several servers may do it at the same time. After the fence nothing can be added, so all find the
same; and each takes only partitions whose manifest it has claimed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from opentalos.log.journal.extents import Extents
from opentalos.log.journal.format import (
    RECORD_HEADER_BYTES,
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
from opentalos.log.segment.scan import FoundBlock, Readable, valid_blocks
from opentalos.model.errors import CorruptLog, NotFound, StoreUnavailable
from opentalos.model.message import Durability
from opentalos.ports.file_store import FileStore

_log = logging.getLogger(__name__)

KEPT_BYTES_MAX = 64 << 20  # of one that is read outside of a server


class Place(NamedTuple):
    """Of a frame in a journal; places compare in the order of writing."""

    number: int
    position: int


class _Spot(NamedTuple):
    """Where a group lies whose bytes are not in memory."""

    position: int  # in the segment
    number: int  # of the journal's file
    at: int  # position in it
    count_bytes: int
    crc: int

    @property
    def end(self) -> int:
        return self.position + self.count_bytes


@dataclass(slots=True)
class Memory:
    """Bytes that all former journals of a server hold together."""

    bytes_max: int = KEPT_BYTES_MAX
    bytes: int = 0


class Written:
    """How far the files of segments reached at least, as their journal says."""

    def __init__(self, journal: str) -> None:
        self._journal = journal
        self._reached: dict[str, int] = {}

    def note(self, path: str, position: int) -> None:
        """The file held everything below the position."""
        self._reached[path] = position

    def forget(self, path: str) -> None:
        """The segment was sealed or deleted."""
        self._reached.pop(path, None)

    def paths(self) -> list[str]:
        """Of the segments."""
        return list(self._reached)

    async def check(self, files: Readable, path: str) -> None:
        """Raises: CorruptLog: the segment's file is shorter now. NotFound.

        A loss of power may have taken what was only flushed.
        """
        reached = self._reached.get(path, 0)
        if not reached or await files.read(path, position=reached - 1, bytes_max=1):
            return
        start = await files.read(path, position=0, bytes_max=SEGMENT_HEADER_BYTES)
        whole = len(start) == SEGMENT_HEADER_BYTES
        if whole and SegmentHeader.decode(start).durability is not Durability.SYNCED:
            return
        text = f"its journal {self._journal} says that {reached} bytes were written"
        raise CorruptLog(f"{path}: bytes before position {reached} are missing: {text}")


class FormerJournal:
    """What a fenced journal says of each segment, until ``forget``.

    The bytes are in memory as far as ``memory`` allows, which a few journals of servers with larger
    settings would exceed. Of the rest it knows where they lie.
    """

    def __init__(self, name: str, memory: Memory | None = None) -> None:
        self.name = name
        self.damage = ""  # why frames may be missing that were acknowledged
        self.cuts: list[str] = []  # what was left out that nothing proves to be acknowledged
        self._memory = memory or Memory()
        self._damaged: Place | None = None  # behind which all is whole
        self._extents: dict[str, Extents] = {}
        self._spots: dict[str, list[_Spot]] = {}  # behind the extents
        self.begins: dict[str, Place] = {}  # the first frame with a group of the segment
        self._last: dict[str, Place] = {}  # and the last one
        self.written = Written(name)
        self.needed = 0  # the oldest file that was, as it says; 0: it does not say
        self._references: dict[int, str] = {}
        self._folders: dict[str, dict[str, None]] = {}  # segments, by the folder of a partition

    def segments(self) -> list[str]:
        """Paths of the segments that need this journal."""
        return list(self._extents)

    def has(self, path: str) -> bool:
        """Whether it has bytes of the segment."""
        return path in self._extents

    def below(self, folder: str) -> list[str]:
        """Segments of one partition. Each of its openings asks, so no other is looked at."""
        return list(self._folders.get(folder, ()))

    def forget(self, path: str) -> None:
        """The segment needs the journal no more."""
        found = self._extents.get(path)
        if found is not None:
            self._memory.bytes -= found.bytes
            self._drop(path)
        self._spots.pop(path, None)
        self.written.forget(path)

    def forget_all(self) -> None:
        """Nobody asks it any more."""
        for path in self.segments():
            self.forget(path)

    def extents(self, path: str) -> Extents:
        """What is in memory for the segment. Raises: CorruptLog: some of it may be missing."""
        if self.damage and not self._whole(path):
            raise CorruptLog(f"{self.damage}; it may have held acknowledged messages of {path}")
        return self._extents.get(path) or Extents()

    async def load(self, files: FileStore, path: str) -> Extents:
        """Bytes that the segment's file may lack.

        Raises: CorruptLog: some may be missing. StoreUnavailable: call again.
        """
        self.extents(path)
        return await self.whole(files, path)

    async def whole(self, files: FileStore, path: str) -> Extents:
        """What is left of the segment, also if some is missing. Raises: as ``load``."""
        kept = self._extents.get(path) or Extents()
        spots = list(self._spots.get(path, ()))
        if not spots:
            return kept
        whole = kept.copied()
        for spot in spots:
            file = file_path(self.name, spot.number)
            try:
                data = await files.read(file, position=spot.at, bytes_max=spot.count_bytes)
            except NotFound as error:
                raise StoreUnavailable(f"journal {self.name} was trimmed meanwhile") from error
            if len(data) != spot.count_bytes or crc32(data) != spot.crc:
                raise CorruptLog(f"{file} position {spot.at}: not what was there before")
            whole.add(spot.position, data)
        return whole

    def _whole(self, path: str) -> bool:
        """Whether a frame behind the damage continues the segment without a gap."""
        last, found = self._last.get(path), self._extents.get(path)
        if last is None or found is None or self._damaged is None or last < self._damaged:
            return False
        spots = self._spots.get(path, ())
        start = found.start if found.bytes else spots[0].position if spots else None
        if start is None or found.first_gap(start) is not None:
            return False
        reached = max(found.end, start)
        for spot in spots:
            if spot.position > reached:
                return False
            reached = max(reached, spot.end)
        return True

    # --- reading --------------------------------------------------------------------------------

    def begin_file(self) -> None:
        """References mean something within one file only."""
        self._references = {}

    def take(self, place: Place, raw: bytes, header: BlockHeader) -> int | None:
        """Take in one frame; the number of the file that continues, if it says so.

        Raises: CorruptLog.
        """
        following = None
        payload = block_payload(raw, 0, header)
        at = place.position + header.block_bytes - len(payload)
        for kind, reference, position, data in records_of(payload):
            at += RECORD_HEADER_BYTES + len(data)
            if kind == Kind.NAME:
                self._references[reference] = data.decode()
                continue
            if kind == Kind.NEXT:
                following = position
                continue
            if kind == Kind.TRIMMED:
                self.needed = max(self.needed, position)
                continue
            path = self._references.get(reference)
            if path is None:  # its name was in a damaged frame
                continue
            if kind == Kind.GROUP:
                self._group(path, position, data, place._replace(position=at - len(data)))
                self.begins.setdefault(path, place)
                self._last[path] = place
            elif kind == Kind.WRITTEN:
                self.written.note(path, position)
                if path in self._extents:
                    self._drop_below(path, position)
        return following

    def _group(self, path: str, position: int, data: bytes, data_at: Place) -> None:
        found, spots = self._extents.get(path), self._spots.get(path)
        if found is None:
            found = self._extents[path] = Extents()
            self._folders.setdefault(path.rpartition("/")[0], {})[path] = None
        end = spots[-1].end if spots else found.end
        if position < end:
            text = f"bytes at {position}, but {end} is reached"
            raise CorruptLog(f"journal {self.name}: {path}: {text}")
        if spots is None and self._memory.bytes + len(data) <= self._memory.bytes_max:
            found.add(position, data)
            self._memory.bytes += len(data)
        elif data:
            spot = _Spot(position, *data_at, len(data), crc32(data))
            self._spots.setdefault(path, []).append(spot)

    def _drop_below(self, path: str, position: int) -> None:
        found = self._extents[path]
        self._memory.bytes -= found.bytes
        found.drop_below(position)
        self._memory.bytes += found.bytes
        spots = [spot for spot in self._spots.pop(path, ()) if spot.end > position]
        if spots:
            self._spots[path] = spots
        elif not found.bytes:
            self._drop(path)

    def _drop(self, path: str) -> None:
        del self._extents[path]
        folder = path.rpartition("/")[0]
        del self._folders[folder][path]
        if not self._folders[folder]:
            del self._folders[folder]

    def note_damage(self, place: Place, text: str) -> None:
        """Bytes before ``place`` are not what was written."""
        self.damage = self.damage or f"journal {self.name} is damaged: {text}"
        self._damaged = place if self._damaged is None else max(self._damaged, place)

    def excuse(self) -> None:
        """Its damage concerns nobody: no partition can have used it."""
        self.damage, self._damaged = "", None


Fence = Callable[[str], Awaitable[int]]  # of a file; returns its length


async def read_former(
    files: FileStore, name: str, fence: Fence, memory: Memory | None = None
) -> FormerJournal:
    """Fence every file of the journal, then read it.

    Raises: CorruptLog: it is missing. Unavailable, RecoveryStuck, OutcomeUnknown: call again.
    """
    paths = await files.list(folder_of(name))
    if ended_path(name) in paths:
        return FormerJournal(name, memory)
    numbers = sorted(number for path in paths if (number := number_of(path)) is not None)
    if not numbers:
        raise CorruptLog(f"journal {name} is missing")
    run = last_run(numbers)
    found = await _read(FormerJournal(name, memory), files, [], run, fence)
    if _lacks_files(found, run[0]):  # then what is left before them is needed as well
        found.forget_all()
        left = [number for number in numbers if found.needed <= number < run[0]]
        found = await _read(FormerJournal(name, memory), files, left, run, fence)
        found.note_damage(Place(run[0], 0), f"{file_path(name, run[0] - 1)} is missing")
    if found.damage:  # of one without a segment: perhaps its first write was torn
        _log.log(logging.ERROR if found.segments() else logging.WARNING, "%s", found.damage)
    _log.info("journal %s is fenced: %d segments need it", name, len(found.segments()))
    return found


def _lacks_files(found: FormerJournal, oldest: int) -> bool:
    """Whether files below ``oldest`` are gone although the journal does not say that they may."""
    return oldest > found.needed > 0


async def _read(
    found: FormerJournal, files: FileStore, before: list[int], run: list[int], fence: Fence
) -> FormerJournal:
    """Take in the files ``before`` a gap, then the last run of files and what continues it."""
    numbers, number = [*before, *run], run[0]
    try:
        lengths = await _fenced_all(found.name, numbers, fence)
        for each in before:
            await _take_file(found, files, each, lengths, fence)
        while (following := await _take_file(found, files, number, lengths, fence)) is not None:
            number = following
        if number < run[-1]:
            await _check_unused(found, number + 1, run[-1], fence)
    except BaseException as error:
        found.forget_all()
        if isinstance(error, NotFound):
            raise await _gone(files, found.name, number, run[-1]) from error
        raise
    return found


async def _take_file(
    found: FormerJournal, files: FileStore, number: int, lengths: dict[int, int], fence: Fence
) -> int | None:
    """The number of the file that continues it. Raises: NotFound: it is gone."""
    path = file_path(found.name, number)
    length = lengths[number] if number in lengths else await fence(path)
    return await _read_file(files, path, number, length, found)


def last_run(numbers: Sequence[int]) -> list[int]:
    """The numbers up to the largest without a gap.

    Files are deleted oldest first, so one before a gap is not needed, if none in the gap is: a loss
    of power has brought back what was deleted.
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


async def _check_unused(found: FormerJournal, number: int, end: int, fence: Fence) -> None:
    """A file that no record names was made, but never written to; and it is the last one."""
    path = file_path(found.name, number)
    try:
        length = await fence(path)
    except NotFound:
        return
    if length > SEGMENT_HEADER_BYTES or number < end:
        text = f"{path} is used, but no record names it"
        found.note_damage(Place(number, length), text)


def _take_all(
    found: FormerJournal, path: str, number: int, frames: Sequence[tuple[FoundBlock, int]]
) -> int | None:
    """Take in frames, each with the end of the one before; what the last one says."""
    following = None
    for frame, end in frames:
        place = Place(number, frame.position)
        if frame.position != end:  # a later frame proves the bytes before it
            found.note_damage(place, f"{path} position {end}")
        following = found.take(place, frame.raw, frame.header)
    return following


def _note_cut(found: FormerJournal, text: str) -> None:
    """Bytes are left out as a crash leaves them; nothing proves that they were acknowledged."""
    found.cuts.append(text)
    _log.warning("log-tail-cut: journal %s: %s", found.name, text)


async def _read_file(
    files: FileStore, path: str, number: int, length: int, found: FormerJournal
) -> int | None:
    """Take in the frames of a fenced file; the number of the one that continues it.

    Raises: NotFound: it was deleted meanwhile, which is no damage.
    """
    found.begin_file()
    if length < SEGMENT_HEADER_BYTES:  # nothing names a file before its header is durable
        text = f"{path} has {length} bytes, {SEGMENT_HEADER_BYTES} were synced at first"
        found.note_damage(Place(number, length), text)
        return None
    start = await files.read(path, position=0, bytes_max=SEGMENT_HEADER_BYTES)
    try:
        header = SegmentHeader.decode(start)
    except CorruptLog as error:
        found.note_damage(Place(number, length), f"{path}: {error}")
        return None
    position, following = SEGMENT_HEADER_BYTES, None
    found.needed = max(found.needed, header.partition)
    reached = header.base_offset  # number of the next record
    unproven: list[tuple[FoundBlock, int]] = []  # frames behind bytes that are none
    async with aclosing(valid_blocks(files, path, header.seed, position, length)) as frames:
        async for frame in frames:
            unproven.append((frame, position))
            first, end = unproven[0]
            if first.position == end or frame.header.committed > reached:
                following = _take_all(found, path, number, unproven)
                reached, unproven = frame.header.next_offset, []
            position = frame.position + frame.header.block_bytes
    if unproven:
        first, end = unproven[0]
        room_bytes = first.position - end
        raw = await files.read(path, position=end, bytes_max=min(room_bytes, JUDGED_BYTES_MAX))
        if left_by_crash(raw, end, room_bytes, header.seed, at_end=False):
            text = "a loss of power took frames that were only flushed, so later ones are left out"
            _note_cut(found, f"{path} position {end}: {text}: {len(unproven)}")
            return None
        _take_all(found, path, number, unproven)
        return None
    if position < length:
        raw = await files.read(
            path, position=position, bytes_max=min(length - position, JUDGED_BYTES_MAX)
        )
        if not left_by_crash(raw, position, length - position, header.seed, at_end=True):
            found.note_damage(Place(number, length), f"{path} position {position}")
        else:
            text = f"a crash left {length - position} bytes of a frame, which are left out"
            _note_cut(found, f"{path} position {position}: {text}")
        following = None
    return following
