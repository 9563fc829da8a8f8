import asyncio
from typing import Any

import pytest
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB

from opentalos.broker.admin.topic_upkeep import TopicUpkeep
from opentalos.broker.quota.space_upkeep import SpaceUpkeep
from opentalos.broker.values import AttributeChange
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.results import PartitionStats
from opentalos.model.errors import TopicNotExist
from opentalos.model.message import OffsetRange


async def _hang(*_: object) -> OffsetRange:
    await asyncio.Event().wait()
    raise AssertionError


def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentalos.broker.admin.topic_upkeep.READ_S", 0.0)
    monkeypatch.setattr("opentalos.broker.admin.topic_upkeep.REMOVE_WAIT_S", 0.0)
    monkeypatch.setattr("opentalos.broker.quota.space_upkeep.READ_S", 0.0)


async def _shrinking(w: World, name: str) -> None:
    topic = await w.topic(ALICE, name, partitions=2)
    await w.broker.topics.change_attribute(ALICE, topic.resource, AttributeChange(partitions=1))


async def test_a_topic_whose_log_hangs_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        await _shrinking(w, "hangs")
        await _shrinking(w, "works")
        log = w.broker.context.partition_log(w.broker.topics.find_topic(ALICE, "hangs"), 1)
        proven = type(log).proven
        monkeypatch.setattr(
            type(log), "proven", lambda self: _hang() if self is log else proven(self)
        )
        monkeypatch.setattr("opentalos.broker.admin.topic_upkeep.READ_S", 0.05)
        await w.broker.topic_upkeep.run_once()
        assert w.broker.topics.find_topic(ALICE, "hangs").shrinking
        assert not w.broker.topics.find_topic(ALICE, "works").shrinking


async def test_a_caller_does_not_wait_for_logs_that_cannot_be_removed_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        _impatient(monkeypatch)
        hanging = await w.topic(ALICE, "hangs")
        monkeypatch.setattr(w.broker.context.log, "delete_topic", _hang)
        await w.broker.topics.delete_topic(ALICE, hanging.resource)
        assert [dead.name for dead in w.broker.context.topics.tombstones()] == ["hangs"]
        for _ in range(3):
            await w.broker.topic_upkeep.run_once()
        assert len(w.broker.topic_upkeep.removing) == 1


async def test_a_deletion_that_hangs_does_not_keep_others_from_creating(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        former = await w.topic(ALICE, "hangs")
        monkeypatch.setattr(w.broker.context.log, "delete_topic", _hang)
        monkeypatch.setattr("opentalos.broker.admin.topic_upkeep.REMOVE_WAIT_S", 0.0)
        await w.broker.topics.delete_topic(ALICE, former.resource)
        monkeypatch.setattr("opentalos.broker.admin.topic_upkeep.REMOVE_WAIT_S", 3_600.0)
        again = asyncio.ensure_future(w.topic(ALICE, "hangs"))
        await asyncio.sleep(0)
        async with asyncio.timeout(5):
            assert (await w.topic(BOB, "other")).name == "other"
        again.cancel()
        await asyncio.gather(again, return_exceptions=True)


@pytest.mark.parametrize("loop", [TopicUpkeep, SpaceUpkeep])
async def test_a_loop_continues_after_an_unexpected_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, loop: type[Any]
) -> None:
    async with world() as w:
        passes, again = 0, asyncio.Event()

        async def broken_pass(_: object) -> None:
            nonlocal passes
            passes += 1
            if passes == 2:
                again.set()
            raise RuntimeError("unexpected")

        monkeypatch.setattr("opentalos.broker.admin.topic_upkeep.UPKEEP_INTERVAL_S", 0.0)
        monkeypatch.setattr("opentalos.broker.quota.space_upkeep.PASS_INTERVAL_S", 0.0)
        monkeypatch.setattr(loop, "run_once", broken_pass)
        more = (w.broker.groups.directory,) if loop is TopicUpkeep else ()
        upkeep = loop(w.broker.context, *more)
        upkeep.start()
        async with asyncio.timeout(5):
            await again.wait()
        await upkeep.close()
        assert "unexpected" in caplog.text


async def test_space_is_measured_although_a_log_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as w:
        first, second = await w.topic(ALICE, "a"), await w.topic(ALICE, "b")
        for topic in (first, second):
            await w.put(ALICE, topic, 0, 500)
        log = w.broker.context.partition_log(first, 0)
        stats = type(log).stats
        monkeypatch.setattr(
            type(log), "stats", lambda self: _hang() if self is log else stats(self)
        )
        monkeypatch.setattr("opentalos.broker.quota.space_upkeep.READ_S", 0.05)
        await w.broker.space_upkeep.run_once()
        assert w.broker.context.spaces.used(first) == 500
        assert w.broker.context.spaces.used(second) > 500


async def test_a_topic_deleted_while_it_is_measured_costs_its_owner_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        topic = await w.topic(ALICE, "a")
        await w.put(ALICE, topic, 0, 500)
        log = w.broker.context.partition_log(topic, 0)
        stats = type(log).stats

        async def deleted_meanwhile(self: PartitionLog) -> PartitionStats:
            found = await stats(self)
            await w.broker.topics.delete_topic(ALICE, topic.resource)
            return found

        monkeypatch.setattr(type(log), "stats", deleted_meanwhile)
        await w.broker.space_upkeep.run_once()
        assert w.broker.context.spaces.used_by_owner("alice") == 0


async def test_a_deleted_topics_logs_do_not_come_back_to_memory() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, "a")
        await w.put(ALICE, topic, 0, 5)
        await w.broker.topics.delete_topic(ALICE, topic.resource)
        with pytest.raises(TopicNotExist):
            w.broker.context.partition_log(topic, 0)
        assert not w.broker.context.log._partitions
        assert not w.broker.messages.routes


async def test_idle_topics_are_measured_in_turn() -> None:
    async with world() as w:
        topics = [await w.topic(ALICE, f"t{n}", partitions=4) for n in range(4)]
        for topic in topics:
            await w.put(ALICE, topic, 0, 100)
        broker = await w.restart()
        seen = []
        for _ in range(3):
            await broker.space_upkeep.run_once()
            seen.append(sum(broker.context.spaces.used(topic) > 0 for topic in topics))
        assert seen == [2, 4, 4]
