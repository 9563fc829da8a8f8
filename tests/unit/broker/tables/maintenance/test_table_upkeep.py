"""Work without a caller: half-done changes, streams without topic, old rows."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.broker.support import World, world
from tests.unit.broker.tables.support import (
    ALICE,
    HASHED,
    PLAIN,
    fill,
    integer,
    key,
    make,
    put,
    remove,
    streamed,
    string,
)
from tests.waiting import eventually_async

from opentalos.broker.tables.maintenance.upkeep import UNFINISHED_S, TableUpkeep
from opentalos.broker.tables.row_tables import entries_of, rows_of
from opentalos.catalog.tables.table import dead_table
from opentalos.model.errors import NotFound, StoreUnavailable, TableNotExist
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import TableSchema, TableState
from opentalos.ports.row_store import FamilyName, Row, RowMutation, RowStore

DAY_MS = 86_400_000
DAY = SdsLimits(tombstone_s=86_400.0, sweep_rows_max=2, sweep_pause_s=100.0)


def upkeep_of(w: World) -> TableUpkeep:
    return w.broker.table_upkeep


def store_of(w: World) -> RowStore:
    return upkeep_of(w).access.rows


async def sweep(w: World, steps: int = 20) -> int:
    """Whole passes over what there is; rows removed so far."""
    of_tables = upkeep_of(w).sweep
    w.time.advance(1_000.0)
    for _ in range(steps):
        await of_tables.run_once()
    return of_tables.removed


async def stored(w: World, name: str) -> list[Row]:
    return list(await store_of(w).scan(name, b"", b"", limit=100))


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        (TableState.CREATING, TableState.ENABLED),
        (TableState.DISABLING, TableState.DISABLED),
    ],
)
async def test_what_a_crash_cut_short_is_completed(state: TableState, wanted: TableState) -> None:
    async with world() as w:
        table = await make(w.broker)
        tables = w.broker.catalogs.tables
        await tables.change(table, lambda now: replace(now, state=state))
        await w.restart()
        await upkeep_of(w).run_once()
        assert await w.broker.table_admin.state(ALICE, "people") is state  # it may be under way
        w.time.advance(UNFINISHED_S)
        await upkeep_of(w).run_once()
        assert await w.broker.table_admin.state(ALICE, "people") is wanted


async def test_a_drop_resumes_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as w:
        table = await make(w.broker, HASHED)
        await fill(w.broker, 2, 2)

        async def fails(name: str) -> None:
            raise StoreUnavailable("the disk is away")

        with monkeypatch.context() as broken:
            broken.setattr(store_of(w), "drop_table", fails)
            await w.broker.table_admin.drop(ALICE, "people")
            with pytest.raises(TableNotExist):
                await w.broker.table_admin.describe(ALICE, "people")
            with pytest.raises(StoreUnavailable, match="still being dropped"):
                await make(w.broker)
        assert await stored(w, rows_of(table))
        await w.restart()
        await upkeep_of(w).run_once()
        for task in list(upkeep_of(w).removing.values()):
            await task
        for name in (rows_of(table), entries_of(table, "by_city")):
            with pytest.raises(NotFound):
                await stored(w, name)
        assert w.broker.catalogs.tables.record("alice", "people") is None
        await make(w.broker)


async def test_only_a_leader_completes_drops(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as w:
        table = await make(w.broker)
        await w.broker.catalogs.tables.change(table, dead_table)
        monkeypatch.setattr(w.broker.context.ownership, "leads", lambda: False)
        await upkeep_of(w).run_once()
        assert not upkeep_of(w).removing
        assert await stored(w, rows_of(table)) == []


async def test_a_stream_stops_when_its_topic_is_deleted() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, "changes")
        await make(w.broker, streamed(PLAIN, "changes"))
        w.clock.now_ms += 5_000
        await upkeep_of(w).run_once()
        found = await w.broker.table_admin.describe(ALICE, "people")
        assert found.streams["changes"].live
        await w.broker.topics.delete_topic(ALICE, topic.resource)
        await upkeep_of(w).run_once()
        stopped = (await w.broker.table_admin.describe(ALICE, "people")).streams["changes"]
        assert (stopped.gap_ms, stopped.error) == (w.clock.now_ms, "topic deleted")
        # The table serves on, and the stream is still reported as stopped.
        await w.broker.tables.write(ALICE, "people", put("u", 1))
        spec = replace(found.spec, description="d")
        after = await w.broker.table_admin.alter(ALICE, "people", spec)
        assert after.streams["changes"] == stopped
        # Enabled again it is another stream, into another topic.
        off = replace(spec, schema=PLAIN)
        assert (await w.broker.table_admin.alter(ALICE, "people", off)).streams == {}
        again = await w.topic(ALICE, "changes")
        fresh = (await w.broker.table_admin.alter(ALICE, "people", spec)).streams["changes"]
        assert (fresh.id, fresh.topic_uuid, fresh.live) == (stopped.id + 1, again.uuid, True)


async def test_a_stream_waits_while_the_catalogue_does_not_know_its_topic(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as w:
        await w.topic(ALICE, "changes")
        await make(w.broker, streamed(PLAIN, "changes"))
        await w.broker.close()
        record = w.storage.records.pop("topics/alice/changes")  # the catalogue came back older
        await w.restart()
        assert (await w.broker.tables.write(ALICE, "people", put("u", 1))).success
        for _ in range(2):
            await upkeep_of(w).run_once()
        assert caplog.text.count("the catalogue does not know topic changes") == 1
        found = await w.broker.table_admin.describe(ALICE, "people")
        assert found.streams["changes"].live
        await w.broker.close()
        w.storage.records["topics/alice/changes"] = record  # adopted
        await w.restart()
        await upkeep_of(w).run_once()
        topic = w.broker.topics.find_topic(ALICE, "changes")
        log = w.broker.context.partition_log(topic, 0)
        await eventually_async("the change is published", lambda: log.high_watermark)


@pytest.mark.parametrize("schema", [PLAIN, HASHED], ids=["plain", "hashed"])
async def test_old_tombstones_go_and_young_ones_stay(schema: TableSchema) -> None:
    async with world(sds=DAY) as w:
        table = await make(w.broker, schema)
        await fill(w.broker, 1, 5)
        w.clock.now_ms += 1_000
        for at in range(3):
            await w.broker.tables.write(ALICE, "people", remove("u0", at))
        w.clock.now_ms += DAY_MS - 1
        assert await sweep(w) == 0
        await w.broker.tables.write(ALICE, "people", remove("u0", 3))
        w.clock.now_ms += 1
        assert await sweep(w) == 3
        assert len(await stored(w, rows_of(table))) == 2
        assert await w.broker.tables.get(ALICE, "people", key("u0", 4)) is not None
        await w.broker.tables.write(ALICE, "people", put("u0", 0))
        assert await w.broker.tables.get(ALICE, "people", key("u0", 0)) == key("u0", 0)


async def test_long_expired_records_go_with_their_entries() -> None:
    async with world(sds=DAY) as w:
        table = await make(w.broker, replace(HASHED, ttl_s=10))
        await fill(w.broker, 1, 3)
        entries = entries_of(table, "by_city")
        w.clock.now_ms += DAY_MS + 9_999
        await w.broker.tables.write(ALICE, "people", put("u0", 0, city=string("c0")))
        assert await sweep(w) == 0
        w.clock.now_ms += 1
        assert await sweep(w) == 2
        assert len(await stored(w, rows_of(table))) == 1
        assert len(await stored(w, entries)) == 1


async def test_a_row_with_an_unpublished_change_stays() -> None:
    async with world(sds=DAY) as w:
        table = await make(w.broker)
        await fill(w.broker, 1, 1)
        await w.broker.tables.write(ALICE, "people", remove("u0", 0))
        name = rows_of(table)
        (row,) = await stored(w, name)
        cleared = RowMutation(
            key=row.key, expected=row.version, write_id=b"1", pending={b"p": b"change"}
        )
        await store_of(w).mutate(name, cleared)
        w.clock.now_ms += 2 * DAY_MS
        assert await sweep(w) == 0
        (pending,) = await store_of(w).get(name, [row.key], family=FamilyName.PENDING)
        assert pending is not None
        cleared = RowMutation(
            key=row.key, expected=pending.version, write_id=b"2", pending={b"p": None}
        )
        await store_of(w).mutate(name, cleared)
        assert await sweep(w) == 1


async def test_a_sweep_passes_over_every_table() -> None:
    async with world(sds=DAY) as w:
        for name in ("people", "second", "third"):
            await make(w.broker, name=name)
            await w.broker.tables.write(ALICE, name, put("u", 1, count=integer(1)))
            await w.broker.tables.write(ALICE, name, remove("u", 1))
        w.clock.now_ms += 1  # a removal is later than what was put
        w.clock.now_ms += DAY_MS
        assert await sweep(w) == 3


async def test_a_waiter_of_a_dropped_table_gets_the_tables_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        table = await make(w.broker)
        asked, go_on = asyncio.Event(), asyncio.Event()
        mutate_many = store_of(w).mutate_many

        async def slow(*arguments: Any) -> Any:
            asked.set()
            await go_on.wait()
            return await mutate_many(*arguments)

        monkeypatch.setattr(store_of(w), "mutate_many", slow)
        first = asyncio.create_task(w.broker.tables.write(ALICE, "people", put("ann", 1)))
        await asked.wait()
        second = asyncio.create_task(w.broker.tables.write(ALICE, "people", put("bob", 1)))
        for _ in range(10):  # until it waits for the first one's group
            await asyncio.sleep(0)
        w.broker.shards.forget(table.uuid)
        go_on.set()
        with pytest.raises(TableNotExist, match="table people does not exist"):
            await second
        await asyncio.gather(first, return_exceptions=True)
