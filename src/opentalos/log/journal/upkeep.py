"""Keeps the journals small: writes segments out, trims, and ends journals that nobody needs.

One task of the server. What it cannot do now it does in a later pass; nothing waits for it. An
error of one journal or segment is logged and stops the upkeep of no other.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from opentalos.log.journal.format import ROOT, ended_path, number_of
from opentalos.log.journal.former import FormerJournal
from opentalos.log.journal.journal import Journal, end_journal
from opentalos.log.journal.journaled_file import JournaledFile, written_quietly
from opentalos.log.journal.store import JournaledFiles
from opentalos.model.errors import OutcomeUnknown, TalosError, Unavailable
from opentalos.ports.file_store import FileStore

_log = logging.getLogger(__name__)

PASS_S = 1.0  # between passes
WRITE_OUT_AFTER_S = 30.0  # a segment is at most so far behind its journal
WRITE_OUT_DEADLINE_S = 10.0  # then the segment is given up, and its partition opens again
WRITES_AT_ONCE = 4  # they share the store with the commits of puts
CHECKED_PER_PASS = 64  # manifests that are read to learn whether a journal is needed
CHECK_RECOVERED_S = 30.0  # between checks of segments whose opening did not end
SEARCH_FIRST_S = 5.0  # after the start, and then every so often:
SEARCH_S = 3_600.0  # between searches for journals that no manifest names
# A journal that has ended is remembered as long as a manifest names it, and so much longer: for
# openings that have read an older manifest, and since a server that does not know of the end may
# name it once more in the next ``PROVEN_S``.
ENDED_KEPT_S = 4 * 3_600.0
FENCE_DEADLINE_S = 10.0  # of one file


def due(files: Iterable[JournaledFile], spare: int, before_s: float) -> list[JournaledFile]:
    """The segments to write out: those that need a file of the journal below ``spare``, and those
    that wait since before ``before_s``; longest waiting first. Those that failed are left out.
    """
    found = [
        file
        for file in files
        if file.dead is None
        and file.oldest is not None
        and (file.oldest < spare or file.unwritten_since_s <= before_s)
    ]
    return sorted(found, key=lambda file: (file.oldest or 0, file.unwritten_since_s))


class JournalUpkeep:
    """``needed`` asks the manifest whether a segment, by path, is its partition's unsealed one;
    ``named`` which journals manifests name; ``reopen`` opens a partition again whose segment could
    not be written out.
    """

    def __init__(
        self,
        files: FileStore,
        journaled: JournaledFiles,
        needed: Callable[[str], Awaitable[bool]],
        named: Callable[[], Awaitable[set[str]]],
        reopen: Callable[[str], None],
    ) -> None:
        self._files, self._journaled, self._needed = files, journaled, needed
        self._named, self._reopen = named, reopen
        self._search_s = 0.0  # loop time of the next search
        self._check_recovered_s = 0.0  # and of the next check of what was recovered
        self._turn = 0
        self._unnamed_s: dict[str, float] = {}  # ended ones: since when no manifest names them
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin the passes, unless they have begun."""
        if self._task is not None:
            return
        self._search_s = asyncio.get_running_loop().time() + SEARCH_FIRST_S
        self._task = asyncio.get_running_loop().create_task(self._repeat(), name="log-journal-care")

    async def close(self) -> None:
        """End the passes; the journals stay as they are."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def end_all(self) -> None:
        """All partitions are closed: end the journals that nothing needs any more.

        Those that cannot be ended stay for the next start.
        """
        for journal in list(self._journaled.own.values()):
            await _apart(f"journal {journal.name}", self._end_own(journal, close=True))

    async def stop_all(self) -> None:
        """End every task of the journals, whatever is under way."""
        await self.close()
        await self._journaled.stop()
        for journal in list(self._journaled.own.values()):
            await journal.stop()

    async def run_pass(self) -> None:
        """One pass; what fails is logged, and a later pass tries it again."""
        await self._write_out()
        await self._release_taken()
        for journal in list(self._journaled.own.values()):
            if journal.dead is None:
                await _apart(f"journal {journal.name}", journal.trim())
            else:
                await _apart(f"journal {journal.name}", self._end_own(journal))
        for former in list(self._journaled.formers.values()):
            await _apart(f"journal {former.name}", self._end_former(former))

    async def search(self) -> None:
        """Read journals that no manifest names, so that they end, and forget those that ended.

        Their servers died when all was sealed, or they live and no partition is open under it: then
        the fence costs the next one an opening. What it has of a segment that is registered
        meanwhile keeps it, as with any other. Raises: TalosError.
        """
        found: dict[str, bool] = {}  # by name: whether a file of it is left
        for path in await self._files.list(ROOT):
            name = path.split("/")[1]
            found[name] = found.get(name, False) or number_of(path) is not None
        for name in (*self._journaled.own, *self._journaled.formers):
            found.pop(name, None)
        named = await self._named() if found else set()
        for name, left in found.items():
            if left and name not in named:
                reading = self._journaled.read_former(name, FENCE_DEADLINE_S)
                await _apart(f"journal {name}", reading)
        ended = [name for name, left in found.items() if not left and name not in named]
        await self._forget_ended(ended)

    async def _forget_ended(self, names: list[str]) -> None:
        """Delete what says that a journal has ended, once nobody can ask for it any more."""
        now_s = asyncio.get_running_loop().time()
        self._unnamed_s = {name: self._unnamed_s.get(name, now_s) for name in names}
        for name, since_s in list(self._unnamed_s.items()):
            if now_s - since_s >= ENDED_KEPT_S:
                await _apart(f"journal {name}", self._files.delete(ended_path(name)))

    async def _write_out(self) -> None:
        """Write what is due, a few at once: the oldest file of a full journal, and old bytes."""
        journaled = self._journaled
        before_s = asyncio.get_running_loop().time() - WRITE_OUT_AFTER_S
        waiting: list[JournaledFile] = []
        for journal in journaled.own.values():
            full = journal.total_bytes > journaled.settings.bytes_max or journal.dead is not None
            spare = journal.number + (journal.dead is not None) if full else 0
            of_it = [file for file in journaled.open.values() if file.journal is journal]
            waiting += due(of_it, spare, before_s)
        waiting.reverse()

        async def write() -> None:
            while waiting:
                file = waiting.pop()
                await _apart(file.path, _written_in_time(file))

        await asyncio.gather(*(write() for _ in range(WRITES_AT_ONCE)))

    async def _release_taken(self) -> None:
        """Forget segments that failed here and that another opening has sealed meanwhile."""
        journaled, now_s = self._journaled, asyncio.get_running_loop().time()
        paths = [path for path, file in journaled.open.items() if file.dead is not None]
        if now_s >= self._check_recovered_s:
            self._check_recovered_s = now_s + CHECK_RECOVERED_S
            paths += [path for path in journaled.recovered if path not in journaled.open]
        for path in self._in_turn(paths):
            if not await _apart(path, self._release_if_taken(path)):
                return

    def _in_turn(self, paths: list[str]) -> list[str]:
        """A bounded number of them, in the next pass others: one that stays blocks none."""
        if len(paths) <= CHECKED_PER_PASS:
            return paths
        self._turn = (self._turn + CHECKED_PER_PASS) % len(paths)
        return [*paths[self._turn :], *paths[: self._turn]][:CHECKED_PER_PASS]

    async def _release_if_taken(self, path: str) -> None:
        if not await self._needed(path):
            self._journaled.settle(path)
        elif path in self._journaled.open:
            self._reopen(path)

    async def _end_own(self, journal: Journal, *, close: bool = False) -> None:
        """End a journal of this server, unless a segment needs it."""
        if close:
            await journal.close()
        if journal.idle:
            await journal.end()
            self._journaled.own.pop(journal.name, None)
            self._journaled.formers.pop(journal.name, None)

    async def _end_former(self, former: FormerJournal) -> None:
        """End a fenced journal once each segment that needs it is sealed, whoever did it."""
        for path in former.segments()[:CHECKED_PER_PASS]:
            if await self._needed(path):
                return
            former.forget(path)
        if former.segments():
            return
        # Files of one that is damaged stay for whoever repairs it.
        if not former.damage and former.name not in self._journaled.own:
            await end_journal(self._files, former.name)
        self._journaled.formers.pop(former.name, None)

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(PASS_S)
            await _apart("the journal", self.run_pass())
            if asyncio.get_running_loop().time() >= self._search_s:
                self._search_s += SEARCH_S
                await _apart("the journal", self.search())


async def _apart(what: str, step: Awaitable[object]) -> bool:
    """Do one step of many; its error stops no other. False: the store is away, for all alike."""
    try:
        await step
    except TalosError as error:
        _log.warning("upkeep of %s: %s; a later pass tries again", what, error)
        return not isinstance(error, Unavailable)
    except Exception:
        _log.exception("upkeep of %s failed; a later pass tries again", what)
    return True


async def _written_in_time(file: JournaledFile) -> None:
    """Write out; a file that hangs is given up, so no other one waits for it."""
    try:
        async with asyncio.timeout(WRITE_OUT_DEADLINE_S):
            await written_quietly(file)
    except TimeoutError:
        _log.warning("%s hangs; it is not written behind the journal", file.path)
        file.give_up(OutcomeUnknown("a write behind the journal hangs"))
