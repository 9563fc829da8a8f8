"""AppendFile on the local disk: one write-and-sync per commit, then the look for a fence."""

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from opentalos.adapters.io_threads import HANG_S, IoThreads
from opentalos.adapters.local.disk import check_not_fenced, sync_data, write_at
from opentalos.adapters.local.faults import LocalFaults
from opentalos.adapters.local.fence_watch import FenceWatch
from opentalos.model.errors import OutcomeUnknown, StorageFull, TalosError, WriterDead
from opentalos.model.message import Durability

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LocalAppendFile:
    """A file open for writing. It counts as dead from a call's start until that call succeeded.

    So an interrupt in between leaves it dead as the port wants. The descriptor is closed once the
    file is dead or closed and no thread uses it. Chunks of a cancelled commit are still in use.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        fd: int,
        *,
        durability: Durability,
        threads: "CommitThreads",
        on_release: Callable[["LocalAppendFile"], None],
    ) -> None:
        self._name, self._path, self._fd = name, path, fd
        self._synced = durability is Durability.SYNCED
        self._threads = threads
        self._pool = threads.usual
        self._on_release = on_release
        self._fences_seen = -1  # none yet, so the first commit asks the file system
        self._length = 0
        self._dead: TalosError | None = None
        self._closed = False
        self._call: asyncio.Future[int] | None = None  # under way

    async def commit(self, chunks: Sequence[bytes | memoryview]) -> int:
        """Write ``chunks`` at the end, durable as the file's durability says; see the port."""
        return await self._run(self._write, chunks)

    async def close(self) -> int:
        """Make the file immutable, all of it durable; see the port."""
        if self._closed and self._dead is None:
            return self._length
        length = await self._run(self._finish)
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

    async def _run(self, work: Callable[..., int], *args: object) -> int:
        if self._dead is not None:
            raise WriterDead(f"{self._name}: an earlier call failed") from self._dead
        if self._closed:
            raise WriterDead(f"{self._name}: closed")
        self._dead = WriterDead(f"{self._name}: a call is under way or was interrupted")
        call: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._call = call
        try:
            self._pool.submit(work, args, self._finished)
        except BaseException:
            self._call = None
            raise
        length = await call
        self._dead = None
        self._length = length
        return length

    def _write(self, chunks: Sequence[bytes | memoryview]) -> int:
        """On an I/O thread."""
        if self._threads.faults is not None:
            self._threads.faults.before_commit(self._name, self._fd, chunks, self._length)
        length = write_at(self._fd, chunks, self._length, synced=self._synced)
        self._check_not_fenced()
        return length

    def _finish(self) -> int:
        """On an I/O thread. A sealed file survives power loss whatever its commits promised."""
        if not self._synced:
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
        self._pool = self._threads.after(seconds)
        if error is None and not call.done():
            call.set_result(length)
            return
        self._dead = self._translated(error) if error else WriterDead(f"{self._name}: interrupted")
        if not call.done():
            call.set_exception(self._dead)
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
        if fd >= 0:
            self._threads.close_descriptor(fd)
            self._on_release(self)


class CommitThreads:
    """The threads of commits: the usual ones, and others for files whose commits hang.

    A file whose last commit hung keeps to the second kind until it is quick again, so that eight
    hanging files do not take the usual threads by turns.
    """

    def __init__(
        self,
        threads: int,
        *,
        hanging_max: int,
        faults: LocalFaults | None,
        watch: FenceWatch | None = None,
    ) -> None:
        self.usual = IoThreads("local-commit", threads=threads)
        self.hanging = IoThreads(
            "local-hang", threads=hanging_max, threads_max=hanging_max, threads_kept=0
        )
        self.faults = faults
        self.watch = watch  # None: another process may make fences

    def after(self, seconds: float) -> IoThreads:
        """Where a file belongs whose last call took so long."""
        return self.hanging if seconds > HANG_S else self.usual

    def close_descriptor(self, fd: int) -> None:
        """Close without waiting on the loop's thread."""
        try:
            self.usual.submit(os.close, (fd,), _ignore)
        except TalosError:  # the threads have ended: this is the store's close
            os.close(fd)

    async def close(self, *, deadline_s: float) -> None:
        """End the threads after what was submitted."""
        await asyncio.gather(
            self.usual.close(deadline_s=deadline_s), self.hanging.close(deadline_s=deadline_s)
        )


def _ignore(_result: object, _error: BaseException | None, _seconds: float) -> None:
    """Nothing can be done about a close that failed: the bytes were synced before."""
