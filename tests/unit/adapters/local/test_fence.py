"""What a crash in the middle of a take-over leaves, and how the next one ends it."""

import asyncio
import contextlib
import errno
import fcntl
import os
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.accelerator import disk_of_python
from tests.unit.matrix import matrix
from tests.waiting import limit_s

from opentalos.adapters import durable_files
from opentalos.adapters.local import (
    LocalFileStore,
    append_file,
    disk,
    fence_format,
    open_local_file_store,
)
from opentalos.adapters.local.disk import delete_file, recover_file
from opentalos.adapters.local.fence_format import decode_fence, encode_fence
from opentalos.adapters.local.native_crew import REQUIRED
from opentalos.model.errors import (
    AlreadyExists,
    Fenced,
    NewerFormat,
    NotFound,
    RecoveryStuck,
    TalosError,
    WriterDead,
)
from opentalos.model.message import Durability

SYNCED = Durability.SYNCED


@pytest.fixture
async def store(tmp_path: Path, accelerator: str) -> AsyncIterator[LocalFileStore]:
    with disk_of_python() if accelerator == REQUIRED else contextlib.nullcontext():
        opened = await open_local_file_store(tmp_path, accelerator=accelerator)
        yield opened
        await opened.close()


def torn_fences() -> list[bytes]:
    """Every way a fence's text can be cut, and some ways it can be damaged."""
    whole = encode_fence(8)
    cut = [whole[:size] for size in range(len(whole))]
    return [*cut, b"\0" * len(whole), whole.replace(b"8", b"9", 1), whole + b"more"]


@pytest.mark.parametrize("length", [0, 1, 4096, (1 << 63) - 1])
def test_a_fence_reads_back(length: int) -> None:
    assert decode_fence(encode_fence(length), "a") == length


@matrix("content", torn_fences())
def test_a_torn_fence_has_no_length(content: bytes) -> None:
    assert decode_fence(content, "a") is None


def test_a_fence_of_a_newer_version_is_refused() -> None:
    newer = b"opentalos-fence 2 8 "
    line = newer[:-1] + b" %08x\n" % zlib.crc32(newer[:-1])
    with pytest.raises(NewerFormat, match="topic/0"):
        decode_fence(line, "topic/0")


@pytest.mark.parametrize("content", [b"", b"opentalos-fe", encode_fence(3)[:-1]])
async def test_the_next_recover_completes_a_fence_that_a_crash_left(
    store: LocalFileStore, tmp_path: Path, content: bytes
) -> None:
    file = await store.create("t/0", durability=SYNCED)
    await file.commit([b"12345678"])
    (tmp_path / "t/0.fenced").write_bytes(content)
    assert await store.recover("t/0", deadline_s=limit_s()) == 8
    assert decode_fence((tmp_path / "t/0.fenced").read_bytes(), "t/0") == 8


async def test_an_empty_fence_already_stops_the_writer(
    store: LocalFileStore, tmp_path: Path
) -> None:
    file = await store.create("t/0", durability=SYNCED)
    await file.commit([b"kept"])
    (tmp_path / "t/0.fenced").touch()
    with pytest.raises(Fenced):
        await file.commit([b"lost"])
    with pytest.raises(WriterDead):
        await file.close()


async def test_bytes_after_the_fenced_length_are_not_read(
    store: LocalFileStore, tmp_path: Path
) -> None:
    """A former writer's write may reach the file after its length was taken."""
    file = await store.create("t/0", durability=SYNCED)
    await file.commit([b"kept"])
    assert await store.read("t/0", position=0, bytes_max=100) == b"kept"
    await store.recover("t/0", deadline_s=limit_s())
    with (tmp_path / "t/0").open("ab") as late:
        late.write(b"late")
    assert await store.read("t/0", position=0, bytes_max=100) == b"kept"
    assert await store.read("t/0", position=4, bytes_max=100) == b""
    assert await store.read("t/0", position=6, bytes_max=100) == b""
    assert await store.recover("t/0", deadline_s=limit_s()) == 4


async def test_create_beside_a_left_fence_is_refused(store: LocalFileStore, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t/0.fenced").touch()
    with pytest.raises(AlreadyExists):
        await store.create("t/0", durability=SYNCED)
    assert not (tmp_path / "t/0").exists()


@pytest.mark.parametrize("data_left", [True, False])
async def test_delete_ends_a_deletion_that_a_crash_cut(
    store: LocalFileStore, tmp_path: Path, data_left: bool
) -> None:
    await (await store.create("t/0", durability=SYNCED)).close()
    (tmp_path / "t/0.fenced").touch()
    if not data_left:
        (tmp_path / "t/0").unlink()
    assert await store.list("t") == (["t/0"] if data_left else [])
    await store.delete("t/0")
    assert os.listdir(tmp_path) == []
    await store.create("t/0", durability=SYNCED)


async def test_recover_names_the_file_that_another_recovery_holds(
    store: LocalFileStore, tmp_path: Path
) -> None:
    file = await store.create("t/0", durability=SYNCED)
    await file.commit([b"kept"])
    holder = os.open(tmp_path / "t/0.fenced", os.O_RDWR | os.O_CREAT)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(RecoveryStuck, match="t/0"):
        await store.recover("t/0", deadline_s=0.02)
    os.close(holder)
    assert await store.recover("t/0", deadline_s=limit_s()) == 4


def test_a_recovery_that_a_deletion_overtook_leaves_no_fence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "0"
    path.write_bytes(b"data")
    real = os.open

    def opened_late(target: str | Path, flags: int, mode: int = 0o777) -> int:
        if str(target).endswith(".fenced"):
            monkeypatch.undo()
            delete_file(path)
        return real(target, flags, mode)

    monkeypatch.setattr(os, "open", opened_late)
    with pytest.raises(NotFound):
        recover_file(path, "0", 0.0)
    assert list(tmp_path.iterdir()) == []


async def test_the_fence_is_durable_before_the_length_is_taken(
    store: LocalFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.create("t/0", durability=SYNCED)
    steps: list[str] = []
    sync_directory, sync_data = durable_files.sync_directory, disk.sync_data

    def directory(path: Path) -> None:
        steps.append("directory")
        sync_directory(path)

    def data(fd: int) -> None:
        steps.append("data")
        sync_data(fd)

    def length(value: int) -> bytes:
        steps.append("length")
        return fence_format.encode_fence(value)

    monkeypatch.setattr(disk, "sync_directory", directory)
    monkeypatch.setattr(disk, "sync_data", data)
    monkeypatch.setattr(disk, "encode_fence", length)
    await store.recover("t/0", deadline_s=limit_s())
    assert steps == ["directory", "data", "length"]


class Crash(BaseException):
    """The process ends here; what it had open is closed by the kernel."""


class CrashAtStep:
    """Lets ``steps`` system calls of the disk module happen and crashes at the next one."""

    CALLS = ("open", "fsync", "fdatasync", "ftruncate", "pwrite", "unlink")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
        self._left = steps
        for name in self.CALLS:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if self._left == 0:
                raise Crash
            self._left -= 1
            return real(*args)

        return call


STEPS_MAX = 20  # more than either operation has


@pytest.mark.parametrize("steps", range(STEPS_MAX))
def test_a_recovery_cut_at_any_step_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    path, fence = tmp_path / "0", tmp_path / "0.fenced"
    path.write_bytes(b"12345678")
    with contextlib.suppress(Crash), monkeypatch.context() as patch:
        CrashAtStep(patch, steps)
        assert recover_file(path, "0", 0.0) == 8
    cut_before_the_fence = not fence.exists()
    stored = None if cut_before_the_fence else decode_fence(fence.read_bytes(), "0")
    if stored is None:  # not answered yet, so a commit that came before the fence may still count
        path.write_bytes(b"1234567890")
    assert recover_file(path, "0", 0.0) == (8 if stored is not None else 10)
    assert steps < STEPS_MAX - 1 or stored == 8


@pytest.mark.parametrize("steps", range(STEPS_MAX))
@pytest.mark.parametrize("fenced", [False, True])
def test_a_deletion_cut_at_any_step_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, fenced: bool
) -> None:
    path = tmp_path / "0"
    path.write_bytes(b"12345678")
    if fenced:
        recover_file(path, "0", 0.0)
    with contextlib.suppress(Crash), monkeypatch.context() as patch:
        CrashAtStep(patch, steps)
        delete_file(path)
    if path.exists() and steps > 0:
        assert Path(f"{path}.fenced").exists()  # a file that is going takes no more commits
    delete_file(path)
    assert list(tmp_path.iterdir()) == []


async def test_a_recovery_that_waited_for_one_that_failed_writes_the_bytes_again(
    store: LocalFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    waiting, fails = threading.Barrier(2), [True]
    real_lock, real_rewrite = disk._lock, disk._rewrite

    def lock(*args: Any) -> None:
        waiting.wait(limit_s())
        real_lock(*args)

    def rewrite(path: Path, data_fd: int) -> None:
        written.append(path.name)
        real_rewrite(path, data_fd)

    def sync(_fd: int) -> None:
        if fails:
            raise OSError(errno.EIO, fails.pop() and "lost pages")

    file = await store.create("t/0/a.log", durability=Durability.SYNCED)
    await file.commit([b"acknowledged"])
    monkeypatch.setattr(disk, "_lock", lock)
    monkeypatch.setattr(disk, "_rewrite", rewrite)
    monkeypatch.setattr(disk, "sync_data", sync)
    recoveries = [store.recover("t/0/a.log", deadline_s=limit_s()) for _ in range(2)]
    outcomes = await asyncio.gather(*recoveries, return_exceptions=True)
    assert sorted(map(str, outcomes))[0] == str(len(b"acknowledged"))
    assert isinstance(next(each for each in outcomes if not isinstance(each, int)), TalosError)
    assert written == ["a.log"]


async def test_bytes_whose_sync_failed_are_written_again_before_they_count(
    store: LocalFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel forgets pages that it could not store, and calls the next sync a success."""
    dirty: list[bytes] = []  # written since the last sync, as the kernel sees it
    stored: list[bytes] = []
    fails = [True]
    real = os.pwritev

    def pwritev(fd: int, chunks: Any, position: int, flags: int = 0) -> int:
        dirty.append(b"".join(chunks))
        return real(fd, chunks, position, flags)

    def sync(_fd: int) -> None:
        written, dirty[:] = list(dirty), []
        if fails:
            raise OSError(errno.EIO, fails.pop() and "lost pages")
        stored.extend(written)

    file = await store.create("t/0/a.log", durability=Durability.FLUSHED)
    await file.commit([b"head"])  # the first commit of a file is always synced
    monkeypatch.setattr(os, "pwritev", pwritev)
    monkeypatch.setattr(disk, "sync_data", sync)
    monkeypatch.setattr(append_file, "sync_data", sync)
    await file.commit([b"acknowledged"])
    with pytest.raises(WriterDead, match="lost pages"):
        await file.close()
    assert await store.recover("t/0/a.log", deadline_s=limit_s()) == len(b"headacknowledged")
    assert b"".join(stored) == b"headacknowledged"
