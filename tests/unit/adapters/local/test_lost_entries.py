"""LocalFileStore: no file that was created is lost with the power because a sync had failed."""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.adapters.local.entry_disk import EntryDisk

from opentalos.adapters.durable_files import (
    NewEntry,
    make_directories,
    replace_file,
    sync_directory,
)
from opentalos.adapters.local import LocalFileStore
from opentalos.adapters.local.directories import Directories
from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.model.message import Durability

SYNCED = Durability.SYNCED
CALLS = ("open", "mkdir", "unlink", "rmdir", "fsync")


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EntryDisk:
    return EntryDisk(tmp_path, monkeypatch)


@pytest.fixture
async def store(tmp_path: Path, disk: EntryDisk) -> AsyncIterator[LocalFileStore]:
    opened = LocalFileStore(tmp_path / "root")
    yield opened
    await opened.close()


@pytest.mark.parametrize("kept", ["", "rmdir", "unlink"])
@pytest.mark.parametrize("directory", [".", "root", "root/t", "root/t/0"])
async def test_what_a_failed_sync_may_have_lost_is_made_once_more(
    store: LocalFileStore, disk: EntryDisk, tmp_path: Path, directory: str, kept: str
) -> None:
    failed = str(tmp_path / directory)
    disk.fails = lambda call, path: call == kept or (call, path) == ("fsync", failed)
    with pytest.raises(TalosError):
        await store.create("t/0/1", durability=SYNCED)
    disk.fails = lambda call, path: False
    for name in ("t/0/2", "t/0/1"):
        await (await store.create(name, durability=SYNCED)).close()
        assert disk.durable(tmp_path / "root" / name)


async def test_another_sync_that_failed_meanwhile_counts(
    store: LocalFileStore, disk: EntryDisk, tmp_path: Path
) -> None:
    folder = tmp_path / "root" / "t"
    await store.create("t/0", durability=SYNCED)

    def other(_path: str) -> None:
        """A sync of another thread, between the file and its own sync."""
        disk.made = lambda _path: None
        disk.fail_once("fsync", folder)
        with contextlib.suppress(OSError):
            sync_directory(folder)

    disk.made = other
    with pytest.raises(OutcomeUnknown):
        await store.create("t/1", durability=SYNCED)
    await store.create("t/1", durability=SYNCED)
    assert disk.durable(folder / "1")


@pytest.mark.parametrize("kept", ["", "unlink"])
def test_a_directory_in_doubt_with_a_file_in_doubt_is_made_once_more(
    disk: EntryDisk, tmp_path: Path, kept: str
) -> None:
    folder = tmp_path / "root" / "t" / "0"
    directories = Directories(tmp_path / "root", None)
    directories.make(folder)
    lost = NewEntry(folder.parent)

    def other(_path: str) -> None:
        """Another thread had removed the directory, made it again, and could not sync it."""
        disk.made = lambda _path: None
        disk.fail_once("fsync", folder.parent)
        with pytest.raises(OSError, match="Input/output error"):
            lost.sync()
        directories._durable.discard(str(folder))
        directories._made[str(folder)] = lost
        disk.fails = lambda call, path: call == kept

    disk.made = other
    with pytest.raises(OutcomeUnknown):
        directories.create_file(folder / "2", "t/0/2")
    disk.fails = lambda call, path: False
    assert folder.joinpath("2").exists() == (kept == "unlink")
    for name in ("3", "2"):
        os.close(directories.create_file(folder / name, f"t/0/{name}"))
        assert disk.durable(folder / name)


async def test_a_directory_of_an_earlier_process_stays_in_use(
    store: LocalFileStore, disk: EntryDisk, tmp_path: Path
) -> None:
    earlier = LocalFileStore(tmp_path / "root")
    await (await earlier.create("t/0/1", durability=SYNCED)).close()
    await earlier.close()
    disk.fail_once("fsync", tmp_path / "root" / "t")
    with pytest.raises(TalosError):
        await store.create("t/0/2", durability=SYNCED)
    await store.create("t/0/2", durability=SYNCED)
    assert await store.list("t") == ["t/0/1", "t/0/2"]


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_fails_nothing_created_is_lost(
    store: LocalFileStore, disk: EntryDisk, tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    disk.fails = lambda call, path: call in CALLS and draw.random() < 0.15
    created = 0

    async def churn(partition: int) -> None:
        nonlocal created
        for number in range(40):
            name = f"t/{partition}/{number}"
            with contextlib.suppress(TalosError):
                file = await store.create(name, durability=SYNCED)
                assert disk.durable(tmp_path / "root" / name), name
                created += 1
                await file.close()
            with contextlib.suppress(TalosError):
                await store.delete(name)

    await asyncio.gather(*map(churn, (0, 0, 1, 2)))
    assert created > 10
    disk.fails = lambda call, path: False
    for partition in range(4):
        for attempt in range(3):
            name = f"t/{partition}/again-{attempt}"
            with contextlib.suppress(TalosError):
                await store.create(name, durability=SYNCED)
                break
            for left in await store.list(f"t/{partition}"):  # as an opening does
                await store.delete(left)
        assert disk.durable(tmp_path / "root" / name), "it never comes back"


# --- durable_files ------------------------------------------------------------------------------


def test_made_directories_are_made_once_more(disk: EntryDisk, tmp_path: Path) -> None:
    disk.fail_once("fsync", tmp_path / "a")
    with pytest.raises(OSError, match="Input/output error"):
        make_directories(tmp_path / "a" / "b")
    make_directories(tmp_path / "a" / "b")
    assert disk.durable(tmp_path / "a" / "b")


def test_a_new_file_in_doubt_is_not_kept(disk: EntryDisk, tmp_path: Path) -> None:
    path = tmp_path / "format.json"
    disk.fail_once("fsync", tmp_path)
    with pytest.raises(OSError, match="Input/output error"):
        replace_file(path, b"1", 0o600)
    assert not path.exists()
    replace_file(path, b"1", 0o600)
    disk.fail_once("fsync", tmp_path)
    with pytest.raises(OSError, match="Input/output error"):
        replace_file(path, b"2", 0o600)
    assert path.read_bytes() == b"2"  # and readers see one of them whatever comes
