"""Commits on both kinds of threads: the same bytes, the same errors; and which kind is used."""

import contextlib
import errno
import os
import resource
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.accelerator import NATIVE, disk_of_python
from tests.waiting import limit_s

from opentalos.adapters.io_threads import IoThreads
from opentalos.adapters.local import LocalFileStore, disk, native_crew
from opentalos.adapters.local.disk import commit_at
from opentalos.adapters.local.native_crew import AUTO, OFF, REQUIRED, NativeCrew, load_accelerator
from opentalos.model.errors import ConfigError, StorageFull, WriterDead
from opentalos.model.message import Durability

SYNCED, FLUSHED = Durability.SYNCED, Durability.FLUSHED
FILE_BYTES_MAX = 4 << 20  # of RLIMIT_FSIZE; other writes of the process are smaller


async def commit_alone(accelerator: str, *args: Any) -> int:
    """One commit on a thread of the kind; its error is the thread's, untranslated."""
    crew = NativeCrew(NATIVE, 4) if accelerator == REQUIRED and NATIVE is not None else None
    threads = IoThreads("t", threads=1, crew=crew)
    try:
        return await threads.run(commit_at, *args)
    finally:
        assert await threads.close(deadline_s=limit_s())


# --- choosing -----------------------------------------------------------------------------------


def test_what_is_required_and_absent_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentalos.adapters.local._native", None)
    monkeypatch.delattr("opentalos.adapters.local._native", raising=False)
    assert load_accelerator(AUTO) is None
    assert load_accelerator(OFF) is None
    with pytest.raises(ConfigError, match="accelerator"):
        load_accelerator(REQUIRED)


def test_a_module_of_another_interface_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SimpleNamespace(INTERFACE=native_crew.INTERFACE + 1)
    monkeypatch.setitem(sys.modules, "opentalos.adapters.local._native", other)
    monkeypatch.setattr("opentalos.adapters.local._native", other, raising=False)
    assert load_accelerator(AUTO) is None
    with pytest.raises(ConfigError, match=f"interface {other.INTERFACE}"):
        load_accelerator(REQUIRED)


# --- bytes and errors ---------------------------------------------------------------------------


@pytest.mark.parametrize("durability", [SYNCED, FLUSHED])
async def test_groups_of_any_shape_are_stored_whole(
    tmp_path: Path, accelerator: str, durability: Durability
) -> None:
    """Empty and many chunks, more than one call takes, above the size of one call."""
    store = LocalFileStore(tmp_path, accelerator=accelerator)
    file = await store.create("t/0", durability=durability)
    groups: list[list[bytes | memoryview]] = [
        [],
        [b""],
        [b"a", b"", memoryview(b"bcd")[1:]],
        [b"%04d" % number for number in range(3 * disk.IOV_MAX + 1)],
        [bytes(disk.ONE_CALL_BYTES_MAX), b"!"],
        [b"", os.urandom(1 << 20), b""],
    ]
    expected = b""
    for group in groups:
        expected += b"".join(group)
        assert await file.commit(group) == len(expected)
    assert await file.close() == len(expected)
    assert await store.read("t/0", position=0, bytes_max=1 << 24) == expected
    await store.close()


@pytest.mark.parametrize(
    "number", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EAGAIN]
)
@pytest.mark.parametrize("at_sync", [False, True])
async def test_an_error_is_the_one_of_the_call(
    tmp_path: Path,
    accelerator: str,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    at_sync: bool,
) -> None:
    def fail(*_args: object) -> int:
        raise OSError(number, os.strerror(number))

    path = tmp_path / "0"
    with path.open("wb") as file, monkeypatch.context() as patch:
        patch.setattr(*((disk, "sync_data") if at_sync else (os, "pwritev")), fail)
        if at_sync:
            patch.setattr(disk, "_RWF_DSYNC", 0)
        with disk_of_python() if accelerator == REQUIRED else contextlib.nullcontext():
            with pytest.raises(OSError, match=r".") as caught:
                await commit_alone(accelerator, "0", file.fileno(), [b"x"], 0, True, str(path))
    assert caught.value.errno == number
    assert caught.value.strerror == os.strerror(number)


async def test_a_full_device_and_a_closed_descriptor_say_so(accelerator: str) -> None:
    """Without a disk of Python in between."""
    full = os.open("/dev/full", os.O_WRONLY)
    for fd, number in ((full, errno.ENOSPC), (os.open("/dev/null", os.O_RDONLY), errno.EBADF)):
        with pytest.raises(OSError, match=r".") as caught:
            await commit_alone(accelerator, "0", fd, [b"x" * 99], 0, True, "/dev/none")
        assert caught.value.errno == number
        os.close(fd)


async def test_a_write_that_a_limit_cuts_short_is_continued_into_its_error(
    tmp_path: Path, accelerator: str
) -> None:
    store = LocalFileStore(tmp_path, accelerator=accelerator)
    small, large = [await store.create(f"t/{n}", durability=SYNCED) for n in range(2)]
    assert await large.commit([b"x" * (FILE_BYTES_MAX - 5)]) == FILE_BYTES_MAX - 5
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, hard))
    try:
        with pytest.raises(StorageFull, match=os.strerror(errno.EFBIG)):
            await large.commit([b"123", b"45678"])
        assert await small.commit([b"fine"]) == 4
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(WriterDead):
        await large.commit([b"never"])
    assert await store.recover("t/1", deadline_s=limit_s()) == FILE_BYTES_MAX
    assert await store.read("t/1", position=FILE_BYTES_MAX - 6, bytes_max=99) == b"x12345"
    await store.close()
