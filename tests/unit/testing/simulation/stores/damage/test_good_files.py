"""What must stay is missed where it is gone, and only there."""

from collections.abc import Iterator

import pytest
from tests.unit.testing.simulation.stores.damage.scene import (
    PARTITION,
    PATH,
    block,
    manifest,
    new_disk,
    segment,
    write,
)

from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.testing.simulation.stores.damage.good_files import GoodFiles
from opentalos.testing.simulation.stores.disk import SimulatedDisk

SECOND = "topic/0/00000000000000000002-1.log"
FIRST_BLOCKS = (block(0, b"zero"), block(1, b"one", committed=1))


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    loop = SimulationLoop()
    disk = new_disk(loop)
    write(disk, PATH, segment(*FIRST_BLOCKS))
    write(disk, SECOND, segment(block(2, b"two", committed=2), base_offset=2))
    yield disk
    loop.close()


@pytest.fixture
def good(disk: SimulatedDisk) -> GoodFiles:
    good = GoodFiles(disk)
    good.keep(PARTITION, manifest((0, 1, 2), (2, 1, None)))
    return good


def test_a_file_that_was_named_must_stay(disk: SimulatedDisk, good: GoodFiles) -> None:
    assert list(good.missing()) == []
    del disk.files[SECOND]
    assert list(good.missing()) == [f"{SECOND}: nothing has its messages at 2"]


def test_a_file_that_no_manifest_named_may_go(disk: SimulatedDisk) -> None:
    good = GoodFiles(disk)
    good.keep(PARTITION, manifest((0, 1, None)))
    del disk.files[SECOND]
    assert list(good.missing()) == []


def test_a_copy_is_as_good(disk: SimulatedDisk, good: GoodFiles) -> None:
    content = bytes(disk.files.pop(SECOND).content)
    write(disk, "aside/topic/0/1-00000000000000000002-1.log", content)
    write(disk, "topic/0/00000000000000000000-2.log", segment(*FIRST_BLOCKS))
    del disk.files[PATH]
    assert list(good.missing()) == []


def test_what_the_disk_itself_took_is_not_missed(disk: SimulatedDisk, good: GoodFiles) -> None:
    before = bytes(disk.files[PATH].content)
    del disk.files[PATH].content[-1:]
    good.forget_lost(PATH, before)
    assert list(good.missing()) == []
    del disk.files[PATH]
    assert list(good.missing()) == [f"{PATH}: nothing has its messages at 0"]


def test_a_block_beyond_the_beginning_of_its_file_proves_it(
    disk: SimulatedDisk, good: GoodFiles
) -> None:
    assert good.is_proven(PATH, flushed=False)
    assert not good.is_proven(SECOND, flushed=False)


def test_a_later_epoch_than_that_of_the_older_manifest_proves_it(
    disk: SimulatedDisk, good: GoodFiles
) -> None:
    good.went_back(PARTITION, 1)
    assert not good.is_proven(SECOND, flushed=False)
    good.went_back(PARTITION, 0)
    assert good.is_proven(SECOND, flushed=False)
