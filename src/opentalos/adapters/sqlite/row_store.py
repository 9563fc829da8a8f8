"""RowStore on one SQLite file."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from opentalos.adapters.row_rules import (
    NEVER_WRITTEN,
    RowState,
    check_mutation,
    check_mutations,
    check_scan,
    next_state,
)
from opentalos.adapters.sqlite.cells_format import decode_cells, encode_cells
from opentalos.adapters.sqlite.database import Database, Schema
from opentalos.model.errors import NotFound, TalosError
from opentalos.ports.row_store import FamilyName, Row, RowMutation

CLOSE_S = 2.0  # for calls under way at close
SCHEMA = Schema(
    application_id=0x544C5231,  # "TLR1"
    version=1,
    script="""
CREATE TABLE IF NOT EXISTS tables (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS rows (
    table_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    version INTEGER NOT NULL,
    write_id BLOB NOT NULL,
    deleted INTEGER NOT NULL,
    data BLOB NOT NULL,
    pending BLOB NOT NULL,
    PRIMARY KEY (table_id, key)
) WITHOUT ROWID;
""",
    # Rows with pending cells are few among many, and are looked for often.
    additions="""
CREATE INDEX IF NOT EXISTS pending_rows ON rows (table_id, key) WHERE pending <> x'';
""",
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
            db.execute("DELETE FROM tables WHERE name = ?", (table,))

        await self._database.run(work, write=True)

    async def get(
        self, table: str, keys: Sequence[bytes], *, family: FamilyName = FamilyName.DATA
    ) -> Sequence[Row | None]:
        """Rows in the order asked; see the port."""

        def work(db: sqlite3.Connection) -> list[Row | None]:
            table_id = _table_id(db, table)
            query = _SELECT_ROW[family]
            return [
                Row(key, found[0], decode_cells(found[1])) if found else None
                for key in keys
                for found in (db.execute(query, (table_id, key)).fetchone(),)
            ]

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
        query = (
            f"SELECT key, version, {family.value} FROM rows"
            f" {_INDEXED[family]} WHERE table_id = ? AND key >= ? AND (? OR key < ?)"
            f" AND NOT deleted{_HAS_CELLS[family]}"
            f" ORDER BY key {'DESC' if reverse else 'ASC'} LIMIT ?"
        )

        def work(db: sqlite3.Connection) -> list[Row]:
            found = db.execute(query, (_table_id(db, table), start, not stop, stop, limit))
            return [Row(key, version, decode_cells(cells)) for key, version, cells in found]

        return await self._database.run(work, write=False)

    async def close(self) -> None:
        """Finish calls under way and close the file."""
        await self._database.close(deadline_s=CLOSE_S)

    async def open(self) -> None:
        """Open the file. Raises: NewerFormat, ConfigError, StoreUnavailable."""
        await self._database.open()


_HAS_CELLS = {FamilyName.DATA: "", FamilyName.PENDING: " AND pending <> x''"}
_INDEXED = {FamilyName.DATA: "", FamilyName.PENDING: "INDEXED BY pending_rows"}
_SELECT_ROW = {
    family: f"SELECT version, {family.value} FROM rows"
    " WHERE table_id = ? AND key = ? AND NOT deleted"
    for family in FamilyName
}


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
    found = db.execute(
        "SELECT version, write_id, deleted, data, pending FROM rows WHERE table_id = ? AND key = ?",
        (table_id, mutation.key),
    ).fetchone()
    current = NEVER_WRITTEN
    if found is not None:
        version, write_id, deleted, data, pending = found
        current = RowState(
            version, write_id, bool(deleted), decode_cells(data), decode_cells(pending)
        )
    state = next_state(current, mutation)
    if state is not current:
        cells = (encode_cells(state.data), encode_cells(state.pending))
        db.execute(
            "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)",
            (table_id, mutation.key, state.version, state.write_id, int(state.deleted), *cells),
        )
    return state.version


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
