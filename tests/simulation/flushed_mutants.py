"""Mutants of flushed topics in the shared journal; see ``mutants`` for what a mutant proves.

Equivalent: a frame with nothing but notes of what is written is only flushed. A recovery copies
more if they are lost.

Too rare for seeds, so a unit test proves it (``test_flushed``): the record that the journal
continues elsewhere is only flushed. The file that has it is closed, and so synced, soon after.
"""

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.journal_mutants import BROKEN, LATE, LATE_SLOW, LOST, _mutant

from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.log.journal.slots import SlottedFile
from opentalos.log.segment.damage import left_by_crash
from opentalos.model.message import Durability
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.faults import WorldFaults
from opentalos.testing.simulation.stores.faulty_files import FaultyAppendFile

# Topics change between synced and flushed, so frames have groups of both kinds.
MIXED = replace(
    LATE, changed=True, partitions=4, world=WorldFaults(process_crash=0.3, power_loss=0.35)
)
MIXED_SHORT = replace(MIXED, log=LATE_SLOW.log)
# A topic of each kind.
BOTH = replace(LATE, partitions=4, world=WorldFaults(power_loss=0.9))
# Several flushed frames in a row, so that a power loss may take one and leave the next.
IN_A_ROW = replace(
    BOTH,
    changed=True,
    partitions=6,
    think_s=0.05,
    log=replace(LATE.log, journals=1, journal_bytes_max=64 << 10),
)


def acknowledge_flushed_frames_before_they_are_flushed(patch: pytest.MonkeyPatch) -> None:
    real, real_sync = FaultyAppendFile._commit, SimulatedDisk.sync
    committing: list[Any] = []

    async def commit(self: Any, data: bytes, durability: Durability) -> None:
        flushed = durability is Durability.FLUSHED and self._path.endswith(".jnl")
        committing.extend([self._file] * flushed)
        try:
            await real(self, data, durability)
        finally:
            if flushed:
                committing.remove(self._file)

    def sync(self: SimulatedDisk, file: Any, *, to_platter: bool, fails: bool = False) -> None:
        if file not in committing:
            real_sync(self, file, to_platter=to_platter, fails=fails)

    patch.setattr(FaultyAppendFile, "_commit", commit)
    patch.setattr(SimulatedDisk, "sync", sync)


def flush_groups_of_synced_segments(patch: pytest.MonkeyPatch) -> None:
    """All but the first of each."""
    patch.setattr(JournaledFile, "synced", property(lambda self: not self.length))


def flush_the_first_group_of_a_segment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JournaledFile, "synced", property(lambda self: not self._flushed))


def trim_before_flushed_segments_are_written(patch: pytest.MonkeyPatch) -> None:
    real = JournaledFile.keep

    def keep(self: JournaledFile, number: int, position: int, data: bytes) -> None:
        real(self, number, position, data)
        if self._flushed:
            while self._numbers:
                self.journal.release(self._numbers.pop())

    patch.setattr(JournaledFile, "keep", keep)


def write_a_commit_before_what_waits(patch: pytest.MonkeyPatch) -> None:
    real = SlottedFile.commit

    async def commit(
        self: SlottedFile, chunks: Any, *, durability: Durability | None = None
    ) -> int:
        left, *others = chunks
        return await real(self, [*others, left], durability=durability)

    patch.setattr(SlottedFile, "commit", commit)


def take_a_lost_flushed_frame_for_rot(patch: pytest.MonkeyPatch) -> None:
    def judge(raw: bytes, at: int, room_bytes: int, seed: int, *, at_end: bool) -> bool:
        return at_end and left_by_crash(raw, at, room_bytes, seed, at_end=at_end)

    patch.setattr("opentalos.log.journal.former.left_by_crash", judge)


FLUSHED_MUTANTS = (
    _mutant(
        "acknowledge flushed frames before they are flushed",
        BROKEN,
        acknowledge_flushed_frames_before_they_are_flushed,
        MIXED,
    ),
    _mutant(
        "flush groups of synced segments",
        LOST,
        flush_groups_of_synced_segments,
        BOTH,
    ),
    _mutant(
        "flush the first group of a segment", BROKEN, flush_the_first_group_of_a_segment, MIXED
    ),
    _mutant(
        "trim before flushed segments are written",
        BROKEN,
        trim_before_flushed_segments_are_written,
        MIXED,
    ),
    _mutant(
        "write a commit before what waits",
        BROKEN,
        write_a_commit_before_what_waits,
        MIXED_SHORT,
    ),
    _mutant(
        "take a lost flushed frame for rot", BROKEN, take_a_lost_flushed_frame_for_rot, IN_A_ROW
    ),
)
