"""Changes that wait for a stream that is no more go with the sweep; no others do."""

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.broker.support import world
from tests.unit.broker.tables.support import ALICE, PLAIN, make, put

from opentalos.adapters.sqlite import SqliteRowStore
from opentalos.broker.tables.maintenance.dead_cells import remove_dead_cells
from opentalos.broker.tables.row_tables import rows_of
from opentalos.broker.tables.stream.pending_format import encode_column, encode_pending
from opentalos.catalog.tables.table import StreamState, Table
from opentalos.ports.row_store import ABSENT, FamilyName, RowMutation, RowStore

pytestmark = pytest.mark.real_time  # a real SQLite behind its thread

TABLE = Table(uuid="aa", owner="alice", name="people", schema=PLAIN, next_stream_id=3)
CELL = encode_pending(1, b"change")
BAD = b"no column"
TOKENS = (number.to_bytes(16) for number in itertools.count(1))


@pytest.fixture
async def rows(tmp_path: Path) -> AsyncIterator[SqliteRowStore]:
    store = SqliteRowStore(tmp_path / "rows.db")
    await store.open_table(rows_of(TABLE))
    yield store
    await store.close()


async def write(rows: RowStore, key: bytes, *columns: bytes, expected: int = ABSENT) -> int:
    mutation = RowMutation(
        key=key, expected=expected, write_id=next(TOKENS), data={b"!": b"x"},
        pending=dict.fromkeys(columns, CELL),
    )  # fmt: skip
    return await rows.mutate(rows_of(TABLE), mutation)


async def cells(rows: RowStore, key: bytes) -> list[bytes]:
    (found,) = await rows.get(rows_of(TABLE), [key], family=FamilyName.PENDING)
    return [] if found is None else sorted(found.cells)


async def remove(rows: RowStore, table: Table = TABLE, *, limit: int = 10) -> int:
    return await remove_dead_cells(rows, table, (b"", b""), limit, lambda: next(TOKENS))


async def test_cells_of_streams_that_are_no_more_go(rows: SqliteRowStore) -> None:
    await write(rows, b"a", encode_column(1, 1), encode_column(2, 2))
    await write(rows, b"b")
    await write(rows, b"c", encode_column(1, 2))
    assert await remove(rows, limit=1) == 1
    assert await remove(rows) == 1
    assert await remove(rows) == 0
    for key in (b"a", b"b", b"c"):
        assert await cells(rows, key) == []
    (row,) = await rows.get(rows_of(TABLE), [b"a"])
    assert row is not None
    assert row.cells == {b"!": b"x"}


async def test_cells_of_streams_that_are_not_known_yet_stay(rows: SqliteRowStore) -> None:
    later = encode_column(2, TABLE.next_stream_id)
    await write(rows, b"a", encode_column(1, 1), later, BAD)
    assert await remove(rows) == 1
    assert await cells(rows, b"a") == sorted([later, BAD])
    assert await remove(rows) == 0


async def test_a_table_with_a_stream_is_left_to_its_shards(rows: SqliteRowStore) -> None:
    await write(rows, b"a", encode_column(1, 1))
    stream = StreamState(2, "t", "alice", "changes", 1)
    assert await remove(rows, replace(TABLE, streams={"changes": stream})) == 0
    assert await cells(rows, b"a") == [encode_column(1, 1)]


async def test_a_row_that_is_written_meanwhile_waits_for_the_next_pass(
    rows: SqliteRowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = await write(rows, b"a", encode_column(1, 1))
    real = rows.scan

    async def overtaken(*arguments: object, **named: object) -> object:
        found = await real(*arguments, **named)  # type: ignore[arg-type]
        await write(rows, b"a", encode_column(2, 3), expected=version)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(rows, "scan", overtaken)
        assert await remove(rows) == 0
    assert await remove(rows) == 1
    assert await cells(rows, b"a") == [encode_column(2, 3)]


async def test_the_sweep_does_it() -> None:
    async with world() as w:
        table = await make(w.broker)
        await w.broker.tables.write(ALICE, "people", put("u", 1))
        store, name = w.broker.table_upkeep.access.rows, rows_of(table)
        (row,) = await store.scan(name, b"", b"", limit=1)
        await store.mutate(
            name,
            RowMutation(
                key=row.key, expected=row.version, write_id=b"1",
                pending={encode_column(1, 0): CELL},
            ),
        )  # fmt: skip
        await w.broker.table_upkeep.sweep.run_once()
        (left,) = await store.get(name, [row.key], family=FamilyName.PENDING)
        assert left is not None
        assert left.cells == {}
