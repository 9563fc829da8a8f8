"""FileStore on a folder of HDFS."""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar
from uuid import uuid4

from opentalos.adapters.hdfs.append_file import HdfsAppendFile, WriterContext
from opentalos.adapters.hdfs.client import HdfsClient, OpenStream, Reader, ReadPlace
from opentalos.adapters.hdfs.configuration import parse_hdfs_url
from opentalos.adapters.hdfs.endings import Endings, final_lengths
from opentalos.adapters.hdfs.replicas import Replicas, replicas_now
from opentalos.adapters.io_crew import ThreadCrew
from opentalos.adapters.io_threads import IoThreads
from opentalos.adapters.jvm import configured_folder, leave_thread, start_jvm
from opentalos.adapters.store_path import check_file_path, check_file_prefix
from opentalos.model.errors import (
    BadRequest,
    NotFound,
    OutcomeUnknown,
    RecoveryStuck,
    StoreUnavailable,
    TalosError,
    WriterDead,
)
from opentalos.model.limits import HdfsLimits, JvmLimits
from opentalos.model.message import Durability

T = TypeVar("T")

OTHER_THREADS = 4  # for reads and NameNode calls, so that commits do not wait for them
THREADS_GROWTH = 4  # growth of the threads while calls hang or HDFS is slow
READERS_MAX = 128  # input streams kept open
CLOSE_S = 2.0  # for calls under way when the store closes; a server has 5 s to end
DELETE_FENCE_S = 10.0  # an open file is fenced before it is deleted
SETTLE_S = 1.5  # for a commit of this process that hangs on a DataNode, before its file is fenced
# A recovery must be requested again if its DataNode died or its NameNode restarted; the NameNode
# ignores requests while one is under way.
REISSUE_S = 5.0
ASKING_FOLDER = "replicas"  # of the small files that ask how many DataNodes a file gets

_log = logging.getLogger(__name__)


class HdfsFileStore:
    """Files below one folder. A file's writer is fenced by recovering its lease.

    Java calls run on threads of the store and never on the loop; a DataNode that hangs under one
    file stops neither the loop nor another file.
    """

    def __init__(self, client: HdfsClient, limits: HdfsLimits, others: IoThreads) -> None:
        """For ``open_hdfs_file_store``; ``others`` are the threads the client was made on."""
        self._client, self._limits, self._others = client, limits, others
        self._commits = IoThreads(
            "hdfs-commit",
            threads=limits.threads,
            threads_max=limits.threads * THREADS_GROWTH,
            crew=ThreadCrew(leave=leave_thread),
        )
        path = f"{ASKING_FOLDER}/{uuid4().hex}"
        ask = partial(others.run, replicas_now, client, path)
        self._replicas = Replicas(limits.replication, ask)
        self._writers = WriterContext(client, limits, self._commits, others, self._replicas)
        self._files: dict[HdfsAppendFile, None] = {}
        self._readers: OrderedDict[str, Reader] = OrderedDict()
        self._closed = False
        self._endings = Endings(lambda paths: self._run(paths[0], final_lengths, client, paths))

    async def create(self, path: str, *, durability: Durability) -> HdfsAppendFile:
        """Create a file, with its entry in the NameNode's journal; see the port."""
        check_file_path(path)
        opened = await self._run(path, self._client.create, path, changes=True)
        file = HdfsAppendFile(
            path,
            opened.stream,
            self._writers,
            durability=durability,
            on_release=self._released,
        )
        self._files[file] = None
        if self._closed:
            file.abandon(WriterDead(f"{path}: the store was closed"))
        return file

    async def recover(self, path: str, *, deadline_s: float) -> int:
        """Fence the file and return its final length; see the port."""
        check_file_path(path)
        return await self._fence(path, deadline_s)

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        """Read committed bytes; see the port. One NameNode call even if the file is known."""
        check_file_path(path)
        if position < 0 or bytes_max < 0:
            raise BadRequest(f"{path}: cannot read {bytes_max} bytes at {position}")
        while True:
            reader = self._readers.get(path)
            fresh = reader is None
            if reader is None:
                reader = self._keep(path, await self._run(path, self._client.open_reader, path))
            self._readers.move_to_end(path)
            reader.users += 1
            try:
                place = ReadPlace(path, position, bytes_max, fresh)
                content = await self._run(path, self._client.read, reader, place)
            except TalosError:
                self._forget(path, reader)
                raise
            finally:
                reader.users -= 1
                self._dismiss(path, reader)
            if content is not None:
                return content
            self._forget(path, reader)

    async def list(self, prefix: str) -> Sequence[str]:
        """Paths below the folder ``prefix``, sorted; see the port."""
        folder = check_file_prefix(prefix)
        return await self._run(folder, self._client.list, folder)

    async def delete(self, path: str) -> None:
        """Fence and remove the file; see the port. Raises: RecoveryStuck: not done."""
        check_file_path(path)
        reader = self._readers.pop(path, None)
        if reader is not None:
            self._dismiss(path, reader)
        try:
            await self._fence(path, DELETE_FENCE_S)
        except NotFound:
            return
        await self._run(path, self._client.delete, path, changes=True)

    async def space(self) -> int:
        """Bytes that HDFS can still store, replicas counted; see the port."""
        return await self._run("space", self._client.space)

    async def close(self) -> None:
        """Reject new calls, wait for those under way for a bounded time, then disconnect."""
        if self._closed:
            return
        self._closed = True
        self._replicas.close()
        await self._endings.close()
        await self._commits.close(deadline_s=CLOSE_S)
        for file in list(self._files):
            file.abandon(WriterDead("the file store was closed"))
        self._readers.clear()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._others.run(self._client.close)
        except (TalosError, TimeoutError) as error:
            _log.warning("could not close the HDFS client cleanly: %s", str(error) or "timeout")
        await self._others.close(deadline_s=CLOSE_S)

    @property
    def files_short(self) -> int:
        """Open files that have fewer DataNodes than ``replication``."""
        return self._replicas.short

    def _released(self, file: HdfsAppendFile) -> None:
        self._files.pop(file, None)
        self._replicas.forget(file)

    async def _fence(self, path: str, deadline_s: float) -> int:
        """Return the length once no former writer can commit. Occupies no thread."""
        try:
            async with asyncio.timeout(deadline_s):
                for file in [file for file in self._files if file.name == path]:
                    await file.settled(min(SETTLE_S, deadline_s / 2))
                while True:
                    length = await self._run(path, self._client.recover, path)
                    if length is None:
                        length = await self._endings.length(path, wait_s=REISSUE_S)
                    if length is not None:
                        return length
        except TimeoutError as error:
            raise RecoveryStuck(
                f"cannot fence {path}: HDFS did not finish the lease recovery of "
                f"{self._client.full_name(path)} within {deadline_s} s; retrying"
            ) from error

    async def _run(
        self, name: str, work: Callable[..., T], *args: object, changes: bool = False
    ) -> T:
        """Run on a thread for a bounded time."""
        if self._closed:
            raise StoreUnavailable("the file store is closed")
        timeout_s = self._limits.call_timeout_s
        call = _Call(work, args)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._others.run(call.run)
        except TimeoutError as error:
            text = f"{name}: HDFS did not answer within {timeout_s} s"
            unknown = changes and call.begun
            raise (OutcomeUnknown if unknown else StoreUnavailable)(text) from error
        finally:
            call.wanted = False

    # --- readers, on the loop -----------------------------------------------------------------

    def _keep(self, path: str, reader: Reader) -> Reader:
        """Cache a newly opened reader in place of an older one."""
        older = self._readers.pop(path, None)
        self._readers[path] = reader
        if older is not None:
            self._dismiss(path, older)
        if len(self._readers) > READERS_MAX:
            oldest_path, oldest = self._readers.popitem(last=False)
            self._dismiss(oldest_path, oldest)
        return reader

    def _forget(self, path: str, reader: Reader) -> None:
        if self._readers.get(path) is reader:
            del self._readers[path]
            self._dismiss(path, reader)

    def _dismiss(self, path: str, reader: Reader) -> None:
        """Close a reader that is unused and no longer cached."""
        if reader.users == 0 and self._readers.get(path) is not reader:
            _close_stream(self._others, reader)


class _Call(Generic[T]):
    """A call that is skipped if its caller has given up before a thread is free."""

    def __init__(self, work: Callable[..., T], args: tuple[object, ...]) -> None:
        self._work, self._args = work, args
        self.wanted, self.begun = True, False

    def run(self) -> T:
        """On a thread."""
        if not self.wanted:
            raise StoreUnavailable("the caller has given up")
        self.begun = True
        return self._work(*self._args)


def _close_stream(threads: IoThreads, opened: object) -> None:
    """Close an unused stream, or one whose caller was cancelled while it was opened."""
    if isinstance(opened, OpenStream):
        with contextlib.suppress(TalosError):  # the threads have ended: the client closes all
            threads.submit(opened.stream.close, (), _ignore)


def _ignore(_result: object, _error: BaseException | None, _seconds: float) -> None:
    """The result does not matter."""


async def open_hdfs_file_store(url: str, jvm: JvmLimits, limits: HdfsLimits) -> HdfsFileStore:
    """A store whose folder exists and may be written. Starts the JVM if it does not run.

    Raises: ConfigError: URL, jars, JVM, ``conf_dir`` or permissions; the text says which.
    StoreUnavailable: the NameNode cannot be reached, now.
    """
    location = parse_hdfs_url(url)
    conf_dir = configured_folder(limits.conf_dir, "HADOOP_CONF_DIR")
    start_jvm(jvm, [] if conf_dir is None else [conf_dir])
    threads = IoThreads(
        "hdfs-call",
        threads=OTHER_THREADS,
        threads_max=max(OTHER_THREADS, limits.threads) * THREADS_GROWTH,
        unwanted=lambda result: _close_stream(threads, result),
        crew=ThreadCrew(leave=leave_thread),
    )
    try:
        client = await threads.run(HdfsClient, location, conf_dir, limits)
        await threads.run(client.make_root)
    except BaseException:
        await threads.close(deadline_s=CLOSE_S)
        raise
    return HdfsFileStore(client, limits, threads)
