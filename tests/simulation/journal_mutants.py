"""Mutants of the shared journal; see ``mutants`` for what a mutant proves.

Equivalent mutants, which no client can distinguish from the real code:

- The file of a failed journal is deleted although a group of an unknown outcome may be in it. That
  group was never acknowledged nor shown; its partition puts it back into the queue.
- A journal that nobody needs is never ended, or a file of it never trimmed: space is lost, nothing
  else.
- What an opening laid over a segment is forgotten when that is sealed, not some seconds later: a
  reader under way asks the manifest again.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.mutants import CHAOS_S, CRASHES, Mutant, Patch, _names

from opentalos.log.journal import former as journal_former
from opentalos.log.journal import journal as journal_writing
from opentalos.log.journal.extents import Extents
from opentalos.log.journal.former import FormerJournal
from opentalos.log.journal.journal import Journal
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.log.journal.store import End, JournaledFiles
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.segment.writer import OpenSegment
from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.stores.faults import (
    ClusterFaults,
    FileFaults,
    MetaFaults,
    RowFaults,
    WorldFaults,
)
from opentalos.testing.simulation.world.world import LOG_LIMITS, WorldConfig, with_journal

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
LOST = ("lost-write", "silent-cut", "inconsistent-offsets")
BROKEN = (*LOST, "unreadable", "stuck-partition", "corrupt-payload", "next-offset-went-back")


def trim_before_segments_are_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "held", lambda self, number: False)


def note_what_is_not_written(patch: pytest.MonkeyPatch) -> None:
    real = JournaledFile._append

    async def append(self: JournaledFile, data: bytes) -> None:
        await real(self, data)
        self.journal.note_written(self.path, self._length)

    patch.setattr(JournaledFile, "_append", append)


def show_before_the_journal_is_synced(patch: pytest.MonkeyPatch) -> None:
    real = Journal.append

    def append(self: Journal, path: str, position: int, data: bytes) -> "asyncio.Future[int]":
        real(self, path, position, data).add_done_callback(lambda done: done.exception())
        written: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        written.set_result(self.number)
        self._holds[self.number] = self._holds.get(self.number, 0) + 1
        return written

    patch.setattr(Journal, "append", append)


def read_a_former_journal_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    """Nobody fences it, so a zombie continues to acknowledge, and what is found is a copy."""
    real = journal_former.read_former

    async def read(files: Any, name: str, fence: Any) -> FormerJournal:
        async def length(path: str) -> int:
            return len(await files.read(path, position=0, bytes_max=1 << 30))

        return await real(files, name, length)

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
    real = FormerJournal.extents

    def partition(path: str) -> str:
        return path.rpartition("/")[0]

    def extents(self: FormerJournal, path: str) -> Extents:
        found = real(self, path)
        others = [
            each for each in kept(self) if each != path and partition(each) == partition(path)
        ]
        return kept(self)[others[-1]] if others else found

    real_group = FormerJournal._group

    def kept(self: FormerJournal) -> dict[str, Extents]:
        found: dict[str, Extents] = self.__dict__.setdefault("kept", {})
        return found

    def group(self: FormerJournal, path: str, position: int, data: bytes) -> None:
        real_group(self, path, position, data)
        kept(self).setdefault(path, Extents()).add(position, data)

    patch.setattr(FormerJournal, "extents", extents)
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

    def registered(self: Manifest, segment: Segment, journal: str = "") -> Manifest:
        return real(self, segment)

    patch.setattr(Manifest, "registered", registered)


def forget_a_group_between_two_frames(patch: pytest.MonkeyPatch) -> None:
    real = Journal._take

    def take(self: Journal) -> Any:
        groups = real(self)
        if len(groups) > 1:
            groups[-1].written.set_result(self.number)
            self._holds[self.number] = self._holds.get(self.number, 0) + 1
            return groups[:-1]
        return groups

    patch.setattr(Journal, "_take", take)


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
    _mutant("answer a failed journal as done", BROKEN, write_to_a_dead_journal, FAILING),
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
