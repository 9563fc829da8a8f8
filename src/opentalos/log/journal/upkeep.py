"""Keeps the journals small: writes segments out, trims, and ends journals that nobody needs.

One task of the server. What it cannot do now it does in a later pass; nothing waits for it. An
error of one journal or segment is logged and stops the upkeep of no other.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from opentalos.log.journal.format import ROOT, ended_path, instance_of, number_of
from opentalos.log.journal.former import FormerJournal
from opentalos.log.journal.journal import Journal, end_journal
from opentalos.log.journal.journaled_file import JournaledFile, written_quietly
from opentalos.log.journal.store import JournaledFiles, forget_former
from opentalos.model.errors import (
    CorruptLog,
    NewerFormat,
    OutcomeUnknown,
    RecoveryStuck,
    StoreUnavailable,
    TalosError,
    Unavailable,
)
from opentalos.model.message import PartitionKey
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
READS_AT_ONCE = 8  # journals
UNREAD_WAIT_S = 60.0  # openings wait so long for a journal that cannot be read


def due(files: Iterable[JournaledFile], spare: int, before_s: float) -> list[JournaledFile]:
    """The segments to write out: those that need a file of the journal below ``spare``, and those
    that wait since before ``before_s``; longest waiting first. Those that failed are left out.

    A late one waits until the journal needs the room, so a quiet partition makes no small files.
    """
    found = [
        file
        for file in files
        if file.dead is None
        and file.oldest is not None
        and (file.oldest < spare or (not file.late and file.unwritten_since_s <= before_s))
    ]
    return sorted(found, key=lambda file: (file.oldest or 0, file.unwritten_since_s))


class Named(Protocol):
    """What manifests say; see ``maintenance/registered.py``."""

    async def needed(self, path: str) -> bool: ...
    async def journals(self) -> dict[str, list[PartitionKey]]: ...


class Held(Protocol):
    """What former journals have; see ``manifest/held_segments.py``. ``living``: instances of the
    servers that live. ``recover_soon`` opens partitions that a journal is kept for;
    ``forget_if_settled`` lets a journal forget a segment, if nobody needs what it has.
    """

    def living(self) -> frozenset[str]: ...
    def recover_soon(self, keys: Iterable[PartitionKey]) -> None: ...
    async def forget_if_settled(self, former: FormerJournal, path: str) -> bool: ...
    async def is_written(self, former: FormerJournal, path: str) -> bool: ...


class JournalUpkeep:
    """``registered`` answers from the manifests; ``reopen`` opens a partition again whose segment
    could not be written out; ``roll`` writes a segment out, closes its file and seals it;
    ``held`` answers for what former journals have.
    """

    def __init__(
        self,
        files: FileStore,
        journaled: JournaledFiles,
        registered: Named,
        reopen: Callable[[str], None],
        roll: Callable[[str], Awaitable[None]],
        held: Held,
    ) -> None:
        self._files, self._journaled = files, journaled
        self._registered, self._reopen, self._roll = registered, reopen, roll
        self._held = held
        self._reading: asyncio.Task[None] | None = None  # see ``known``
        self._lived: frozenset[str] | None = None  # instances at that time
        self._unreadable: set[str] = set()  # journals that were waited for in vain
        self._waits_until_s = 0.0  # for journals that cannot be read; loop time
        self._to_roll: dict[str, None] = {}  # late segments whose files are not made yet
        self._rolls: dict[asyncio.Task[None], None] = {}
        journaled.roll_soon = self._roll_soon
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
        self._to_roll.clear()
        own = [task for task in (self._task, self._reading) if task is not None]
        tasks = [*self._rolls, *own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def end_all(self) -> None:
        """All partitions are closed: end the journals that nothing needs any more.

        Those that cannot be ended stay for the next start.
        """
        for journal in list(self._journaled.own.values()):
            await _apart(f"journal {journal.name}", self._end_own(journal, close=True))
        for former in list(self._journaled.formers.values()):
            await _apart(f"journal {former.name}", self._end_former(former))

    async def stop_all(self) -> None:
        """End every task of the journals, whatever is under way."""
        await self.close()
        await self._journaled.stop()
        for journal in list(self._journaled.own.values()):
            await journal.stop()

    async def run_pass(self) -> None:
        """One pass; what fails is logged, and a later pass tries it again."""
        self._journaled.slots.ask()  # what was to make room may have failed
        await self._write_out()
        await self._release_taken()
        for journal in list(self._journaled.own.values()):
            if journal.dead is None:
                await _apart(f"journal {journal.name}", journal.trim())
            else:
                await _apart(f"journal {journal.name}", self._end_own(journal))
        for former in list(self._journaled.formers.values()):
            await _apart(f"journal {former.name}", self._end_former(former))

    async def known(self) -> None:
        """Return once the journals of all servers that ended were read, since a manifest that came
        back older does not name them. Raises: TalosError: call again.
        """
        while True:
            living = self._held.living()
            if self._lived is not None and self._lived <= living:
                self._lived = living
                return
            if self._reading is None or self._reading.done():  # waiting for that would not pause
                self._reading = asyncio.get_running_loop().create_task(
                    self._read_of_ended(living), name="log-journal-search"
                )
                self._reading.add_done_callback(self._search_ended)
            await asyncio.shield(self._reading)

    def _search_ended(self, task: asyncio.Task[None]) -> None:
        if self._reading is task:
            self._reading = None

    async def _read_of_ended(self, living: frozenset[str]) -> None:
        """Raises: StoreUnavailable: a journal was not read, and it is worth waiting for."""
        now_s = asyncio.get_running_loop().time()
        self._waits_until_s = self._waits_until_s or now_s + UNREAD_WAIT_S
        left = {path.split("/")[1] for path in await self._files.list(ROOT) if _is_part(path)}
        left.difference_update(self._journaled.own, self._journaled.formers)
        ended = sorted(name for name in left if instance_of(name) not in living)
        room = asyncio.Semaphore(READS_AT_ONCE)
        unread = await asyncio.gather(*(self._unread(name, room) for name in ended))
        waits = {name for name in unread if name} - self._unreadable
        if waits and now_s < self._waits_until_s:
            raise StoreUnavailable(f"not read yet: journal {' and '.join(sorted(waits))}")
        self._unreadable |= waits
        self._lived, self._waits_until_s = living, 0.0

    async def _unread(self, name: str, room: asyncio.Semaphore) -> str:
        """Read a journal; its name, if that may be done later."""
        async with room:
            try:
                await self._journaled.read_former(name, FENCE_DEADLINE_S)
            except TalosError as error:
                _log.warning("journal %s was not read: %s", name, error)
                # Others have ended meanwhile, or none of it is left, or no fence ends it.
                return "" if isinstance(error, CorruptLog | NewerFormat | RecoveryStuck) else name
        return ""

    async def search(self) -> None:
        """Make sure that journals of other processes end, and forget those that ended.

        Partitions that are kept in one and belong to this server are recovered; one that no
        manifest names is read. Its server died when all was sealed, or it lives and no partition is
        open under it: then the fence costs the next one an opening. What it has of a segment that
        is registered meanwhile keeps it, as with any other. Raises: TalosError.
        """
        found: dict[str, bool] = {}  # by name: whether a file of it is left
        for path in await self._files.list(ROOT):
            name = path.split("/")[1]
            found[name] = found.get(name, False) or number_of(path) is not None
        formers = [name for name in self._journaled.formers if name not in self._journaled.own]
        for name in (*self._journaled.own, *formers):
            found.pop(name, None)
        named = await self._registered.journals() if found or formers else {}
        kept = [*formers, *(name for name, left in found.items() if left)]
        self._held.recover_soon([key for name in kept for key in named.get(name, ())])
        unnamed = [name for name, left in found.items() if left and name not in named]
        for name in unnamed:
            reading = self._journaled.read_former(name, FENCE_DEADLINE_S)
            await _apart(f"journal {name}", reading)
        await self._end_torn(unnamed)
        ended = [name for name, left in found.items() if not left and name not in named]
        await self._forget_ended(ended)

    async def _end_torn(self, fenced: list[str]) -> None:
        """End damaged journals without a segment that no manifest names since their fence: nothing
        was acknowledged there. A power loss leaves them, if the first write of a journal was under
        way.
        """
        found = [self._journaled.formers.get(name) for name in fenced]
        torn = [each for each in found if each and each.damage and not each.segments()]
        named = await self._registered.journals() if torn else {}
        for former in torn:
            if former.name not in named:
                former.excuse()  # the next pass ends it

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
            full = (
                journal.total_bytes > journaled.settings.journal_bytes_max
                or journal.dead is not None
            )
            spare = journal.number + (journal.dead is not None) if full else 0
            of_it = [file for file in journaled.open.values() if file.journal is journal]
            waiting += due(of_it, spare, before_s)
        if journaled.settings.files_open_max:
            for file in waiting:
                if file.late and not file.rolling:
                    file.rolling = True
                    self._roll_soon(file.path)
            # Who makes a file writes it as well; a pass that waited for it would stop the others.
            waiting = [file for file in waiting if not (file.late or file.making)]
        waiting.reverse()

        async def write() -> None:
            while waiting:
                file = waiting.pop()
                journaled.settings.counters.write_outs += 1
                await _apart(file.path, _written_in_time(file))

        await asyncio.gather(*(write() for _ in range(WRITES_AT_ONCE)))

    def _roll_soon(self, path: str) -> None:
        """Those that have an open file need no slot, so they wait for nobody."""
        file = self._journaled.open.get(path)
        self._to_roll[path] = None
        busy = len(self._rolls) >= self._journaled.settings.files_open_max
        if busy and not (file is not None and file.holds):
            return
        if busy:
            del self._to_roll[path]
        task = asyncio.get_running_loop().create_task(
            self._roll_all([path] if busy else None), name="log-journal-roll"
        )
        self._rolls[task] = None
        task.add_done_callback(lambda done: self._rolls.pop(done, None))

    async def _roll_all(self, paths: list[str] | None) -> None:
        """Roll these, or whatever is to be rolled."""
        while paths or (paths is None and self._to_roll):
            path = paths.pop() if paths else next(iter(self._to_roll))
            self._to_roll.pop(path, None)
            await _apart(path, self._roll(path))
            file = self._journaled.open.get(path)
            if file is not None:
                file.rolling = False

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
        if not await self._registered.needed(path):
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
            forget_former(self._journaled, journal.name)

    async def _end_former(self, former: FormerJournal) -> None:
        """End a fenced journal once each segment that needs it is sealed, whoever did it."""
        for path in former.segments()[:CHECKED_PER_PASS]:
            if not await self._held.forget_if_settled(former, path):
                return
        if former.segments():
            return
        for path in former.written.paths()[:CHECKED_PER_PASS]:
            if not await self._held.is_written(former, path):
                return
            former.forget(path)
        if former.written.paths():
            return
        # Files of one that is damaged stay for whoever repairs it.
        if not former.damage and former.name not in self._journaled.own:
            await end_journal(self._files, former.name)
        forget_former(self._journaled, former.name)

    async def _repeat(self) -> None:
        while True:
            await asyncio.sleep(PASS_S)
            await _apart("the journal", self.run_pass())
            if asyncio.get_running_loop().time() >= self._search_s:
                self._search_s += SEARCH_S
                await _apart("the journal", self.search())


def _is_part(path: str) -> bool:
    """Whether it is a file with frames of a journal."""
    return number_of(path) is not None


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
