"""One SQLite database with one thread: queued writes share a transaction, so they share a sync."""

import asyncio
import errno
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from opentalos.adapters.durable_files import NewEntry, make_directories
from opentalos.adapters.loop_outbox import LoopOutbox
from opentalos.adapters.machine import file_system_of
from opentalos.adapters.private_files import create_private, make_private
from opentalos.adapters.thread_start import start_thread
from opentalos.model.errors import (
    ConfigError,
    NewerFormat,
    OutcomeUnknown,
    StorageFull,
    StoreUnavailable,
    TalosError,
)

_log = logging.getLogger(__name__)
T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]
Finished = Callable[[Any, BaseException | None], None]  # result, error; on the loop

BATCH_JOBS_MAX = 512  # jobs of one transaction
BUSY_TIMEOUT_MS = 2000  # for another process that holds the database
STATEMENTS_CACHED = 64
_SYNCHRONOUS_FULL = 2  # as the pragma of that name answers
_PRIMARY_CODE = 0xFF  # of an extended error code
_TOKEN_BYTES = 16
_SETTLE = (
    "CREATE TABLE IF NOT EXISTS last_batch"
    " (id INTEGER PRIMARY KEY CHECK (id = 1), token BLOB NOT NULL)",
    "INSERT OR IGNORE INTO last_batch VALUES (1, x'')",
)


class Schema(NamedTuple):
    """What a database file is for, and the tables it must have."""

    application_id: int  # of this kind of file
    version: int  # of its format
    make: Callable[[sqlite3.Connection], None]  # makes its tables
    upgrades: Mapping[int, Callable[[sqlite3.Connection], None]] = {}  # from a version to the next


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
        self._path, self._schema = path, schema
        self._connection_class = connection_class
        self._inbox: SimpleQueue[_Job | None] = SimpleQueue()
        self._outbox: LoopOutbox | None = None
        self._connection: sqlite3.Connection | None = None  # of the thread
        self._entry: NewEntry | None = None  # of the log, until it is durable; of the thread
        self._unsettled = (
            False  # a COMMIT failed and no later transaction overwrote it; of the thread
        )
        self._ended: asyncio.Event | None = None
        self._closed = False

    async def open(self) -> None:
        """Start the thread and open the file; made if absent.

        Raises: NewerFormat, ConfigError: not such a file; StoreUnavailable.
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
            if _is_read_only(error):
                self._disconnect()  # the next batch opens the file again
        for job, outcome in zip(batch, outcomes, strict=True):
            self._post(job, *outcome)

    def _post(self, job: _Job, result: Any, error: BaseException | None) -> None:
        assert self._outbox is not None
        if isinstance(error, sqlite3.Error | OSError | MemoryError):
            error = self._translated(error)
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
                raise self._translated(error) from error
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
            self._connection = self._connect()
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

    def _connect(self) -> sqlite3.Connection:
        try:
            entry = self._log_entry()
            self._make_private()
            connection = self._connection_to_file()
        except (sqlite3.Error, OSError, MemoryError) as error:
            raise self._translated(error) from error
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            self._check_kind(connection)
            self._make_durable(connection)
            # SQLite does not make a new file's directory entry durable, or not for sure, and the
            # process that made the file may have died before it could.
            self._version(connection)  # makes the log
            entry.sync()
            self._entry = None
            self._make_tables(connection)
        except (sqlite3.Error, OSError, MemoryError) as error:
            connection.close()
            raise self._translated(error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_private(self) -> None:
        """SQLite gives its log and index the mode of the database. Raises: ConfigError, OSError."""
        create_private(self._path)
        for suffix in ("", "-wal", "-shm"):
            if make_private(self._path.with_name(self._path.name + suffix)):
                _log.warning("%s%s was readable by others; corrected", self._path, suffix)

    def _connection_to_file(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self._path,
            isolation_level=None,
            factory=self._connection_class,
            cached_statements=STATEMENTS_CACHED,
        )

    def _log_entry(self) -> NewEntry:
        """What makes the entry of SQLite's log durable, which it makes with the first statement.

        If a sync failed, the log may be lost with the power for good, so SQLite has to make another
        one: its last connection empties and removes it. Raises: StoreUnavailable: it did not.
        """
        directory = self._path.absolute().parent
        make_directories(directory)
        log = directory / f"{self._path.name}-wal"
        if self._entry is not None and self._entry.lost:
            if log.exists():
                connection = self._connection_to_file()
                try:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                finally:
                    connection.close()
            if log.exists():
                raise StoreUnavailable(f"{log.name} may not be durable, and is still in use")
            self._entry = None
        if self._entry is None:
            self._entry = NewEntry(directory)
        return self._entry

    def _make_durable(self, connection: sqlite3.Connection) -> None:
        """A COMMIT that returned survives a power loss; SQLite answers what it really uses.

        Raises: ConfigError: the file system cannot do that.
        """
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: fsync stops at the drive's cache
        level = connection.execute("PRAGMA synchronous").fetchone()[0]
        if mode != "wal" or level != _SYNCHRONOUS_FULL:
            raise ConfigError(
                f"{self._path} is on {file_system_of(self._path)}, where SQLite cannot keep a "
                f"write-ahead log (journal_mode {mode}, synchronous {level}); put [server] data on "
                "a local file system"
            )

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        """Before anything is written: a newer or a foreign file is left as it is."""
        kind = connection.execute("PRAGMA application_id").fetchone()[0]
        version = self._version(connection)
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if kind != self._schema.application_id and (kind or tables):
            raise ConfigError(f"{self._path} is not a database of this server; check [server] data")
        if version > self._schema.version:
            raise NewerFormat(
                f"{self._path} has format {version}; this version supports formats up to "
                f"{self._schema.version}"
            )

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        if self._version(connection) == self._schema.version:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._upgrade(connection, self._version(connection))
            connection.execute("COMMIT")
        except BaseException:
            self._roll_back(connection)
            raise

    def _upgrade(self, connection: sqlite3.Connection, version: int) -> None:
        """In a transaction, so that another process that opens the file finds all or nothing."""
        schema = self._schema
        for statement in _SETTLE:
            connection.execute(statement)
        if not version:
            schema.make(connection)
            version = schema.version
        for former in range(version, schema.version):
            _log.warning("upgrading %s from format %d", self._path, former)
            schema.upgrades[former](connection)
        connection.execute(f"PRAGMA application_id = {schema.application_id}")
        connection.execute(f"PRAGMA user_version = {schema.version}")

    def _version(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _translated(self, error: sqlite3.Error | OSError | MemoryError) -> TalosError:
        """What an error outside COMMIT means: nothing was changed."""
        if isinstance(error, OSError):
            full = error.errno == errno.ENOSPC
        else:
            full = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        reason = error if str(error) else "out of memory"
        translated = (StorageFull if full else StoreUnavailable)(f"{self._path.name}: {reason}")
        translated.__cause__ = error
        return translated


def _is_read_only(error: BaseException) -> bool:
    """SQLite opens a file to read it only, and says nothing, if it cannot be opened for writing at
    that moment: for want of a descriptor, or by an error of the disk."""
    code = getattr(error, "sqlite_errorcode", 0)
    return bool(code & _PRIMARY_CODE == sqlite3.SQLITE_READONLY)


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
