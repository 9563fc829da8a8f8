"""The quota of a table: what is counted, what is refused, and when that ends."""

import asyncio
from dataclasses import replace

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
    string,
)

from opentalos.broker.tables.api.values import ReadItem, Table, WriteItem, Written
from opentalos.broker.tables.maintenance.space_pass import PUBLISHED_S
from opentalos.broker.tables.row_tables import rows_of
from opentalos.catalog.tables.space import PUBLISH_S, SpaceRecord, decode_space, encode_space
from opentalos.model.errors import (
    CorruptLog,
    NewerFormat,
    OutcomeUnknown,
    QuotaExceeded,
    StoreUnavailable,
    TalosError,
    ValidationFailed,
)
from opentalos.model.mutation import Mutation, Operation
from opentalos.model.settings.tables import SdsLimits
from opentalos.sds.cell_format import decode_row
from opentalos.sds.key_format import key_of
from opentalos.sds.record_size import record_bytes

ROOMY = 1 << 30


async def write(w: World, mutation: Mutation) -> Written:
    return await w.broker.tables.write(ALICE, "people", mutation)


async def used(w: World) -> int | None:
    table = await w.broker.table_admin.describe(ALICE, "people")
    return await w.broker.table_admin.used_bytes(table)


async def published(w: World) -> int | None:
    table = await w.broker.table_admin.describe(ALICE, "people")
    return await w.broker.catalogs.tables.spaces.read(table.uuid)


async def publish(w: World) -> None:
    w.time.advance(PUBLISH_S)
    await w.broker.table_upkeep.run_once()


async def sweep(w: World, steps: int = 8) -> None:
    """A pass, and as long after it as its count needs."""
    of_tables = w.broker.table_upkeep.sweep
    for _ in range(steps):
        await of_tables.run_once()
    await publish(w)
    w.time.advance(PUBLISHED_S)
    await of_tables.run_once()


async def stored_bytes(w: World, table: Table) -> int:
    """What the rows that are there come to."""
    now_ms = w.clock.wall_ms()
    rows = await w.broker.table_upkeep.access.rows.scan(rows_of(table), b"", b"", limit=1_000)
    return sum(
        record_bytes(
            table.schema, key_of(table.schema, row.key), row.key, decode_row(row.cells), now_ms
        )
        for row in rows
    )


async def limit(w: World, quota_bytes: int | None) -> Table:
    """Alter nothing but the quota."""
    table = await w.broker.table_admin.describe(ALICE, "people")
    spec = replace(table.spec, quota_bytes=quota_bytes)
    return await w.broker.table_admin.alter(ALICE, "people", spec)


async def test_what_grows_over_the_quota_is_refused_and_removes_make_room() -> None:
    async with world() as w:
        await make(w.broker, quota_bytes=1_000)
        for at in range(2):
            await write(w, put("u", at, city=string("x" * 400)))
        with pytest.raises(QuotaExceeded, match=r"limit 1000 bytes, measured \d+ bytes stored and"):
            await write(w, put("u", 2, city=string("x" * 400)))
        assert await w.broker.tables.get(ALICE, "people", key("u", 2)) is None
        # Writes that do not grow are accepted: the same length, a shorter one, a number again.
        assert (await write(w, put("u", 1, city=string("y" * 400)))).success
        assert (await write(w, put("u", 1, city=string("z" * 390)))).success
        with pytest.raises(QuotaExceeded):
            await write(w, put("u", 1, city=string("z" * 600)))
        found = await w.broker.tables.get(ALICE, "people", key("u", 1))
        assert found is not None
        assert found["city"].value == "z" * 390
        assert (await write(w, remove("u", 0))).success
        assert (await write(w, put("u", 2, city=string("x" * 400)))).success


async def test_an_increment_of_a_new_row_is_refused_and_of_a_row_is_not() -> None:
    async with world() as w:
        await make(w.broker, quota_bytes=250)
        add = {"count": integer(1)}
        await write(w, Mutation(Operation.INCREMENT, key("u", 1), add))
        await write(w, put("u", 2, city=string("x" * 150)))
        with pytest.raises(QuotaExceeded):
            await write(w, Mutation(Operation.INCREMENT, key("u", 3), add))
        again = await write(w, Mutation(Operation.INCREMENT, key("u", 1), add))
        assert again.amounts["count"].value == 2


async def test_a_batch_is_done_as_far_as_there_is_room() -> None:
    async with world() as w:
        await make(w.broker, HASHED, quota_bytes=1_500)
        items = [WriteItem("people", put("u", at, count=integer(at))) for at in range(60)]
        outcomes = await w.broker.tables.batch(ALICE, items, partial=True)
        done = [outcome for outcome in outcomes if isinstance(outcome, Written)]
        refused = [outcome for outcome in outcomes if isinstance(outcome, QuotaExceeded)]
        assert len(done) + len(refused) == 60
        assert done
        assert refused
        assert outcomes[: len(done)] == done  # a group is in order, and one bound for all of it
        reads = [ReadItem("people", key("u", at)) for at in range(60)]
        found = await w.broker.tables.batch(ALICE, reads)
        there = [item for item in found if not isinstance(item, TalosError) and item != (None,)]
        assert len(there) == len(done)
        table = await w.broker.table_admin.describe(ALICE, "people")
        assert 1_400 < await stored_bytes(w, table) <= 1_500


async def test_the_count_is_what_is_stored_with_entries_of_indexes() -> None:
    async with world() as w:
        table = await make(w.broker, HASHED, quota_bytes=ROOMY)
        assert await used(w) == 0
        await fill(w.broker, users=3, each=4)
        await write(w, put("u0", 1, city=string("a longer city than before")))
        await write(w, remove("u1", 1))
        await write(w, remove("u1", 2)._replace(attributes=("city",)))
        await write(w, remove("u1", 2))
        await write(w, remove("nobody", 2))
        assert await used(w) == await stored_bytes(w, table)
        assert await published(w) == 0
        await publish(w)
        assert await published(w) == await used(w) == await stored_bytes(w, table)


async def test_a_mutation_that_is_not_done_counts_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        await make(w.broker, quota_bytes=ROOMY)
        await write(w, put("u", 1, count=integer((1 << 63) - 1)))
        before = await used(w)
        with pytest.raises(ValidationFailed):
            await write(w, Mutation(Operation.INCREMENT, key("u", 1), {"count": integer(1)}))
        rows = w.broker.table_upkeep.access.rows

        async def broken(*_: object) -> list[int]:
            raise StoreUnavailable("down")

        monkeypatch.setattr("opentalos.broker.tables.shard.shards.ROUTE_S", 0.0)
        with monkeypatch.context() as patch:
            patch.setattr(rows, "mutate_many", broken)
            with pytest.raises(StoreUnavailable):
                await write(w, put("u", 2, city=string("x" * 100)))
        assert await used(w) == before


async def test_the_count_outlives_the_server() -> None:
    async with world() as w:
        await make(w.broker, quota_bytes=1_000)
        await write(w, put("u", 1, city=string("x" * 900)))
        before = await used(w)
        await w.restart()
        assert await published(w) == before
        with pytest.raises(QuotaExceeded):
            await write(w, put("u", 2, city=string("x" * 100)))


async def test_a_pass_corrects_a_count_that_was_lost() -> None:
    async with world() as w:
        table = await make(w.broker, quota_bytes=ROOMY)
        await fill(w.broker, users=2, each=5)
        await publish(w)
        spaces = w.broker.catalogs.tables.spaces
        await spaces.begin(table.uuid, 17)
        await sweep(w)
        assert await published(w) == await stored_bytes(w, table)
        await publish(w)
        assert await used(w) == await stored_bytes(w, table)


async def test_a_pass_does_not_correct_what_was_written_meanwhile() -> None:
    limits = SdsLimits(sweep_rows_max=2)
    async with world(sds=limits) as w:
        table = await make(w.broker, quota_bytes=ROOMY)
        await fill(w.broker, users=1, each=5)
        await publish(w)
        of_tables = w.broker.table_upkeep.sweep
        await of_tables.run_once()
        await of_tables.run_once()  # four of five rows were seen
        await write(w, remove("u0", 0))
        await write(w, put("u9", 9, city=string("x" * 100)))
        for _ in range(3):
            await of_tables.run_once()
        await publish(w)
        w.time.advance(PUBLISHED_S)
        await of_tables.run_once()
        await publish(w)
        assert await used(w) == await stored_bytes(w, table)


async def test_rows_that_expired_leave_the_count_with_a_pass() -> None:
    async with world() as w:
        await make(w.broker, replace(PLAIN, ttl_s=100), quota_bytes=1_000)
        await write(w, put("u", 1, city=string("x" * 900)))
        await sweep(w)
        w.clock.now_ms += 200_000
        with pytest.raises(QuotaExceeded):
            await write(w, put("u", 2, city=string("x" * 900)))
        w.time.advance(60.0)  # a nearly full table is measured sooner
        await sweep(w)
        assert await published(w) == 0
        await write(w, put("u", 2, city=string("x" * 900)))


async def test_a_quota_set_later_counts_existing_rows() -> None:
    async with world() as w:
        await make(w.broker)
        await write(w, put("u", 1, city=string("x" * 900)))
        assert await used(w) is None
        with pytest.raises(
            ValidationFailed, match=r"quota of 500 bytes: table people has 9\d\d bytes"
        ):
            await limit(w, 500)
        await limit(w, 1_000)
        with pytest.raises(QuotaExceeded):
            await write(w, put("u", 2, city=string("x" * 900)))
        await limit(w, None)
        assert await used(w) is None
        await write(w, put("u", 2, city=string("x" * 900)))
        await limit(w, 2_000)  # counted again
        with pytest.raises(QuotaExceeded):
            await write(w, put("u", 3, city=string("x" * 900)))
        await limit(w, 3_000)
        await write(w, put("u", 3, city=string("x" * 900)))


@pytest.mark.parametrize("quota_bytes", [0, -1, 1 << 63])
async def test_a_quota_that_can_be_none_is_refused(quota_bytes: int) -> None:
    async with world() as w:
        with pytest.raises(ValidationFailed, match="quota of"):
            await make(w.broker, quota_bytes=quota_bytes)


async def test_a_dropped_table_leaves_no_count() -> None:
    async with world() as w:
        table = await make(w.broker, quota_bytes=1_000)
        await write(w, put("u", 1, city=string("x" * 900)))
        await w.broker.table_admin.drop(ALICE, "people")
        spaces = w.broker.catalogs.tables.spaces
        assert await spaces.read(table.uuid) is None
        await make(w.broker, quota_bytes=1_000)
        await write(w, put("u", 1, city=string("x" * 900)))
        await publish(w)
        assert await spaces.read(table.uuid) is None


async def test_figures_count_nearly_full_tables_and_refusals() -> None:
    async with world() as w:
        await make(w.broker, quota_bytes=1_000)
        await make(w.broker, name="others", quota_bytes=ROOMY)
        await w.broker.tables.write(ALICE, "others", put("u", 1))
        figures = w.broker.catalogs.tables.spaces.figures
        assert figures().nearly_full == 0
        await write(w, put("u", 1, city=string("x" * 880)))
        with pytest.raises(QuotaExceeded):
            await write(w, put("u", 2, city=string("x" * 100)))
        now = figures()
        assert (now.nearly_full, now.refused) == (1, 1)
        assert now.bytes > 900
        await w.broker.table_admin.drop(ALICE, "people")
        await publish(w)
        assert figures().refused == 1


async def test_two_writers_of_a_record_lose_nothing() -> None:
    async with world() as w:
        table = await make(w.broker, quota_bytes=ROOMY)
        spaces = w.broker.catalogs.tables.spaces
        space = await spaces.of(table)
        assert space is not None
        space.take(100)
        await asyncio.gather(publish(w), spaces.measured(table.uuid, 50, 0))
        assert await published(w) in (100, 150)
        space.take(7)
        await publish(w)
        assert space.own_bytes == 0
        assert await published(w) == space.used_bytes


def test_a_record_is_read_as_it_was_stored() -> None:
    record = SpaceRecord(12, 345)
    assert decode_space(encode_space(record)) == record
    with pytest.raises(NewerFormat):
        decode_space(b'{"version":2,"bytes":1,"changed":1}')
    for damaged in (b"", b"{", b"[]", b'{"version":1,"bytes":1}', b'{"version":1,"bytes":"x"}'):
        with pytest.raises(CorruptLog):
            decode_space(damaged)


async def test_a_table_that_gets_a_quota_is_counted_at_once() -> None:
    async with world() as w:
        table = await make(w.broker)
        await fill(w.broker, users=1, each=5)
        await sweep(w)  # it rests for an hour
        await limit(w, ROOMY)
        await w.broker.catalogs.tables.spaces.begin(table.uuid, 17)
        await sweep(w)
        assert await published(w) == await stored_bytes(w, table)
        await w.broker.catalogs.tables.spaces.begin(table.uuid, 17)
        await sweep(w)
        assert await published(w) == 17  # now it rests
        w.time.advance(3_600.0)
        await sweep(w)
        assert await published(w) == await stored_bytes(w, table)


async def test_an_aborted_pass_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world(sds=SdsLimits(sweep_rows_max=2)) as w:
        table = await make(w.broker, quota_bytes=ROOMY)
        await fill(w.broker, users=1, each=5)
        await publish(w)
        spaces, of_tables = w.broker.catalogs.tables.spaces, w.broker.table_upkeep.sweep
        await spaces.begin(table.uuid, 17)
        await of_tables.run_once()

        async def broken(*_: object, **__: object) -> None:
            raise StoreUnavailable("down")

        with monkeypatch.context() as patch:
            patch.setattr(w.broker.table_upkeep.access.rows, "scan", broken)
            with pytest.raises(StoreUnavailable):
                await of_tables.run_once()
        w.time.advance(60.0)
        await sweep(w)
        assert await published(w) == await stored_bytes(w, table)


async def test_a_server_that_is_not_controller_publishes_but_counts_no_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        table = await make(w.broker, quota_bytes=ROOMY)
        monkeypatch.setattr(w.broker.context.ownership, "leads", lambda: False)
        await fill(w.broker, users=1, each=5)
        await publish(w)
        assert await published(w) == await stored_bytes(w, table)
        await w.broker.catalogs.tables.spaces.begin(table.uuid, 17)
        await sweep(w)
        assert await published(w) == 17


async def test_a_failed_publication_is_retried_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as w:
        table = await make(w.broker, quota_bytes=1_000)
        await write(w, put("u", 1, city=string("x" * 900)))
        meta = w.broker.catalogs.tables.spaces._meta

        async def broken(*_: object, **__: object) -> None:
            raise StoreUnavailable("down")

        with monkeypatch.context() as patch:
            patch.setattr(meta, "get", broken)
            await publish(w)
            assert await used(w) is None  # unknown for now
            with pytest.raises(QuotaExceeded):  # what this server knows counts
                await write(w, put("u", 2, city=string("x" * 900)))
        assert await published(w) == 0
        await publish(w)
        assert await published(w) == await stored_bytes(w, table)


async def test_a_count_that_may_be_published_is_not_published_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        table = await make(w.broker, quota_bytes=1_000)
        await write(w, put("u", 1, city=string("x" * 500)))
        meta = w.broker.catalogs.tables.spaces._meta
        replaced = meta.replace

        async def unsure(path: str, value: bytes, expected: int) -> int:
            await replaced(path, value, expected)
            raise OutcomeUnknown("no answer")

        with monkeypatch.context() as patch:
            patch.setattr(meta, "replace", unsure)
            await publish(w)
        assert await used(w) == await stored_bytes(w, table)
        await publish(w)
        assert await published(w) == await used(w) == await stored_bytes(w, table)
