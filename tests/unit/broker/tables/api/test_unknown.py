"""Writes and puts whose outcome is not known, topics that refuse, and what is bounded."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import pytest
from tests.unit.broker.support import World, world
from tests.unit.broker.tables.shard.faulty import break_puts, break_rows
from tests.unit.broker.tables.shard.stream_support import (
    PATIENCE_S,
    apply,
    by_row,
    firsts,
    heard,
    streaming,
    until_cleared,
    until_heard,
)
from tests.unit.broker.tables.support import ALICE, HASHED, PLAIN, integer, key, put
from tests.waiting import within_limit

from opentalos.broker.tables.api.values import TableSpec
from opentalos.catalog.tables.table import Table, stopped_stream
from opentalos.model.errors import (
    ExcessivePending,
    OutcomeUnknown,
    PartitionNotServing,
    SequenceGap,
    StoreUnavailable,
    TalosError,
)
from opentalos.model.mutation import Mutation, Operation
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import WhenFull
from opentalos.sds.key_format import row_key, shard_of

SMALL = SdsLimits(
    pending_entries_max=4, throttle_max_s=0.05, refused_max_s=0.2, write_deadline_s=0.5
)


@pytest.fixture
async def bed() -> AsyncIterator[World]:
    async with world(sds=SMALL) as made:
        yield made


def add(user: str = "u") -> Mutation:
    return Mutation(Operation.INCREMENT, key(user, 1), {"count": integer(1)})


async def stream_of(bed: World, table: Table) -> Table:
    found = bed.broker.catalogs.tables.by_uuid(table.uuid)
    assert found is not None
    return found


@pytest.mark.parametrize("applied", [True, False])
async def test_an_unknown_write_is_done_once(bed: World, applied: bool) -> None:
    table, topic = await streaming(bed)
    rows = break_rows(bed.broker)
    if applied:
        rows.unknown_applied = 2
    else:
        rows.unknown_lost = 2
    for expected in (1, 2):
        (done,) = await apply(bed.broker, table, add())
        assert done.amounts["count"] == integer(expected)
    messages = await until_heard(bed.broker, topic, 2)
    assert list(by_row(messages).values()) == [[1, 2]]


@pytest.mark.parametrize("applied", [True, False])
async def test_an_unknown_outcome_is_reported_and_order_is_kept(bed: World, applied: bool) -> None:
    table, topic = await streaming(bed)
    rows = break_rows(bed.broker)
    await apply(bed.broker, table, add())
    if applied:
        rows.unknown_applied = 1_000
    else:
        rows.unknown_lost = 1_000
    (outcome,) = await bed.broker.shards.apply(table, [add()])
    assert isinstance(outcome, OutcomeUnknown)
    rows.unknown_applied = rows.unknown_lost = 0
    (done,) = await apply(bed.broker, table, add())
    count = 3 if applied else 2
    assert done.amounts["count"] == integer(count)
    messages = await until_heard(bed.broker, topic, count)
    (sequenced,) = by_row(messages).values()
    assert firsts(sequenced) == list(range(1, count + 1))


@pytest.mark.parametrize("stored", [True, False])
async def test_an_unknown_block_is_stored_once(bed: World, stored: bool) -> None:
    table, topic = await streaming(bed)
    puts = break_puts(bed.broker)
    puts.errors = [(OutcomeUnknown("no answer"), stored)] * 3
    await apply(bed.broker, table, add(), add())
    await until_heard(bed.broker, topic, 2)
    await apply(bed.broker, table, add())
    messages = await until_heard(bed.broker, topic, 3)
    assert list(by_row(messages).values()) == [[1, 2, 3]]
    assert bed.broker.shards.figures().resent >= 3


async def test_a_log_that_forgot_the_producer_gets_a_larger_epoch(bed: World) -> None:
    table, topic = await streaming(bed)
    puts = break_puts(bed.broker)
    await apply(bed.broker, table, add())
    await until_heard(bed.broker, topic, 1)
    puts.errors = [(SequenceGap("forgotten"), False)]
    await apply(bed.broker, table, add(), add())
    messages = await until_heard(bed.broker, topic, 3)
    assert list(by_row(messages).values()) == [[1, 2, 3]]
    epochs = [block.producer.epoch for block in puts.sent if block.producer]
    assert epochs[-1] == epochs[0] + 1


async def test_a_refusing_topic_holds_then_refuses_mutations(bed: World) -> None:
    table, topic = await streaming(bed)
    puts = break_puts(bed.broker)
    puts.errors = [(PartitionNotServing("moves"), False)] * 100_000
    outcomes: list[object] = []
    async with asyncio.timeout(PATIENCE_S):
        while not any(isinstance(outcome, TalosError) for outcome in outcomes):
            outcomes += await bed.broker.shards.apply(table, [add()])
    assert isinstance(outcomes[-1], ExcessivePending)
    done = len(outcomes) - 1
    assert bed.broker.shards.figures().pending_entries == done == SMALL.pending_entries_max
    puts.errors = []
    messages = await until_heard(bed.broker, topic, done)
    assert list(by_row(messages).values()) == [list(range(1, done + 1))]
    await until_cleared(bed.broker)
    (more,) = await apply(bed.broker, table, add())
    assert more.amounts["count"] == integer(done + 1)


async def test_a_stream_that_is_switched_off_refuses_no_longer(bed: World) -> None:
    table, topic = await streaming(bed)
    puts = break_puts(bed.broker)
    puts.errors = [(PartitionNotServing("moves"), False)] * 100_000
    async with asyncio.timeout(PATIENCE_S):
        while not isinstance((await bed.broker.shards.apply(table, [add()]))[0], ExcessivePending):
            pass
    plain = await bed.broker.table_admin.alter(ALICE, table.name, TableSpec(schema=PLAIN))
    await until_cleared(bed.broker)
    (done,) = await apply(bed.broker, plain, add())
    assert done.amounts["count"] == integer(SMALL.pending_entries_max + 1)
    assert await heard(bed.broker, topic) == []


@pytest.mark.real_time  # waits for a time of work, not of sleeps
async def test_a_table_that_prefers_gaps_accepts_writes(bed: World) -> None:
    table, topic = await streaming(bed, when_full=WhenFull.GAP)
    puts = break_puts(bed.broker)
    await apply(bed.broker, table, add())
    await until_heard(bed.broker, topic, 1)
    await until_cleared(bed.broker)
    puts.errors = [(PartitionNotServing("moves"), False)] * 100_000
    bed.clock.now_ms += 1_000
    (first,) = await apply(bed.broker, table, add())
    async with within_limit("the stream stops"):
        while (await stream_of(bed, table)).streams["t"].live:
            await bed.broker.shards.apply(table, [add()])
    state = (await stream_of(bed, table)).streams["t"]
    assert state.gap_ms is not None
    assert state.gap_ms <= first.row.timestamp_ms
    await until_cleared(bed.broker)
    await apply(bed.broker, table, add())
    assert bed.broker.shards.figures().gaps == 1
    assert len(await until_heard(bed.broker, topic, 1)) == 1


@pytest.mark.real_time  # waits for a time of work, not of sleeps
async def test_a_gap_begins_with_the_oldest_change_that_any_shard_drops() -> None:
    small = replace(SMALL, refused_max_s=3_600.0)  # the shard that is full stops the stream
    async with world(sds=small) as bed:
        table, topic = await streaming(bed, HASHED, when_full=WhenFull.GAP)
        puts = break_puts(bed.broker)
        puts.errors = [(PartitionNotServing("moves"), False)] * 100_000
        users = {
            shard_of(HASHED, row_key(HASHED, key(user, 1))): user
            for user in map("u{}".format, range(100))
        }
        bed.clock.now_ms += 1_000
        (oldest,) = await apply(bed.broker, table, add(users[0]))
        bed.clock.now_ms += 1_000
        async with within_limit("the stream stops"):
            while (await stream_of(bed, table)).streams["t"].live:
                await bed.broker.shards.apply(table, [add(users[1])])
            await until_cleared(bed.broker)
        state = (await stream_of(bed, table)).streams["t"]
        assert state.gap_ms == oldest.row.timestamp_ms
        assert state.error == "the topic rejected its changes: moves"
        assert bed.broker.shards.figures().gaps == 1
        assert await heard(bed.broker, topic, HASHED) == []


async def test_a_gap_has_what_a_shard_finds_when_it_is_opened(bed: World) -> None:
    table, topic = await streaming(bed)
    puts = break_puts(bed.broker)
    puts.errors = [(PartitionNotServing("moves"), False)] * 100_000
    bed.clock.now_ms += 1_000
    (owed,) = await apply(bed.broker, table, add())
    bed.broker.shards.forget_all()
    later = owed.row.timestamp_ms + 1_000
    stop = partial(stopped_stream, topic="t", stream_id=1, gap_ms=later, error="topic deleted")
    await bed.broker.catalogs.tables.change(table, stop)
    await apply(bed.broker, table, add("v"))
    await until_cleared(bed.broker)
    state = (await stream_of(bed, table)).streams["t"]
    assert (state.gap_ms, state.error) == (owed.row.timestamp_ms, "topic deleted")
    assert await heard(bed.broker, topic) == []


async def test_a_store_that_is_away_leaves_nothing_half_done(bed: World) -> None:
    table, topic = await streaming(bed)
    server = bed.broker.shards._server
    away = break_rows(bed.broker)
    await apply(bed.broker, table, add())

    async def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("away")

    real, away.mutate_many = away.mutate_many, refuse  # type: ignore[method-assign, assignment]
    (outcome,) = await bed.broker.shards.apply(table, [add()])
    assert isinstance(outcome, StoreUnavailable)
    away.mutate_many = real  # type: ignore[method-assign]
    (done,) = await apply(bed.broker, table, add())
    assert done.amounts["count"] == integer(2)
    assert [m.sequence for m in await until_heard(bed.broker, topic, 2)] == [1, 2]
    assert server.counts.fenced == 0


async def test_a_lost_right_to_put_holds_messages_back(bed: World) -> None:
    table, topic = await streaming(bed)
    server = bed.broker.shards._server
    await apply(bed.broker, table, put("a", 1))
    (shard,) = bed.broker.shards._shards.values()
    assert shard._delivery is not None
    publisher = shard._delivery.publisher
    object.__setattr__(publisher.publishing, "owner", lambda: replace(ALICE, id="mallory"))
    await apply(bed.broker, table, put("u", 1))
    async with asyncio.timeout(PATIENCE_S):
        while not publisher.refused():
            await apply(bed.broker, table, put("v", 1))
    object.__setattr__(publisher.publishing, "owner", lambda: ALICE)
    await until_heard(bed.broker, topic, 1, PLAIN)
    await until_cleared(bed.broker)
    assert server.counts.gaps == 0


async def test_a_scan_that_the_store_does_not_answer_is_repeated(bed: World) -> None:
    table, topic = await streaming(bed)
    await apply(bed.broker, table, add())
    (shard,) = bed.broker.shards._shards.values()
    server = bed.broker.shards._server
    rows = break_rows(bed.broker)
    scanned = asyncio.Event()

    async def refuse(*_: object, **__: object) -> None:
        scanned.set()
        raise StoreUnavailable("away")

    rows.scan = refuse  # type: ignore[attr-defined]
    assert shard._delivery is not None
    shard._delivery.pending_scan.next_s = 0.0
    await apply(bed.broker, table, add())
    async with asyncio.timeout(PATIENCE_S):
        await scanned.wait()
    await apply(bed.broker, table, add())
    messages = await until_heard(bed.broker, topic, 3)
    assert [m.sequence for m in messages] == [1, 2, 3]
    assert server.counts.opened == 1
