"""JournaledFiles: the FileStore that the log uses while a journal takes its small commits.

It adds to the port what recovery needs: ``recover_end`` says how far a segment goes with what its
journal holds, ``settle`` that a manifest has sealed it. Reads see the file with the bytes laid over
it that it does not hold yet.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from opentalos.log.counters import JournalFigures
from opentalos.log.journal.extents import Extents
from opentalos.log.journal.format import journal_name
from opentalos.log.journal.former import FormerJournal, Memory, read_former
from opentalos.log.journal.journal import Journal
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.log.journal.laid_over import LaidOver
from opentalos.log.journal.series import JournalSeries, JournalSettings
from opentalos.log.journal.slots import FileMaker, FileSlots, create_slotted
from opentalos.model.errors import CorruptLog, NotFound, OutcomeUnknown
from opentalos.model.message import Durability
from opentalos.ports.file_store import AppendFile, FileStore

_log = logging.getLogger(__name__)

SEGMENT_SUFFIX = ".log"
# Readers that took a segment's bounds before it was sealed are done with it by then.
READ_GRACE_S = 10.0


class End(NamedTuple):
    """How far a fenced segment goes."""

    length: int
    copy_from: int | None  # bytes from here on may lie in the journal only; None: none do


class JournaledFiles:
    """FileStore over another one. Segments of synced topics, and late ones, are ``JournaledFile``.

    A flushed segment with a file of its own gains nothing: it has no sync to share.
    """

    def __init__(self, files: FileStore, settings: JournalSettings) -> None:
        self._files, self.settings = files, settings
        self._count = 0  # of journals made
        self._series = [
            JournalSeries(files, settings, self._next_name, self._made)
            for _ in range(settings.series)
        ]
        self.own: dict[str, Journal] = {}  # by name; those with files
        self.open: dict[str, JournaledFile] = {}  # by path; those that need their journal
        self._series_of: dict[str, JournalSeries] = {}  # of those
        self.formers: dict[str, FormerJournal] = {}  # those that a segment needs
        self._former_memory = Memory(settings.bytes_max)
        self._reading: dict[str, asyncio.Task[FormerJournal]] = {}
        # Bytes of a journal that an opening laid over a segment, until that is sealed and read.
        self.recovered: dict[str, Extents] = {}
        self._on_former: Callable[[], None] = lambda: None
        self.slots = FileSlots(settings.files_open_max, self._make_room, settings.steady)
        self.roll_soon: Callable[[str], None] = lambda path: None  # set by the upkeep

    async def create(self, path: str, *, durability: Durability) -> AppendFile:
        """See the port."""
        is_segment = path.endswith(SEGMENT_SUFFIX)
        if not is_segment and self.settings.files_open_max:
            return await create_slotted(self._files, path, durability, self.slots)
        late = self.settings.files_open_max > 0
        if not is_segment or not (late or durability is Durability.SYNCED):
            return await self._files.create(path, durability=durability)
        series = min(self._series, key=attrgetter("segments"))
        series.segments += 1
        file: AppendFile | FileMaker
        try:
            journal = await series.current()
            if late:
                asked = (self.settings.standing, self.settings.left)
                file = FileMaker(self._files, path, self.slots, asked, durability)
            else:
                file = await self._files.create(path, durability=durability)
        except BaseException:
            series.segments -= 1
            raise
        store = (series.current, self._written, self.roll_soon)
        made = self.open[path] = JournaledFile(file, path, journal, self.settings.sizes, store)
        self._series_of[path] = series
        return made

    async def recover(self, path: str, *, deadline_s: float) -> int:
        """See the port; of the file alone."""
        return await self._files.recover(path, deadline_s=deadline_s)

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        """See the port."""
        extents, late = self.recovered.get(path), False
        if extents is None and (file := self.open.get(path)) is not None:
            extents, late = file.unwritten, file.late
        if extents is None or not extents.bytes:
            return await self._files.read(path, position=position, bytes_max=bytes_max)
        if position + bytes_max <= (extents.start or 0):
            return await self._files.read(path, position=position, bytes_max=bytes_max)
        now = extents.as_now()  # what is written out meanwhile may not be in the bytes read
        raw = b""
        try:
            if not late:
                raw = await self._files.read(path, position=position, bytes_max=bytes_max)
        except NotFound:
            if now.start != 0:  # it is no late segment, all of which is here
                raise
        return now.laid_over(raw, position, bytes_max)

    async def list(self, prefix: str) -> Sequence[str]:
        """See the port."""
        return await self._files.list(prefix)

    async def delete(self, path: str) -> None:
        """See the port."""
        await self._files.delete(path)
        self.settle(path)

    async def space(self) -> int:
        """See the port."""
        return await self._files.space()

    async def close(self) -> None:
        """See the port."""
        await self._files.close()

    async def recover_end(self, path: str, journal: str, deadline_s: float) -> End:
        """Fence a segment and the journal that its manifest names; both never change again.

        The journal that this process writes is fenced only if it does not answer: what it has of
        the segment is known here. Raises: as ``recover``; CorruptLog.
        """
        file, own = self.open.get(path), self.own.get(journal)
        if file is not None:
            file.give_up(OutcomeUnknown("the partition is opened again"))
            if file.in_flight:
                file.journal.fail(OutcomeUnknown("a commit hangs"))
        fenced: int | BaseException | None
        former: FormerJournal | None = None
        if own is not None and own.dead is None:
            extents = file.unwritten.as_now() if file is not None else Extents()
            fenced = await self._fenced(path, deadline_s)
        else:  # both at the same time, since each may take long
            fenced, read = await asyncio.gather(
                self._fenced(path, deadline_s),
                self.read_former(journal, deadline_s),
                return_exceptions=True,
            )
            if isinstance(fenced, BaseException):
                raise fenced
            if isinstance(read, BaseException):
                raise read
            former = read
            extents = await former.load(self._files, path)
        if fenced is None and extents.start != 0:
            raise NotFound(path)
        length = fenced or 0
        gap = extents.first_gap(length)
        if gap is not None:
            raise CorruptLog(f"{path}: bytes from position {gap} on are missing")
        if fenced is not None and former is not None:
            await former.written.check(LaidOver(self._files, extents, length), path)
        if extents.bytes and (own is None or own.dead is not None):
            self.recovered[path] = extents
        return End(max(length, extents.end), extents.start)

    def tell_former(self, on_former: Callable[[], None]) -> None:
        """Call ``on_former`` whenever the journal of another process was read."""
        self._on_former = on_former

    def settle(self, path: str) -> None:
        """The segment is sealed or deleted: it needs no journal."""
        file = self._forget(path)
        if file is not None:
            if file.unwritten.bytes:
                self.recovered.setdefault(path, file.unwritten.as_now())
            file.release()
        for former in self.formers.values():
            former.forget(path)
        if path in self.recovered:
            forget = partial(self.recovered.pop, path, None)
            asyncio.get_running_loop().call_later(READ_GRACE_S, forget)

    async def read_former(self, name: str, deadline_s: float) -> FormerJournal:
        """Fence and read a journal, once for all that wait for it. Raises: TalosError."""
        known = self.formers.get(name)
        if known is not None:
            return known
        task = self._reading.get(name)
        if task is None:
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._read(name, deadline_s), name="log-journal-recovery")
            self._reading[name] = task
            task.add_done_callback(partial(self._read_ended, name))
        return await asyncio.shield(task)

    async def stop(self) -> None:
        """End what is being made or read, whatever waits for it."""
        tasks: list[asyncio.Task[Any]] = list(self._reading.values())
        for task in tasks:
            task.cancel()
        stops = [series.stop() for series in self._series]
        await asyncio.gather(*tasks, *stops, return_exceptions=True)

    # --- inside ---------------------------------------------------------------------------------

    async def _fenced(self, path: str, deadline_s: float) -> int | None:
        """The length of a segment's fenced file; None: it has none.

        A former owner that makes the file later finds the claim in the manifest, and uses it not.
        """
        try:
            return await self._files.recover(path, deadline_s=deadline_s)
        except NotFound:
            return None

    def _make_room(self) -> None:
        """Something waits for a slot: roll the segment that has used its own least recently.

        One that was given up cannot be rolled, and gives its slot back by itself.
        """
        holders = [
            file
            for file in self.open.values()
            if file.holds and not file.rolling and file.dead is None
        ]
        if holders:
            longest = min(holders, key=lambda file: file.used_s)
            longest.rolling = True
            self.roll_soon(longest.path)

    def _written(self, path: str) -> None:
        """The file is closed and holds everything."""
        file = self._forget(path)
        if file is not None:
            file.release()

    def _forget(self, path: str) -> JournaledFile | None:
        """The segment that needed its journal no more is no open one; None: it was not."""
        file = self.open.pop(path, None)
        if file is not None:
            self._series_of.pop(path).segments -= 1
        return file

    def _next_name(self) -> str:
        self._count += 1
        return journal_name(self.settings.instance, self._count)

    def _made(self, journal: Journal) -> None:
        self.own[journal.name] = journal

    def _read_ended(self, name: str, task: "asyncio.Task[FormerJournal]") -> None:
        self._reading.pop(name, None)
        if not task.cancelled() and task.exception() is not None:  # whoever waits has it, too
            _log.warning("journal %s was not read: %s", name, task.exception())

    async def _read(self, name: str, deadline_s: float) -> FormerJournal:
        fence = partial(self._files.recover, deadline_s=deadline_s)
        former = self.formers[name] = await read_former(
            self._files, name, fence, self._former_memory
        )
        self.settings.counters.recoveries += 1
        self.settings.counters.tails_cut += len(former.cuts)
        self._on_former()
        return former


def without_journals(journaled: JournaledFiles) -> FileStore:
    """The store itself: no journal takes part in what it makes."""
    return journaled._files


async def create_whole(journaled: JournaledFiles, path: str) -> AppendFile:
    """A segment that no journal takes part in: only its close makes it durable.

    Raises: as ``create``.
    """
    return await journaled._files.create(path, durability=Durability.FLUSHED)


def journal_figures(journaled: JournaledFiles) -> JournalFigures:
    """The journals at this moment."""
    own, files = journaled.own.values(), journaled.open.values()
    return JournalFigures(
        files=sum(len(journal.lengths) for journal in own),
        stored_bytes=sum(journal.total_bytes for journal in own),
        full=any(journal.full for journal in own),
        unwritten_bytes=sum(file.unwritten.bytes for file in files),
        recovered=len(journaled.formers),
        recovered_bytes=journaled._former_memory.bytes,
    )


def forget_former(journaled: JournaledFiles, name: str) -> None:
    """The journal has ended: nobody asks for what it held."""
    former = journaled.formers.pop(name, None)
    if former is not None:
        former.forget_all()


def held_by_formers(journaled: JournaledFiles, folder: str = "") -> set[str]:
    """Segments of which journals of other processes have bytes; of one partition by its folder."""
    return {
        path
        for former in journaled.formers.values()
        for path in (former.below(folder) if folder else former.segments())
    }


async def of_formers(journaled: JournaledFiles, path: str) -> Extents | None:
    """What journals of other processes have of a segment. Raises: TalosError."""
    for former in journaled.formers.values():
        if former.has(path):
            return await former.whole(journaled._files, path)
    return None
