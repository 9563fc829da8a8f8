"""The server's bound on what waits for topics; openings while the rows cannot be read."""

import asyncio
from typing import Any

import pytest
from tests.unit.broker.support import world
from tests.unit.broker.tables.shard.faulty import break_puts
from tests.unit.broker.tables.shard.stream_support import (
    PATIENCE_S,
    apply,
    streaming,
    until_cleared,
    until_heard,
)
from tests.unit.broker.tables.support import PLAIN, make, put, streamed

from opentalos.broker.tables.shard.record import shard_path
from opentalos.model.errors import (
    ExcessivePending,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
)
from opentalos.model.settings.tables import SdsLimits

SMALL = SdsLimits(pending_entries_max=20, server_pending_entries_max=20, throttle_max_s=0.05)


async def test_a_topic_that_takes_nothing_leaves_room_for_other_tables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opentalos.broker.tables.stream.outbox_budget.SUM_S", 0.0)
    async with world(sds=SMALL) as w:
        table, topic = await streaming(w)
        other = await make(w.broker, streamed(PLAIN, "t"), name="others")
        await apply(w.broker, other, put("other", 0))
        await until_heard(w.broker, topic, 1)
        await until_cleared(w.broker)
        puts = break_puts(w.broker)
        puts.errors = [(PartitionNotServing("moves"), False)] * 100_000
        outcomes: list[object] = []
        async with asyncio.timeout(PATIENCE_S):
            while not any(isinstance(item, TalosError) for item in outcomes):
                outcomes += await w.broker.shards.apply(table, [put("u", len(outcomes))])
        assert isinstance(outcomes[-1], ExcessivePending)
        assert w.broker.shards.figures().refused_full >= 1
        # Of 20, 10 are shared, and each of the two shards has 5 for itself.
        assert len(outcomes) - 1 == 15
        await apply(w.broker, other, *(put("other", at) for at in range(1, 6)))
        (outcome,) = await w.broker.shards.apply(other, [put("other", 6)])
        assert isinstance(outcome, ExcessivePending)
        assert w.broker.shards.figures().pending_entries == 20
        puts.errors = []
        await until_heard(w.broker, topic, 21)
        await until_cleared(w.broker)
        await apply(w.broker, table, put("u", 99))
        await apply(w.broker, other, put("other", 99))


async def test_no_epoch_is_claimed_while_the_rows_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        table, topic = await streaming(w)
        await apply(w.broker, table, put("u", 1))
        await until_heard(w.broker, topic, 1)
        shards, path = w.broker.shards, shard_path(table.uuid, 0)
        meta = shards._server.meta
        before = await meta.get(path)
        assert before is not None
        rows, opened = shards._server.stores.rows, shards._server.counts.opened

        async def down(*_: object, **__: Any) -> None:
            raise StoreUnavailable("the row store is down")

        with monkeypatch.context() as patch:
            patch.setattr(rows, "get", down)
            patch.setattr(rows, "scan", down)
            shards._shards[table.uuid, 0].close(PartitionNotServing("reopened"))
            async with asyncio.timeout(PATIENCE_S):
                while shards._server.counts.opened < opened + 4:
                    (outcome,) = await shards.apply(table, [put("u", 2)])
                    assert isinstance(outcome, StoreUnavailable)
            assert await meta.get(path) == before
        await apply(w.broker, table, put("u", 2))
        after = await meta.get(path)
        assert after is not None
        assert after.version == before.version + 1
        await until_heard(w.broker, topic, 2)
