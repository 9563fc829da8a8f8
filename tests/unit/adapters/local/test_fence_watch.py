"""A store that has its root for itself asks the file system only after a fence was made."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.accelerator import disk_of_python
from tests.waiting import limit_s

from opentalos.adapters.local import LocalFileStore, append_file, disk, open_local_file_store
from opentalos.adapters.local.fence_watch import watch_of
from opentalos.adapters.local.native_crew import OFF, REQUIRED
from opentalos.model.errors import Fenced, WriterDead
from opentalos.model.message import Durability

SYNCED = Durability.SYNCED


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalFileStore]:
    """On Python's threads: native ones look after every write, which costs them little."""
    opened = await open_local_file_store(tmp_path, exclusive=True, accelerator=OFF)
    yield opened
    await opened.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files for which the file system was asked."""
    asked: list[str] = []
    real = disk.check_not_fenced

    def counted(fd: int, path: str, name: str) -> None:
        asked.append(name)
        real(fd, path, name)

    monkeypatch.setattr(append_file, "check_not_fenced", counted)
    return asked


async def test_commits_without_a_fence_ask_once(store: LocalFileStore, looks: list[str]) -> None:
    file = await store.create("t/0", durability=SYNCED)
    for _ in range(5):
        await file.commit([b"x"])
    await file.close()
    assert looks == ["t/0"]


async def test_a_fence_by_another_store_of_the_process_stops_the_writer(
    store: LocalFileStore, tmp_path: Path, looks: list[str]
) -> None:
    file = await store.create("t/0", durability=SYNCED)
    await file.commit([b"kept"])
    other = await open_local_file_store(tmp_path, exclusive=True)
    assert await other.recover("t/0", deadline_s=limit_s()) == 4
    with pytest.raises(Fenced):
        await file.commit([b"lost"])
    with pytest.raises(WriterDead):
        await file.commit([b"lost"])
    await other.close()
    assert looks == ["t/0", "t/0"]


async def test_a_fence_of_another_file_makes_a_writer_ask_again(
    store: LocalFileStore, looks: list[str]
) -> None:
    kept = await store.create("t/0", durability=SYNCED)
    gone = await store.create("t/1", durability=SYNCED)
    await kept.commit([b"x"])
    await gone.commit([b"x"])
    await store.recover("t/1", deadline_s=limit_s())
    await store.delete("t/1")
    await kept.commit([b"x"])
    await kept.commit([b"x"])
    assert looks == ["t/0", "t/1", "t/0"]
    with pytest.raises(Fenced):
        await gone.commit([b"x"])


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_fence_made_during_a_commit_is_seen_by_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, accelerator: str, deleted: bool
) -> None:
    """The writer is slow between its write and its look: the fence came in between."""
    store = await open_local_file_store(tmp_path, exclusive=True, accelerator=accelerator)
    file = await store.create("t/0", durability=SYNCED)
    await file.commit([b"kept"])
    real = os.pwritev

    def fenced_after(fd: int, chunks: list[bytes], position: int, flags: int = 0) -> int:
        written = real(fd, chunks, position, flags)
        if deleted:
            disk.delete_file(tmp_path / "t/0", watch_of(tmp_path))
        else:
            (tmp_path / "t/0.fenced").touch()
            watch_of(tmp_path).made()
        return written

    monkeypatch.setattr(os, "pwritev", fenced_after)
    with disk_of_python() if accelerator == REQUIRED else contextlib.nullcontext():
        with pytest.raises(Fenced, match="deleted" if deleted else "another server"):
            await file.commit([b"late"])
        await store.close()


async def test_roots_have_watches_of_their_own(tmp_path: Path) -> None:
    first, other = watch_of(tmp_path / "a"), watch_of(tmp_path / "b")
    first.made()
    assert (first.fences, other.fences) == (1, 0)
    assert watch_of(tmp_path / "a") is first
