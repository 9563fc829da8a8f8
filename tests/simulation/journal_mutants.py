"""Mutants of the shared journal; see ``mutants`` for what a mutant proves.

Equivalent mutants, which no client can distinguish from the real code:

- The file of a failed journal is deleted although a group of an unknown outcome may be in it. That
  group was never acknowledged nor shown; its partition puts it back into the queue.
- A file of a journal that nobody needs is never trimmed: space is lost, nothing else.
- What an opening laid over a segment is forgotten when that is sealed, not some seconds later: a
  reader under way asks the manifest again.

Too rare for seeds, so a unit test proves it (``test_late``): a fenced journal ends between
a group of a new segment and the registration of that.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.mutants import CHAOS_S, CRASHES, Mutant, Patch, _names

from opentalos.broker.quota.space_upkeep import SpaceUpkeep
from opentalos.log.journal import former as journal_former
from opentalos.log.journal import journal as journal_writing
from opentalos.log.journal.extents import Extents
from opentalos.log.journal.former import FormerJournal, Place
from opentalos.log.journal.journal import Journal
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.log.journal.membership import Member
from opentalos.log.journal.slots import FileSlots, Standing
from opentalos.log.journal.store import End, JournaledFiles
from opentalos.log.journal.upkeep import JournalUpkeep
from opentalos.log.maintenance.registered import Registered
from opentalos.log.maintenance.unrecovered import UnrecoveredPartitions
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.segment.writer import OpenSegment, sealed_entry
from opentalos.model.errors import CorruptLog, NotFound
from opentalos.ports.file_store import FileStore
from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.stores.faults import (
    ClusterFaults,
    FileFaults,
    MetaFaults,
    RowFaults,
    WorldFaults,
)
from opentalos.testing.simulation.world.limits import LOG_LIMITS, with_journal
from opentalos.testing.simulation.world.storage_worlds import STORAGE_WORLDS
from opentalos.testing.simulation.world.world import WorldConfig

# Segments large enough that their ends stay in the journal for a while.
LIMITS = replace(with_journal(LOG_LIMITS), segment_bytes_max=32 << 10, idle_seal_s=20.0)
KILLS = replace(
    CRASHES,
    log=LIMITS,
    think_s=0.1,
    files=FileFaults(commit_slow=0.05),
    meta=MetaFaults(),
    rows=RowFaults(),
    world=WorldFaults(process_crash=0.3, power_loss=0.1),
)
# So that a partition has several segments in the journal at once.
SHORT_SEGMENTS = replace(KILLS, log=replace(LIMITS, segment_bytes_max=2 << 10))
SLOW = replace(KILLS, files=FileFaults(commit_slow=0.5))
RIVALS = replace(KILLS, files=FileFaults(commit_slow=0.05), world=WorldFaults(usurped=0.5))
FAILING = replace(
    KILLS, files=FileFaults(commit_fails=0.06, commit_slow=0.05), world=WorldFaults(power_loss=0.3)
)
# Large enough that a flipped bit is still there when the journal is read.
ROTTEN = replace(
    STORAGE_WORLDS["rot"],
    log=replace(LIMITS, journal_bytes_max=1 << 20),
    world=WorldFaults(rot_anywhere=0.8, process_crash=0.4),
    think_s=0.1,
)
CLUSTER = ClusterConfig(
    chaos_s=CHAOS_S,
    think_s=0.08,
    session_s=1.0,
    metered=0.0,
    tabled=0.0,
    log=LIMITS,
    files=FileFaults(commit_slow=0.05),
    meta=MetaFaults(),
    rows=RowFaults(),
)
CRASHES_OF_SERVERS = replace(CLUSTER, cluster=ClusterFaults(crash=0.7, crash_controller=0.3))
MOVES = replace(CLUSTER, cluster=ClusterFaults(drain=1.0, join=0.4))
# Nothing else recovers partitions that nobody uses.
QUIET = replace(KILLS, log=replace(LIMITS, retention_interval_s=600.0))
LATE = replace(KILLS, log=replace(LIMITS, journal_files_open_max=2))
LATE_SLOW = replace(
    KILLS,
    files=FileFaults(commit_slow=0.5),
    log=replace(SHORT_SEGMENTS.log, journal_files_open_max=2),
)
LATE_SHORT = replace(KILLS, log=LATE_SLOW.log)
# Commits that go to the segment itself, and so make its file, are frequent with short segments.
LATE_RIVALS = replace(RIVALS, log=replace(SHORT_SEGMENTS.log, journal_files_open_max=2))
LOST = ("lost-write", "silent-cut", "inconsistent-offsets")
BROKEN = (*LOST, "unreadable", "stuck-partition", "corrupt-payload", "next-offset-went-back")


def trim_before_segments_are_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "held", lambda self, number: False)


def note_what_is_not_written(patch: pytest.MonkeyPatch) -> None:
    real = JournaledFile.keep

    def keep(self: JournaledFile, number: int, position: int, data: bytes) -> None:
        real(self, number, position, data)
        self.journal.note_written(self.path, self.length)

    patch.setattr(JournaledFile, "keep", keep)


def show_before_the_journal_is_synced(patch: pytest.MonkeyPatch) -> None:
    """Also a group that has joined a frame: its segment hears of it before the frame is written."""
    real = Journal.append
    real_take = Journal._take

    def take(self: Journal, now_s: float) -> Any:
        groups = []
        for group in real_take(self, now_s):
            if isinstance(group.written, Member):
                written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
                written.add_done_callback(lambda done: done.exception())
                self._holds[self.number] = self._holds.get(self.number, 0) + 1
                group.written.set_result(self.number)
                group = group._replace(written=written)
            groups.append(group)
        return groups

    patch.setattr(Journal, "_take", take)

    def append(
        self: Journal, path: str, position: int, data: bytes, *, synced: bool = True
    ) -> "asyncio.Future[int]":
        waited = real(self, path, position, data, synced=synced)
        waited.add_done_callback(lambda done: done.exception())
        written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        written.set_result(self.number)
        self._holds[self.number] = self._holds.get(self.number, 0) + 1
        return written

    patch.setattr(Journal, "append", append)


def read_a_former_journal_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    """Nobody fences it, so a zombie continues to acknowledge, and what is found is a copy."""
    real = journal_former.read_former

    async def read(files: Any, name: str, fence: Any, memory: Any) -> FormerJournal:
        async def length(path: str) -> int:
            return len(await files.read(path, position=0, bytes_max=1 << 30))

        return await real(files, name, length, memory)

    patch.setattr("opentalos.log.journal.store.read_former", read)


def end_a_journal_that_another_successor_needs(patch: pytest.MonkeyPatch) -> None:
    real = JournaledFiles._read

    async def read(self: JournaledFiles, name: str, deadline_s: float) -> FormerJournal:
        found = await real(self, name, deadline_s)
        if name not in self.own:
            await journal_writing.end_journal(self._files, name)
        return found

    patch.setattr(JournaledFiles, "_read", read)


def forget_the_tail_on_a_planned_move(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Any) -> None:
        return

    patch.setattr(OpenSegment, "write_out", nothing)
    patch.setattr(JournaledFile, "write_out", nothing)


def seal_what_only_the_journal_has(patch: pytest.MonkeyPatch) -> None:
    real = JournaledFiles.recover_end

    async def recover_end(self: JournaledFiles, path: str, journal: str, deadline_s: float) -> End:
        return (await real(self, path, journal, deadline_s))._replace(copy_from=None)

    patch.setattr(JournaledFiles, "recover_end", recover_end)


def take_groups_of_an_older_epoch(patch: pytest.MonkeyPatch) -> None:
    """A partition gets whatever the journal has of it, whichever segment that is of."""
    real = FormerJournal.load

    def partition(path: str) -> str:
        return path.rpartition("/")[0]

    async def load(self: FormerJournal, files: FileStore, path: str) -> Extents:
        found = await real(self, files, path)
        others = [
            each for each in kept(self) if each != path and partition(each) == partition(path)
        ]
        return kept(self)[others[-1]] if others else found

    real_group = FormerJournal._group

    def kept(self: FormerJournal) -> dict[str, Extents]:
        found: dict[str, Extents] = self.__dict__.setdefault("kept", {})
        return found

    def group(self: FormerJournal, path: str, position: int, data: bytes, at: Place) -> None:
        real_group(self, path, position, data, at)
        kept(self).setdefault(path, Extents()).add(position, data)

    patch.setattr(FormerJournal, "load", load)
    patch.setattr(FormerJournal, "_group", group)


def read_only_the_first_file(patch: pytest.MonkeyPatch) -> None:
    real = journal_former._read_file

    async def read(*arguments: Any) -> None:
        await real(*arguments)

    async def unchecked(*arguments: Any) -> None:
        return

    patch.setattr(journal_former, "_read_file", read)
    patch.setattr(journal_former, "_check_unused", unchecked)


def continue_before_it_is_recorded(patch: pytest.MonkeyPatch) -> None:
    """The next file is used before the old one names it, so a fence of the old one misses it."""

    async def go_on(self: Journal) -> None:
        following = self._number + 1
        self._file = await self._make(following)
        self._number, self._references = following, {}

    patch.setattr(Journal, "_continue", go_on)


def name_no_journal_in_the_manifest(patch: pytest.MonkeyPatch) -> None:
    real = Manifest.registered

    def registered(
        self: Manifest, segment: Segment, journal: str = "", *, late: bool = False
    ) -> Manifest:
        return real(self, segment)

    patch.setattr(Manifest, "registered", registered)


def forget_a_group_between_two_frames(patch: pytest.MonkeyPatch) -> None:
    real = Journal._take

    def take(self: Journal, now_s: float) -> Any:
        groups = real(self, now_s)
        if len(groups) > 1:
            groups[-1].written.set_result(self.number)
            self._holds[self.number] = self._holds.get(self.number, 0) + 1
            return groups[:-1]
        return groups

    patch.setattr(Journal, "_take", take)


def leave_out_a_rotten_journal(patch: pytest.MonkeyPatch) -> None:
    """Where it may lack something, a segment's own file is taken for all that there was."""
    extents = FormerJournal.extents

    def without(self: FormerJournal, path: str) -> Extents:
        try:
            return extents(self, path)
        except CorruptLog:
            return Extents()

    patch.setattr(FormerJournal, "extents", without)


def write_to_a_dead_journal(patch: pytest.MonkeyPatch) -> None:
    """A commit that failed is answered as done."""

    def fail(self: Journal, error: BaseException) -> None:
        for group in [*self._in_flight, *self._waiting]:
            if not group.written.done():
                self._holds[self.number] = self._holds.get(self.number, 0) + 1
                group.written.set_result(self.number)
        self._in_flight = []
        self._waiting.clear()
        self.dead = error

    patch.setattr(Journal, "fail", fail)


def use_a_late_file_whoever_owns_the_partition(patch: pytest.MonkeyPatch) -> None:
    """A successor that found no file cannot have fenced it."""

    async def standing(self: Registered, path: str) -> Standing:
        return Standing.OURS

    patch.setattr(Registered, "standing", standing)


def drop_what_has_no_file(patch: pytest.MonkeyPatch) -> None:
    real = JournaledFiles.recover_end

    async def recover_end(self: JournaledFiles, path: str, journal: str, deadline_s: float) -> End:
        end = await real(self, path, journal, deadline_s)
        if await self._fenced(path, deadline_s) is None:
            raise NotFound(path)
        return end

    patch.setattr(JournaledFiles, "recover_end", recover_end)


def register_a_late_segment_before_the_journal_has_it(patch: pytest.MonkeyPatch) -> None:
    """The first commit, header and copied tail, returns before the journal is synced."""
    real = JournaledFile._append

    async def append(self: JournaledFile, data: bytes) -> None:
        if self.length:
            await real(self, data)
            return
        task = asyncio.ensure_future(real(self, data))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.__dict__["first"] = task  # or it is collected
        self.length = len(data)

    patch.setattr(JournaledFile, "_append", append)


def open_any_number_of_files(patch: pytest.MonkeyPatch) -> None:
    async def take(self: FileSlots) -> None:
        self.used += 1

    patch.setattr(FileSlots, "take", take)
    patch.setattr(FileSlots, "take_free", lambda self: True)
    patch.setattr(FileSlots, "give_back", lambda self: None)
    patch.setattr(FileSlots, "free", True)


def roll_before_the_file_is_written(patch: pytest.MonkeyPatch) -> None:
    """The manifest names the end, and what the journal alone has is forgotten."""

    async def seal_segment(segment: OpenSegment) -> Segment:
        return sealed_entry(segment)

    patch.setattr("opentalos.log.partition.writer.seal_segment", seal_segment)


def measure_no_space(patch: pytest.MonkeyPatch) -> None:
    """No mutant: it reads every partition, and so recovers one topic after the other."""

    async def nothing(self: SpaceUpkeep) -> None:
        return

    patch.setattr(SpaceUpkeep, "run_once", nothing)


def recover_nothing_that_is_not_used(patch: pytest.MonkeyPatch) -> None:
    measure_no_space(patch)
    patch.setattr(UnrecoveredPartitions, "recover_soon", lambda self, keys: None)


def end_no_former_journal(patch: pytest.MonkeyPatch) -> None:
    async def keep(self: JournalUpkeep, former: FormerJournal) -> None:
        return

    patch.setattr(JournalUpkeep, "_end_former", keep)


def _mutant(name: str, names: tuple[str, ...], apply: Patch, config: WorldConfig = KILLS) -> Mutant:
    return Mutant(name, _names(*names), apply, config)


JOURNAL_MUTANTS = (
    _mutant("trim before segments are durable", BROKEN, trim_before_segments_are_durable),
    _mutant("note what is not written", BROKEN, note_what_is_not_written),
    _mutant("show before the journal is synced", LOST, show_before_the_journal_is_synced, SLOW),
    _mutant(
        "read a former journal without a fence",
        (*LOST, "two-writers"),
        read_a_former_journal_without_a_fence,
        RIVALS,
    ),
    _mutant("seal what only the journal has", BROKEN, seal_what_only_the_journal_has),
    _mutant("take groups of an older epoch", BROKEN, take_groups_of_an_older_epoch, SHORT_SEGMENTS),
    _mutant("read only the first file", LOST, read_only_the_first_file),
    _mutant("continue before it is recorded", BROKEN, continue_before_it_is_recorded),
    _mutant("name no journal in the manifest", LOST, name_no_journal_in_the_manifest),
    _mutant("forget a group between two frames", BROKEN, forget_a_group_between_two_frames),
    _mutant("leave out a rotten journal", LOST, leave_out_a_rotten_journal, ROTTEN),
    _mutant(
        "use a late file whoever owns the partition",
        (*LOST, "two-writers"),
        use_a_late_file_whoever_owns_the_partition,
        LATE_RIVALS,
    ),
    _mutant("drop what has no file", BROKEN, drop_what_has_no_file, LATE),
    _mutant(
        "register a late segment before the journal has it",
        BROKEN,
        register_a_late_segment_before_the_journal_has_it,
        LATE_SLOW,
    ),
    _mutant("open any number of files", ("too-many-files",), open_any_number_of_files, LATE_SHORT),
    _mutant(
        "roll before the file is written",
        (*BROKEN, "verify-fault"),
        roll_before_the_file_is_written,
        LATE_SHORT,
    ),
    _mutant("answer a failed journal as done", BROKEN, write_to_a_dead_journal, FAILING),
    _mutant(
        "recover nothing that is not used",
        ("journal-left",),
        recover_nothing_that_is_not_used,
        QUIET,
    ),
    _mutant("end no former journal", ("journal-left",), end_no_former_journal, QUIET),
)
JOURNAL_CLUSTER_MUTANTS = (
    _mutant(
        "end a journal that another successor needs",
        BROKEN,
        end_a_journal_that_another_successor_needs,
        CRASHES_OF_SERVERS,
    ),
    _mutant("forget the tail on a planned move", BROKEN, forget_the_tail_on_a_planned_move, MOVES),
)
