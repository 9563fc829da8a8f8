"""RowStore on one SQLite file.

Rows and pending cells have checksums. A row whose content is wrong is refused by name. One whose
key is wrong looks like another row, and its own like none: but it still lies where its key
belongs. So before a row is said to be absent, and where a scan begins and ends, the keys beside
that place are checked, too.
"""

import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from opentalos.adapters.row_rules import (
    KEY_BYTES_MAX,
    NEVER_WRITTEN,
    RowState,
    check_mutation,
    check_mutations,
    check_scan,
    merged,
    next_version,
)
from opentalos.adapters.sqlite.cells_format import decode_cells, encode_cells
from opentalos.adapters.sqlite.checksum import key_is_sound, row_checksum
from opentalos.adapters.sqlite.database import Database
from opentalos.adapters.sqlite.database_file import Schema
from opentalos.adapters.sqlite.write_ahead import RESTORE
from opentalos.model.errors import CorruptLog, NotFound, TalosError
from opentalos.ports.row_store import FamilyName, Row, RowMutation

CLOSE_S = 2.0  # for calls under way at close
_SHOWN_BYTES = 32  # of a key in a text
_TABLES = "CREATE TABLE tables (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)"
_ROWS = """
CREATE TABLE rows (
    table_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    version INTEGER NOT NULL,
    write_id BLOB NOT NULL,
    deleted INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (table_id, key)
) WITHOUT ROWID
"""
# Cells that come and soon go, few at a time: apart from the rows they stay on a few pages.
_PENDING = """
CREATE TABLE pending (
    table_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    column BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    cell BLOB NOT NULL,
    PRIMARY KEY (table_id, key, column)
) WITHOUT ROWID
"""
_CHECKSUM = "    checksum INTEGER NOT NULL,\n"  # formats 1 and 2 have none


def _shown(key: bytes) -> str:
    """The beginning of a key, for texts."""
    return key[:_SHOWN_BYTES].hex()


def _row_key(table_id: int, key: bytes) -> bytes:
    return b"%d %b" % (table_id, key)


def _row_sum(
    table_id: int, key: bytes, version: int, write_id: bytes, deleted: int, data: bytes
) -> int:
    rest = b"%d %d %d %b%b" % (version, deleted, len(write_id), write_id, data)
    return row_checksum(_row_key(table_id, key), rest)


def _cell_key(table_id: int, key: bytes, column: bytes) -> bytes:
    return b"%d %d %b%b" % (table_id, len(key), key, column)


def _cell_sum(table_id: int, key: bytes, column: bytes, cell: bytes) -> int:
    return row_checksum(_cell_key(table_id, key, column), cell)


def _make_tables(db: sqlite3.Connection) -> None:
    for statement in (_TABLES, _ROWS, _PENDING):
        db.execute(statement)


def _from_format_1(db: sqlite3.Connection) -> None:
    """There the pending cells of a row are one more value of it, in the form of its data."""
    db.execute(_PENDING.replace(_CHECKSUM, ""))
    for table_id, key, cells in db.execute(
        "SELECT table_id, key, pending FROM rows WHERE pending <> x''"
    ).fetchall():
        rows = [(table_id, key, column, cell) for column, cell in decode_cells(cells).items()]
        db.executemany("INSERT INTO pending VALUES (?, ?, ?, ?)", rows)
    db.execute("ALTER TABLE rows RENAME TO rows_1")
    db.execute(_ROWS.replace(_CHECKSUM, ""))
    db.execute(
        "INSERT INTO rows SELECT table_id, key, version, write_id, deleted, data FROM rows_1"
    )
    db.execute("DROP TABLE rows_1")


def _from_format_2(db: sqlite3.Connection) -> None:
    """It has no checksums. The way back: docs/operating/single-server.md."""
    db.create_function("row_sum", 6, _row_sum)
    db.create_function("cell_sum", 4, _cell_sum)
    db.execute("ALTER TABLE rows RENAME TO rows_2")
    db.execute("ALTER TABLE pending RENAME TO pending_2")
    for statement in (_ROWS, _PENDING):
        db.execute(statement)
    row, cell = "table_id, key, version, write_id, deleted", "table_id, key, column"
    db.execute(f"INSERT INTO rows SELECT {row}, row_sum({row}, data), data FROM rows_2")
    db.execute(f"INSERT INTO pending SELECT {cell}, cell_sum({cell}, cell), cell FROM pending_2")
    for table in ("rows_2", "pending_2"):
        db.execute(f"DROP TABLE {table}")


def _blob(column: str) -> str:
    """The column; empty if a flipped bit made a text of it, which Python would decode."""
    return f"CASE typeof({column}) WHEN 'blob' THEN {column} ELSE x'' END"


_PLACE = f"table_id, {_blob('key')}, checksum"
_ROW = f"{_PLACE}, version, {_blob('write_id')}, deleted, {_blob('data')}"
_PENDING_PLACE = f"table_id, {_blob('key')}, {_blob('column')}, checksum"


def _check_file(db: sqlite3.Connection) -> str:
    """What would make rows look absent and no read would notice. There are few pending cells."""
    named = db.execute("PRAGMA integrity_check('tables')").fetchone()[0]
    if named != "ok":
        return str(named)
    for *place, checksum in db.execute(f"SELECT {_PENDING_PLACE} FROM pending"):
        if not isinstance(place[0], int) or not key_is_sound(checksum, _cell_key(*place)):
            return f"a pending cell of row {_shown(place[1])} has a wrong key"
    return ""


SCHEMA = Schema(
    application_id=0x544C5231,  # "TLR1"
    version=3,
    make=_make_tables,
    upgrades={1: _from_format_1, 2: _from_format_2},
    check=_check_file,
)


class SqliteRowStore:
    """RowStore on the file ``path``. Rows that are removed leave a tombstone with their version."""

    def __init__(
        self, path: Path, *, connection_class: type[sqlite3.Connection] = sqlite3.Connection
    ) -> None:
        self._database = Database(path, SCHEMA, connection_class=connection_class)

    async def open_table(self, table: str, *, splits: Sequence[bytes] = ()) -> None:
        """Make the table if it is not there; SQLite has no regions; see the port."""

        def work(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR IGNORE INTO tables (name) VALUES (?)", (table,))

        await self._database.run(work, write=True)

    async def drop_table(self, table: str) -> None:
        """Remove the table with its rows; an absent one is no error."""

        def work(db: sqlite3.Connection) -> None:
            named = "(SELECT id FROM tables WHERE name = ?)"
            db.execute(f"DELETE FROM rows WHERE table_id = {named}", (table,))
            db.execute(f"DELETE FROM pending WHERE table_id = {named}", (table,))
            db.execute("DELETE FROM tables WHERE name = ?", (table,))

        await self._database.run(work, write=True)

    async def get(
        self, table: str, keys: Sequence[bytes], *, family: FamilyName = FamilyName.DATA
    ) -> Sequence[Row | None]:
        """Rows in the order asked; see the port."""

        def work(db: sqlite3.Connection) -> list[Row | None]:
            table_id = _table_id(db, table)
            return [_READ[family](db, table_id, key) for key in keys]

        return await self._database.run(work, write=False)

    async def mutate(self, table: str, mutation: RowMutation) -> int:
        """One compare-and-set; see the port."""
        check_mutation(mutation)
        return await self._database.run(
            lambda db: _mutate(db, _table_id(db, table), mutation), write=True
        )

    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]:
        """One outcome per mutation, all durable by one sync; see the port."""
        check_mutations(mutations)

        def work(db: sqlite3.Connection) -> list[int | TalosError]:
            table_id = _table_id(db, table)
            return [_outcome(db, table_id, mutation) for mutation in mutations]

        return await self._database.run(work, write=True)

    async def scan(
        self,
        table: str,
        start: bytes,
        stop: bytes,
        *,
        limit: int,
        reverse: bool = False,
        family: FamilyName = FamilyName.DATA,
    ) -> Sequence[Row]:
        """Rows of a key range; see the port."""
        check_scan(limit)
        query = _PENDING_KEYS.format(order="DESC" if reverse else "ASC")

        def work(db: sqlite3.Connection) -> list[Row]:
            table_id = _table_id(db, table)
            if family is FamilyName.DATA:
                with closing(_scan(db, table_id, start, stop, reverse=reverse)) as found:
                    return list(islice(found, limit))
            keys = db.execute(query, (table_id, start, not stop, stop, limit)).fetchall()
            rows = [_read_pending(db, table_id, key) for (key,) in keys]
            return [row for row in rows if row is not None]

        return await self._database.run(work, write=False)

    async def verify(self) -> None:
        """Read the whole file. Raises: CorruptLog: the first damage."""

        def work(db: sqlite3.Connection) -> None:
            structure = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if structure != "ok":
                raise _damaged(db, f"the structure ({structure})")
            for (table_id,) in db.execute("SELECT id FROM tables").fetchall():
                for _ in _scan(db, table_id, b"", b"", reverse=False):
                    pass
                for (key,) in db.execute(_PENDING_KEYS_OF_TABLE, (table_id,)).fetchall():
                    _read_pending(db, table_id, key)

        await self._database.run(work, write=False)

    async def last_run(self) -> int:
        """Number of the server's last run that used the file; 0: none noted it."""
        return await self._database.last_run()

    async def note_run(self, number: int) -> None:
        """Say that this run uses the file; durable."""
        await self._database.note_run(number)

    async def close(self) -> None:
        """Finish calls under way and close the file."""
        await self._database.close(deadline_s=CLOSE_S)

    async def open(self) -> None:
        """Open the file. Raises: NewerFormat, ConfigError, CorruptLog, StoreUnavailable."""
        await self._database.open()


_PENDING_KEYS_OF_TABLE = "SELECT DISTINCT key FROM pending WHERE table_id = ?"
_PENDING_KEYS = """
SELECT DISTINCT key FROM pending WHERE table_id = ? AND key >= ? AND (? OR key < ?)
    ORDER BY key {order} LIMIT ?
"""
_UP = f"SELECT {_ROW} FROM rows WHERE table_id = ? AND key >= ? ORDER BY key"
_DOWN = f"SELECT {_ROW} FROM rows WHERE table_id = ? AND key < ? ORDER BY key DESC"
_BEYOND = b"\xff" * (KEY_BYTES_MAX + 1)  # every key
_BESIDE = f"""
SELECT * FROM (SELECT 0, {_PLACE} FROM rows WHERE (table_id, key) < (?1, ?2)
    ORDER BY table_id DESC, key DESC LIMIT 1)
UNION ALL SELECT * FROM (SELECT 1, {_PLACE} FROM rows WHERE (table_id, key) >= (?1, ?2)
    ORDER BY table_id, key LIMIT 1)
"""


class _Found(NamedTuple):
    """A row as it is stored."""

    table_id: int
    key: bytes
    checksum: int
    version: int
    write_id: bytes
    deleted: int
    data: bytes


def _find(db: sqlite3.Connection, table_id: int, key: bytes) -> _Found | None:
    """The row or its tombstone. Raises: CorruptLog."""
    query = f"SELECT {_ROW} FROM rows WHERE table_id = ? AND key = ?"
    found = db.execute(query, (table_id, key)).fetchone()
    return _checked(db, _Found(*found)) if found else None


def _read(db: sqlite3.Connection, table_id: int, key: bytes) -> _Found | None:
    """The row; None: it is absent. Raises: CorruptLog."""
    found = _find(db, table_id, key)
    if found is None:
        _beside(db, table_id, key)
    return None if found is None or found.deleted else found


def _read_data(db: sqlite3.Connection, table_id: int, key: bytes) -> Row | None:
    found = _read(db, table_id, key)
    return Row(key, found.version, decode_cells(found.data)) if found else None


def _read_pending(db: sqlite3.Connection, table_id: int, key: bytes) -> Row | None:
    found = _read(db, table_id, key)
    if found is None:
        return None
    cells: dict[bytes, bytes] = {}
    query = f"SELECT column, checksum, {_blob('cell')} FROM pending WHERE table_id = ? AND key = ?"
    for column, checksum, cell in db.execute(query, (table_id, key)):
        if _cell_sum(table_id, key, column, cell) != checksum:
            raise _damaged(db, f"a pending cell of row {_shown(key)}")
        cells[column] = cell
    return Row(key, found.version, cells)


_READ = {FamilyName.DATA: _read_data, FamilyName.PENDING: _read_pending}


def _scan(
    db: sqlite3.Connection, table_id: int, start: bytes, stop: bytes, *, reverse: bool
) -> Generator[Row, None, None]:
    """Rows of a key range. Raises: CorruptLog.

    SQLite takes wrong keys for what they are: it may begin too late, and end at a wrong table id.
    So the rows beside both ends are checked, and each row before its key is believed.
    """
    low, high = (table_id, start), (table_id, stop or _BEYOND)
    query, begin = (_DOWN, high) if reverse else (_UP, low)
    _beside(db, *begin)
    last: tuple[int, bytes] | None = None
    with closing(db.execute(query, begin)) as rows:
        for row in rows:
            found = _checked(db, _Found(*row))
            last = found[:2]
            if not low <= last < high:
                return
            if not found.deleted:
                yield Row(found.key, found.version, decode_cells(found.data))
    before, behind = _beside(db, table_id + (not reverse), b"")
    end = behind if reverse else before  # the table's last row in that direction
    if end is not None and end[0] == table_id and end != last:
        if end < high if reverse else end >= low:
            raise _damaged(db, f"the table id of a row beside {_shown((last or begin)[1])}")


def _beside(
    db: sqlite3.Connection, table_id: int, key: bytes
) -> tuple[tuple[int, bytes] | None, tuple[int, bytes] | None]:
    """The places of the rows before and behind a place. Raises: CorruptLog: one is wrong."""
    found: list[tuple[int, bytes] | None] = [None, None]
    for side, of_table, beside, checksum in db.execute(_BESIDE, (table_id, key)):
        if not isinstance(of_table, int) or not key_is_sound(checksum, _row_key(of_table, beside)):
            raise _damaged(db, f"the key of row {_shown(beside)} of table {of_table}")
        found[side] = of_table, beside
    return found[0], found[1]


def _checked(db: sqlite3.Connection, row: _Found) -> _Found:
    table_id, key, checksum, version, write_id, deleted, data = row
    try:
        sound = _row_sum(table_id, key, version, write_id, deleted, data) == checksum
    except TypeError:  # a flipped bit made a column another type
        sound = False
    if not sound:
        raise _damaged(db, f"row {_shown(key)} of table {table_id}")
    return row


def _damaged(db: sqlite3.Connection, what: str) -> CorruptLog:
    path = db.execute("PRAGMA database_list").fetchone()[2]
    return CorruptLog(f"{what} in {path} is damaged; {RESTORE}")


def _table_id(db: sqlite3.Connection, table: str) -> int:
    found = db.execute("SELECT id FROM tables WHERE name = ?", (table,)).fetchone()
    if found is None:
        raise NotFound(f"table {table} was not opened")
    return int(found[0])


def _outcome(db: sqlite3.Connection, table_id: int, mutation: RowMutation) -> int | TalosError:
    try:
        return _mutate(db, table_id, mutation)
    except TalosError as error:
        return error


def _mutate(db: sqlite3.Connection, table_id: int, mutation: RowMutation) -> int:
    """Reads, decides, writes: nothing comes between, since the thread is the only writer here and
    the transaction keeps other processes out."""
    key = mutation.key
    found = _find(db, table_id, key)  # whoever makes a row has read that it is absent
    current, data = NEVER_WRITTEN, b""
    if found is not None:
        data = found.data
        current = RowState(found.version, found.write_id, bool(found.deleted), {}, {})
    version = next_version(current, mutation)
    if version is None:
        return current.version
    if version != current.version:
        if mutation.delete:
            data = b""
            db.execute("DELETE FROM pending WHERE table_id = ? AND key = ?", (table_id, key))
        elif mutation.data:
            data = encode_cells(merged(decode_cells(data), mutation.data))
        row = (version, mutation.write_id, mutation.delete)
        checksum = _row_sum(table_id, key, *row, data)
        db.execute(_PUT_ROW, (table_id, key, *row, checksum, data))
    if mutation.pending:
        _put_pending(db, table_id, key, mutation.pending)
    return version


_PUT_ROW = """
INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    version = excluded.version, write_id = excluded.write_id, deleted = excluded.deleted,
    checksum = excluded.checksum, data = excluded.data
"""


def _put_pending(
    db: sqlite3.Connection, table_id: int, key: bytes, cells: Mapping[bytes, bytes | None]
) -> None:
    for column, cell in cells.items():
        if cell is None:
            db.execute(
                "DELETE FROM pending WHERE table_id = ? AND key = ? AND column = ?",
                (table_id, key, column),
            )
        else:
            checksum = _cell_sum(table_id, key, column, cell)
            db.execute(
                "INSERT OR REPLACE INTO pending VALUES (?, ?, ?, ?, ?)",
                (table_id, key, column, checksum, cell),
            )


async def open_sqlite_row_store(
    path: Path, *, connection_class: type[sqlite3.Connection] = sqlite3.Connection
) -> SqliteRowStore:
    """A store whose file is open.

    Raises: NewerFormat, ConfigError, CorruptLog, StoreUnavailable.
    """
    store = SqliteRowStore(path, connection_class=connection_class)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store
