"""LocalFileStore when the disk is slow, full, broken or hangs."""

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from tests.accelerator import disk_of_python
from tests.waiting import eventually_async, limit_s, within_limit

from opentalos.adapters.io_crew import ThreadCrew
from opentalos.adapters.io_threads import IoThreads
from opentalos.adapters.local import LocalFaults, LocalFileStore, append_file, disk, file_store
from opentalos.adapters.local.append_file import Pools
from opentalos.adapters.local.descriptors import FileDescriptors
from opentalos.adapters.local.native_crew import REQUIRED
from opentalos.model.errors import (
    OutcomeUnknown,
    RecoveryStuck,
    StorageFull,
    StoreUnavailable,
    WriterDead,
)
from opentalos.model.message import Durability

SYNCED, FLUSHED = Durability.SYNCED, Durability.FLUSHED


@pytest.fixture
def faults() -> LocalFaults:
    return LocalFaults()


@pytest.fixture
async def store(
    tmp_path: Path, faults: LocalFaults, accelerator: str
) -> AsyncIterator[LocalFileStore]:
    """On native threads the same faults come from below: those threads have no faults of their
    own, so that they stay off where faults are asked for."""
    root = tmp_path / "root"

    def before(fd: int, chunks: Sequence[bytes], position: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{fd}")).relative_to(root)
        faults.before_commit(str(name), fd, chunks, position)

    native = accelerator == REQUIRED
    with disk_of_python(before) if native else contextlib.nullcontext():
        opened = LocalFileStore(root, faults=None if native else faults, accelerator=accelerator)
        assert opened.native_commits == native
        yield opened
        faults.release()
        await opened.close()


def open_descriptors(root: Path) -> list[str]:
    """Files of ``root`` that this process has open."""
    targets = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue
        if target.startswith(str(root)):
            targets.append(target)
    return targets


# --- hanging ------------------------------------------------------------------------------------


async def test_hanging_files_stop_no_other_file(store: LocalFileStore, faults: LocalFaults) -> None:
    hanging = [await store.create(f"slow/{n}", durability=SYNCED) for n in range(8)]
    quick = await store.create("quick/0", durability=SYNCED)
    faults.hang_prefix = "slow/"
    stuck = [asyncio.ensure_future(file.commit([b"x"])) for file in hanging]
    for number in range(1, 51):
        assert await quick.commit([b"y"]) == number
    assert await store.read("quick/0", position=0, bytes_max=100) == b"y" * 50
    assert not any(commit.done() for commit in stuck)
    faults.release()
    assert await asyncio.gather(*stuck) == [1] * 8
    assert await quick.commit([b"y"]) == 51


async def test_the_fresh_file_of_one_that_hangs_leaves_the_usual_threads_to_others(
    store: LocalFileStore, faults: LocalFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those of many partitions that are given up together keep all of them for 20 ms."""
    hanging: list[bool] = []  # whether each call ran on the threads for files that hang
    choose = Pools.of

    def of(self: Pools, *, hangs: bool, follows: bool = False) -> IoThreads:
        pool = choose(self, hangs=hangs, follows=follows)
        hanging.append(pool is self.hanging)
        return pool

    monkeypatch.setattr(Pools, "of", of)
    former = await store.create("slow/0/1", durability=SYNCED)
    other = await store.create("slow/1/1", durability=SYNCED)
    faults.hang_prefix = "slow/0/"
    stuck = asyncio.ensure_future(former.commit([b"x"]))
    await eventually_async("the commit hangs", lambda: former.hangs)
    fresh = await store.create("slow/0/2", durability=SYNCED)
    commit = asyncio.ensure_future(fresh.commit([b"x"]))
    await asyncio.sleep(0)
    neighbour = await store.create("slow/1/2", durability=SYNCED)
    await neighbour.commit([b"y"])
    await other.commit([b"y"])
    assert hanging == [False, True, False, False]
    faults.release()
    assert list(await asyncio.gather(stuck, commit)) == [1, 1]
    monkeypatch.setattr(append_file, "HANG_S", limit_s())  # also on a busy machine
    for length in (2, 3):  # the first shows that it is quick again
        assert await fresh.commit([b"x"]) == length
    last = await store.create("slow/0/3", durability=SYNCED)
    await last.commit([b"x"])
    assert not hanging[-1]


async def test_a_fresh_file_does_not_wait_behind_those_that_hang() -> None:
    pools, gate = Pools(1, 1, lambda _: ThreadCrew(), "t"), threading.Event()
    assert pools.of(hangs=False, follows=True) is pools.hanging
    stuck = asyncio.ensure_future(pools.hanging.run(gate.wait))
    await asyncio.sleep(0)
    assert pools.of(hangs=False, follows=True) is pools.usual
    assert pools.of(hangs=True) is pools.hanging, "it would keep a usual thread"
    gate.set()
    assert await stuck
    await pools.close(deadline_s=limit_s())


async def test_a_hanging_commit_can_be_given_up_and_recovered_elsewhere(
    store: LocalFileStore, faults: LocalFaults, tmp_path: Path
) -> None:
    file = await store.create("slow/0", durability=SYNCED)
    await file.commit([b"kept"])
    faults.hang_prefix = "slow/"
    stuck = asyncio.ensure_future(file.commit([b"late"]))
    await asyncio.sleep(0)
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    with pytest.raises(WriterDead):
        await file.commit([b"more"])
    other = LocalFileStore(tmp_path / "root")
    assert await other.recover("slow/0", deadline_s=limit_s()) == 4
    faults.release()
    await store.close()
    assert await other.recover("slow/0", deadline_s=limit_s()) == 4
    assert await other.read("slow/0", position=0, bytes_max=100) == b"kept"
    await other.close()
    assert open_descriptors(tmp_path) == []


async def test_close_is_bounded_while_a_commit_hangs(
    store: LocalFileStore, faults: LocalFaults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_store, "CLOSE_S", 0.02)
    file = await store.create("slow/0", durability=SYNCED)
    faults.hang_prefix = "slow/"
    stuck = asyncio.ensure_future(file.commit([b"late"]))
    await asyncio.sleep(0)
    async with within_limit("the close ends"):
        await store.close()
    with pytest.raises(OutcomeUnknown):
        await stuck


async def test_recover_keeps_its_deadline_while_the_disk_hangs(
    store: LocalFileStore, monkeypatch: pytest.MonkeyPatch, faults: LocalFaults
) -> None:
    await (await store.create("t/0", durability=SYNCED)).close()
    monkeypatch.setattr(disk, "sync_data", lambda fd: faults.before_commit("slow/", fd, (), 0))
    faults.hang_prefix = "slow/"
    with pytest.raises(RecoveryStuck, match="t/0"):
        await store.recover("t/0", deadline_s=0.02)


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, StorageFull), (errno.EDQUOT, StorageFull), (errno.EIO, WriterDead)],
)
async def test_a_failed_commit_kills_the_file_and_no_other(
    store: LocalFileStore, faults: LocalFaults, number: int, expected: type[Exception]
) -> None:
    bad = await store.create("bad/0", durability=SYNCED)
    good = await store.create("good/0", durability=SYNCED)
    await bad.commit([b"kept"])
    faults.error_prefix, faults.error_number, faults.partial_bytes = "bad/", number, 3
    with pytest.raises(expected, match="bad/0"):
        await bad.commit([b"perhaps"])
    faults.error_prefix = None
    for _ in range(2):
        with pytest.raises(WriterDead):
            await bad.commit([b"never"])
    with pytest.raises(WriterDead):
        await bad.close()
    assert await good.commit([b"fine"]) == 4
    assert await store.recover("bad/0", deadline_s=limit_s()) == 7
    assert await store.read("bad/0", position=0, bytes_max=100) == b"keptper"


async def test_create_on_a_full_disk_is_not_done(
    store: LocalFileStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    await (await store.create("t/0", durability=SYNCED)).close()
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(StorageFull):
        await store.create("t/1", durability=SYNCED)
    monkeypatch.undo()
    assert await store.list("t") == ["t/0"]


async def test_an_entry_that_may_not_be_durable_is_unknown(
    store: LocalFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    await (await store.create("t/0", durability=SYNCED)).close()
    with monkeypatch.context() as failing:
        failing.setattr(os, "fsync", broken)
        with pytest.raises(OutcomeUnknown):
            await store.create("t/1", durability=SYNCED)
    assert await store.list("t") == ["t/0"]


async def test_a_read_error_says_so(store: LocalFileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    file = await store.create("t/0", durability=SYNCED)
    await file.commit([b"data"])

    def broken(*_args: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", broken)
    with pytest.raises(StoreUnavailable, match="t/0"):
        await store.read("t/0", position=0, bytes_max=4)


def count_syncs(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[int]:
    """The descriptors that ``module`` synced from now on."""
    synced: list[int] = []
    real = disk.sync_data

    def sync_data(fd: int) -> None:
        synced.append(fd)
        real(fd)

    monkeypatch.setattr(module, "sync_data", sync_data)
    return synced


# --- writing ------------------------------------------------------------------------------------


async def test_short_writes_are_finished(
    store: LocalFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwritev

    def short(fd: int, chunks: Sequence[bytes | memoryview], position: int, flags: int = 0) -> int:
        return real(fd, (b"".join(chunks)[:5],), position, flags)

    synced = count_syncs(monkeypatch, disk)
    monkeypatch.setattr(os, "pwritev", short)
    file = await store.create("t/0", durability=SYNCED)
    assert await file.commit([b"abc", b"defghi", b"jk"]) == 11
    assert await store.read("t/0", position=0, bytes_max=100) == b"abcdefghijk"
    assert len(synced) == 1  # the rest was not covered by the first write's own sync


@pytest.mark.parametrize("refused", [False, True])
async def test_without_the_write_flag_a_sync_follows(
    store: LocalFileStore, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    real = os.pwritev

    def no_flags(
        fd: int, chunks: Sequence[bytes | memoryview], position: int, flags: int = 0
    ) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return real(fd, chunks, position)

    monkeypatch.setattr(os, "pwritev", no_flags)
    synced = count_syncs(monkeypatch, disk)
    if not refused:
        monkeypatch.setattr(disk, "_RWF_DSYNC", 0)
    file = await store.create("t/0", durability=SYNCED)
    assert await file.commit([b"abc"]) == 3
    assert len(synced) == 1


async def test_only_the_first_flushed_commit_and_the_close_sync(
    store: LocalFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwritev
    flags_seen: list[int] = []
    synced = count_syncs(monkeypatch, append_file)

    def watched(
        fd: int, chunks: Sequence[bytes | memoryview], position: int, flags: int = 0
    ) -> int:
        flags_seen.append(flags)
        return real(fd, chunks, position, flags)

    monkeypatch.setattr(os, "pwritev", watched)
    file = await store.create("t/0", durability=FLUSHED)
    await file.commit([b"abc"])
    await file.commit([b"def"])
    assert (flags_seen, synced) == ([disk._RWF_DSYNC, 0], [])
    await file.close()
    assert len(synced) == 1


async def test_a_synced_commit_syncs_what_was_only_flushed_before(
    tmp_path: Path, accelerator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that is its own sync covers only itself."""
    whole = count_syncs(monkeypatch, append_file)
    store = LocalFileStore(tmp_path, accelerator=accelerator)
    file = await store.create("t/0", durability=SYNCED)
    await file.commit([b"first"])
    await file.commit([b"more"])
    assert whole == []
    await file.commit([b"flushed"], durability=FLUSHED)
    await file.commit([b"flushed"], durability=FLUSHED)
    assert whole == []
    await file.commit([b"synced"])
    assert len(whole) == 1
    await file.commit([b"synced"])
    assert len(whole) == 1
    await file.commit([b"flushed"], durability=FLUSHED)
    assert await file.close() == 42
    assert len(whole) == 2
    await store.close()


async def test_every_new_directory_entry_is_durable(
    store: LocalFileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    real = os.fsync

    def watched(fd: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).relative_to(tmp_path))
        real(fd)

    monkeypatch.setattr(os, "fsync", watched)
    await store.create("a/b/0", durability=SYNCED)
    assert synced == [Path(), Path("root"), Path("root/a"), Path("root/a/b")]
    synced.clear()
    await store.create("a/b/1", durability=SYNCED)
    assert synced == [Path("root/a/b")]


async def test_a_deleted_topic_leaves_no_directory(store: LocalFileStore, tmp_path: Path) -> None:
    for path in ("a/0/x", "a/1/x", "b/x"):
        await (await store.create(path, durability=SYNCED)).close()
    await store.delete("a/0/x")
    await store.delete("a/1/x")
    assert [entry.name for entry in (tmp_path / "root").iterdir()] == ["b"]
    await store.create("a/0/x", durability=SYNCED)


async def test_create_and_delete_in_one_directory_do_not_trip(store: LocalFileStore) -> None:
    async def churn(name: str) -> None:
        for _ in range(20):
            await (await store.create(f"a/b/{name}", durability=FLUSHED)).close()
            await store.delete(f"a/b/{name}")

    await asyncio.gather(churn("x"), churn("y"), churn("z"))
    assert await store.list("") == []


# --- descriptors --------------------------------------------------------------------------------


async def test_readers_are_kept_within_a_bound(tmp_path: Path) -> None:
    store = LocalFileStore(tmp_path, descriptors=FileDescriptors(readers_max=4))
    for number in range(10):
        file = await store.create(f"t/{number}", durability=FLUSHED)
        await file.commit([b"%d" % number])
        await file.close()
    reads = [store.read(f"t/{number % 10}", position=0, bytes_max=9) for number in range(40)]
    assert await asyncio.gather(*reads) == [b"%d" % (number % 10) for number in range(40)]
    await eventually_async(  # a thread closes them
        "readers beyond the bound are closed", lambda: len(open_descriptors(tmp_path)) <= 4
    )
    await store.close()
    assert open_descriptors(tmp_path) == []


async def test_a_dead_file_gives_its_descriptor_back(
    store: LocalFileStore, faults: LocalFaults, tmp_path: Path
) -> None:
    file = await store.create("bad/0", durability=SYNCED)
    faults.error_prefix = "bad/"
    with pytest.raises(WriterDead):
        await file.commit([b"x"])
    await store.close()
    assert open_descriptors(tmp_path) == []


async def test_a_cancelled_call_leaves_no_descriptor(store: LocalFileStore, tmp_path: Path) -> None:
    file = await store.create("t/0", durability=SYNCED)
    calls = [
        asyncio.ensure_future(store.create("t/1", durability=SYNCED)),
        asyncio.ensure_future(store.read("t/0", position=0, bytes_max=1)),
    ]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await file.close()
    await store.close()
    assert open_descriptors(tmp_path) == []
