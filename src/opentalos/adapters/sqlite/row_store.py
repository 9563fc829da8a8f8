"""RowStore on one SQLite file."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from opentalos.adapters.row_rules import (
    NEVER_WRITTEN,
    RowState,
    check_mutation,
    check_mutations,
    check_scan,
    merged,
    next_version,
)
from opentalos.adapters.sqlite.cells_format import decode_cells, encode_cells
from opentalos.adapters.sqlite.database import Database, Schema
from opentalos.model.errors import NotFound, TalosError
from opentalos.ports.row_store import FamilyName, Row, RowMutation

CLOSE_S = 2.0  # for calls under way at close
_TABLES = "CREATE TABLE tables (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)"
_ROWS = """
CREATE TABLE rows (
    table_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    version INTEGER NOT NULL,
    write_id BLOB NOT NULL,
    deleted INTEGER NOT NULL,
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
    cell BLOB NOT NULL,
    PRIMARY KEY (table_id, key, column)
) WITHOUT ROWID
"""


def _from_format_1(db: sqlite3.Connection) -> None:
    """There the pending cells of a row are one more value of it, in the form of its data."""
    db.execute(_PENDING)
    for table_id, key, cells in db.execute(
        "SELECT table_id, key, pending FROM rows WHERE pending <> x''"
    ).fetchall():
        _put_pending(db, table_id, key, decode_cells(cells))
    db.execute("ALTER TABLE rows RENAME TO rows_1")
    db.execute(_ROWS)
    db.execute(
        "INSERT INTO rows SELECT table_id, key, version, write_id, deleted, data FROM rows_1"
    )
    db.execute("DROP TABLE rows_1")


def _make_tables(db: sqlite3.Connection) -> None:
    for statement in (_TABLES, _ROWS, _PENDING):
        db.execute(statement)


SCHEMA = Schema(
    application_id=0x544C5231,  # "TLR1"
    version=2,
    make=_make_tables,
    upgrades={1: _from_format_1},
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
        query = _SCAN[family].format(order="DESC" if reverse else "ASC")

        def work(db: sqlite3.Connection) -> list[Row]:
            table_id = _table_id(db, table)
            found = db.execute(query, (table_id, start, not stop, stop, limit))
            if family is FamilyName.DATA:
                return [Row(key, version, decode_cells(data)) for key, version, data in found]
            rows = [_read_pending(db, table_id, key) for (key,) in found.fetchall()]
            return [row for row in rows if row is not None]

        return await self._database.run(work, write=False)

    async def close(self) -> None:
        """Finish calls under way and close the file."""
        await self._database.close(deadline_s=CLOSE_S)

    async def open(self) -> None:
        """Open the file. Raises: NewerFormat, ConfigError, StoreUnavailable."""
        await self._database.open()


_RANGE = "table_id = ? AND key >= ? AND (? OR key < ?)"
_SCAN = {
    FamilyName.DATA: f"SELECT key, version, data FROM rows WHERE {_RANGE} AND NOT deleted"
    " ORDER BY key {order} LIMIT ?",
    FamilyName.PENDING: f"SELECT DISTINCT key FROM pending WHERE {_RANGE}"
    " ORDER BY key {order} LIMIT ?",
}


def _read_data(db: sqlite3.Connection, table_id: int, key: bytes) -> Row | None:
    found = db.execute(
        "SELECT version, data FROM rows WHERE table_id = ? AND key = ? AND NOT deleted",
        (table_id, key),
    ).fetchone()
    return Row(key, found[0], decode_cells(found[1])) if found else None


def _read_pending(db: sqlite3.Connection, table_id: int, key: bytes) -> Row | None:
    found = db.execute(
        "SELECT version FROM rows WHERE table_id = ? AND key = ? AND NOT deleted", (table_id, key)
    ).fetchone()
    cells = "SELECT column, cell FROM pending WHERE table_id = ? AND key = ?"
    return Row(key, found[0], dict(db.execute(cells, (table_id, key)))) if found else None


_READ = {FamilyName.DATA: _read_data, FamilyName.PENDING: _read_pending}


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
    found = db.execute(
        "SELECT version, write_id, deleted, data FROM rows WHERE table_id = ? AND key = ?",
        (table_id, key),
    ).fetchone()
    current, data = NEVER_WRITTEN, b""
    if found is not None:
        former, write_id, deleted, data = found
        current = RowState(former, write_id, bool(deleted), {}, {})
    version = next_version(current, mutation)
    if version is None:
        return current.version
    if version != current.version:
        if mutation.delete:
            data = b""
            db.execute("DELETE FROM pending WHERE table_id = ? AND key = ?", (table_id, key))
        elif mutation.data:
            data = encode_cells(merged(decode_cells(data), mutation.data))
        db.execute(_PUT_ROW, (table_id, key, version, mutation.write_id, mutation.delete, data))
    if mutation.pending:
        _put_pending(db, table_id, key, mutation.pending)
    return version


_PUT_ROW = """
INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version,
    write_id = excluded.write_id, deleted = excluded.deleted, data = excluded.data
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
            db.execute(
                "INSERT OR REPLACE INTO pending VALUES (?, ?, ?, ?)", (table_id, key, column, cell)
            )


async def open_sqlite_row_store(
    path: Path, *, connection_class: type[sqlite3.Connection] = sqlite3.Connection
) -> SqliteRowStore:
    """A store whose file is open. Raises: NewerFormat, ConfigError, StoreUnavailable."""
    store = SqliteRowStore(path, connection_class=connection_class)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store
