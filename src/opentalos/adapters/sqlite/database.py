"""One SQLite database with one thread: queued writes share a transaction, so they share a sync."""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from opentalos.adapters.loop_outbox import LoopOutbox
from opentalos.adapters.sqlite.database_file import DatabaseFile, Schema, is_read_only
from opentalos.adapters.thread_start import start_thread
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError

_log = logging.getLogger(__name__)
T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]
Finished = Callable[[Any, BaseException | None], None]  # result, error; on the loop

BATCH_JOBS_MAX = 512  # jobs of one transaction
_TOKEN_BYTES = 16


class _Job(NamedTuple):
    work: Work
    finished: Finished
    write: bool


class Database:
    """A database file. All access runs on its thread; the methods belong to one event loop.

    Writes that wait together are one transaction with a random token. If its COMMIT fails, the
    token read back shows whether the whole batch is there: done, not done, or (the database cannot
    be read, or another process has written since) unknown.
    """

    def __init__(
        self,
        path: Path,
        schema: Schema,
        *,
        connection_class: type[sqlite3.Connection] = sqlite3.Connection,  # a seam for tests
    ) -> None:
        self._path = path
        self._file = DatabaseFile(path, schema, connection_class)  # of the thread
        self._inbox: SimpleQueue[_Job | None] = SimpleQueue()
        self._outbox: LoopOutbox | None = None
        self._connection: sqlite3.Connection | None = None  # of the thread
        self._unsettled = (
            False  # a COMMIT failed and no later transaction overwrote it; of the thread
        )
        self._ended: asyncio.Event | None = None
        self._closed = False

    async def open(self) -> None:
        """Start the thread and open the file; made if absent.

        Raises: NewerFormat, ConfigError: not such a file; CorruptLog: it is damaged;
        StoreUnavailable.
        """
        await self.run(lambda _connection: None, write=False)

    def submit(self, work: Work, finished: Finished, *, write: bool) -> None:
        """Run ``work(connection)`` on the thread, then ``finished`` on the loop, in this order.

        A write that raises a TalosError is undone alone; its batch continues.
        """
        if self._closed:
            raise StoreUnavailable(f"{self._path.name} is closed")
        if self._outbox is None:
            self._start()
        self._inbox.put(_Job(work, finished, write))

    def _start(self) -> None:
        outbox = self._outbox = LoopOutbox(asyncio.get_running_loop())
        ended = self._ended = asyncio.Event()
        try:
            start_thread(f"sqlite-{self._path.stem}", self._serve, outbox, ended)
        except StoreUnavailable:
            self._outbox = self._ended = None  # the next call tries again
            raise

    async def run(self, work: Callable[[sqlite3.Connection], T], *, write: bool) -> T:
        """Await ``work`` done, and durable if it writes."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def finished(result: T, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.submit(work, finished, write=write)
        return await future

    async def last_run(self) -> int:
        """Number of the server's last run that used the file; 0: none noted it."""

        def work(connection: sqlite3.Connection) -> int:
            return int(connection.execute("SELECT run FROM file_state").fetchone()[0])

        return await self.run(work, write=False)

    async def note_run(self, number: int) -> None:
        """Say that this run uses the file."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE file_state SET run = ?", (number,))

        await self.run(work, write=True)

    async def close(self, *, deadline_s: float) -> None:
        """Finish what was submitted, then close the file."""
        if self._closed:
            return
        self._closed = True
        self._inbox.put(None)
        if self._ended is not None:
            try:
                async with asyncio.timeout(deadline_s):
                    await self._ended.wait()
            except TimeoutError:
                _log.warning("closing %s although a call hangs", self._path.name)

    # --- on the thread ----------------------------------------------------------------------

    def _serve(self, outbox: LoopOutbox, ended: asyncio.Event) -> None:
        while True:
            batch = self._take()
            if batch is None:
                break
            self._run_batch(batch)
            del batch
        if self._connection is not None:
            self._disconnect()
        outbox.post(ended.set)

    def _take(self) -> list[_Job] | None:
        """What waits, at least one job; None: the end."""
        job = self._inbox.get()
        if job is None:
            return None
        batch = [job]
        while len(batch) < BATCH_JOBS_MAX:
            try:
                job = self._inbox.get_nowait()
            except Empty:
                break
            if job is None:
                self._inbox.put(None)  # after this batch; nothing follows it
                break
            batch.append(job)
        return batch

    def _run_batch(self, batch: list[_Job]) -> None:
        """Reads first: none of the batch's writes has returned yet, so either order is right, and
        no reader sees a write that could still be lost."""
        outcomes: list[tuple[Any, BaseException | None]] = []
        writes = [job for job in batch if job.write]
        try:
            connection = self._ready()
            for job in batch:
                if not job.write:
                    self._post(job, *_outcome(job.work, connection))
            batch = writes
            if writes:
                outcomes = self._transact(connection, writes)
        except BaseException as error:
            outcomes = [(None, error)] * len(batch)
            if is_read_only(error):
                self._disconnect()  # the next batch opens the file again
        for job, outcome in zip(batch, outcomes, strict=True):
            self._post(job, *outcome)

    def _post(self, job: _Job, result: Any, error: BaseException | None) -> None:
        assert self._outbox is not None
        if isinstance(error, sqlite3.Error | OSError | MemoryError):
            error = self._file.translated(error)
        self._outbox.post(job.finished, result, error)

    def _transact(
        self, connection: sqlite3.Connection, writes: Sequence[_Job]
    ) -> list[tuple[Any, BaseException | None]]:
        """One transaction; raises what befalls the whole of it, already rolled back."""
        token = os.urandom(_TOKEN_BYTES)
        try:
            connection.execute("BEGIN IMMEDIATE")
            outcomes = [_outcome_in_savepoint(job.work, connection) for job in writes]
            (before,) = connection.execute("SELECT token FROM last_batch").fetchone()
            connection.execute("UPDATE last_batch SET token = ?", (token,))
        except BaseException:
            self._roll_back(connection)
            raise
        try:
            connection.execute("COMMIT")
        except (sqlite3.Error, MemoryError) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                # The frame that commits is written last and was not: certainly rolled back.
                self._roll_back(connection)
                raise
            self._unsettled = True
            if not self._is_applied(token, before):
                raise self._file.translated(error) from error
        return outcomes

    def _is_applied(self, token: bytes, before: bytes) -> bool:
        """Whether the batch of that token is in the database, for good.

        Args: before: the token of the batch that it followed. Raises: OutcomeUnknown: this cannot
        be found out now.
        """
        name = self._path.name
        try:
            self._disconnect()
            connection = self._ready()
            found = connection.execute("SELECT token FROM previous_batch").fetchone()
        except (sqlite3.Error, MemoryError, TalosError) as error:
            raise OutcomeUnknown(f"{name}: a commit failed and cannot be read back") from error
        if found[0] not in (token, before):  # of another process, which may have followed either
            raise OutcomeUnknown(f"{name}: a commit failed, and another process has written since")
        return bool(found[0] == token)

    def _ready(self) -> sqlite3.Connection:
        """The open connection, with no failed COMMIT that a crash could bring back."""
        if self._connection is None:
            self._connection = self._file.connect()
        if self._unsettled:
            self._settle(self._connection)
            self._unsettled = False
        return self._connection

    def _settle(self, connection: sqlite3.Connection) -> None:
        """Remove the rest of a failed COMMIT: its frames may be in the log beyond the valid end, or
        valid but not durable. A checkpoint writes all visible data to the main file and empties the
        log. The token is saved for callers that check the outcome later."""
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS previous_batch (token BLOB)")
        connection.execute("DELETE FROM previous_batch")
        connection.execute("INSERT INTO previous_batch SELECT token FROM last_batch")
        connection.execute("UPDATE last_batch SET token = ?", (os.urandom(_TOKEN_BYTES),))
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreUnavailable(f"{self._path.name}: another process reads it")

    def _roll_back(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except (sqlite3.Error, MemoryError):
            self._disconnect()  # a closed connection holds no transaction

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _outcome(work: Work, connection: sqlite3.Connection) -> tuple[Any, BaseException | None]:
    try:
        return work(connection), None
    except Exception as error:  # the caller's: it is raised where the result is awaited
        return None, error


def _outcome_in_savepoint(
    work: Work, connection: sqlite3.Connection
) -> tuple[Any, BaseException | None]:
    """The outcome of one of many writes. Raises: sqlite3.OperationalError,
    MemoryError: of the whole batch."""
    connection.execute("SAVEPOINT job")
    try:
        result = work(connection)
    except (sqlite3.OperationalError, MemoryError):
        raise
    except Exception as error:  # as above
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return None, error
    connection.execute("RELEASE job")
    return result, None
