"""Every change of a table becomes a message, once, each row's in their order."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.broker.support import world
from tests.unit.broker.tables.shard.stream_support import (
    apply,
    by_row,
    heard,
    streaming,
    until_cleared,
    until_heard,
)
from tests.unit.broker.tables.support import HASHED, PLAIN, integer, put, remove, string

from opentalos.broker.tables.row_tables import rows_of
from opentalos.broker.tables.stream.outbox import Entry
from opentalos.broker.tables.stream.pending_format import (
    Pending,
    encode_column,
    encode_pending,
)
from opentalos.model.change import ChangeKind
from opentalos.model.errors import PartitionNotServing, StoreUnavailable
from opentalos.model.mutation import Condition, Mutation, Operation
from opentalos.ports.row_store import ABSENT, FamilyName, RowMutation


async def test_changes_of_a_row_are_published_in_order() -> None:
    async with world() as bed:
        table, topic = await streaming(bed)
        for number in range(5):
            await apply(bed.broker, table, put("u", 1, count=integer(number)))
        messages = await until_heard(bed.broker, topic, 5)
        assert list(by_row(messages).values()) == [[1, 2, 3, 4, 5]]
        assert [m.change.columns["count"] for m in messages] == [integer(n) for n in range(5)]
        await until_cleared(bed.broker)
        figures = bed.broker.shards.figures()
        assert (figures.mutations, figures.published, figures.resent) == (5, 5, 0)


async def test_many_writers_of_many_rows() -> None:
    async with world() as bed:
        table, topic = await streaming(bed, HASHED, partitions=4)

        async def write(user: int) -> None:
            for number in range(10):
                await apply(bed.broker, table, put(f"u{user}", 1, count=integer(number)))

        await asyncio.gather(*(write(user) for user in range(20)))
        messages = await until_heard(bed.broker, topic, 200, HASHED)
        assert len(messages) == 200
        assert all(sequences == list(range(1, 11)) for sequences in by_row(messages).values())
        await until_cleared(bed.broker)


async def test_mutations_of_one_row_that_wait_together_are_one_write() -> None:
    async with world() as bed:
        table, topic = await streaming(bed)
        add = Mutation(Operation.INCREMENT, put("u", 1).key, {"count": integer(1)})
        outcomes = await apply(bed.broker, table, *[add] * 50)
        assert [o.amounts["count"] for o in outcomes] == [integer(n + 1) for n in range(50)]
        messages = await until_heard(bed.broker, topic, 50)
        assert [m.sequence for m in messages] == list(range(1, 51))
        assert bed.broker.shards.figures().groups < 50


async def test_a_write_without_effect_is_not_published() -> None:
    async with world() as bed:
        table, topic = await streaming(bed)
        absent = Condition(row_exists=True)
        failed = put("u", 1, city=string("x"))._replace(condition=absent)
        (outcome, gone) = await apply(bed.broker, table, failed, remove("u", 1))
        assert not outcome.success
        assert gone.success
        await apply(bed.broker, table, put("u", 2))
        messages = await until_heard(bed.broker, topic, 1)
        assert [m.change.kind for m in messages] == [ChangeKind.PUT]


async def test_published_cells_are_removed() -> None:
    async with world() as bed:
        table, topic = await streaming(bed)
        await apply(bed.broker, table, put("u", 1), put("u", 2), remove("u", 1))
        await until_heard(bed.broker, topic, 3)
        await until_cleared(bed.broker)
        rows = bed.broker.shards._server.stores.rows
        assert not await rows.scan(rows_of(table), b"", b"", limit=9, family=FamilyName.PENDING)


async def test_after_a_restart_nothing_is_published_again() -> None:
    async with world() as bed:
        table, topic = await streaming(bed)
        await apply(bed.broker, table, put("u", 1), put("u", 2))
        await until_heard(bed.broker, topic, 2)
        await until_cleared(bed.broker)
        broker = await bed.restart()
        await apply(broker, table, put("u", 1), put("u", 3))
        messages = await until_heard(broker, topic, 4)
        assert sorted(by_row(messages).values()) == [[1], [1], [1, 2]]
        await until_cleared(broker)
        assert len(await heard(broker, topic, PLAIN)) == 4


async def test_a_mark_covers_what_is_published() -> None:
    async with world() as bed:
        table, topic = await streaming(bed, HASHED, partitions=2)
        await apply(bed.broker, table, *(put(f"u{n}", 1) for n in range(10)))
        await until_heard(bed.broker, topic, 10, HASHED)
        mark = await bed.broker.shards.mark(table, "t")
        assert mark.timestamp_ms == bed.clock.now_ms
        assert sum(mark.offsets.values()) == 10
        (later,) = await apply(bed.broker, table, put("u0", 1))
        assert later.row.timestamp_ms > mark.timestamp_ms


async def test_after_an_orderly_restart_there_is_a_mark_at_once() -> None:
    async with world() as bed:
        table, topic = await streaming(bed)
        await apply(bed.broker, table, put("u", 1))
        await until_heard(bed.broker, topic, 1)
        first = await bed.broker.shards.mark(table, "t")
        broker = await bed.restart()
        bed.clock.now_ms -= 5_000
        (later,) = await apply(broker, table, put("v", 1))
        assert later.row.timestamp_ms > first.timestamp_ms
        await until_heard(broker, topic, 2)
        bed.clock.now_ms += 9_000
        second = await broker.shards.mark(table, "t")
        assert second.timestamp_ms >= later.row.timestamp_ms
        assert sum(second.offsets.values()) == 2


async def test_a_topic_that_grows_gets_new_changes_in_new_partitions() -> None:
    async with world() as bed:
        table, topic = await streaming(bed, partitions=1)
        await apply(bed.broker, table, *(put(f"u{n}", 1) for n in range(20)))
        await until_heard(bed.broker, topic, 20)
        catalog = bed.broker.context.topics
        grown = await catalog.change(
            topic,
            lambda now: replace(now, partitions=4, consumer_partitions=4, partitions_ever=4),
        )
        await apply(bed.broker, table, *(put(f"u{n}", 1) for n in range(20)))
        messages = await until_heard(bed.broker, grown, 40)
        assert {m.partition for m in messages} == {0, 1, 2, 3}
        assert all(sorted(sequences) == [1, 2] for sequences in by_row(messages).values())


async def test_changes_that_come_soon_after_a_block_share_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opentalos.broker.tables.stream.publish_lane.PACE_S", 0.5)
    async with world() as bed:
        table, topic = await streaming(bed, partitions=1)
        for number in range(60):
            await apply(bed.broker, table, put("u", number))
        assert len(await until_heard(bed.broker, topic, 60)) == 60
        assert bed.broker.shards._server.counts.blocks < 60


async def test_a_shard_that_has_stopped_publishes_nothing_more() -> None:
    """New lanes would leave out what the former ones had not published."""
    async with world() as bed:
        table, topic = await streaming(bed)
        await apply(bed.broker, table, put("u", 1))
        await until_heard(bed.broker, topic, 1)
        (shard,) = bed.broker.shards._shards.values()
        shard.close(PartitionNotServing("another server has opened it"))
        assert shard._delivery is not None
        late = Entry(b"k", encode_column(2, 1), Pending(2, 1, 2, b"later"))
        shard._delivery.publish([late])
        assert shard._delivery.publisher.idle


async def test_changes_for_a_stream_that_an_older_record_lacks_are_kept() -> None:
    """The record was restored to a state from before the stream was enabled."""
    async with world() as bed:
        table, _ = await streaming(bed)
        rows = bed.broker.shards._server.stores.rows
        ahead = encode_column(1, table.next_stream_id)
        written = RowMutation(
            key=b"\x01u", expected=ABSENT, write_id=bytes(16), data={b"!": b"x"},
            pending={ahead: encode_pending(1, b"change")},
        )  # fmt: skip
        await rows.mutate(rows_of(table), written)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=r"wait for stream 2, but .* older state"):
                await apply(bed.broker, table, put("u", 1))
        (row,) = await rows.scan(rows_of(table), b"", b"", limit=9, family=FamilyName.PENDING)
        assert list(row.cells) == [ahead]
