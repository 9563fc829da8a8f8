"""More files than descriptors: idle ones give theirs back and go on as the same files."""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import eventually_async, limit_s

from opentalos.adapters.local import (
    LocalAppendFile,
    LocalFileStore,
    file_store,
    open_local_file_store,
)
from opentalos.adapters.local.descriptors import DescriptorBudget, FileDescriptors
from opentalos.model.errors import Fenced, StoreUnavailable, TalosError, WriterDead
from opentalos.model.message import Durability

SYNCED = Durability.SYNCED
NONE_KEPT = FileDescriptors(append_max=0)


class IdleFile:
    """A file of the budget without a disk; one that is ``busy`` never rests."""

    def __init__(self, number: int) -> None:
        self.number, self.busy, self.used = number, False, True

    def rest(self, below: int) -> int:
        assert self.number < below
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
    store = await open_local_file_store(root, descriptors=NONE_KEPT)
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
    few = FileDescriptors(append_max=4)
    store = await open_local_file_store(root, descriptors=few, accelerator=accelerator)
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
    store = LocalFileStore(tmp_path, descriptors=NONE_KEPT)
    file = await store.create("t/0/a", durability=SYNCED)
    await store.close()
    with pytest.raises(WriterDead):
        await file.commit([b"late"])


async def test_reads_at_once_are_bounded_with_their_descriptors(tmp_path: Path) -> None:
    root = tmp_path / "files"
    store = await open_local_file_store(root, descriptors=FileDescriptors(readers_max=8))
    paths = [f"t/{number}/a" for number in range(24)]
    for path in paths:
        target = root / path
        target.parent.mkdir(parents=True)
        target.write_bytes(path.encode())
    most = 0

    async def read(path: str) -> None:
        nonlocal most
        assert await store.read(path, position=0, bytes_max=64) == path.encode()
        most = max(most, descriptors_below(root))

    for _ in range(8):
        await asyncio.gather(*(read(path) for path in paths))
    assert most <= 8
    await store.close()


# --- none is free -------------------------------------------------------------------------------


class FewDescriptors:
    """The process may have ``most`` descriptors of files below ``root``."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.most = root, 1_000
        self._real: Callable[..., int] = os.open
        monkeypatch.setattr(os, "open", self._open)

    def _open(self, path: Any, flags: int, *args: Any, **named: Any) -> int:
        below = "dir_fd" in named or os.fspath(path).startswith(str(self.root))
        if below and descriptors_below(self.root) >= self.most:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return self._real(path, flags, *args, **named)


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FewDescriptors:
    return FewDescriptors(tmp_path / "files", monkeypatch)


async def filled(
    root: Path, accelerator: str, *, readers: bool = True
) -> tuple[LocalFileStore, list[LocalAppendFile]]:
    """A store with six files that are open for writing, and readers of them all."""
    store = await open_local_file_store(root, exclusive=True, accelerator=accelerator)
    files = [await store.create(f"t/{number}/a", durability=SYNCED) for number in range(6)]
    for number, file in enumerate(files):
        await file.commit([b"kept"])
        if readers:
            await store.read(f"t/{number}/a", position=0, bytes_max=64)
    return store, files


async def create(store: LocalFileStore) -> object:
    return await (await store.create("t/0/b", durability=SYNCED)).commit([b"kept"])


async def create_elsewhere(store: LocalFileStore) -> object:
    return await (await store.create("u/0/b", durability=SYNCED)).commit([b"kept"])


async def recover(store: LocalFileStore) -> object:
    return await store.recover("t/1/a", deadline_s=limit_s())


async def read(store: LocalFileStore) -> object:
    return len(await store.read("t/0/unread", position=0, bytes_max=64))


async def delete(store: LocalFileStore) -> object:
    await store.delete("t/0/unread")
    return 4


@pytest.mark.parametrize("call", [create, create_elsewhere, recover, read, delete])
@pytest.mark.parametrize("readers", [True, False])
async def test_a_call_without_a_free_descriptor_gets_those_of_idle_files(
    tmp_path: Path,
    few: FewDescriptors,
    accelerator: str,
    readers: bool,
    call: Callable[[LocalFileStore], Awaitable[object]],
) -> None:
    store, files = await filled(few.root, accelerator, readers=readers)
    (few.root / "t/0/unread").write_bytes(b"kept")
    few.most = descriptors_below(few.root)
    assert few.most == (12 if readers else 6)
    assert await call(store) == 4
    assert store.lacked
    few.most = 4
    for file in files[2:5]:  # they rest by now, or others do
        assert await file.commit([b"more"]) == 8
    assert await store.read("t/3/a", position=0, bytes_max=64) == b"keptmore"
    await store.close()
    assert descriptors_below(few.root) == 0


async def test_a_resting_file_without_a_free_descriptor_gets_that_of_an_idle_file(
    few: FewDescriptors, accelerator: str
) -> None:
    store, files = await filled(few.root, accelerator)
    for _ in range(2):
        store._commits.close_descriptors(store._budget.rest(6, 1_000))
    await eventually_async("all rest", lambda: descriptors_below(few.root) == 6)
    few.most = 6  # the readers'
    for file in files:
        assert await file.commit([b"more"]) == 8
    for file in files:
        assert await file.close() == 8
    assert store.lacked
    assert await store.recover("t/0/a", deadline_s=limit_s()) == 8
    await store.close()


async def test_another_file_rests_before_a_resting_one_is_opened(tmp_path: Path) -> None:
    store = await open_local_file_store(tmp_path, descriptors=FileDescriptors(append_max=2))
    files = [await store.create(f"t/{number}/a", durability=SYNCED) for number in range(3)]
    assert [file._fd < 0 for file in files] == [True, False, False]
    commit = asyncio.ensure_future(files[0].commit([b"kept"]))
    await asyncio.sleep(0)
    assert [file._fd < 0 for file in files[1:]] == [True, False]
    assert await commit == 4
    await store.close()


async def test_files_beyond_a_limit_that_was_lowered_keep_their_descriptors(
    few: FewDescriptors, accelerator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, files = await filled(few.root, accelerator)
    monkeypatch.setattr(file_store, "open_files_max", lambda: 3)
    few.most = 3
    with pytest.raises(StoreUnavailable):
        await create(store)
    assert descriptors_below(few.root) == 12
    for file in files:
        assert await file.commit([b"more"]) == 8
    await store.close()


async def test_what_idle_files_gave_back_is_closed_without_a_thread_too(
    few: FewDescriptors,
) -> None:
    store, _files = await filled(few.root, "off")
    await store._others.close(deadline_s=limit_s())
    with pytest.raises(StoreUnavailable):
        await store._make_room(0)
    assert not store._readers
    await eventually_async("they are closed", lambda: descriptors_below(few.root) == 6)
    await store.close()


async def test_readers_give_way_before_files_that_are_written(
    few: FewDescriptors, accelerator: str
) -> None:
    store, _files = await filled(few.root, accelerator)
    few.most = descriptors_below(few.root)
    await create(store)
    assert not store._readers
    assert store._budget.open == 7
    await store.close()


async def test_without_an_idle_file_it_says_what_to_raise(few: FewDescriptors) -> None:
    store = await open_local_file_store(few.root)
    file = await store.create("t/0/a", durability=SYNCED)
    few.most = 0
    for call in (create, recover, read):
        with pytest.raises(StoreUnavailable, match=r"no free descriptor; .*ulimit -n"):
            await call(store)
    assert await store.list("t") == ["t/0/a"]
    assert file._fd == -1, "it gave its descriptor back"
    with pytest.raises(WriterDead, match=r"no free descriptor; .*ulimit -n"):
        await file.commit([b"kept"])
    with pytest.raises(WriterDead):
        await file.commit([b"kept"])
    few.most = 1_000
    assert await store.recover("t/0/a", deadline_s=limit_s()) == 0
    assert await create(store) == 4
    await store.close()
    assert descriptors_below(few.root) == 0


async def test_a_call_that_is_given_up_while_it_waits_leaves_no_descriptor(
    few: FewDescriptors,
) -> None:
    store, files = await filled(few.root, "off")
    few.most = 0
    calls = [asyncio.ensure_future(call(store)) for call in (create, recover, read)]
    calls += [asyncio.ensure_future(file.commit([b"more"])) for file in files]
    for _ in range(6):
        await asyncio.sleep(0)
    for waiting in calls:
        waiting.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    few.most = 1_000
    await store.close()
    assert descriptors_below(few.root) == 0
