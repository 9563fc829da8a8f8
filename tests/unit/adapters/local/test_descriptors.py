"""More files than descriptors: idle ones give theirs back and go on as the same files."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.waiting import limit_s

from opentalos.adapters.local import LocalAppendFile, LocalFileStore, open_local_file_store
from opentalos.adapters.local.descriptors import DescriptorBudget
from opentalos.adapters.local.file_store import READERS_MAX
from opentalos.model.errors import Fenced, TalosError, WriterDead
from opentalos.model.message import Durability

SYNCED = Durability.SYNCED


class IdleFile:
    """A file of the budget without a disk; one that is ``busy`` never rests."""

    def __init__(self, number: int) -> None:
        self.number, self.busy, self.used = number, False, True

    def rest(self) -> int:
        if self.busy or self.used:
            self.used = False
            return -1
        return self.number

    def abandon(self, error: TalosError) -> None:
        raise AssertionError("a budget abandons nothing")


def descriptors_below(root: Path) -> int:
    """How many descriptors of this process are of files below the root."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(f"{root}/")
        except FileNotFoundError:  # the listing's own
            continue
    return found


async def resting(root: Path, durability: Durability = SYNCED) -> LocalAppendFile:
    """A file with one commit and no descriptor."""
    store = await open_local_file_store(root, descriptors_max=0)
    file = await store.create("t/0/a", durability=durability)
    await file.commit([b"kept"])
    await store.list("")  # the closing job has run: it was submitted before
    return file


def test_files_beyond_the_bound_are_closed_by_the_share() -> None:
    closed: list[list[int]] = []
    budget = DescriptorBudget(16, closed.append)
    files = [IdleFile(number) for number in range(17)]
    for file in files:
        budget.opened(file)
    assert closed == [[0, 1, 2]]  # one too many, and an eighth of the bound
    assert budget.open == 14
    assert list(budget.files()) == files


def test_a_file_in_use_keeps_its_descriptor_and_a_used_one_gets_a_second_chance() -> None:
    closed: list[list[int]] = []
    budget = DescriptorBudget(8, closed.append)
    files = [IdleFile(number) for number in range(9)]
    files[0].busy = True
    for file in files[:8]:
        budget.opened(file)
        file.used = file.number in (0, 1)
    budget.opened(files[8])
    assert closed == [[2, 3]]


def test_a_budget_of_busy_files_is_exceeded_and_not_searched_for_ever() -> None:
    closed: list[list[int]] = []
    budget = DescriptorBudget(2, closed.append)
    for number in range(5):
        file = IdleFile(number)
        file.busy = True
        budget.opened(file)
    assert closed == []
    assert budget.open == 5


async def test_forty_files_take_turns_with_four_descriptors(
    tmp_path: Path, accelerator: str
) -> None:
    root = tmp_path / "files"
    store = await open_local_file_store(root, descriptors_max=4, accelerator=accelerator)
    files = [await store.create(f"t/{n}/a", durability=SYNCED) for n in range(40)]
    most = 0
    for turn in range(3):
        for file in files:
            assert await file.commit([b"%d;" % turn]) == 2 * (turn + 1)
            most = max(most, descriptors_below(root))
    assert most <= 4 + 2  # those that a thread is about to close
    for number, file in enumerate(files):
        assert await file.close() == 6
        assert await store.read(f"t/{number}/a", position=0, bytes_max=64) == b"0;1;2;"
    await store.close()
    assert descriptors_below(root) == 0


async def test_a_resting_file_is_never_made_anew(tmp_path: Path) -> None:
    file = await resting(tmp_path)
    path = tmp_path / "t/0/a"
    path.unlink()
    with pytest.raises(Fenced):
        await file.commit([b"lost"])
    assert not path.exists()
    with pytest.raises(WriterDead):
        await file.commit([b"lost"])


async def test_a_resting_file_is_not_taken_for_another_of_its_name(tmp_path: Path) -> None:
    file = await resting(tmp_path)
    path = tmp_path / "t/0/a"
    path.unlink()
    path.write_bytes(b"else")  # often with the very same inode number
    with pytest.raises(WriterDead):
        await file.commit([b"lost"])
    assert path.read_bytes() == b"else"


async def test_a_resting_file_that_someone_wrote_to_is_dead(tmp_path: Path) -> None:
    file = await resting(tmp_path)
    with (tmp_path / "t/0/a").open("ab") as handle:
        handle.write(b"!")
    with pytest.raises(WriterDead):
        await file.commit([b"lost"])


async def test_a_resting_file_that_was_fenced_acknowledges_nothing(tmp_path: Path) -> None:
    file = await resting(tmp_path)
    other = await open_local_file_store(tmp_path)
    assert await other.recover("t/0/a", deadline_s=limit_s()) == 4
    with pytest.raises(Fenced):
        await file.commit([b"lost"])
    assert await other.read("t/0/a", position=0, bytes_max=64) == b"kept"
    await other.close()


@pytest.mark.parametrize("durability", list(Durability))
async def test_a_resting_file_is_closed_like_any_other(
    tmp_path: Path, durability: Durability
) -> None:
    file = await resting(tmp_path, durability)
    assert await file.close() == 4
    assert await file.close() == 4
    with pytest.raises(WriterDead):
        await file.commit([b"late"])


async def test_a_resting_file_is_dead_when_its_store_closes(tmp_path: Path) -> None:
    store = LocalFileStore(tmp_path, descriptors_max=0)
    file = await store.create("t/0/a", durability=SYNCED)
    await store.close()
    with pytest.raises(WriterDead):
        await file.commit([b"late"])


async def test_reads_at_once_are_bounded_with_their_descriptors(tmp_path: Path) -> None:
    root = tmp_path / "files"
    store = await open_local_file_store(root)
    paths = [f"t/{number}/a" for number in range(3 * READERS_MAX)]
    for path in paths:
        target = root / path
        target.parent.mkdir(parents=True)
        target.write_bytes(path.encode())
    most = 0

    async def read(path: str) -> None:
        nonlocal most
        assert await store.read(path, position=0, bytes_max=64) == path.encode()
        most = max(most, descriptors_below(root))

    await asyncio.gather(*(read(path) for path in paths))
    assert most <= 2 * READERS_MAX
    await store.close()
