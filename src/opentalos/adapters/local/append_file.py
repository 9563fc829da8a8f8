"""AppendFile on the local disk: one write-and-sync per commit, then the look for a fence."""

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from opentalos.adapters.io_crew import Crew, ThreadCrew
from opentalos.adapters.io_threads import HANG_S, IoThreads
from opentalos.adapters.local.descriptors import DescriptorBudget, FileIdentity
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
        if native is None or self._resting is not None or whole:
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
        length = await self._run(self._threads.python, self._finish)
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

    def rest(self) -> int:
        """See the budget: an idle file is opened again at its next call."""
        if self._call is not None or self._used or self._fd < 0:
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
        if isinstance(error, OSError):
            self._threads.failed.add(self._name)
        dead = self._translated(error) if error else WriterDead(f"{self._name}: interrupted")
        self._dead = to_keep(dead)
        if not call.done():
            call.set_exception(dead)
        self._release()

    def _translated(self, error: BaseException) -> TalosError:
        if isinstance(error, TalosError):
            return error
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
    """

    def __init__(
        self,
        threads: int,
        *,
        hanging_max: int,
        faults: LocalFaults | None,
        watch: FenceWatch | None = None,
        native: ModuleType | None = None,
    ) -> None:
        self.python = Pools(threads, hanging_max, lambda _: ThreadCrew(), "local")
        self.native: Pools | None = None
        if native is not None and faults is None:
            self.native = Pools(threads, hanging_max, partial(NativeCrew, native), "native")
        self.faults = faults
        self.watch = watch  # None: another process may make fences
        self.failed: set[str] = set()  # files that a call failed on, until recovered or deleted

    def close_descriptor(self, fd: int) -> None:
        """Close without waiting on the loop's thread."""
        self.close_descriptors([fd])

    def close_descriptors(self, fds: list[int]) -> None:
        """Close all of them in one job."""
        try:
            self.python.usual.submit(_close_all, (fds,), _ignore)
        except TalosError:  # the threads have ended: this is the store's close
            _close_all(fds)

    async def close(self, *, deadline_s: float) -> None:
        """End the threads after what was submitted."""
        pools = [self.python] if self.native is None else [self.python, self.native]
        await asyncio.gather(*(each.close(deadline_s=deadline_s) for each in pools))


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):  # of a file that is synced, or dead
            os.close(fd)


def _ignore(_result: object, _error: BaseException | None, _seconds: float) -> None:
    """Nothing can be done about a close that failed: the bytes were synced before."""
