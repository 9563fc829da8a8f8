"""A server dies between every two steps of write, publish and clear: nothing is missing, first
deliveries are in order, and a resend is in order from its oldest change on."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

import pytest
from tests.unit.broker.support import World, world
from tests.unit.broker.tables.shard.faulty import break_puts, break_rows, killed
from tests.unit.broker.tables.shard.stream_support import (
    PATIENCE_S,
    Heard,
    apply,
    by_row,
    firsts,
    streaming,
    until_cleared,
    until_heard,
    until_many,
)
from tests.unit.broker.tables.support import integer, key

from opentalos.broker.broker import Broker
from opentalos.catalog.tables.table import Table
from opentalos.model.mutation import Mutation, Operation


@pytest.fixture
async def bed() -> AsyncIterator[World]:
    async with world() as made:
        yield made


def add(user: str) -> Mutation:
    return Mutation(Operation.INCREMENT, key(user, 1), {"count": integer(1)})


def begin(broker: Broker, table: Table, *mutations: Mutation) -> "asyncio.Task[object]":
    """Apply mutations that may never be answered."""
    return asyncio.create_task(broker.shards.apply(table, mutations))


async def reached(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await event.wait()


def check_order(messages: Sequence[Heard]) -> None:
    """First deliveries in order; a resend continues in order from where it began."""
    for sequences in by_row(messages).values():
        assert firsts(sequences) == sorted(set(sequences))
        for before, after in pairwise(sequences):
            assert after <= before + 1


async def end(bed: World, call: "asyncio.Task[object]") -> None:
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_before_the_row_is_read(bed: World) -> None:
    table, topic = await streaming(bed)
    rows = break_rows(bed.broker)
    rows.hang_before = "read"
    call = begin(bed.broker, table, add("u"))
    await reached(rows.reached)
    broker = await killed(bed)
    (done,) = await apply(broker, table, add("u"))
    assert done.amounts["count"] == integer(1)
    assert [m.sequence for m in await until_heard(broker, topic, 1)] == [1]
    await end(bed, call)


async def test_before_the_row_is_written(bed: World) -> None:
    table, topic = await streaming(bed)
    await apply(bed.broker, table, add("u"))
    rows = break_rows(bed.broker)
    rows.hang_before = "write"
    call = begin(bed.broker, table, add("u"))
    await reached(rows.reached)
    broker = await killed(bed)
    (done,) = await apply(broker, table, add("u"))
    assert done.amounts["count"] == integer(2)
    messages = await until_heard(broker, topic, 2)
    check_order(messages)
    assert max(m.sequence for m in messages) == 2
    await end(bed, call)


async def test_between_the_write_and_its_answer(bed: World) -> None:
    table, topic = await streaming(bed)
    rows = break_rows(bed.broker)
    rows.hang_after = "write"
    call = begin(bed.broker, table, add("u"), add("v"), add("u"))
    await reached(rows.reached)
    broker = await killed(bed)
    messages = await until_heard(broker, topic, 3)
    check_order(messages)
    (done,) = await apply(broker, table, add("u"))
    assert done.amounts["count"] == integer(3)
    check_order(await until_heard(broker, topic, 4))
    await until_cleared(broker)
    await end(bed, call)


async def test_before_the_block_is_sent(bed: World) -> None:
    table, topic = await streaming(bed)
    puts = break_puts(bed.broker)
    puts.hang_before = True
    await apply(bed.broker, table, add("u"), add("v"))
    await reached(puts.reached)
    broker = await killed(bed)
    messages = await until_heard(broker, topic, 2)
    assert sorted(by_row(messages).values()) == [[1], [1]]
    await until_cleared(broker)


async def test_between_the_block_and_its_answer(bed: World) -> None:
    table, topic = await streaming(bed, partitions=1)
    puts = break_puts(bed.broker)
    puts.hang_after = True
    await apply(bed.broker, table, add("u"), add("u"))
    await reached(puts.reached)
    await apply(bed.broker, table, add("u"))
    broker = await killed(bed)
    await apply(broker, table, add("u"))
    messages = await until_heard(broker, topic, 4)
    assert by_row(messages) == {messages[0].row: [1, 2, 1, 2, 3, 4]}
    await until_cleared(broker)


async def test_between_the_answer_and_the_clearing(bed: World) -> None:
    table, topic = await streaming(bed, partitions=1)
    rows = break_rows(bed.broker)
    rows.hang_before = "clear"
    await apply(bed.broker, table, add("u"), add("u"))
    await until_heard(bed.broker, topic, 2)
    await reached(rows.reached)
    broker = await killed(bed)
    messages = await until_many(broker, topic, 4)
    assert [m.sequence for m in messages] == [1, 2, 1, 2]
    await until_cleared(broker)


async def test_after_the_clearing(bed: World) -> None:
    table, topic = await streaming(bed, partitions=1)
    rows = break_rows(bed.broker)
    rows.hang_after = "clear"
    await apply(bed.broker, table, add("u"), add("u"))
    await reached(rows.reached)
    broker = await killed(bed)
    await apply(broker, table, add("u"))
    messages = await until_heard(broker, topic, 3)
    assert [m.sequence for m in messages] == [1, 2, 3]


@pytest.mark.parametrize("step", ["read", "write", "clear"])
async def test_kill_after_kill_under_load(bed: World, step: str) -> None:
    """Every acknowledged increment is in the row and in the stream."""
    table, topic = await streaming(bed, partitions=2)
    broker, acked = bed.broker, 0
    calls = []
    for number in range(4):
        rows = break_rows(broker)
        for _ in range(3):
            acked += len(await apply(broker, table, add("u"), add("u")))
        if number % 2:
            rows.hang_after = step
        else:
            rows.hang_before = step
        calls.append(begin(broker, table, add("u"), add("w" + str(number))))
        await reached(rows.reached)
        broker = await killed(bed)
    (last,) = await apply(broker, table, add("u"))
    count = last.amounts["count"].value
    assert isinstance(count, int)
    assert acked + 1 <= count <= acked + 5
    await until_cleared(broker)  # all that was written is published by then
    messages = await until_heard(broker, topic, count)
    published = {m.sequence for m in messages if m.change.key == key("u", 1)}
    assert published == set(range(1, count + 1))
    check_order(messages)
    await until_cleared(broker)
    for call in calls:
        await end(bed, call)
