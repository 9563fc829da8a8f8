"""Two servers, one table: mutations go to the owner, and a stale owner does no harm."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.unit.broker.several import Several, several
from tests.unit.broker.tables.shard.faulty import break_puts, break_rows
from tests.unit.broker.tables.shard.stream_support import (
    PATIENCE_S,
    apply,
    by_row,
    firsts,
    streaming,
    until_cleared,
    until_heard,
)
from tests.unit.broker.tables.support import ALICE, PLAIN, integer, key, make, put, streamed

from opentalos.broker.tables.api.values import TableSpec
from opentalos.broker.values import Topic
from opentalos.catalog.tables.table import Table
from opentalos.model.errors import OutcomeUnknown, TalosError, Unavailable
from opentalos.model.mutation import Mutation, Operation
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import StreamSpec
from opentalos.ports.row_store import RowMutation

LIMITS = SdsLimits(
    settle_s=300.0, opened_scan_interval_s=0.05, pending_scan_interval_s=0.2, write_deadline_s=0.5
)


@pytest.fixture
async def both() -> AsyncIterator[Several]:
    async with several("a", "b", sds=LIMITS) as made:
        yield made


def add(user: str = "u") -> Mutation:
    return Mutation(Operation.INCREMENT, key(user, 1), {"count": integer(1)})


async def shared(both: Several) -> tuple[Table, Topic]:
    """A streaming table that both know; everything is owned by ``a``."""
    table, topic = await streaming(both["a"])
    await both.show(topic)
    for name in ("a", "b"):
        await both[name].broker.catalogs.tables.refresh(table.owner, table.name)
    return table, topic


def move(both: Several, to: str) -> None:
    """The ring changes, and every server knows at once."""
    both.placed.shards[0] = to
    for server in both.servers.values():
        server.broker.shards.ownership_changed()


async def test_a_server_passes_mutations_on(both: Several) -> None:
    table, topic = await shared(both)
    b = both["b"].broker
    for expected in (1, 2, 3):
        (done,) = await apply(b, table, add())
        assert done.amounts["count"] == integer(expected)
    assert not b.shards.figures().mutations
    messages = await until_heard(both["a"].broker, topic, 3)
    assert list(by_row(messages).values()) == [[1, 2, 3]]


async def test_a_new_owner_publishes_where_another_server_serves(both: Several) -> None:
    table, topic = await shared(both)
    move(both, "b")
    b = both["b"].broker
    await apply(b, table, add(), put("v", 1))
    messages = await until_heard(both["a"].broker, topic, 2)
    assert sorted(by_row(messages).values()) == [[1], [1]]
    await until_cleared(b)
    assert ("a", "stream-put") in both.peers.asked


async def test_pending_entries_of_a_dead_owner_go_out_by_themselves(both: Several) -> None:
    table, topic = await shared(both)
    a, b = both["a"].broker, both["b"].broker
    puts = break_puts(a)
    puts.hang_before = True
    await apply(a, table, add(), add())
    a.shards.forget_all()
    move(both, "b")
    messages = await until_heard(a, topic, 2)
    assert list(by_row(messages).values()) == [[1, 2]]
    await until_cleared(b)


async def test_a_stale_owner_writes_and_the_order_stays(both: Several) -> None:
    """It wakes up after the new owner has looked, and its write goes through."""
    table, topic = await shared(both)
    a, b = both["a"].broker, both["b"].broker
    await apply(a, table, add())
    rows = break_rows(a)
    release = asyncio.Event()
    real = rows.rows.mutate_many

    async def late(name: str, mutations: Sequence[RowMutation]) -> Sequence[int | TalosError]:
        rows.reached.set()
        await release.wait()
        return await real(name, mutations)

    rows.mutate_many = late  # type: ignore[method-assign, assignment]
    stale = asyncio.create_task(a.shards.apply(table, [add()]))
    async with asyncio.timeout(PATIENCE_S):
        await rows.reached.wait()
    stale_shard = a.shards._shards[table.uuid, 0]
    stale_shard._server.context.ownership.check_shard = (  # type: ignore[method-assign]
        lambda table_uuid, number: None
    )
    both.placed.shards[0] = "b"
    b.shards.ownership_changed()
    (done,) = await apply(b, table, put("other", 1))
    assert done.success
    release.set()
    await stale
    (done,) = await apply(b, table, add())
    assert done.amounts["count"] in (integer(2), integer(3))
    count = done.row.sequence or 3
    messages = await until_heard(a, topic, 1 + count)
    for sequences in by_row(messages).values():
        assert firsts(sequences) == sorted(set(sequences))


async def test_two_owners_at_once_lose_nothing(both: Several) -> None:
    """Each believes that it owns the shard, and both write to the same rows."""
    table, topic = await shared(both)
    for server in both.servers.values():
        server.broker.context.ownership.check_shard = (  # type: ignore[method-assign]
            lambda table_uuid, number: None
        )
    acked = dict.fromkeys(("u", "v"), 0)

    async def write(name: str, user: str) -> None:
        for _ in range(15):
            (outcome,) = await both[name].broker.shards.apply(table, [add(user)])
            if not isinstance(outcome, TalosError):
                acked[user] += 1
            else:
                assert isinstance(outcome, Unavailable | OutcomeUnknown)

    await asyncio.gather(*(write(name, user) for name in ("a", "b") for user in acked))
    both.placed.shards[0] = "b"
    a, b = both["a"].broker, both["b"].broker
    a.shards.forget_all()
    del a.context.ownership.check_shard
    counts = {}
    for user in acked:
        (done,) = await apply(b, table, add(user))
        counts[user] = acked[user] + 1
        assert done.amounts["count"] == integer(counts[user])
    messages = await until_heard(a, topic, sum(counts.values()))
    for sequences in by_row(messages).values():
        assert firsts(sequences) == sorted(set(sequences))


async def test_a_lapsed_session_stops_writes_at_once(both: Several) -> None:
    table, _topic = await shared(both)
    a = both["a"].broker
    await apply(a, table, add())
    rows = break_rows(a)
    rows.hang_before = "write"
    call = asyncio.create_task(a.shards.apply(table, [add()]))
    async with asyncio.timeout(PATIENCE_S):
        await rows.reached.wait()
    waiting = asyncio.create_task(a.shards.apply(table, [add()]))
    await asyncio.sleep(0)
    both.placed.shards[0] = "b"
    a.shards.forget_all()
    (outcome,) = await waiting  # it went to the new owner
    assert not isinstance(outcome, TalosError)
    assert outcome.amounts["count"] == integer(2)
    (outcome,) = await call
    assert isinstance(outcome, OutcomeUnknown)


async def test_a_fresh_owner_gives_no_mark_until_the_former_one_is_done(both: Several) -> None:
    table, topic = await shared(both)
    a, b = both["a"].broker, both["b"].broker
    await apply(a, table, add())
    await until_heard(a, topic, 1)
    first = await a.shards.mark(table, "t")
    both.placed.shards[0] = "b"
    a.shards.forget_all()
    b.shards.ownership_changed()
    await apply(b, table, put("v", 1))
    taken = b.shards._shards[table.uuid, 0]
    with pytest.raises(Unavailable):
        await taken.mark(table.streams["t"].id)
    await until_heard(a, topic, 2)
    await until_cleared(b)
    assert taken._delivery is not None
    object.__setattr__(taken._delivery.marks, "settled_s", 0.0)  # the time has passed
    second = await a.shards.mark(table, "t")  # asks the other server
    assert second.timestamp_ms >= first.timestamp_ms
    assert ("b", "table-mark") in both.peers.asked


async def test_a_new_stream_is_known_to_every_server(both: Several) -> None:
    first = both["a"]
    topic = await first.topic(ALICE, "t", partitions=1)
    await both.show(topic)
    table = await make(first.broker)
    both.placed.shards[0] = "b"
    b = both["b"].broker
    await apply(first.broker, table, add())
    assert b.shards.figures().mutations == 1
    spec = TableSpec(schema=streamed(PLAIN, "t"))
    altered = await first.broker.table_admin.alter(ALICE, "people", spec)
    assert isinstance(altered.schema.streams["t"], StreamSpec)
    await apply(first.broker, altered, add())
    messages = await until_heard(first.broker, topic, 1)
    assert [m.sequence for m in messages] == [2]
