"""Data files of former versions get what newer ones look for."""

import sqlite3
from pathlib import Path

from opentalos.adapters.sqlite import open_sqlite_row_store
from opentalos.ports.row_store import FamilyName, Row, RowMutation


async def test_an_existing_file_gets_the_index_of_pending_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.db"
    former = await open_sqlite_row_store(path)
    await former.open_table("t")
    cells = {b"p": b"1"}
    await former.mutate("t", RowMutation(key=b"k", expected=0, write_id=b"w", pending=cells))
    await former.close()
    with sqlite3.connect(path) as db:
        db.execute("DROP INDEX pending_rows")
    db.close()
    store = await open_sqlite_row_store(path)
    try:
        found = await store.scan("t", b"", b"", limit=9, family=FamilyName.PENDING)
    finally:
        await store.close()
    assert found == [Row(b"k", 1, cells)]
