"""A series of journals: one is written at a time, and the next is made when it died.

A server has a few series. Each syncs a file of its own, so their commits wait for the disk at the
same time, and a journal that dies concerns only the segments of its series.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from opentalos.log.counters import JournalCounters
from opentalos.log.journal.format import file_path, folder_of
from opentalos.log.journal.journal import Journal, JournalPlace
from opentalos.log.journal.journaled_file import Sizes
from opentalos.log.journal.slots import Standing
from opentalos.model.errors import Fenced, StoreUnavailable
from opentalos.ports.file_store import FileStore

_log = logging.getLogger(__name__)

# A segment that is registered names a journal that had not ended so long before; see ``upkeep``.
PROVEN_S = 600.0
FILES_PER_JOURNAL = 4  # of which all but the newest can be trimmed


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """What the journals of one server need."""

    instance: str  # of the server; no two processes have the same
    bytes_max: int  # of its journals together; beyond it segments are written out
    series: int = 1  # journals written at the same time
    sizes: Sizes
    start_deadline_s: float  # to make a new journal; every opening may wait for it
    new_seed: Callable[[], int]
    now_ms: Callable[[], int]
    files_open_max: int  # above 0: segments get their file late, and at most so many have one open
    standing: Callable[[str], Awaitable[Standing]]  # by path. Raises: TalosError
    left: Callable[[str], None]  # a file may be left behind although its topic is deleted
    counters: JournalCounters = field(default_factory=JournalCounters)
    steady: Callable[[], bool] = lambda: True  # whether manifests can be read now

    @property
    def journal_bytes_max(self) -> int:
        """Of one journal."""
        return max(self.bytes_max // self.series, 1)


class JournalSeries:
    """``made`` is called with each new journal; ``name`` gives it a name that no other has."""

    def __init__(
        self,
        files: FileStore,
        settings: JournalSettings,
        name: Callable[[], str],
        made: Callable[[Journal], None],
    ) -> None:
        self._files, self._settings, self._name, self._made = files, settings, name, made
        self.journal: Journal | None = None  # that new segments use
        self.segments = 0  # open ones that use it
        self._starting: asyncio.Task[Journal] | None = None
        self._proven_s = 0.0  # loop time at which the journal had not ended

    async def current(self) -> Journal:
        """The journal that takes groups; a new one if the last died. Raises: TalosError.

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

    async def stop(self) -> None:
        """End what is being made, whatever waits for it."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)

    async def _started(self) -> Journal:
        deadline_s = self._settings.start_deadline_s
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
        settings = self._settings
        place = JournalPlace(
            self._files,
            self._name(),
            settings.new_seed,
            settings.now_ms,
            max(settings.journal_bytes_max // FILES_PER_JOURNAL, 1),
            settings.counters,
        )
        journal = Journal(place)
        await journal.start()
        self._made(journal)
        return journal
