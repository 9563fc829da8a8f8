"""A shard executes its states: what it does when one of them is left, or cannot be left."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.broker.support import world
from tests.unit.broker.tables.shard.stream_support import PATIENCE_S, apply, streaming, until_heard
from tests.unit.broker.tables.support import PLAIN, make, put

from opentalos.broker.tables.shard.state import TRANSITIONS, Event, IllegalTransition, State
from opentalos.catalog.tables.table import StreamState, Table
from opentalos.model.errors import PartitionNotServing, StoreUnavailable


async def test_an_illegal_transition_fences_the_shard_which_is_reopened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.put_nowait(context))
    async with world() as w:
        table, topic = await streaming(w)
        with monkeypatch.context() as patch:
            patch.delitem(TRANSITIONS, (State.READING, Event.PENDING_READ))
            outcomes = asyncio.create_task(w.broker.shards.apply(table, [put("u", 1)]))
            async with asyncio.timeout(PATIENCE_S):
                report = await reported.get()
        assert isinstance(report["exception"], IllegalTransition)
        assert (
            "fenced, illegal transition: event PENDING_READ in state READING" in (report["message"])
        )
        (outcome,) = await outcomes  # the mutation was not done, so it was routed again
        assert not isinstance(outcome, Exception)
        await apply(w.broker, table, put("u", 1))
        assert [message.sequence for message in await until_heard(w.broker, topic, 2)] == [1, 2]


async def test_a_shard_that_leaves_publishes_first_and_releases_its_claim() -> None:
    async with world() as w:
        table, topic = await streaming(w)
        await apply(w.broker, table, put("u", 1))
        (shard,) = w.broker.shards._shards.values()
        await shard.leave(PartitionNotServing("it moved"))
        assert shard._life.at(State.CLOSED)
        assert shard._delivery is not None
        assert shard._delivery.claim.record.owner == ""
        assert shard.outbox is not None
        assert shard.outbox.entries == 0
        assert not w.broker.shards._shards
        assert [message.sequence for message in await until_heard(w.broker, topic, 1)] == [1]


async def test_a_shard_with_an_unknown_write_keeps_its_claim() -> None:
    """A write of this server may be on its way: the next owner waits before its first mark."""
    async with world() as w:
        table, _ = await streaming(w)
        await apply(w.broker, table, put("u", 1))
        (shard,) = w.broker.shards._shards.values()
        shard._writer.doubt = True
        shard._life.on(Event.LEAVE)
        shard._on(Event.DRAINED)
        await shard._release(StoreUnavailable("it moved"))
        assert shard._life.at(State.CLOSED)
        assert shard._delivery is not None
        assert shard._delivery.claim.record.owner


@pytest.mark.parametrize("how", ["close", "leave"])
async def test_a_shard_that_stops_while_its_first_stream_appears_reports_no_defect(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    defects: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: defects.append(context))
    async with world() as w:
        plain = await make(w.broker, PLAIN)
        await apply(w.broker, plain, put("u", 1))
        (shard,) = w.broker.shards._shards.values()
        asked, gate = asyncio.Event(), asyncio.Event()

        async def hang(_: Table) -> None:
            asked.set()
            await gate.wait()

        monkeypatch.setattr(w.broker.catalogs.tables.spaces, "of", hang)
        with_stream = replace(plain, streams={"t": StreamState(1, "uuid", "alice", "t", 0)})
        monkeypatch.setattr(w.broker.catalogs.tables, "by_uuid", lambda _: with_stream)
        await shard.settled()  # wakes it
        await asked.wait()
        leaving = None
        if how == "close":
            shard.close(PartitionNotServing("the session lapsed"))
        else:
            leaving = asyncio.create_task(shard.leave(PartitionNotServing("it moved")))
            await asyncio.sleep(0)
        gate.set()
        if leaving is not None:
            await leaving
        await asyncio.sleep(0.05)
        assert shard._life.at(State.CLOSED)
        assert defects == []
