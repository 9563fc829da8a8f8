"""MetaStore on one SQLite file: one server, one data directory.

A record has a checksum of path, version and value. One whose checksum is wrong is refused by name;
a wrong path, which might look like an absent record, is found when the file is opened: SQLite's
check compares each path with that in an index.
"""

import asyncio
import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from opentalos.adapters.sqlite.checksum import row_checksum
from opentalos.adapters.sqlite.database import Database
from opentalos.adapters.sqlite.database_file import Schema
from opentalos.adapters.sqlite.session import SessionLock, forget, is_dead
from opentalos.adapters.sqlite.write_ahead import RESTORE
from opentalos.adapters.store_path import check_meta_path, check_meta_prefix, check_meta_value
from opentalos.model.errors import (
    AlreadyExists,
    CorruptLog,
    StoreUnavailable,
    VersionConflict,
)
from opentalos.ports.meta_store import Record, Session

T = TypeVar("T")
Change = tuple[str, Record | None]  # path, its record from now on

CLOSE_S = 2.0  # for calls under way at close
POLL_S = 0.5  # while something is watched: changes by other processes, sessions that ended
_TABLES = (
    """
CREATE TABLE records (
    path TEXT PRIMARY KEY,
    value BLOB NOT NULL,
    version INTEGER NOT NULL,
    session TEXT,
    checksum INTEGER NOT NULL
)
""",
    "CREATE INDEX records_of_sessions ON records (session) WHERE session IS NOT NULL",
    """
CREATE TABLE version_floor (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,  -- the largest version of any record that was removed
    checksum INTEGER NOT NULL
)
""",
)
_FROM_FORMAT_1 = (
    "CREATE INDEX IF NOT EXISTS records_of_sessions ON records (session) WHERE session IS NOT NULL",
    "CREATE TABLE version_floor (id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL)",
    "INSERT INTO version_floor VALUES (1, 0)",
)
_FROM_FORMAT_2 = (
    "ALTER TABLE records ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
    "UPDATE records SET checksum = record_sum(path, version, value)",
    "ALTER TABLE version_floor ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0",
    "UPDATE version_floor SET checksum = record_sum('', version, x'')",
)


def _record_sum(path: str, version: int, value: bytes) -> int:
    """Of a record; of the version floor, with an empty path and value."""
    return row_checksum(path.encode(), b"%d %b" % (version, value))


def _make_tables(db: sqlite3.Connection) -> None:
    for statement in _TABLES:
        db.execute(statement)
    db.execute("INSERT INTO version_floor VALUES (1, 0, ?)", (_record_sum("", 0, b""),))


def _from_format_1(db: sqlite3.Connection) -> None:
    """It has no floor and may have no index."""
    for statement in _FROM_FORMAT_1:
        db.execute(statement)


def _from_format_2(db: sqlite3.Connection) -> None:
    """It has no checksums. The way back: docs/operating/single-server.md."""
    db.create_function("record_sum", 3, _record_sum)
    for statement in _FROM_FORMAT_2:
        db.execute(statement)


SCHEMA = Schema(
    application_id=0x544C4D31,  # "TLM1"
    version=3,
    make=_make_tables,
    upgrades={1: _from_format_1, 2: _from_format_2},
)


class _Watcher:
    """One ``watch``: the latest state, kept current by the loop, and a sign that it changed."""

    def __init__(self, start: str) -> None:
        self.start = start
        self.state: dict[str, Record] | None = None  # None: not read yet
        self.error: BaseException | None = None
        self.changed = asyncio.Event()

    def replace(self, state: dict[str, Record] | None, error: BaseException | None) -> None:
        """Take the state as read from the file."""
        if error is not None:
            if self.state is None:
                self.error = error
                self.changed.set()
        elif state != self.state:
            self.state = state
            self.changed.set()

    def apply(self, path: str, record: Record | None) -> None:
        """Take one change by this client."""
        if self.state is None or not path.startswith(self.start):
            return
        if record is None:
            self.state.pop(path, None)
        else:
            self.state[path] = record
        self.changed.set()


class SqliteMetaStore:
    """MetaStore on the file ``path``; the nonce of a write is the token of its batch.

    A watch shows this client's writes at once, other processes' within ``POLL_S``.
    """

    def __init__(
        self, path: Path, *, connection_class: type[sqlite3.Connection] = sqlite3.Connection
    ) -> None:
        self._path = path
        self._database = Database(path, SCHEMA, connection_class=connection_class)
        self._session = SessionLock(path)
        self._watchers: dict[_Watcher, None] = {}
        self._poll_timer: asyncio.TimerHandle | None = None
        self._polling = False
        self._data_version = -1  # of the file; on the database's thread
        self._closed = False

    async def get(self, path: str) -> Record | None:
        """The record or None; see the port."""
        check_meta_path(path)
        return await self._database.run(lambda db: self._select(db, path), write=False)

    async def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> int:
        """Add a record; see the port."""
        value = bytes(check_meta_value(check_meta_path(path), value))
        version = 0

        def work(db: sqlite3.Connection) -> list[Change]:
            nonlocal version
            if ephemeral:
                self._session.hold()
            session = self._session.token if ephemeral else None
            version = self._floor(db) + 1
            inserted = db.execute(
                "INSERT OR IGNORE INTO records VALUES (?, ?, ?, ?, ?)",
                (path, value, version, session, _record_sum(path, version, value)),
            )
            if inserted.rowcount != 1:
                raise AlreadyExists(path)
            return [(path, Record(value, version))]

        await self._write(work)
        return version

    async def replace(self, path: str, value: bytes, expected: int) -> int:
        """Compare-and-set; see the port."""
        value = bytes(check_meta_value(check_meta_path(path), value))

        def work(db: sqlite3.Connection) -> list[Change]:
            updated = db.execute(
                "UPDATE records SET value = ?, version = version + 1, checksum = ?"
                " WHERE path = ? AND version = ?",
                (value, _record_sum(path, expected + 1, value), path, expected),
            )
            if updated.rowcount != 1:
                raise self._conflict(db, path, expected)
            return [(path, Record(value, expected + 1))]

        await self._write(work)
        return expected + 1

    async def delete(self, path: str, expected: int) -> None:
        """Compare-and-remove; see the port."""
        check_meta_path(path)

        def work(db: sqlite3.Connection) -> list[Change]:
            deleted = db.execute(
                "DELETE FROM records WHERE path = ? AND version = ?", (path, expected)
            )
            if deleted.rowcount != 1:
                raise self._conflict(db, path, expected)
            floor = max(self._floor(db), expected)
            db.execute(
                "UPDATE version_floor SET version = ?, checksum = ?",
                (floor, _record_sum("", floor, b"")),
            )
            return [(path, None)]

        await self._write(work)

    async def children(self, path: str) -> Sequence[str]:
        """Names directly below ``path``; see the port."""
        start = _below(path)

        def work(db: sqlite3.Connection) -> list[str]:
            found = db.execute(f"SELECT path FROM records WHERE {_RANGE}", _range(start))
            return sorted({name[len(start) :].split("/", 1)[0] for (name,) in found})

        return await self._database.run(work, write=False)

    async def watch(self, prefix: str) -> AsyncIterator[Mapping[str, Record]]:
        """Current state, then the latest states; ends when the store is closed; see the port."""
        if self.session().lost:
            raise StoreUnavailable(f"{self._path.name} is closed")
        watcher = _Watcher(_below(prefix))
        self._watchers[watcher] = None
        try:
            self._read_again(watcher)
            if not self._polling:
                self._polling = True
                self._poll_later()
            while True:
                await watcher.changed.wait()
                watcher.changed.clear()
                if self._closed:
                    return
                if watcher.error is not None:
                    raise watcher.error
                yield dict(watcher.state or {})
        finally:
            self._watchers.pop(watcher, None)

    def session(self) -> Session:
        """A session lasts as long as this client: the kernel watches over its lock."""
        return Session(valid_until_s=math.inf, lost=self._closed, incarnation=1)

    async def last_run(self) -> int:
        """Number of the server's last run that used the file; 0: none noted it."""
        return await self._database.last_run()

    async def note_run(self, number: int) -> None:
        """Say that this run uses the file; durable."""
        await self._database.note_run(number)

    async def close(self) -> None:
        """End the session: its ephemeral records go, its watches end."""
        if self._closed:
            return
        self._closed = True
        if self._poll_timer is not None:
            self._poll_timer.cancel()
        for watcher in self._watchers:
            watcher.changed.set()
        try:
            self._database.submit(self._end_session, _ignore, write=True)
        finally:
            await self._database.close(deadline_s=CLOSE_S)

    async def open(self) -> None:
        """Open the file and clear away what sessions of dead processes left."""
        await self._database.open()
        await self._write(self._sweep)

    async def _write(self, work: Callable[[sqlite3.Connection], list[Change]]) -> None:
        """Await the write durable. Watchers hear of it in commit order, before the caller."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finished(changes: list[Change] | None, error: BaseException | None) -> None:
            for path, record in changes or ():
                for watcher in self._watchers:
                    watcher.apply(path, record)
            if future.done():
                return
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self._database.submit(work, finished, write=True)
        await future

    def _read_again(self, watcher: _Watcher) -> None:
        """The state is taken in the order of the thread's work, so it never goes back."""

        def work(db: sqlite3.Connection) -> dict[str, Record]:
            found = db.execute(
                f"SELECT path, {_COLUMNS} FROM records WHERE {_RANGE}",
                _range(watcher.start),
            )
            return {path: self._checked(path, *row) for path, *row in found}

        self._database.submit(work, watcher.replace, write=False)

    def _select(self, db: sqlite3.Connection, path: str) -> Record | None:
        row = db.execute(f"SELECT {_COLUMNS} FROM records WHERE path = ?", (path,)).fetchone()
        return self._checked(path, *row) if row else None

    def _checked(self, path: str, value: bytes, version: object, checksum: int) -> Record:
        """A record as it was read. Raises: CorruptLog."""
        if not isinstance(version, int) or _record_sum(path, version, value) != checksum:
            damage = CorruptLog(f"record {path} in {self._path} is damaged; {RESTORE}")
            damage.record_version = version if isinstance(version, int) else 0
            raise damage
        return Record(value, version)

    def _floor(self, db: sqlite3.Connection) -> int:
        version, checksum = db.execute("SELECT version, checksum FROM version_floor").fetchone()
        if not isinstance(version, int) or _record_sum("", version, b"") != checksum:
            raise CorruptLog(f"the version floor in {self._path} is damaged; {RESTORE}")
        return version

    def _conflict(self, db: sqlite3.Connection, path: str, expected: int) -> VersionConflict:
        record = self._select(db, path)
        found = record.version if record else 0
        return VersionConflict(f"record {path}: version {found}, expected {expected}")

    # --- other processes ----------------------------------------------------------------------

    def _poll_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._poll_timer = loop.call_later(POLL_S, self._poll)

    def _poll(self) -> None:
        self._polling = bool(self._watchers)
        if self._polling:
            self._database.submit(self._look_around, self._looked_around, write=False)

    def _look_around(self, db: sqlite3.Connection) -> tuple[bool, bool]:
        """On the thread: has another process written; has a session ended."""
        version = db.execute("PRAGMA data_version").fetchone()[0]
        changed = version != self._data_version
        self._data_version = version
        return changed, bool(self._dead_sessions(db))

    def _looked_around(self, found: tuple[bool, bool] | None, _error: BaseException | None) -> None:
        if self._closed:
            return
        changed, ended = found or (False, False)
        if changed:
            for watcher in self._watchers:
                self._read_again(watcher)
        if ended:
            self._database.submit(self._sweep, self._swept, write=True)
        self._poll_later()

    def _swept(self, changes: list[Change] | None, _error: BaseException | None) -> None:
        for path, record in changes or ():
            for watcher in self._watchers:
                watcher.apply(path, record)

    # --- sessions, on the thread --------------------------------------------------------------

    def _dead_sessions(self, db: sqlite3.Connection) -> list[str]:
        sessions = db.execute("SELECT DISTINCT session FROM records WHERE session IS NOT NULL")
        return [
            token
            for (token,) in sessions
            if token != self._session.token and is_dead(self._path, token)
        ]

    def _sweep(self, db: sqlite3.Connection) -> list[Change]:
        changes: list[Change] = []
        for token in self._dead_sessions(db):
            changes += _remove_session(db, token)
            forget(self._path, token)
        return changes

    def _end_session(self, db: sqlite3.Connection) -> None:
        _remove_session(db, self._session.token)
        self._session.release()


# A flipped bit may make a text of a value, which Python would decode.
_COLUMNS = "CAST(value AS BLOB), version, checksum"
_RANGE = "path >= ? AND path < ?"


def _range(start: str) -> tuple[str, str]:
    """Paths that begin with ``start``, which ends in ``/`` or is empty: ``0`` follows ``/``."""
    return (start, f"{start[:-1]}0" if start else "\U0010ffff")


def _below(prefix: str) -> str:
    folder = check_meta_prefix(prefix)
    return f"{folder}/" if folder else ""


def _remove_session(db: sqlite3.Connection, token: str) -> list[Change]:
    paths = [path for (path,) in db.execute("SELECT path FROM records WHERE session = ?", (token,))]
    db.execute("DELETE FROM records WHERE session = ?", (token,))
    return [(path, None) for path in paths]


def _ignore(_result: object, _error: BaseException | None) -> None:
    """A session that could not be ended here is dead to others once its lock is gone."""


async def open_sqlite_meta_store(
    path: Path, *, connection_class: type[sqlite3.Connection] = sqlite3.Connection
) -> SqliteMetaStore:
    """A store whose file is open.

    Raises: NewerFormat, ConfigError, CorruptLog, StoreUnavailable.
    """
    store = SqliteMetaStore(path, connection_class=connection_class)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store
