"""Which files rot, and whom it concerns."""

import random
from collections.abc import Iterator

import pytest

from opentalos.model.message import Durability
from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.testing.simulation.stores.damage.rot import Rotten, flip_anywhere, rotten_by
from opentalos.testing.simulation.stores.disk import SimulatedDisk, SimulatedFile

SEGMENT, JOURNAL = "topic/0/00000000000000000000-1.log", "journal/abc-1/00000001.jnl"
CONTENT = b"content"


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    loop = SimulationLoop()
    disk = SimulatedDisk(loop, random.Random(0))
    for path in (SEGMENT, JOURNAL):
        file = SimulatedFile(Durability.SYNCED, loop.process("s1"), bytearray(CONTENT))
        file.committed_s = -10.0
        disk.files[path] = file
    yield disk
    loop.close()


def test_segments_and_journals_rot_once_each(disk: SimulatedDisk) -> None:
    flipped = [flip_anywhere(disk) for _ in range(10)]
    assert {path for path in flipped if path} == {SEGMENT, JOURNAL}
    assert len([path for path in flipped if path]) == 2
    assert all(bytes(file.content) != CONTENT for file in disk.files.values())
    assert disk.damaged_journals == {JOURNAL: "rot"}


def test_a_rotten_journal_concerns_whoever_named_it(disk: SimulatedDisk) -> None:
    disk.damaged_journals[JOURNAL] = "rot"
    disk.records.journals = {"abc-1": {("topic", 3): None}, "abc-2": {("topic", 4): None}}
    assert list(rotten_by(disk, JOURNAL)) == [Rotten("topic", 3, JOURNAL)]
    assert list(rotten_by(disk, SEGMENT)) == [Rotten("topic", 0, SEGMENT)]
