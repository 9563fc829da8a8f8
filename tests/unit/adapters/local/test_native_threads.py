"""Native threads: what they hold, announce, replace and leave; collected only if they are built."""

import asyncio
import contextlib
import errno
import gc
import os
import random
import select
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.accelerator import NATIVE, disk_of_python
from tests.waiting import completed, eventually, eventually_async, limit_s, stays_async

from opentalos.adapters import io_threads, thread_start
from opentalos.adapters.io_threads import IoThreads
from opentalos.adapters.local import LocalFileStore, append_file
from opentalos.adapters.local.disk import commit_at
from opentalos.adapters.local.native_crew import REQUIRED, NativeCrew
from opentalos.model.errors import StoreUnavailable, WriterDead
from opentalos.model.message import Durability

SYNCED, FLUSHED = Durability.SYNCED, Durability.FLUSHED
FILE_BYTES_MAX = 4 << 20  # of RLIMIT_FSIZE; other writes of the process are smaller


class Gate:
    """Stops native threads before they write, for files that are named so."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.open = threading.Event()
        self.arrived = 0

    def __call__(self, fd: int, _chunks: Sequence[bytes], _position: int) -> None:
        if self._name in os.readlink(f"/proc/self/fd/{fd}"):
            self.arrived += 1
            self.open.wait()


@pytest.fixture
def native_threads() -> Callable[[], int]:
    """How many native threads of commits this process has, above those before the test."""

    def count() -> int:
        found = 0
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += (task / "comm").read_text().startswith("native-")
        return found

    before = count()
    return lambda: count() - before


async def test_interrupted_and_short_calls_go_on_and_one_without_progress_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.pwritev, [0]
    taken: list[int] = [1, 0]

    def pwritev(fd: int, chunks: list[bytes], position: int, flags: int = 0) -> int:
        calls[0] += 1
        if calls[0] % 2:
            raise InterruptedError(errno.EINTR, "interrupted")
        joined = b"".join(chunks)[: taken[0]]
        return real(fd, (joined,), position) if joined else 0

    monkeypatch.setattr(os, "pwritev", pwritev)
    store = LocalFileStore(tmp_path, accelerator=REQUIRED)
    file = await store.create("t/0", durability=SYNCED)
    with disk_of_python():
        assert await file.commit([b"ab", b"", b"cde", b"f"]) == 6
        assert await store.read("t/0", position=0, bytes_max=9) == b"abcdef"
        assert calls[0] == 12
        taken[0] = 0
        with pytest.raises(WriterDead, match=os.strerror(errno.EIO)):
            await file.commit([b"x"])
        await store.close()


async def test_bytes_of_a_cancelled_commit_are_held_until_its_thread_is_done(
    tmp_path: Path,
) -> None:
    gate, data = Gate("t/0"), bytearray(b"still read")
    store = LocalFileStore(tmp_path, accelerator=REQUIRED)
    file = await store.create("t/0", durability=SYNCED)
    with disk_of_python(gate):
        commit = asyncio.ensure_future(file.commit([memoryview(data)]))
        await eventually_async("a thread arrives", lambda: gate.arrived == 1)
        commit.cancel()
        await asyncio.gather(commit, return_exceptions=True)
        del commit
        gc.collect()
        with pytest.raises(BufferError):
            data.clear()
        gate.open.set()

        def freed() -> bool:
            try:
                data.append(0)
            except BufferError:
                return False
            return True

        await eventually_async("the bytes are free", freed)
        assert (tmp_path / "t/0").read_bytes() == b"still read"
        await store.close()


# --- completions --------------------------------------------------------------------------------


async def test_a_burst_of_completions_wakes_the_loop_once(tmp_path: Path) -> None:
    assert NATIVE is not None
    reaped: list[int] = []

    class CountingPool:
        def __init__(self, *args: int) -> None:
            assert NATIVE is not None
            self._pool = NATIVE.Pool(*args)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._pool, name)

        def reap(self) -> Any:
            found = self._pool.reap()
            reaped.append(len(found))
            return found

    module: Any = SimpleNamespace(Pool=CountingPool, DONE=NATIVE.DONE)
    crew = NativeCrew(module, 4)
    threads = IoThreads("t", threads=4, crew=crew)
    with (tmp_path / "0").open("wb") as file:
        fd, path = file.fileno(), str(tmp_path / "0")
        commits = [
            asyncio.ensure_future(threads.run(commit_at, "0", fd, [b"x"], n, False, path))
            for n in range(200)
        ]
        await asyncio.sleep(0)

        def idle() -> bool:
            written = os.fstat(fd).st_size == 200
            return written and not any(crew.busy_s(slot) for slot in crew._slots.values())

        # The loop does nothing else meanwhile.
        eventually("all is written and no thread has a job", idle)
        assert await asyncio.gather(*commits) == list(range(1, 201))
    assert reaped == [200]
    assert await threads.close(deadline_s=limit_s())


def test_jobs_beyond_the_ring_are_served_and_taken_back_in_order(tmp_path: Path) -> None:
    assert NATIVE is not None
    count = 3_000  # the ring has 1,024 places
    pool = NATIVE.Pool(4, 1 << 20)
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        for number in range(count):
            data = number.to_bytes(4, "big")
            pool.submit(number, fd, [data], 4 * number, False, None)
        assert [pool.withdraw() for _ in range(3)] == [0, 1, 2]
        for name in ("one", "two", "three"):
            pool.start(name)
        found: list[Any] = []
        while len(found) < count - 3:
            ready, _, _ = select.select([pool.fileno()], [], [], limit_s())
            assert ready
            found += pool.reap()
        assert sorted(token for _, token, *_ in found) == list(range(3, count))
        assert {outcome for _, _, outcome, *_ in found} == {NATIVE.DONE}
        assert pool.withdraw() is None
        raw = os.pread(fd, 4 * count, 0)
        assert raw[12:] == b"".join(number.to_bytes(4, "big") for number in range(3, count))
        assert pool.reap() == []
    finally:
        os.close(fd)


async def test_a_completion_that_raises_loses_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert NATIVE is not None
    threads = IoThreads("t", threads=1, crew=NativeCrew(NATIVE, 4))

    def failing(*_args: object) -> None:
        raise ValueError("on purpose")

    with (tmp_path / "0").open("wb") as file:
        job = ("0", file.fileno(), [b"x"], 0, False, str(tmp_path / "0"))
        threads.submit(commit_at, job, failing)
        assert await threads.run(commit_at, *job) == 1
    assert "on purpose" in caplog.text
    assert await threads.close(deadline_s=limit_s())


@pytest.mark.parametrize("seed", range(3))
async def test_thousands_of_commits_with_cancels_and_errors_lose_nothing(
    tmp_path: Path, native_threads: Callable[[], int], seed: int
) -> None:
    """Every acknowledged byte is in its file; a cancelled or failed commit kills its file alone."""
    draw = random.Random(seed)
    store = LocalFileStore(tmp_path, accelerator=REQUIRED)
    files = [
        await store.create(f"t/{n}", durability=draw.choice((SYNCED, FLUSHED))) for n in range(64)
    ]
    outcomes = {"acknowledged": 0, "cancelled": 0, "failed": 0}

    async def write(number: int) -> None:
        own, expected = random.Random(f"{seed}-{number}"), b""
        for _turn in range(60):
            parts = [own.randbytes(own.randrange(400)) for _ in range(own.randrange(1, 6))]
            commit = asyncio.ensure_future(files[number].commit(parts))
            fate = own.random()
            if fate < 0.004:  # the descriptor fails under the thread, as a device that goes away
                read_only = os.open("/dev/null", os.O_RDONLY)
                os.dup2(read_only, files[number]._fd)
                os.close(read_only)
            elif fate < 0.012:
                await asyncio.sleep(0)
                commit.cancel()
            try:
                length = await commit
            except asyncio.CancelledError:
                outcomes["cancelled"] += 1
                break
            except WriterDead:
                outcomes["failed"] += 1
                break
            expected += b"".join(parts)
            if fate >= 0.004:
                outcomes["acknowledged"] += 1
                assert length == len(expected)
            else:  # its write was quicker than the failure
                break
        with contextlib.suppress(WriterDead):
            await files[number].commit([b"more"])
            expected += b"more"
        found = (tmp_path / f"t/{number}").read_bytes()
        assert found[: len(expected)] == expected or fate < 0.004

    await asyncio.gather(*(write(number) for number in range(len(files))))
    assert outcomes["acknowledged"] > 2_000
    assert outcomes["cancelled"] + outcomes["failed"] > 5
    await store.close()
    await eventually_async("no thread is left", lambda: native_threads() == 0)


# --- threads ------------------------------------------------------------------------------------


async def test_hanging_threads_are_replaced_up_to_the_bound_and_leave_afterwards(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    native_threads: Callable[[], int],
) -> None:
    monkeypatch.setattr(append_file, "COMMIT_THREADS_MAX", 12)
    monkeypatch.setattr(append_file, "HANGING_LINGER_S", 0.2)
    hang_s = io_threads.HANG_S
    monkeypatch.setattr(append_file, "HANG_S", limit_s())  # a busy machine is no hanging disk
    gate = Gate("/slow-")
    store = LocalFileStore(tmp_path, accelerator=REQUIRED, io_threads=2)
    slow = [await store.create(f"t/slow-{n}", durability=SYNCED) for n in range(20)]
    quick = await store.create("t/quick", durability=SYNCED)
    with disk_of_python(gate):
        stuck = [asyncio.ensure_future(file.commit([b"x"])) for file in slow[:8]]
        for number in range(1, 21):
            assert await quick.commit([b"y"]) == number
        stuck += [asyncio.ensure_future(file.commit([b"x"])) for file in slow[8:]]
        await eventually_async("the threads arrive", lambda: gate.arrived == 12)
        waiting = asyncio.ensure_future(quick.commit([b"y"]))
        await stays_async(
            "the commit waits, and no thread is started for it",
            lambda: not waiting.done() and native_threads() == 12,
        )
        monkeypatch.setattr(append_file, "HANG_S", hang_s)
        gate.open.set()
        assert await asyncio.gather(waiting, *stuck) == [21, *[1] * 20]
        # Files whose commits hung keep to the other threads until they are quick.
        assert await asyncio.gather(*(file.commit([b"x"]) for file in slow)) == [2] * 20

        async def two_are_left() -> bool:
            await quick.commit([b"y"])
            return native_threads() <= 2

        assert await eventually_async("the other threads leave", two_are_left)
        await store.close()
    await eventually_async("no thread is left", lambda: native_threads() == 0)


async def test_a_pool_that_is_gone_lets_its_hanging_threads_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    native_threads: Callable[[], int],
) -> None:
    """Nobody reaps what they wrote; the process goes on."""
    assert NATIVE is not None
    gate, data = Gate("/0"), bytearray(b"kept for ever")
    with (tmp_path / "0").open("wb") as file, disk_of_python(gate):
        pool = NATIVE.Pool(2, 1 << 16)
        for number in range(2):
            assert pool.start(f"native-t-{number}") == number
        with pytest.raises(BlockingIOError):
            pool.start("one too many")
        pool.submit("hangs", file.fileno(), [data], 0, True, None)
        await eventually_async("a thread arrives", lambda: gate.arrived == 1)
        assert pool.busy_s(0) + pool.busy_s(1) > 0
        assert pool.reap() == []
        del pool
        await eventually_async("the idle thread ends", lambda: native_threads() == 1)
        gate.open.set()
        await eventually_async("no thread is left", lambda: native_threads() == 0)
    assert (tmp_path / "0").read_bytes() == data


async def test_without_a_thread_a_commit_is_refused_as_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert NATIVE is not None
    refused = [True]

    class Limited:
        def __init__(self, *args: int) -> None:
            assert NATIVE is not None
            self._pool = NATIVE.Pool(*args)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._pool, name)

        def start(self, name: str) -> Any:
            if refused[0]:
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return self._pool.start(name)

    module: Any = SimpleNamespace(Pool=Limited, DONE=NATIVE.DONE)
    before = thread_start.thread_start_failures()
    threads = IoThreads("t", threads=2, crew=NativeCrew(module, 4))
    with (tmp_path / "0").open("wb") as file:
        job = ("0", file.fileno(), [b"x"], 0, True, str(tmp_path / "0"))
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="cannot start thread"):
                await threads.run(commit_at, *job)
        assert thread_start.thread_start_failures() == before + 2
        assert (tmp_path / "0").read_bytes() == b""
        refused[0] = False
        assert await threads.run(commit_at, *job) == 1
    assert await threads.close(deadline_s=limit_s())


NO_MEMORY = """
import errno, resource
from opentalos.adapters.local import _native
pool = _native.Pool(64, 1 << 16)
pool.start("first")
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20), resource.RLIM_INFINITY))
started, number = 1, 0
try:
    while True:
        pool.start("more")
        started += 1
except OSError as error:
    number = error.errno
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert pool.start("again") == started, started
print(errno.errorcode[number], 1 < started < 64)
"""


def test_a_system_without_room_for_a_thread_names_the_errno() -> None:
    done = completed([sys.executable, "-c", NO_MEMORY])
    assert (done.stdout, done.stderr) == ("EAGAIN True\n", "")
