"""Index entries follow their rows, also under concurrent writers."""

from collections.abc import Sequence

import pytest
from tests.unit.broker.support import world
from tests.unit.broker.tables.shard.stream_support import apply
from tests.unit.broker.tables.support import HASHED, make, pages, put, remove, string

from opentalos.broker.broker import Broker
from opentalos.broker.tables.row_tables import entries_of, rows_of
from opentalos.broker.tables.rows.index_writes import IndexWrites
from opentalos.catalog.tables.table import Table
from opentalos.model.errors import TalosError
from opentalos.ports.row_store import RowMutation, RowStore
from opentalos.sds.index_format import entries
from opentalos.sds.mutation import Applied, StoredRow

INDEX = "by_city"


def rows(broker: Broker) -> RowStore:
    return broker.shards._server.stores.rows


def entry(applied: Applied) -> bytes:
    """The entry of u's row 1 after a mutation."""
    row: StoredRow = applied.row
    return entries(HASHED, put("u", 1).key, row)[INDEX]


async def stored(broker: Broker, table: Table) -> list[bytes]:
    found = await rows(broker).scan(entries_of(table, INDEX), b"", b"", limit=10)
    return [row.key for row in found]


async def test_a_row_has_one_entry_and_takes_it_along() -> None:
    async with world() as bed:
        table = await make(bed.broker, HASHED)
        for city in ("Rome", "Oslo", "Oslo"):
            (applied,) = await apply(bed.broker, table, put("u", 1, city=string(city)))
            assert await stored(bed.broker, table) == [entry(applied)]
        await apply(bed.broker, table, remove("u", 1))
        assert await stored(bed.broker, table) == []


async def test_a_late_removal_leaves_what_another_owner_has_put_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as bed:
        table = await make(bed.broker, HASHED)
        (applied,) = await apply(bed.broker, table, put("u", 1, city=string("Rome")))
        store, rome = rows(bed.broker), entry(applied)
        mutate_many = store.mutate_many

        async def overtaken(
            name: str, mutations: Sequence[RowMutation]
        ) -> Sequence[int | TalosError]:
            """The next owner moves the row back before this one removes the former entry."""
            outcomes = await mutate_many(name, mutations)
            if name == rows_of(table):
                monkeypatch.undo()
                await IndexWrites(store, bed.broker.context.clock).put(table, [(INDEX, rome)])
            return outcomes

        monkeypatch.setattr(store, "mutate_many", overtaken)
        (applied,) = await apply(bed.broker, table, put("u", 1, city=string("Oslo")))
        assert set(await stored(bed.broker, table)) == {rome, entry(applied)}
        group = {"user": string("u")}
        found = await pages(bed.broker, index=INDEX, start=group, stop=group)
        cities = [record["city"] for page in found for record in page.records]
        assert cities == [string("Oslo")]  # the other entry's row does not prove it


async def test_removing_an_entry_that_is_not_there_is_nothing() -> None:
    async with world() as bed:
        table = await make(bed.broker, HASHED)
        indexes = IndexWrites(rows(bed.broker), bed.broker.context.clock)
        assert await indexes.found(table, [(INDEX, b"none")]) == {}
        await indexes.remove(table, {})
        await indexes.remove(table, {(INDEX, b"none"): 1})
        assert await stored(bed.broker, table) == []
