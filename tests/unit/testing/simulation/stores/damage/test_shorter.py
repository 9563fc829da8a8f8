"""Files end where something shows it."""

import random
from collections.abc import Iterator

import pytest
from tests.unit.testing.simulation.stores.damage.scene import PATH, block, new_disk, segment, write

from opentalos.testing.simulation.loop import SimulationLoop
from opentalos.testing.simulation.stores.damage.shorter import shorten
from opentalos.testing.simulation.stores.disk import SimulatedDisk

JOURNAL, INDEX = "journal/abc-1/00000001.jnl", "topic/0/00000000000000000000-1.idx"
BLOCKS = (block(0, b"zero"), block(1, b"one"))
CONTENT = segment(*BLOCKS)


@pytest.fixture
def disk() -> Iterator[SimulatedDisk]:
    loop = SimulationLoop()
    yield new_disk(loop)
    loop.close()


def test_every_kind_of_file_is_emptied_or_cut_within_a_block(disk: SimulatedDisk) -> None:
    lengths: dict[str, set[int]] = {}
    deleted = set[str]()
    for seed in range(60):
        for path in (PATH, JOURNAL, INDEX):
            write(disk, path, CONTENT)
        disk.troubles.rng = random.Random(seed)
        cut = shorten(disk)
        assert cut is not None
        assert cut.before == CONTENT
        file = disk.files.get(cut.path)
        if file is None:
            deleted.add(cut.path)
            continue
        assert file.synced_bytes == len(file.content) < len(CONTENT)
        lengths.setdefault(cut.path, set()).add(len(file.content))
    edges = {len(segment()), len(segment(BLOCKS[0]))}
    assert {0} < lengths[PATH], "some are empty, some are cut"
    assert {0} < lengths[JOURNAL]
    assert deleted == {JOURNAL}
    assert {0} < lengths[INDEX]
    assert not edges & (lengths[PATH] | lengths[JOURNAL])
    assert disk.damaged_journals == {JOURNAL: "shorter"}


def test_without_files_nothing_is_cut(disk: SimulatedDisk) -> None:
    write(disk, f"aside/{PATH}", CONTENT)
    assert shorten(disk) is None
