"""FileStore on a directory of the local disk."""

import asyncio
import errno
import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from opentalos.adapters.durable_files import make_directories
from opentalos.adapters.io_threads import IoThreads
from opentalos.adapters.local.append_file import CommitThreads, LocalAppendFile, close_all
from opentalos.adapters.local.descriptors import (
    ATTEMPTS_MAX,
    GIVEN_BACK,
    NO_DESCRIPTOR,
    PAUSE_S,
    PLENTY,
    DescriptorBudget,
    FileDescriptors,
    lacks_descriptor,
    open_files_max,
)
from opentalos.adapters.local.directories import Directories
from opentalos.adapters.local.disk import fence_length, recover_file
from opentalos.adapters.local.faults import LocalFaults
from opentalos.adapters.local.fence_watch import FenceWatch, watch_of
from opentalos.adapters.local.native_crew import AUTO, OFF, load_accelerator
from opentalos.adapters.store_path import FENCE_SUFFIX, check_file_path, check_file_prefix
from opentalos.model.errors import (
    BadRequest,
    NotFound,
    RecoveryStuck,
    StorageFull,
    StoreUnavailable,
    WriterDead,
)
from opentalos.model.message import Durability

P = ParamSpec("P")
T = TypeVar("T")

# Measured on 2 cores with a busy loop, 8 files: 4 threads commit a quarter more per second than 2,
# 6 fewer than 4; the file system merges the journal commits of concurrent syncs.
COMMIT_THREADS = 4
OTHER_THREADS = 2  # for reads, lists and directory changes, so that commits do not wait for them
# What is in the page cache is read on the loop up to so much, a fraction of a millisecond.
CACHED_READ_BYTES_MAX = 2 << 20
NEVER = -1  # no count of a watch
CLOSE_S = 2.0  # for calls under way when the store closes; a server has 5 s to end
HANGING_THREADS_MAX = 32
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Descriptor:
    """An open file."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd


class Reader(Descriptor):
    """A file open for reading, shared by the reads under way."""

    __slots__ = ("full", "length", "unfenced_at", "users")

    def __init__(self, fd: int, full: Path) -> None:
        super().__init__(fd)
        self.full = full
        self.length: int | None = None  # as its fence fixed it
        self.unfenced_at = NEVER  # count of the watch when it had no fence, nor one begun
        self.users = 0

    def bounded(self, position: int, bytes_max: int) -> int:
        """How much may be read there."""
        if self.length is None:
            return bytes_max
        return min(bytes_max, max(0, self.length - position))


class LocalFileStore:
    """Files below ``root``; beside a file that was taken from its writer lies its fence.

    Blocking calls run on threads of the store; a disk that hangs under one file stops neither the
    loop nor another file. ``faults`` is for tests and benchmarks. ``exclusive``: the caller holds
    a lock that keeps every other process from the root, which saves system calls per commit.
    ``accelerator``: "auto", "off" or "required".

    ``descriptors`` bounds the open files: idle ones are closed and open again when they are used.
    A call that finds no free descriptor all the same, since others take them, closes idle files and
    is repeated; ``lacked`` counts that.
    """

    def __init__(
        self,
        root: Path,
        *,
        io_threads: int = COMMIT_THREADS,
        faults: LocalFaults | None = None,
        exclusive: bool = False,
        descriptors: FileDescriptors = PLENTY,
        accelerator: str = AUTO,
    ) -> None:
        self._root = root.absolute()
        self._watch = watch_of(self._root) if exclusive else None
        self._commits = CommitThreads(
            io_threads,
            hanging_max=HANGING_THREADS_MAX,
            make_room=self._make_room,
            faults=faults,
            watch=self._watch,
            native=load_accelerator(accelerator),
        )
        self._others = IoThreads(
            "local-io",
            threads=OTHER_THREADS,
            threads_max=descriptors.calls_max,
            unwanted=self._close_unwanted,
        )
        self._directories = Directories(self._root, self._watch)
        self._budget = DescriptorBudget(descriptors.append_max, self._commits.close_descriptors)
        # The newest append file of each folder, while anyone uses it. The log moves a partition
        # whose commit hangs to a fresh file, which most likely hangs too: such files start on the
        # threads for those, or 16 of them would keep the usual threads from every other partition.
        self._newest: WeakValueDictionary[str, LocalAppendFile] = WeakValueDictionary()
        self._readers: OrderedDict[str, Reader] = OrderedDict()
        self._read_cached = _load_reads(accelerator)
        self._readers_max = descriptors.readers_max
        self._reading = asyncio.Semaphore(self._readers_max)
        self._opening = 0  # readers
        self.lacked = 0
        self._closed = False

    @property
    def native_commits(self) -> bool:
        """Whether commits run on threads of the accelerator."""
        return self._commits.native is not None

    async def create(self, path: str, *, durability: Durability) -> LocalAppendFile:
        """Make a new file, its directory entry durable; see the port."""
        full = self._full(path)
        made = await self._run(path, self._create, full, path)
        file = LocalAppendFile(
            path,
            full,
            made.fd,
            durability=durability,
            threads=self._commits,
            budget=self._budget,
        )
        folder = path.rpartition("/")[0]
        former = self._newest.get(folder)
        if former is not None:
            file.follow(former)
        self._newest[folder] = file
        if self._closed:
            file.abandon(WriterDead(f"{path}: the store was closed"))
        return file

    async def recover(self, path: str, *, deadline_s: float) -> int:
        """Fence the file and return its final length; see the port."""
        until_s, failed = time.monotonic() + deadline_s, self._commits.failed
        how = (self._full(path), path, until_s, self._watch, failed)
        try:
            async with asyncio.timeout(deadline_s):
                return await self._run(path, recover_file, *how)
        except TimeoutError as error:
            raise RecoveryStuck(f"cannot fence {path} within {deadline_s} s; retrying") from error

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        """Read committed bytes; see the port."""
        if position < 0 or bytes_max < 0:
            raise BadRequest(f"{path}: cannot read {bytes_max} bytes at {position}")
        async with self._reading:
            return await self._read(path, position, bytes_max)

    async def _read(self, path: str, position: int, bytes_max: int) -> bytes:
        while True:
            reader = self._readers.get(path)
            if reader is None:
                reader = await self._open(path)
            self._readers.move_to_end(path)
            reader.users += 1
            try:
                content = self._read_now(reader, position, bytes_max)
                if content is not None:
                    await asyncio.sleep(0)  # a large read is many: others have their turn
                    return content
                work = (reader, path, self._watch, position, bytes_max)
                content = await self._run(path, _read, *work)
                if content is not None:
                    return content
                if self._readers.get(path) is reader:  # deleted; of that name may be another
                    del self._readers[path]
            finally:
                reader.users -= 1
                self._dismiss(path, reader)

    async def list(self, prefix: str) -> Sequence[str]:
        """Paths below the folder ``prefix``, sorted; see the port."""
        folder = check_file_prefix(prefix)
        return await self._run(folder, _list, self._root, folder)

    async def delete(self, path: str) -> None:
        """Fence and remove the file; see the port."""
        full = self._full(path)
        reader = self._readers.pop(path, None)
        if reader is not None:
            self._dismiss(path, reader)
        await self._run(path, self._directories.delete_file, full)
        self._commits.failed.discard(path)

    async def space(self) -> int:
        """Bytes that an unprivileged process may still write; see the port."""
        return await self._run("space", self._space)

    async def close(self) -> None:
        """Refuse new calls, let those under way end for a bounded time, then end the threads."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(
            self._commits.close(deadline_s=CLOSE_S), self._others.close(deadline_s=CLOSE_S)
        )
        for file in self._budget.files():
            file.abandon(WriterDead("the file store was closed"))
        for path, reader in list(self._readers.items()):
            del self._readers[path]
            self._dismiss(path, reader)

    async def _run(self, name: str, work: Callable[P, T], *args: P.args, **no: P.kwargs) -> T:
        """Run on a thread and translate the system's errors."""
        if self._closed:
            raise StoreUnavailable("the file store is closed")
        attempt = 0
        while True:
            try:
                return await self._others.run(work, *args, **no)
            except (OSError, MemoryError) as error:
                if lacks_descriptor(error) and await self._make_room(attempt):
                    attempt += 1
                    continue
                if isinstance(error, OSError) and error.errno in _FULL:
                    raise StorageFull(f"{name}: {error}") from error
                if lacks_descriptor(error):
                    raise StoreUnavailable(f"{name}: {NO_DESCRIPTOR}") from error
                raise StoreUnavailable(f"{name}: {str(error) or 'out of memory'}") from error

    async def _make_room(self, attempt: int) -> bool:
        """Whether a call that found no free descriptor, for the n-th time, shall try again now.

        Every call of the store that opens files can be repeated: none leaves something half made
        that the next one would not complete.
        """
        self.lacked += 1
        if self._closed or attempt >= ATTEMPTS_MAX:
            return False
        limit = open_files_max()  # it may be lower by now: above it, closing a file frees nothing
        given = _taken_idle(self._readers, GIVEN_BACK, limit)
        given = given or self._budget.rest(GIVEN_BACK, limit)
        if not given:
            await asyncio.sleep(PAUSE_S)
            return True
        try:
            await self._others.run(close_all, given)
        finally:
            if given:  # the caller was cancelled, or there is no thread
                self._commits.close_descriptors(given)
        return True

    def _full(self, path: str) -> Path:
        return self._root / check_file_path(path)

    def _read_now(self, reader: Reader, position: int, bytes_max: int) -> bytes | None:
        """What the page cache has, without a thread; None: a thread has to read or to look."""
        watch = self._watch
        if self._read_cached is None or self._closed or bytes_max > CACHED_READ_BYTES_MAX:
            return None
        # Only where no other process can fence, or the fence has fixed the length.
        if reader.length is None and (watch is None or reader.unfenced_at != watch.fences):
            return None
        try:
            if os.fstat(reader.fd).st_nlink == 0:
                return None
            count = reader.bounded(position, bytes_max)
            return self._read_cached(reader.fd, count, position)
        except (OSError, MemoryError):
            return None

    # --- on I/O threads ---------------------------------------------------------------------

    def _create(self, full: Path, path: str) -> Descriptor:
        return Descriptor(self._directories.create_file(full, path))

    def _space(self) -> int:
        make_directories(self._root)
        state = os.statvfs(self._root)
        return state.f_bavail * state.f_frsize

    def _close_unwanted(self, result: object) -> None:
        """A file that was opened for a caller who was cancelled meanwhile."""
        if isinstance(result, Descriptor):
            self._commits.close_descriptor(result.fd)

    # --- readers, on the loop -----------------------------------------------------------------

    async def _open(self, path: str) -> Reader:
        """A reader to keep. Idle ones give way before, so that there are never too many."""
        self._opening += 1
        surplus_count = len(self._readers) + self._opening - self._readers_max
        surplus = _taken_idle(self._readers, surplus_count, sys.maxsize)
        try:
            opened = await self._run(path, _open_reader, self._full(path), path, surplus)
        finally:
            self._opening -= 1
            if surplus:  # the call did not come so far
                self._commits.close_descriptors(surplus)
        present = self._readers.setdefault(path, opened)
        if present is not opened:  # another read was quicker
            self._commits.close_descriptor(opened.fd)
        return present

    def _dismiss(self, path: str, reader: Reader) -> None:
        """Close a reader that is unused and no longer cached."""
        if reader.users == 0 and reader.fd >= 0 and self._readers.get(path) is not reader:
            fd, reader.fd = reader.fd, -1
            self._commits.close_descriptor(fd)


def _taken_idle(readers: dict[str, Reader], wanted: int, below: int) -> list[int]:
    """Take out so many readers that nobody uses, or fewer: their descriptors, all below this
    number, to be closed."""
    given: list[int] = []
    for path, reader in list(readers.items()) if wanted > 0 else ():
        if len(given) == wanted:
            break
        if not reader.users and reader.fd < below:
            del readers[path]
            fd, reader.fd = reader.fd, -1
            given.append(fd)
    return given


def _open_reader(full: Path, path: str, surplus: list[int]) -> Reader:
    close_all(surplus)
    try:
        fd = os.open(full, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(path) from error
    return Reader(fd, full)


def _read(
    reader: Reader, path: str, watch: FenceWatch | None, position: int, bytes_max: int
) -> bytes | None:
    """None: the file that was opened is deleted."""
    if os.fstat(reader.fd).st_nlink == 0:
        return None
    if reader.length is None:  # until a fence fixes it, the file may grow
        _look_for_fence(reader, path, watch)
    bytes_max = reader.bounded(position, bytes_max)
    content = os.pread(reader.fd, bytes_max, position)
    while 0 < len(content) < bytes_max:
        more = os.pread(reader.fd, bytes_max - len(content), position + len(content))
        if not more:
            break
        content += more
    return content


def _look_for_fence(reader: Reader, path: str, watch: FenceWatch | None) -> None:
    """The count is read first: a fence made behind the look is counted behind it, too.

    One that was begun may get its length at any time, which nothing counts, so it is looked at
    again in each read.
    """
    fences = NEVER if watch is None else watch.fences
    if watch is not None and reader.unfenced_at == fences:
        return
    reader.length = fence_length(reader.full, path)
    if reader.length is None and not os.path.lexists(f"{reader.full}{FENCE_SUFFIX}"):
        reader.unfenced_at = fences


def _load_reads(wanted: str) -> Callable[[int, int, int], bytes | None] | None:
    """The accelerator of reads; None: threads do them all."""
    if wanted == OFF:
        return None
    try:
        from opentalos.adapters.local._reads import read_cached
    except ImportError:
        return None
    return read_cached


def _list(root: Path, folder: str) -> list[str]:
    """Fences are hidden. A directory that vanishes meanwhile holds nothing."""
    found = list(_walk(root / folder, f"{folder}/" if folder else ""))
    found.sort()
    return found


def _walk(directory: Path, prefix: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(directory / entry.name, f"{prefix}{entry.name}/")
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(FENCE_SUFFIX):
            yield f"{prefix}{entry.name}"


async def open_local_file_store(
    root: Path,
    *,
    io_threads: int = COMMIT_THREADS,
    faults: LocalFaults | None = None,
    exclusive: bool = False,
    descriptors: FileDescriptors = PLENTY,
    accelerator: str = AUTO,
) -> LocalFileStore:
    """A store whose root exists.

    Raises: StoreUnavailable: the directory cannot be used. ConfigError: no accelerator is there.
    """
    store = LocalFileStore(
        root,
        io_threads=io_threads,
        faults=faults,
        exclusive=exclusive,
        descriptors=descriptors,
        accelerator=accelerator,
    )
    await store.space()
    return store
