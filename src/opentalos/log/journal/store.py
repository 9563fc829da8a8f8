"""JournaledFiles: the FileStore that the log uses while a journal takes its small commits.

It adds to the port what recovery needs: ``recover_end`` says how far a segment goes with what its
journal holds, ``settle`` that a manifest has sealed it. Reads see the file with the bytes laid over
it that it does not hold yet.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from opentalos.log.journal.extents import Extents
from opentalos.log.journal.format import file_path, folder_of
from opentalos.log.journal.former import FormerJournal, read_former
from opentalos.log.journal.journal import Journal, JournalPlace
from opentalos.log.journal.journaled_file import JournaledFile, Sizes
from opentalos.model.errors import CorruptLog, Fenced, OutcomeUnknown, StoreUnavailable
from opentalos.model.message import Durability
from opentalos.ports.file_store import AppendFile, FileStore

_log = logging.getLogger(__name__)

SEGMENT_SUFFIX = ".log"
# Readers that took a segment's bounds before it was sealed are done with it by then.
READ_GRACE_S = 10.0
# A segment that is registered names a journal that had not ended so long before; see ``upkeep``.
PROVEN_S = 600.0
FILES_PER_JOURNAL = 4  # of which all but the newest can be trimmed


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """What the journals of one server need."""

    instance: str  # of the server; no two processes have the same
    bytes_max: int  # of a journal; beyond it segments are written out
    sizes: Sizes
    start_deadline_s: float  # to make a new journal; every opening may wait for it
    new_seed: Callable[[], int]
    now_ms: Callable[[], int]


class End(NamedTuple):
    """How far a fenced segment goes."""

    length: int
    copy_from: int | None  # bytes from here on may lie in the journal only; None: none do


class JournaledFiles:
    """FileStore over another one. Segments of synced topics are ``JournaledFile``."""

    def __init__(self, files: FileStore, settings: JournalSettings) -> None:
        self._files, self.settings = files, settings
        self.journal: Journal | None = None  # that new segments use
        self._starting: asyncio.Task[Journal] | None = None
        self._proven_s = 0.0  # loop time at which the journal had not ended
        self._count = 0  # of journals made
        self.own: dict[str, Journal] = {}  # by name; those with files
        self.open: dict[str, JournaledFile] = {}  # by path; those that need their journal
        self.formers: dict[str, FormerJournal] = {}  # those that a segment needs
        self._reading: dict[str, asyncio.Task[FormerJournal]] = {}
        # Bytes of a journal that an opening laid over a segment, until that is sealed and read.
        self.recovered: dict[str, Extents] = {}
        self._on_former: Callable[[], None] = lambda: None

    async def create(self, path: str, *, durability: Durability) -> AppendFile:
        """See the port."""
        if durability is not Durability.SYNCED or not path.endswith(SEGMENT_SUFFIX):
            return await self._files.create(path, durability=durability)
        journal = await self._current()
        file = await self._files.create(path, durability=durability)
        made = self.open[path] = JournaledFile(
            file, path, journal, self.settings.sizes, (self._current, self._written)
        )
        return made

    async def recover(self, path: str, *, deadline_s: float) -> int:
        """See the port; of the file alone."""
        return await self._files.recover(path, deadline_s=deadline_s)

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        """See the port."""
        extents = self.recovered.get(path)
        if extents is None and (file := self.open.get(path)) is not None:
            extents = file.unwritten
        if extents is None or not extents.bytes:
            return await self._files.read(path, position=position, bytes_max=bytes_max)
        if position + bytes_max <= (extents.start or 0):
            return await self._files.read(path, position=position, bytes_max=bytes_max)
        now = extents.as_now()  # what is written out meanwhile may not be in the bytes read
        raw = await self._files.read(path, position=position, bytes_max=bytes_max)
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
        if own is not None and own.dead is None:
            length = await self._files.recover(path, deadline_s=deadline_s)
            extents = file.unwritten.as_now() if file is not None else Extents()
        else:  # both at the same time, since each may take long
            outcomes = await asyncio.gather(
                self._files.recover(path, deadline_s=deadline_s),
                self.read_former(journal, deadline_s),
                return_exceptions=True,
            )
            fenced, former = outcomes
            if isinstance(fenced, BaseException):
                raise fenced
            if isinstance(former, BaseException):
                raise former
            length, extents = fenced, former.extents(path)
        gap = extents.first_gap(length)
        if gap is not None:
            raise CorruptLog(f"{path}: bytes from position {gap} on are missing")
        if extents.bytes and (own is None or own.dead is not None):
            self.recovered[path] = extents
        return End(max(length, extents.end), extents.start)

    def tell_former(self, on_former: Callable[[], None]) -> None:
        """Call ``on_former`` whenever the journal of another process was read."""
        self._on_former = on_former

    def settle(self, path: str) -> None:
        """The segment is sealed or deleted: it needs no journal."""
        file = self.open.pop(path, None)
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
        if self._starting is not None:
            tasks.append(self._starting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- inside ---------------------------------------------------------------------------------

    def _written(self, path: str) -> None:
        """The file is closed and holds everything."""
        file = self.open.pop(path, None)
        if file is not None:
            file.release()

    async def _current(self) -> Journal:
        """The journal of this server; a new one if it died. Raises: TalosError.

        All that wait share one attempt, which ends by itself: one that hangs holds nobody for
        longer than its deadline, and the next opening tries with another journal.
        """
        loop, journal = asyncio.get_running_loop(), self.journal
        if journal is not None and journal.dead is None:
            if loop.time() - self._proven_s < PROVEN_S:
                return journal
        if self._starting is None:
            self._starting = loop.create_task(self._started(), name="log-journal-start")
            self._starting.add_done_callback(self._start_ended)
        return await asyncio.shield(self._starting)

    async def _started(self) -> Journal:
        deadline_s = self.settings.start_deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                began_s = asyncio.get_running_loop().time()
                journal = self.journal
                if journal is not None and journal.dead is None:
                    await self._fail_if_ended(journal)
                if journal is None or journal.dead is not None:
                    journal = self.journal = await self._start()
                self._proven_s = began_s
                return journal
        except TimeoutError as error:
            raise StoreUnavailable(f"no journal could be made within {deadline_s:g} s") from error

    async def _fail_if_ended(self, journal: Journal) -> None:
        """Another server may have ended it, if no manifest named it for a while.

        A journal is fenced before it is ended, but one that nobody writes to does not notice.
        """
        if file_path(journal.name, journal.number) not in await self._files.list(
            folder_of(journal.name)
        ):
            journal.fail(Fenced("another server has ended it"))

    def _start_ended(self, task: "asyncio.Task[Journal]") -> None:
        self._starting = None
        if not task.cancelled() and task.exception() is not None:  # whoever waits has it, too
            _log.warning("a journal was not made: %s", task.exception())

    async def _start(self) -> Journal:
        settings = self.settings
        self._count += 1
        name = f"{settings.instance}-{self._count}"
        place = JournalPlace(
            self._files,
            name,
            settings.new_seed,
            settings.now_ms,
            max(settings.bytes_max // FILES_PER_JOURNAL, 1),
        )
        journal = Journal(place)
        await journal.start()
        self.own[name] = journal
        return journal

    def _read_ended(self, name: str, task: "asyncio.Task[FormerJournal]") -> None:
        self._reading.pop(name, None)
        if not task.cancelled() and task.exception() is not None:  # whoever waits has it, too
            _log.warning("journal %s was not read: %s", name, task.exception())

    async def _read(self, name: str, deadline_s: float) -> FormerJournal:
        fence = partial(self._files.recover, deadline_s=deadline_s)
        former = self.formers[name] = await read_former(self._files, name, fence)
        self._on_former()
        return former
