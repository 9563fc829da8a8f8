"""Scans: pages, ranges, conditions, indexes, actions, and their bounds."""

from dataclasses import replace

import pytest
from tests.unit.broker.support import world
from tests.unit.broker.tables.support import (
    ALICE,
    APP,
    HASHED,
    PLAIN,
    fill,
    integer,
    key,
    make,
    pages,
    put,
    remove,
    string,
)

from opentalos.broker.tables.api.scan import PIECE_ROWS
from opentalos.broker.tables.api.values import ScanAction, ScanActionKind, ScanQuery
from opentalos.broker.tables.row_tables import entries_of
from opentalos.model.datum import Columns
from opentalos.model.errors import PermissionDenied, SizeExceeded, ValidationFailed
from opentalos.model.mutation import Mutation, Operation
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import AppRight, TableSchema
from opentalos.ports.row_store import RowMutation

BOTH = pytest.mark.parametrize("schema", [PLAIN, HASHED], ids=["plain", "hashed"])


def keys(records: list[Columns]) -> list[tuple[object, object]]:
    return [(record["user"].value, record["at"].value) for record in records]


@BOTH
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 12, 100])
async def test_pages_together_have_each_record_once(
    schema: TableSchema, reverse: bool, limit: int
) -> None:
    async with world() as w:
        await make(w.broker, schema)
        await fill(w.broker, 3, 4)
        found = await pages(w.broker, limit=limit, reverse=reverse)
        assert all(len(page.records) <= limit for page in found)
        records = keys([record for page in found for record in page.records])
        assert sorted(records) == [(f"u{user}", at) for user in range(3) for at in range(4)]
        if schema is PLAIN:
            assert records == sorted(records, reverse=reverse)


async def test_a_scan_takes_turns_with_all_other_long_work() -> None:
    async with world() as w:
        await make(w.broker)
        await fill(w.broker, 4, 3 * PIECE_ROWS // 4)
        counters = w.broker.context.work.counters
        before = counters.pauses
        (page,) = await pages(w.broker, limit=10 * PIECE_ROWS)
        assert len(page.records) == 3 * PIECE_ROWS
        assert counters.pauses == before + 3


async def test_partial_keys_are_prefixes() -> None:
    async with world() as w:
        await make(w.broker)
        await fill(w.broker, 3, 3)
        prefix = {"user": string("u1")}
        (page,) = await pages(w.broker, start=prefix, stop=prefix)
        assert keys(list(page.records)) == [("u1", 0), ("u1", 1), ("u1", 2)]
        (page,) = await pages(w.broker, start=key("u1", 1), stop=key("u2", 1))
        assert keys(list(page.records)) == [("u1", 1), ("u1", 2), ("u2", 0)]


async def test_conditions_and_attributes_choose() -> None:
    async with world() as w:
        await make(w.broker)
        await fill(w.broker, 2, 10)
        found = await pages(
            w.broker, condition="count >= 7 AND city = 'c1'", attributes=("count",), limit=2
        )
        records = [record for page in found for record in page.records]
        assert records == [{"count": integer(7)}] * 2
        with pytest.raises(ValidationFailed, match="character"):
            await w.broker.tables.scan(ALICE, ScanQuery(table="people", condition="count >="))


async def test_removed_records_are_passed_over() -> None:
    async with world() as w:
        await make(w.broker)
        await fill(w.broker, 1, 5)
        await w.broker.tables.write(ALICE, "people", remove("u0", 2))
        found = await pages(w.broker, limit=2)
        records = [record for page in found for record in page.records]
        assert keys(records) == [("u0", at) for at in (0, 1, 3, 4)]


async def test_versions_include_the_last_change_of_deleted_rows() -> None:
    async with world() as w:
        await make(w.broker, replace(PLAIN, ttl_s=1))
        await fill(w.broker, 1, 3)
        await w.broker.tables.write(ALICE, "people", put("u0", 0, count=integer(9)))
        await w.broker.tables.write(ALICE, "people", remove("u0", 1))
        w.clock.now_ms += 5_000
        found = await pages(w.broker, limit=2, versions=True)
        records = [record for page in found for record in page.records]
        versions = [version for page in found for version in page.versions]
        assert keys(records) == [("u0", 0), ("u0", 1), ("u0", 2)]
        assert [(version.sequence, version.removed) for version in versions] == [
            (2, False), (2, True), (1, False),
        ]  # fmt: skip
        assert records[0]["count"] == integer(9)  # expired, which readers see for themselves
        assert "count" not in records[1]
        assert all(0 < version.timestamp_ms < w.clock.wall_ms() - 4_000 for version in versions)
        assert not any(page.records for page in await pages(w.broker, limit=2))


async def test_a_page_is_bounded_by_rows_looked_at() -> None:
    async with world(sds=SdsLimits(scan_rows_max=4)) as w:
        await make(w.broker)
        await fill(w.broker, 1, 10)
        found = await pages(w.broker, condition="count = 9", limit=10)
        assert [len(page.records) for page in found][-1] == 1
        assert sum(len(page.records) for page in found) == 1
        assert len(found) > 1


async def test_a_page_is_bounded_by_bytes() -> None:
    async with world(sds=SdsLimits(scan_bytes_max=100)) as w:
        await make(w.broker)
        for at in range(4):
            await w.broker.tables.write(ALICE, "people", put("u", at, city=string("x" * 200)))
        found = await pages(w.broker, limit=10)
        assert [len(page.records) for page in found] == [1, 1, 1, 1]


async def test_a_table_over_its_rate_cuts_the_page_short() -> None:
    async with world(sds=SdsLimits(throttle_max_s=1.0)) as w:
        await make(w.broker, read_capacity=50)
        for at in range(300):
            await w.broker.tables.write(ALICE, "people", put("u", at))
        page = await w.broker.tables.scan(ALICE, ScanQuery(table="people", limit=1_000))
        assert page.throttled
        assert 0 < len(page.records) < 300
        assert page.next_key == key("u", len(page.records))


async def test_an_index_gives_its_order_and_every_entry_is_proven() -> None:
    async with world() as w:
        table = await make(w.broker, HASHED)
        await fill(w.broker, 1, 6)
        user = {"user": string("u0")}
        # An entry whose row was never written, as a crash leaves it.
        name = entries_of(table, "by_city")
        rows = w.broker.table_upkeep.access.rows
        (some, *_) = await rows.scan(name, b"", b"", limit=10)
        orphan = some.key[:-1] + bytes([some.key[-1] ^ 0x55])
        await rows.mutate(name, RowMutation(key=orphan, expected=0, write_id=b"w", data=some.cells))
        found = await pages(w.broker, index="by_city", start=user, stop=user, limit=2)
        records = [record for page in found for record in page.records]
        assert [(r["city"].value, r["at"].value) for r in records] == [
            ("c0", 0), ("c0", 3), ("c1", 1), ("c1", 4), ("c2", 2), ("c2", 5),
        ]  # fmt: skip
        with pytest.raises(ValidationFailed):
            await w.broker.tables.scan(ALICE, ScanQuery(table="people", index="nothing"))


@BOTH
async def test_actions_count_delete_and_update_within_bounds(schema: TableSchema) -> None:
    async with world(sds=SdsLimits(scan_writes_max=3)) as w:
        await make(w.broker, schema)
        await fill(w.broker, 2, 5)
        count = ScanAction(ScanActionKind.COUNT)
        found = await pages(w.broker, action=count, limit=4)
        assert sum(page.count or 0 for page in found) == 10
        assert not any(page.records for page in found)
        update = ScanAction(ScanActionKind.UPDATE, columns={"city": string("new")})
        found = await pages(w.broker, action=update, condition="at < 2", limit=100)
        assert sum(page.count or 0 for page in found) == 4
        assert max(page.count or 0 for page in found) <= 3
        delete = ScanAction(ScanActionKind.DELETE)
        found = await pages(w.broker, action=delete, condition="city != 'new'", limit=100)
        assert sum(page.count or 0 for page in found) == 6
        left = [record for page in await pages(w.broker) for record in page.records]
        assert sorted(keys(left)) == [(f"u{user}", at) for user in range(2) for at in range(2)]
        assert {record["city"].value for record in left} == {"new"}


async def test_an_action_may_increment() -> None:
    async with world() as w:
        await make(w.broker)
        await fill(w.broker, 1, 3)
        add = ScanAction(
            ScanActionKind.UPDATE,
            columns={"count": integer(10)},
            operation=Operation.INCREMENT,
        )
        await pages(w.broker, action=add)
        left = [record for page in await pages(w.broker) for record in page.records]
        assert [record["count"].value for record in left] == [10, 11, 12]


async def test_an_action_that_writes_needs_the_right_to_write() -> None:
    async with world() as w:
        await make(w.broker, app_acl={"app": (AppRight.APP_SECRET_READ,)})
        query = ScanQuery(table="alice/people", action=ScanAction(ScanActionKind.DELETE))
        with pytest.raises(PermissionDenied):
            await w.broker.tables.scan(APP, query)
        counted = ScanQuery(table="alice/people", action=ScanAction(ScanActionKind.COUNT))
        assert (await w.broker.tables.scan(APP, counted)).count == 0


async def test_wrong_scans_are_refused() -> None:
    async with world(sds=SdsLimits(condition_bytes_max=10)) as w:
        await make(w.broker)
        for wrong in (
            ScanQuery(table="people", limit=0),
            ScanQuery(table="people", attributes=("unknown",)),
            ScanQuery(table="people", start={"at": integer(1)}),
            ScanQuery(table="people", start=key("b", 1), stop=key("a", 1)),
            ScanQuery(table="people", versions=True, condition="count = 1"),
        ):
            with pytest.raises(ValidationFailed):
                await w.broker.tables.scan(ALICE, wrong)
        with pytest.raises(SizeExceeded):
            await w.broker.tables.scan(ALICE, ScanQuery(table="people", condition="count = 12345"))


async def test_columns_that_a_condition_of_an_update_breaks_are_refused() -> None:
    async with world() as w:
        await make(w.broker)
        await fill(w.broker, 1, 2)
        wrong = ScanAction(ScanActionKind.UPDATE, columns={"at": integer(1)})
        with pytest.raises(ValidationFailed):
            await w.broker.tables.scan(ALICE, ScanQuery(table="people", action=wrong))
        mutation = Mutation(Operation.REMOVE, key("u0", 0))
        assert (await w.broker.tables.write(ALICE, "people", mutation)).success
