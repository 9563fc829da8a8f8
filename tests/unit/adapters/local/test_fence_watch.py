"""A store that has its root for itself asks the file system only after a fence was made."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from opentalos.adapters.local import LocalFileStore, append_file, disk, open_local_file_store
from opentalos.adapters.local.fence_watch import watch_of
from opentalos.model.errors import Fenced, WriterDead
from opentalos.model.message import Durability

SYNCED = Durability.SYNCED


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LocalFileStore]:
    opened = await open_local_file_store(tmp_path, exclusive=True)
    yield opened
    await opened.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files for which the file system was asked."""
    asked: list[str] = []
    real = disk.check_not_fenced

    def counted(fd: int, path: Path, name: str) -> None:
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
    assert await other.recover("t/0", deadline_s=1) == 4
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
    await store.recover("t/1", deadline_s=1)
    await store.delete("t/1")
    await kept.commit([b"x"])
    await kept.commit([b"x"])
    assert looks == ["t/0", "t/1", "t/0"]
    with pytest.raises(Fenced):
        await gone.commit([b"x"])


async def test_a_fence_made_during_a_commit_is_seen_by_it(
    store: LocalFileStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The writer is slow between its write and its look: the fence came in between."""
    file = await store.create("t/0", durability=SYNCED)
    await file.commit([b"kept"])
    real = disk.write_at

    def fenced_after(fd: int, chunks: list[bytes], position: int, *, synced: bool) -> int:
        length = real(fd, chunks, position, synced=synced)
        (tmp_path / "t/0.fenced").touch()
        watch_of(tmp_path).made()
        return length

    monkeypatch.setattr(append_file, "write_at", fenced_after)
    with pytest.raises(Fenced):
        await file.commit([b"late"])


async def test_roots_have_watches_of_their_own(tmp_path: Path) -> None:
    first, other = watch_of(tmp_path / "a"), watch_of(tmp_path / "b")
    first.made()
    assert (first.fences, other.fences) == (1, 0)
    assert watch_of(tmp_path / "a") is first
