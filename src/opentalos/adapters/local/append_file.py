"""AppendFile on the local disk: one write-and-sync per commit, then the look for a fence."""

import asyncio
import contextlib
import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from opentalos.adapters.io_crew import Crew, ThreadCrew
from opentalos.adapters.io_threads import HANG_S, IoThreads
from opentalos.adapters.local.descriptors import (
    NO_DESCRIPTOR,
    DescriptorBudget,
    FileIdentity,
    lacks_descriptor,
)
from opentalos.adapters.local.disk import (
    check_not_fenced,
    commit_at,
    identity_of,
    open_again,
    sync_data,
    write_at,
)
from opentalos.adapters.local.faults import LocalFaults
from opentalos.adapters.local.fence_watch import FenceWatch
from opentalos.adapters.local.native_crew import NativeCrew
from opentalos.model.errors import OutcomeUnknown, StorageFull, TalosError, WriterDead, to_keep
from opentalos.model.message import Durability

# Hanging commits included. The log leaves fewer unanswered, so that those of one tenant leave
# threads to the others.
COMMIT_THREADS_MAX = 512
# Files that hang together are answered together and hang again: 16 threads that left and started
# again each time would keep the loop for 2 ms, on a busy machine for 20 ms.
HANGING_LINGER_S = 15.0
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _NoDescriptor(WriterDead):
    """A resting file could not be opened again for want of a descriptor; nothing was done."""


class LocalAppendFile:
    """A file open for writing. It counts as dead from a call's start until that call succeeded.

    So an interrupt in between leaves it dead as the port wants. The descriptor is closed once the
    file is dead or closed and no thread uses it. Chunks of a cancelled commit are still in use.

    A resting file has no descriptor. The next call opens the very same inode again, never a new
    one; what was done to the path meanwhile makes the file dead, and the look for a fence after
    the write stays what it is, so resting changes nothing about who may write (promise I2).
    """

    thin = False  # a disk has one replica

    def __init__(
        self,
        name: str,
        path: Path,
        fd: int,
        *,
        durability: Durability,
        threads: "CommitThreads",
        budget: DescriptorBudget,
    ) -> None:
        self._name, self._path, self._fd = name, str(path), fd  # a Path takes 400 bytes more
        self._synced = durability is Durability.SYNCED
        self._threads = threads
        self._hangs = False  # its last call did
        self._follows = False  # took the place of a file that hangs, and no call has ended yet
        self._began_s = 0.0  # loop time of the call under way
        self._budget = budget
        self._used = True  # since the budget last asked
        self._resting: FileIdentity | None = None
        self._fences_seen = -1  # none yet, so the first commit asks the file system
        self._length = 0
        self._unsynced = False  # an earlier commit was only flushed
        self._dead: TalosError | None = None
        self._closed = False
        self._call: asyncio.Future[int] | None = None  # under way
        budget.opened(self)

    @property
    def hangs(self) -> bool:
        """Whether its last call hung, or the one under way does."""
        if self._hangs or self._follows or self._call is None:
            return self._hangs or self._follows
        return asyncio.get_running_loop().time() - self._began_s > HANG_S

    def follow(self, former: "LocalAppendFile") -> None:
        """It is a fresh file for what ``former`` was written for, so it hangs if that does."""
        self._follows = former.hangs

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        """Write ``chunks`` at the end, durable as the file's durability says; see the port.

        A write that is its own sync covers only itself, so behind a flushed one the file is synced.
        """
        synced = self._synced if durability is None else durability is Durability.SYNCED
        synced = synced or not self._length
        native, whole = self._threads.native, synced and self._unsynced
        if self._resting is not None:
            length = await self._run_again(self._write, chunks, synced)
        elif native is None or whole:
            length = await self._run(self._threads.python, self._write, chunks, synced)
        else:
            commit = (self._name, self._fd, chunks, self._length, synced, self._path)
            length = await self._run(native, commit_at, *commit)
        self._unsynced = not synced
        return length

    async def close(self) -> int:
        """Make the file immutable, all of it durable; see the port."""
        if self._closed and self._dead is None:
            return self._length
        if self._resting is None:
            length = await self._run(self._threads.python, self._finish)
        else:
            length = await self._run_again(self._finish)
        self._closed = True
        self._release()
        return length

    def abandon(self, error: TalosError) -> None:
        """Close the file at once, because its store closes; wakes waiting callers."""
        if self._dead is None:
            self._dead = error
        if self._call is not None and not self._call.done():
            self._call.set_exception(OutcomeUnknown(f"{self._name}: {error}"))
        elif self._call is None:
            self._release()

    def rest(self, below: int) -> int:
        """See the budget: an idle file is opened again at its next call."""
        if self._call is not None or self._used or not 0 <= self._fd < below:
            self._used = False
            return -1
        self._resting = identity_of(self._fd)
        fd, self._fd = self._fd, -1
        return fd

    async def _run(self, pools: "Pools", work: Callable[..., int], *args: object) -> int:
        if self._dead is not None:
            raise WriterDead(f"{self._name}: an earlier call failed") from self._dead
        if self._closed:
            raise WriterDead(f"{self._name}: closed")
        self._dead = WriterDead(f"{self._name}: a call is under way or was interrupted")
        loop = asyncio.get_running_loop()
        call: asyncio.Future[int] = loop.create_future()
        self._call, self._used, self._began_s = call, True, loop.time()
        try:
            pools.of(hangs=self._hangs, follows=self._follows).submit(work, args, self._finished)
        except BaseException:
            self._call = None
            raise
        try:
            length = await call
        finally:
            del call  # it has the error, whose traceback has this frame
        self._dead = None
        self._length = length
        return length

    async def _run_again(self, work: Callable[..., int], *args: object) -> int:
        """``_run`` for a resting file: if no descriptor is free, idle files give theirs back."""
        attempt = 0
        while True:
            if self._dead is None and not self._closed:
                self._budget.opened(self)  # before it is, so that another one rests first
            try:
                return await self._run(self._threads.python, work, *args)
            except _NoDescriptor:
                again = False
                try:
                    again = await self._threads.make_room(attempt)
                finally:
                    if not again:
                        self._release()
                if not again:
                    raise
            self._dead = None
            attempt += 1

    def _write(self, chunks: Sequence[bytes | memoryview], synced: bool) -> int:
        """On an I/O thread."""
        if self._resting is not None:
            self._fd = open_again(self._path, self._name, self._resting)
        if self._threads.faults is not None:
            self._threads.faults.before_commit(self._name, self._fd, chunks, self._length)
        whole = synced and self._unsynced
        length = write_at(self._fd, chunks, self._length, synced=synced and not whole)
        if whole:
            sync_data(self._fd)
        self._check_not_fenced()
        return length

    def _finish(self) -> int:
        """On an I/O thread. A sealed file survives power loss whatever its commits promised."""
        if self._resting is not None:
            self._fd = open_again(self._path, self._name, self._resting)
        if self._unsynced or not self._synced:
            sync_data(self._fd)
        self._check_not_fenced()
        return self._length

    def _check_not_fenced(self) -> None:
        """On an I/O thread, after a write. Raises: Fenced.

        Where only this process makes fences, the file system is asked after one was made, and at
        the first commit.
        """
        watch = self._threads.watch
        if watch is None:
            check_not_fenced(self._fd, self._path, self._name)
            return
        fences = watch.fences  # read before the look: a later fence changes the number again
        if fences != self._fences_seen:
            check_not_fenced(self._fd, self._path, self._name)
            self._fences_seen = fences

    def _finished(self, length: int, error: BaseException | None, seconds: float) -> None:
        """On the loop, when the thread is done with the descriptor."""
        call, self._call = self._call, None
        assert call is not None
        if self._resting is not None and self._fd >= 0:
            self._resting = None
            self._budget.opened(self)
        self._hangs, self._follows = seconds > HANG_S, False
        if error is None and not call.done():
            call.set_result(length)
            return
        dead = self._translated(error) if error else WriterDead(f"{self._name}: interrupted")
        lacking = isinstance(dead, _NoDescriptor)
        if isinstance(error, OSError) and not lacking:
            self._threads.failed.add(self._name)
        self._dead = to_keep(dead)
        if not call.done():
            call.set_exception(dead)
            if lacking:
                return  # ``_run_again`` decides
        self._release()

    def _translated(self, error: BaseException) -> TalosError:
        if isinstance(error, TalosError):
            return error
        if self._fd < 0 and lacks_descriptor(error):
            lacking = _NoDescriptor(f"{self._name}: {NO_DESCRIPTOR}")
            lacking.__cause__ = error
            return lacking
        full = isinstance(error, OSError) and error.errno in _FULL
        translated = (StorageFull if full else WriterDead)(f"{self._name}: {error}")
        translated.__cause__ = error
        return translated

    def _release(self) -> None:
        fd, self._fd = self._fd, -1
        self._budget.released(self)
        if fd >= 0:
            self._threads.close_descriptor(fd)


class Pools:
    """The usual threads, and others for files whose commits hang.

    A file whose last commit hung keeps to the second kind until it is quick again, so that eight
    hanging files do not take the usual threads by turns.
    """

    def __init__(
        self, threads: int, hanging_max: int, crew: Callable[[int], Crew], kind: str
    ) -> None:
        self.usual = IoThreads(
            f"{kind}-commit",
            threads=threads,
            threads_max=COMMIT_THREADS_MAX,
            crew=crew(COMMIT_THREADS_MAX),
        )
        self.hanging = IoThreads(
            f"{kind}-hang",
            threads=hanging_max,
            threads_max=hanging_max,
            linger_s=HANGING_LINGER_S,
            crew=crew(hanging_max),
        )

    def of(self, *, hangs: bool, follows: bool = False) -> IoThreads:
        """Where a file belongs whose last call hung, or that follows one that hangs.

        The second may well be quick, so it does not wait for a thread behind those that hang.
        """
        return self.hanging if hangs or (follows and not self.hanging.full) else self.usual

    async def close(self, *, deadline_s: float) -> None:
        """End the threads after what was submitted."""
        await asyncio.gather(
            self.usual.close(deadline_s=deadline_s), self.hanging.close(deadline_s=deadline_s)
        )


class CommitThreads:
    """Where the calls of append files run: Python's threads, and native ones for plain commits.

    ``faults`` are made by Python, so with them there are no native threads. A file's calls follow
    each other, whatever they run on, so their order is the same with both.

    Args: make_room: whether a call that found no free descriptor, for the n-th time, shall try
    again now.
    """

    def __init__(
        self,
        threads: int,
        *,
        make_room: Callable[[int], Awaitable[bool]],
        hanging_max: int,
        faults: LocalFaults | None,
        watch: FenceWatch | None = None,
        native: ModuleType | None = None,
    ) -> None:
        self.python = Pools(threads, hanging_max, lambda _: ThreadCrew(), "local")
        self.native: Pools | None = None
        if native is not None and faults is None:
            self.native = Pools(threads, hanging_max, partial(NativeCrew, native), "native")
        self.make_room = make_room
        self.faults = faults
        self.watch = watch  # None: another process may make fences
        self.failed: set[str] = set()  # files that a call failed on, until recovered or deleted

    def close_descriptor(self, fd: int) -> None:
        """Close without waiting on the loop's thread."""
        self.close_descriptors([fd])

    def close_descriptors(self, fds: list[int]) -> None:
        """Close all of them in one job."""
        try:
            self.python.usual.submit(close_all, (fds,), _ignore)
        except TalosError:  # the threads have ended: this is the store's close
            close_all(fds)

    async def close(self, *, deadline_s: float) -> None:
        """End the threads after what was submitted."""
        pools = [self.python] if self.native is None else [self.python, self.native]
        await asyncio.gather(*(each.close(deadline_s=deadline_s) for each in pools))


def close_all(fds: list[int]) -> None:
    """Close and remove all of them; each once, also if two threads were given the list."""
    while fds:
        try:
            fd = fds.pop()
        except IndexError:
            return
        with contextlib.suppress(OSError):  # of a file that is synced, or dead
            os.close(fd)


def _ignore(_result: object, _error: BaseException | None, _seconds: float) -> None:
    """Nothing can be done about a close that failed: the bytes were synced before."""
