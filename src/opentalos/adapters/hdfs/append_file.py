"""AppendFile on HDFS: one write and hflush or hsync per commit, then a check of the pipeline."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from opentalos.adapters.hdfs.client import HdfsClient
from opentalos.adapters.hdfs.commit_call import Sync
from opentalos.adapters.hdfs.java_errors import lease_lost, text_of
from opentalos.adapters.hdfs.replicas import Replicas
from opentalos.adapters.io_threads import IoThreads
from opentalos.model.checks import plural
from opentalos.model.errors import Fenced, NotFound, OutcomeUnknown, TalosError, WriterDead, to_keep
from opentalos.model.limits import HdfsLimits
from opentalos.model.message import Durability

LOOK_S = 0.4  # a call that takes longer may wait for a DataNode that hangs
LATE_S = 0.02  # for an answer that has arrived while the loop was late
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WriterContext:
    """Shared state of the open files of one store."""

    client: HdfsClient
    limits: HdfsLimits
    commits: IoThreads
    others: IoThreads
    replicas: Replicas


class HdfsAppendFile:
    """A file open for writing. It is dead from the start of a call until that call succeeds.

    HDFS rejects a writer whose lease was recovered: the DataNodes have finalized the block and the
    NameNode allocates no further one. So fencing needs no check of ours after a commit
    (promise I2).

    A commit that reached fewer DataNodes than ``replicas_min`` is OutcomeUnknown: its bytes are in
    the file, but not as safe as promised. The log then continues in a new file with a new
    pipeline; if that has too few DataNodes as well, nothing is acknowledged.

    Timeouts count from when a thread begins the call; a call that no thread begins in as much time
    is skipped. A call that takes longer than ``LOOK_S`` has a silent DataNode taken out of the
    pipeline, after which Java completes it with the others.
    """

    def __init__(
        self,
        name: str,
        stream: Any,
        context: WriterContext,
        *,
        durability: Durability,
        on_release: Callable[["HdfsAppendFile"], None],
    ) -> None:
        self.name, self._stream, self._context = name, stream, context
        self._synced = durability is Durability.SYNCED
        self._on_release = on_release
        self._replicas = 0  # of the last commit
        self._known_replicas = context.limits.replication  # to ``Replicas``
        self._length = 0
        self._dead: TalosError | None = None
        self._closed = False
        self._call: asyncio.Future[int] | None = None  # under way
        self._submitted_s = 0.0
        self._begun_s: float | None = None  # when a thread began the call under way
        self._late = self._looking = False
        self._ended: list[asyncio.Future[None]] = []  # who waits for the end of the call

    @property
    def thin(self) -> bool:
        """Whether a new file would get more DataNodes; see the port."""
        few = self._known_replicas < self._context.limits.replication
        return few and self._context.replicas.improves(self)

    async def commit(
        self, chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        """Write ``chunks`` at the end, durable as the file's durability says; see the port.

        An hsync covers the block that is written, and SYNC_BLOCK those that were finalized.
        """
        length_before = self._length
        synced = self._synced if durability is None else durability is Durability.SYNCED
        timeout_s = self._context.limits.commit_timeout_s
        length = await self._run(timeout_s, self._write, chunks, synced)
        before, now = self._known_replicas, self._replicas
        if now != before:
            self._known_replicas = now
            self._context.replicas.changed(self, now, fell=length_before > 0 and now < before)
        return length

    async def close(self) -> int:
        """Make the file immutable and durable on disk; see the port."""
        if self._closed and self._dead is None:
            return self._length
        length = await self._run(self._context.limits.call_timeout_s, self._finish)
        self._closed = True
        self._on_release(self)
        return length

    def abandon(self, error: TalosError) -> None:
        """Close the file at once, because its store closes; wakes waiting callers."""
        if self._dead is None:
            self._dead = error
        if self._call is not None and not self._call.done():
            self._call.set_exception(OutcomeUnknown(f"{self.name}: {error}"))

    async def _run(self, timeout_s: float, work: Callable[..., int], *args: object) -> int:
        if self._dead is not None:
            raise WriterDead(f"{self.name}: an earlier call failed") from self._dead
        if self._closed:
            raise WriterDead(f"{self.name}: closed")
        self._dead = WriterDead(f"{self.name}: a call is under way or was interrupted")
        call: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._call, self._begun_s, self._late = call, None, False
        self._submitted_s = monotonic()
        try:
            self._context.commits.submit(self._begin, (call, work, *args), self._finished)
        except BaseException:
            self._call = None
            raise
        after = asyncio.get_running_loop().call_later
        self._timer = after(min(LOOK_S, timeout_s), self._look, call, timeout_s)
        try:
            length = await call
        finally:
            self._timer.cancel()
            del call  # it has the error, whose traceback has this frame
        self._dead = None
        self._length = length
        return length

    def _look(self, call: "asyncio.Future[int]", timeout_s: float) -> None:
        """On the loop, from time to time while a call takes long."""
        since_s = self._submitted_s if self._begun_s is None else self._begun_s
        left_s = since_s + timeout_s - monotonic()
        if call.done():
            return
        if left_s <= 0 and self._late:
            what = "no thread was free" if self._begun_s is None else "HDFS did not answer"
            call.set_exception(OutcomeUnknown(f"{self.name}: {what} within {timeout_s} s"))
            return
        self._late = left_s <= 0
        if self._begun_s is not None and not self._looking:
            self._drop_silent_node()
        wait_s = LATE_S if self._late else min(LOOK_S, left_s)
        after = asyncio.get_running_loop().call_later
        self._timer = after(wait_s, self._look, call, timeout_s)

    def _drop_silent_node(self) -> None:
        silent_nodes = self._context.client.silent_nodes
        if silent_nodes is None:
            return
        with contextlib.suppress(TalosError):  # without a thread the call waits for its timeout
            self._context.others.submit(silent_nodes.drop, (self._stream,), self._dropped)
            self._looking = True

    def _dropped(self, node: str, error: BaseException | None, _seconds: float) -> None:
        self._looking = False
        if error is not None:
            _log.warning("%s: could not ask its DataNodes: %s", self.name, error)
        elif node:
            _log.warning("%s: DataNode %s hangs, writing without it", self.name, node)

    async def settled(self, wait_s: float) -> None:
        """Return when no thread writes the file, at most after ``wait_s``.

        A recovery that begins before then would wait for a DataNode that hangs.
        """
        if self._call is None:
            return
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended.append(ended)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await ended

    def _finished(self, length: int, error: BaseException | None, _seconds: float) -> None:
        """On the loop, after the thread has finished with the stream."""
        call, self._call = self._call, None
        assert call is not None
        ended, self._ended = self._ended, []
        for waiting in ended:
            if not waiting.done():
                waiting.set_result(None)
        if error is None and not call.done():
            call.set_result(length)
            return
        if error is None:
            error = WriterDead(f"{self.name}: interrupted")
        elif not isinstance(error, TalosError):
            error = WriterDead(f"{self.name}: {error}")
        self._dead = to_keep(error)
        if not call.done():
            call.set_exception(error)
        self._release()

    def _release(self) -> None:
        """Close a dead stream in the Java client; recovery determines the file's end."""
        self._on_release(self)
        with contextlib.suppress(
            TalosError
        ):  # the threads have ended; the client closes the stream
            self._context.others.submit(self._stream.close, (), _ignore)

    # --- on I/O threads -------------------------------------------------------------------------

    def _begin(self, call: "asyncio.Future[int]", work: Callable[..., int], *args: object) -> int:
        if call.done():
            raise WriterDead(f"{self.name}: no thread was free in time")
        self._begun_s = monotonic()
        return work(*args)

    def _write(self, chunks: Sequence[bytes | memoryview], synced: bool) -> int:
        client = self._context.client
        try:
            replicas = client.commit_call.commit(self._stream, chunks, self._how(synced))
        except client.java_exception as error:
            raise self._commit_error(error) from error
        self._replicas = replicas
        if replicas < self._context.limits.replicas_min:
            raise WriterDead(
                f"{self.name}: a commit reached {replicas} {plural('DataNode', replicas)}, but "
                f"[hdfs] replicas_min is {self._context.limits.replicas_min}"
            )
        return self._length + sum(map(len, chunks))

    def _how(self, synced: bool) -> Sync:
        """How to sync. If the recovery of a single DataNode interrupts a busy writer, the DataNode
        can reject every later recovery, so that the file stays open permanently. In that case, and
        at the first commit, when the pipeline is unknown, the NameNode also gets the length. It
        rejects the writer as soon as the lease is recovered, before that recovery starts.
        """
        if self._replicas <= 1:
            return Sync.SYNC_LENGTH
        return Sync.SYNC if synced else Sync.FLUSH

    def _commit_error(self, error: Any) -> TalosError:
        text = f"{self.name}: {text_of(error)}"
        if lease_lost(error):
            return Fenced(text)
        try:
            fenced = self._context.client.is_closed(self.name)
        except NotFound:
            fenced = True  # deleted, which fences first
        except TalosError:
            fenced = False
        return Fenced(text) if fenced else WriterDead(text)

    def _finish(self) -> int:
        """SYNC_BLOCK makes every block durable when it is finalized, also for flushed files."""
        client = self._context.client
        try:
            self._stream.close()
        except client.java_exception as error:
            raise WriterDead(f"{self.name}: {text_of(error)}") from error
        return self._length


def _ignore(_result: object, _error: BaseException | None, _seconds: float) -> None:
    """The file is dead; recovery finds its contents."""
