"""A file of SQLite: made, checked and opened as this server needs it.

``Database`` asks for a connection; the caller of every method is its thread. A file is believed
after three checks: of its log before SQLite reads it (write_ahead.py), of its structure and
definitions, and of what its store knows of it. A failed check changes and deletes nothing.
"""

import errno
import logging
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from google_crc32c import value as crc32c

from opentalos.adapters.durable_files import NewEntry, make_directories
from opentalos.adapters.machine import file_system_of
from opentalos.adapters.private_files import create_private, make_private
from opentalos.adapters.sqlite.write_ahead import RESTORE, Cut, check_log
from opentalos.model.errors import (
    ConfigError,
    CorruptLog,
    NewerFormat,
    StorageFull,
    StoreUnavailable,
    TalosError,
)

_log = logging.getLogger(__name__)

BUSY_TIMEOUT_MS = 2000  # for another process that holds the database
STATEMENTS_CACHED = 64
_SYNCHRONOUS_FULL = 2  # as the pragma of that name answers
_PRIMARY_CODE = 0xFF  # of an extended error code
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NOT_TEXT = "Could not decode"  # Python's error, which has no code
_OUR_TABLES = (  # of every file
    "CREATE TABLE IF NOT EXISTS last_batch"
    " (id INTEGER PRIMARY KEY CHECK (id = 1), token BLOB NOT NULL)",
    "INSERT OR IGNORE INTO last_batch VALUES (1, x'')",
    "CREATE TABLE IF NOT EXISTS file_state"
    " (id INTEGER PRIMARY KEY CHECK (id = 1), run INTEGER NOT NULL, definitions INTEGER NOT NULL)",
    "INSERT OR IGNORE INTO file_state VALUES (1, 0, 0)",
)


class _Counts:
    """Of this process."""

    log_cuts = 0


_counts = _Counts()


def log_cuts() -> int:
    """How often an incomplete transaction was left out of a log; see write_ahead.py."""
    return _counts.log_cuts


class Schema(NamedTuple):
    """What a database file is for, and the tables it must have."""

    application_id: int  # of this kind of file
    version: int  # of its format
    make: Callable[[sqlite3.Connection], None]  # makes its tables
    upgrades: Mapping[int, Callable[[sqlite3.Connection], None]] = {}  # from a version to the next
    check: Callable[[sqlite3.Connection], str] = lambda _connection: ""  # what is wrong in the file
    # Of a file whose structure is checked at each start: a disk reads so much in about a second.
    checked_bytes_max: int = 256 << 20


class DatabaseFile:
    """Opens connections to one file, which it makes if it is absent."""

    def __init__(
        self, path: Path, schema: Schema, connection_class: type[sqlite3.Connection]
    ) -> None:
        self._path, self._schema = path, schema
        self._connection_class = connection_class
        self._entry: NewEntry | None = None  # of the log, until it is durable
        self._checked = False  # later connections of this process trust the file

    def connect(self) -> sqlite3.Connection:
        """A connection to the checked file, whose tables are those of the schema.

        Raises: NewerFormat, ConfigError: not such a file; CorruptLog; StoreUnavailable.
        """
        try:
            cut = check_log(self._path)  # before any connection, which may delete the log
            entry = self._log_entry()
            self._make_private()
            connection = self._connection_to_file()
        except (sqlite3.Error, OSError, MemoryError) as error:
            raise self.translated(error) from error
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
            self._check_kind(connection)
            self._make_durable(connection)
            # SQLite does not make a new file's directory entry durable, or not for sure, and the
            # process that made the file may have died before it could.
            self._version(connection)  # makes the log
            entry.sync()
            self._entry = None
            self._check_structure(connection)  # an upgrade makes checksums of what it finds
            self._make_tables(connection)
            self._check_content(connection)
            if cut is not None:
                self._report(cut, connection)
        except (sqlite3.Error, OSError, MemoryError) as error:
            connection.close()
            raise self.translated(error) from error
        except UnicodeDecodeError as error:  # of what SQLite says about a damaged schema
            connection.close()
            raise self._damaged("its schema cannot be read") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _report(self, cut: Cut, connection: sqlite3.Connection) -> None:
        """Say what SQLite left out, once: a checkpoint empties the log, unless others read it."""
        _counts.log_cuts += 1
        _log.warning(
            "wal-tail-cut: %s-wal: %d frames from position %d on are left out: a crash left a "
            "transaction incomplete, which was not acknowledged",
            self._path,
            cut.frames,
            cut.position,
        )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

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

    def _check_structure(self, connection: sqlite3.Connection) -> None:
        """Of the whole file, once, and of what its tables are. Raises: CorruptLog."""
        if self._checked:
            return
        if self._version(connection) == self._schema.version:
            try:
                found = connection.execute("SELECT definitions FROM file_state").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                    raise
                found = None  # no such table, as far as SQLite can tell
            if found != (_definitions(connection),):
                raise self._damaged("the definitions of its tables are not those it was made with")
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        file_bytes = pages * connection.execute("PRAGMA page_size").fetchone()[0]
        if file_bytes > self._schema.checked_bytes_max:
            _log.info(
                "%s has %d bytes, so its structure is not checked at a start; rows are checked "
                "when they are read",
                self._path,
                file_bytes,
            )
            return
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != ("ok",):
            raise self._damaged(found[0])

    def _check_content(self, connection: sqlite3.Connection) -> None:
        if not self._checked and (found := self._schema.check(connection)):
            raise self._damaged(found)
        self._checked = True

    def _damaged(self, what: object) -> CorruptLog:
        return CorruptLog(f"{self._path} is damaged: {what}; {RESTORE}")

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        if self._version(connection) == self._schema.version:
            return
        # So another process that opens the file finds all or nothing; a close undoes the rest.
        connection.execute("BEGIN IMMEDIATE")
        self._upgrade(connection, self._version(connection))
        connection.execute("COMMIT")

    def _upgrade(self, connection: sqlite3.Connection, version: int) -> None:
        schema = self._schema
        for statement in _OUR_TABLES:
            connection.execute(statement)
        if not version:
            schema.make(connection)
            version = schema.version
        for former in range(version, schema.version):
            _log.warning("upgrading %s from format %d", self._path, former)
            schema.upgrades[former](connection)
        definitions = _definitions(connection)
        connection.execute("UPDATE file_state SET definitions = ?", (definitions,))
        connection.execute(f"PRAGMA application_id = {schema.application_id}")
        connection.execute(f"PRAGMA user_version = {schema.version}")

    def _version(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])

    def translated(self, error: sqlite3.Error | OSError | MemoryError) -> TalosError:
        """What an error outside COMMIT means: nothing was changed."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & _PRIMARY_CODE
        translated: TalosError
        if code in _DAMAGED or str(error).startswith(_NOT_TEXT):
            translated = self._damaged(error)
        else:
            full = code == sqlite3.SQLITE_FULL or getattr(error, "errno", 0) == errno.ENOSPC
            reason = error if str(error) else "out of memory"
            translated = (StorageFull if full else StoreUnavailable)(f"{self._path.name}: {reason}")
        translated.__cause__ = error
        return translated


def is_read_only(error: BaseException) -> bool:
    """SQLite opens a file to read it only, and says nothing, if it cannot be opened for writing at
    that moment: for want of a descriptor, or by an error of the disk."""
    code = getattr(error, "sqlite_errorcode", 0)
    return bool(code & _PRIMARY_CODE == sqlite3.SQLITE_READONLY)


def _definitions(connection: sqlite3.Connection) -> int:
    """A checksum of the tables' definitions: SQLite believes whatever text is there."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    checksum: int = crc32c(repr(connection.execute(query).fetchall()).encode())
    return checksum
