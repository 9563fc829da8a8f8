"""A flipped bit in a database is refused by name: nothing looks absent, empty or like another."""

import contextlib
import random
import shutil
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from opentalos.adapters.sqlite import (
    SqliteMetaStore,
    SqliteRowStore,
    open_sqlite_meta_store,
    open_sqlite_row_store,
    row_store,
)
from opentalos.adapters.sqlite.snapshot import copy_database
from opentalos.model.errors import CorruptLog, TalosError, VersionConflict
from opentalos.ports.meta_store import MetaStore, Record
from opentalos.ports.row_store import FamilyName, Row, RowMutation

RECORDS = {
    f"log/{name}/{number}": f"value {name}".encode() * 9 for name in "ab" for number in "012"
}
KEYS = [b"key %03d" % (number * 37) for number in range(24)]
GONE = KEYS[3]
CELLS = {key: {b"c": b"cell of " + key} for key in KEYS if key != GONE}
PENDING = {key: {b"p": b"message of " + key} for key in KEYS[::5]}
FLIPS = 25


async def watched(store: MetaStore, prefix: str) -> dict[str, Record]:
    states = store.watch(prefix)
    try:
        return dict(await anext(states))
    finally:
        await states.aclose()  # type: ignore[attr-defined]


@pytest.fixture
async def meta(tmp_path: Path) -> Path:
    """A file of records, closed."""
    path = tmp_path / "meta.sqlite"
    store = await open_sqlite_meta_store(path)
    for name, value in RECORDS.items():
        await store.create(name, value)
    await store.create("gone", b"")
    await store.delete("gone", 1)
    await store.close()
    return path


@pytest.fixture
async def rows(tmp_path: Path) -> Path:
    """A file of two tables, closed; one row is deleted, some have pending cells."""
    path = tmp_path / "rows.sqlite"
    store = await open_sqlite_row_store(path)
    for table in "tu":
        await store.open_table(table)
        mutations = [
            RowMutation(key, 0, b"w", CELLS.get(key, {}), PENDING.get(key, {})) for key in KEYS
        ]
        await store.mutate_many(table, mutations)
        await store.mutate(table, RowMutation(GONE, 1, b"d", delete=True))
    await store.close()
    return path


def change(path: Path, statement: str) -> None:
    """As a flipped bit in a column would."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        assert db.execute(statement).rowcount == 1


def flip(path: Path, position: int, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def flip_any(path: Path, seed: int) -> None:
    draw = random.Random(seed)
    flip(path, draw.randrange(path.stat().st_size), draw.randrange(8))


def places(path: Path, text: bytes) -> list[int]:
    content = path.read_bytes()
    return [at for at in range(len(content)) if content.startswith(text, at)]


# --- records --------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["value = x'00'", "version = 2", "checksum = checksum + 1"])
async def test_a_damaged_record_is_refused_by_name_and_the_others_are_read(
    meta: Path, column: str
) -> None:
    change(meta, f"UPDATE records SET {column} WHERE path = 'log/a/1'")
    store = await open_sqlite_meta_store(meta)
    text = r"record log/a/1 in /.*meta\.sqlite is damaged; stop the server and restore"
    for call in (store.get("log/a/1"), store.delete("log/a/1", 7), watched(store, "log/a")):
        with pytest.raises(CorruptLog, match=text):
            await call
    assert await store.children("log/a") == ["0", "1", "2"]
    assert await store.get("log/a/0") == Record(RECORDS["log/a/0"], 1)
    assert set(await watched(store, "log/b")) == {"log/b/0", "log/b/1", "log/b/2"}
    await store.close()


async def test_a_damaged_record_is_replaced_by_who_knows_its_version(meta: Path) -> None:
    change(meta, "UPDATE records SET value = x'7B' WHERE path = 'log/a/1'")
    change(meta, "UPDATE records SET version = 'x' WHERE path = 'log/a/2'")
    store = await open_sqlite_meta_store(meta)
    with pytest.raises(CorruptLog) as other:
        await store.get("log/a/2")
    assert other.value.record_version == 0, "its version is damaged, too"
    with pytest.raises(CorruptLog) as found:
        await store.get("log/a/1")
    version = found.value.record_version
    with pytest.raises(CorruptLog):
        await store.replace("log/a/1", b"new", version + 1)
    assert await store.replace("log/a/1", b"new", version) == version + 1
    assert await store.get("log/a/1") == Record(b"new", version + 1)
    with pytest.raises(VersionConflict):
        await store.replace("log/a/1", b"newer", version)
    await store.close()


async def test_a_damaged_version_floor_is_refused(meta: Path) -> None:
    change(meta, "UPDATE version_floor SET version = 0")
    store = await open_sqlite_meta_store(meta)
    with pytest.raises(CorruptLog, match="version floor"):
        await store.create("gone", b"")
    assert await store.get("log/a/0") == Record(RECORDS["log/a/0"], 1)
    await store.close()


async def check_records(store: SqliteMetaStore) -> None:
    """Each call gives what is stored, or names it."""
    for path, value in RECORDS.items():
        with contextlib.suppress(CorruptLog):
            assert await store.get(path) == Record(value, 1)
    with contextlib.suppress(CorruptLog):
        found = await watched(store, "log")
        assert {path: record.value for path, record in found.items()} == RECORDS
    assert await store.children("log/a") == ["0", "1", "2"]
    with contextlib.suppress(CorruptLog):
        assert await store.create("gone", b"") == 2


@pytest.mark.parametrize("seed", range(FLIPS))
async def test_no_flipped_bit_in_a_file_of_records_is_unheard(meta: Path, seed: int) -> None:
    flip_any(meta, seed)
    try:
        store = await open_sqlite_meta_store(meta)
    except TalosError as error:
        refused = str(error)
    else:
        await check_records(store)
        await store.close()
        return
    assert "meta.sqlite" in refused


@pytest.mark.parametrize("path", ["log/a/1", "log/b/0"])
async def test_a_wrong_path_is_found_at_the_start(meta: Path, path: str) -> None:
    found = places(meta, path.encode())
    assert len(found) == 2  # one in the index
    for at in found:
        flip(meta, at + 5, 3)
        with pytest.raises(CorruptLog, match=r"meta\.sqlite is damaged"):
            await open_sqlite_meta_store(meta)
        flip(meta, at + 5, 3)


async def test_definitions_that_are_not_the_files_own_are_refused(rows: Path) -> None:
    """With ``id INTEGES PRIMARY KEY`` a table has no ids, and SQLite says nothing."""
    (at,) = places(rows, b"INTEGER PRIMARY KEY, name")
    flip(rows, at + 6, 0)
    with pytest.raises(CorruptLog, match=r"rows\.sqlite is damaged: the definitions"):
        await open_sqlite_row_store(rows)


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["data = x'00'", "version = 2", "deleted = 1", "write_id = 'w'"])
async def test_a_damaged_row_is_refused_by_name_and_the_others_are_read(
    rows: Path, column: str
) -> None:
    hurt = KEYS[5]
    change(rows, f"UPDATE rows SET {column} WHERE table_id = 1 AND key = x'{hurt.hex()}'")
    store = await open_sqlite_row_store(rows)
    text = rf"row {hurt.hex()} of table 1 in /.*rows\.sqlite is damaged; stop"
    for call in (
        store.get("t", [hurt]),
        store.get("t", [hurt], family=FamilyName.PENDING),
        store.mutate("t", RowMutation(hurt, 1, b"x")),
        store.scan("t", b"", b"", limit=99),
        store.scan("t", b"", b"", limit=99, reverse=True),
    ):
        with pytest.raises(CorruptLog, match=text):
            await call
    mutations = [RowMutation(KEYS[4], 1, b"x"), RowMutation(hurt, 1, b"x")]
    one, two = await store.mutate_many("t", mutations)
    assert one == 2
    assert isinstance(two, CorruptLog)
    assert await store.get("u", [hurt]) == [Row(hurt, 1, CELLS[hurt])]
    assert len(await store.scan("t", KEYS[6], b"", limit=99)) == len(KEYS) - 6
    await store.close()


async def test_a_damaged_pending_cell_is_refused_by_name(rows: Path) -> None:
    change(rows, f"UPDATE pending SET cell = x'00' WHERE table_id = 1 AND key = x'{KEYS[5].hex()}'")
    store = await open_sqlite_row_store(rows)
    for call in (
        store.get("t", [KEYS[5]], family=FamilyName.PENDING),
        store.scan("t", b"", b"", limit=99, family=FamilyName.PENDING),
    ):
        with pytest.raises(CorruptLog, match=f"pending cell of row {KEYS[5].hex()}"):
            await call
    assert await store.get("t", [KEYS[5]]) == [Row(KEYS[5], 1, CELLS[KEYS[5]])]
    await store.close()


@pytest.mark.parametrize("bit", range(8))
async def test_a_row_whose_key_is_wrong_is_not_taken_for_absent(
    rows: Path, bit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a file that is too large to be checked at a start."""
    monkeypatch.setattr(row_store, "SCHEMA", row_store.SCHEMA._replace(checked_bytes_max=0))
    hurt = KEYS[7]
    found = places(rows, hurt + b"w")  # the version, 1, is in the cell's header
    assert len(found) == 2  # one in each table
    for at in found:
        flip(rows, at + 5, bit)
        store = await open_sqlite_row_store(rows)
        for table in "tu":
            await check_rows(store, table)
        assert await heard(store, hurt)
        await store.close()
        flip(rows, at + 5, bit)


async def heard(store: SqliteRowStore, key: bytes) -> bool:
    """Whether one table refuses this row, and scans over it."""
    refused = 0
    for table in "tu":
        for call in (
            store.get(table, [key]),
            store.scan(table, b"", b"", limit=99),
            store.scan(table, b"", b"", limit=99, reverse=True),
            store.scan(table, key, key + b"\0", limit=9),
        ):
            try:
                await call
            except CorruptLog:
                refused += 1
    return refused >= 3


async def check_rows(store: SqliteRowStore, table: str) -> None:
    """Each call gives what is stored, or names it."""
    families: Mapping[FamilyName, Mapping[bytes, Mapping[bytes, bytes]]] = {
        FamilyName.DATA: CELLS,
        FamilyName.PENDING: {key: PENDING.get(key, {}) for key in CELLS},
    }
    for family, wanted in families.items():
        for key, cells in wanted.items():
            with contextlib.suppress(CorruptLog):
                assert await store.get(table, [key], family=family) == [Row(key, 1, cells)]
    with contextlib.suppress(CorruptLog):
        assert await store.get(table, [GONE, b"absent"]) == [None, None]
    for reverse in (False, True):
        for low, high in ((0, len(KEYS)), (2, 9), (6, 8), (11, 24)):
            start, stop = KEYS[low], KEYS[high] if high < len(KEYS) else b""
            wanted_keys = [key for key in KEYS[low:high] if key != GONE]
            with contextlib.suppress(CorruptLog):
                found = await store.scan(table, start, stop, limit=99, reverse=reverse)
                assert found == [
                    Row(key, 1, CELLS[key])
                    for key in (reversed(wanted_keys) if reverse else wanted_keys)
                ]
    with contextlib.suppress(CorruptLog):
        pending = await store.scan(table, b"", b"", limit=99, family=FamilyName.PENDING)
        assert pending == [Row(key, 1, cells) for key, cells in PENDING.items()]


@pytest.mark.parametrize("seed", range(FLIPS))
async def test_no_flipped_bit_in_a_file_of_rows_is_unheard(rows: Path, seed: int) -> None:
    flip_any(rows, seed)
    try:
        store = await open_sqlite_row_store(rows)
    except TalosError as error:
        refused = str(error)
    else:
        for table in "tu":
            await check_rows(store, table)
        await store.close()
        return
    assert "rows.sqlite" in refused


async def test_a_file_whose_structure_is_wrong_is_neither_opened_nor_copied(rows: Path) -> None:
    page = places(rows, KEYS[0] + b"w")[0] // 4096 * 4096
    flip(rows, page + 4, 0)  # the number of rows in that page
    with pytest.raises(CorruptLog, match=r"rows\.sqlite is damaged"):
        copy_database(rows, rows.with_name("copy.sqlite"))
    with pytest.raises(CorruptLog, match=r"rows\.sqlite is damaged"):
        await open_sqlite_row_store(rows)


# --- there and back -------------------------------------------------------------------------------

GOLDEN = Path(__file__).parents[3] / "golden"
PAGE = Path(__file__).parents[4] / "docs" / "operating" / "single-server.md"
FORMER = 2


def way_back() -> str:
    """The program that the documentation gives."""
    return (
        PAGE.read_text()
        .partition("python3 - /var/lib/opentalos <<'END'\n")[2]
        .partition("\nEND\n")[0]
    )


def described(path: Path) -> object:
    """Columns of a file's tables, without what former versions ignore, and the rows."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (FORMER,)
        names = [
            name
            for (name,) in db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'file_state'"
                " ORDER BY name"
            )
        ]
        columns = [(name, db.execute(f"PRAGMA table_info({name})").fetchall()) for name in names]
        content = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in names}
        del content["last_batch"]
        return columns, content


async def test_files_of_the_former_format_are_upgraded_and_can_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["-", str(tmp_path)])
    openers: Mapping[str, Callable[[Path], Awaitable[SqliteMetaStore | SqliteRowStore]]]
    openers = {"meta.sqlite": open_sqlite_meta_store, "rows.sqlite": open_sqlite_row_store}
    for name in openers:
        for suffix in ("", "-wal"):
            shutil.copy(GOLDEN / "killed_v1" / f"{name}{suffix}", tmp_path / f"{name}{suffix}")
    former = [described(tmp_path / name) for name in openers]
    for _ in range(2):
        for name, opener in openers.items():
            await (await opener(tmp_path / name)).close()
            with contextlib.closing(sqlite3.connect(tmp_path / name)) as db:
                assert db.execute("PRAGMA user_version").fetchone() == (FORMER + 1,)
        exec(compile(way_back(), str(PAGE), "exec"), {})
        assert [described(tmp_path / name) for name in openers] == former


async def test_a_damaged_file_of_the_former_format_is_not_upgraded(tmp_path: Path) -> None:
    path, golden = tmp_path / "meta.sqlite", GOLDEN / "killed_v1" / "meta.sqlite"
    shutil.copy(golden, path)
    shutil.copy(f"{golden}-wal", f"{path}-wal")
    with contextlib.closing(sqlite3.connect(path)) as db:
        (name,) = db.execute("SELECT path FROM records WHERE path LIKE 'log/%'").fetchone()
    flip(path, places(path, name.encode())[0] + len(name) - 2, 0)
    with pytest.raises(CorruptLog, match=r"meta\.sqlite is damaged"):
        await open_sqlite_meta_store(path)
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (FORMER,)
