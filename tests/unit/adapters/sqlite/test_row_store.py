"""Data files of former versions are brought up to date."""

import sqlite3
from pathlib import Path

from opentalos.adapters.sqlite import open_sqlite_row_store
from opentalos.adapters.sqlite.cells_format import encode_cells
from opentalos.adapters.sqlite.row_store import SCHEMA
from opentalos.ports.row_store import FamilyName, Row, RowMutation

FORMAT_1 = f"""
CREATE TABLE tables (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE rows (
    table_id INTEGER NOT NULL, key BLOB NOT NULL, version INTEGER NOT NULL,
    write_id BLOB NOT NULL, deleted INTEGER NOT NULL, data BLOB NOT NULL, pending BLOB NOT NULL,
    PRIMARY KEY (table_id, key)
) WITHOUT ROWID;
CREATE INDEX pending_rows ON rows (table_id, key) WHERE pending <> x'';
INSERT INTO tables VALUES (1, 't');
PRAGMA application_id = {SCHEMA.application_id}; PRAGMA user_version = 1;
"""


async def test_a_file_of_the_first_format_keeps_all_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    data, pending = {b"d": b"1"}, {b"p": b"2", b"q": b"3"}
    with sqlite3.connect(path) as db:
        db.executescript(FORMAT_1)
        put = "INSERT INTO rows VALUES (1, ?, ?, x'77', ?, ?, ?)"
        db.execute(put, (b"a", 7, 0, encode_cells(data), encode_cells(pending)))
        db.execute(put, (b"b", 4, 0, encode_cells(data), b""))
        db.execute(put, (b"c", 9, 1, b"", b""))
    db.close()
    for _ in range(2):
        store = await open_sqlite_row_store(path)
        try:
            rows = await store.scan("t", b"", b"", limit=9)
            waiting = await store.scan("t", b"", b"", limit=9, family=FamilyName.PENDING)
        finally:
            await store.close()
        assert rows == [Row(b"a", 7, data), Row(b"b", 4, data)]
        assert waiting == [Row(b"a", 7, pending)]
    store = await open_sqlite_row_store(path)
    try:
        again = RowMutation(key=b"c", expected=0, write_id=b"again", data=data)
        assert await store.mutate("t", again) == 10
    finally:
        await store.close()
