"""Lag figures of wide topics, and of topics and groups at other servers."""

import asyncio

import pytest
from tests.unit.broker.several import several
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.broker.groups.lag import ends as ends_module
from opentalos.broker.groups.lag import figures as figures_module
from opentalos.broker.groups.lag.brief_cache import BriefCache
from opentalos.broker.values import Commit, ConsumeUnit, Topic
from opentalos.model.errors import PartitionNotServing, StoreUnavailable, TalosError


async def join(made: World, topic: Topic, group: str, partitions: tuple[int, ...]) -> None:
    unit = ConsumeUnit(group, topic.resource, "w1", partitions)
    await made.broker.consumers.lock_partitions(ALICE, unit, "10.0.0.1")


async def commit(made: World, topic: Topic, group: str, partition: int, offset: int) -> None:
    asked = Commit(group, topic.resource, partition, "w1", offset)
    assert await made.broker.consumers.update_offset(ALICE, asked)


async def lag(made: World, topic: Topic) -> int:
    found = await made.broker.lag_figures.of_topic(ALICE, topic)
    units = await made.broker.metrics.consume_units(ALICE, topic.resource)
    if set(found) != set(units):
        raise AssertionError(found)
    return found["g"].lag


async def test_lag_of_a_wide_topic_is_as_old_as_the_bound_and_no_older(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ends_module, "QUICK_PARTITIONS", 2)
    async with world() as made:
        topic = await made.topic(ALICE, partitions=3)
        await made.put(ALICE, topic, 2, 5)
        await join(made, topic, "g", (0, 1, 2))
        assert await lag(made, topic) == 5
        await made.put(ALICE, topic, 1, 5)
        await commit(made, topic, "g", 2, 3)
        assert await lag(made, topic) == 1  # checkpoints are always new
        await asyncio.sleep(ends_module.KEPT_S + 0.1)
        assert await lag(made, topic) == 6


async def test_lag_and_age_of_partitions_and_groups_at_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with several("a", "b") as servers:
        servers.placed.partitions = {0: "b", 1: "a"}
        topic = await servers.show(await servers["a"].topic(ALICE, partitions=2))
        await servers["b"].put(ALICE, topic, 0, 6)
        await servers["a"].put(ALICE, topic, 1, 2)
        await join(servers["a"], topic, "g", (0, 1))
        await commit(servers["a"], topic, "g", 0, 1)
        for quick in (500, 1):
            monkeypatch.setattr(figures_module, "QUICK_PARTITIONS", quick)
            for name in ("a", "b"):
                figures = servers[name].broker.lag_figures
                found = await figures.of_topic(ALICE, topic)
                assert (found["g"].lag, found["g"].behind) == (6, 2)
                assert [(each.partition, each.offset) for each in found["g"].largest] == [
                    (0, 2), (1, 0),
                ]  # fmt: skip
                age_s = (await figures.ages(topic, found))["g"]
                assert age_s is not None
                assert age_s >= 0


async def test_a_partition_without_a_server_leaves_the_lag_unknown() -> None:
    async with several("a", "b") as servers:
        topic = await servers.show(await servers["a"].topic(ALICE, partitions=2))
        await join(servers["a"], topic, "g", (0,))
        servers.placed.partitions = {1: ""}
        with pytest.raises(PartitionNotServing):
            await servers["a"].broker.lag_figures.of_topic(ALICE, topic)
        (lags,) = await servers["a"].broker.overview.lags(ALICE, [topic])
        assert lags is None


async def test_the_age_is_unknown_while_the_message_cannot_be_read() -> None:
    async with several("a", "b") as servers:
        servers.placed.partitions = {0: "b"}
        topic = await servers.show(await servers["a"].topic(ALICE))
        await servers["b"].put(ALICE, topic, 0, 6)
        await join(servers["a"], topic, "g", (0,))
        figures = servers["a"].broker.lag_figures
        found = await figures.of_topic(ALICE, topic)
        servers.peers.hang = True
        async with asyncio.timeout(20):
            assert await figures.ages(topic, found) == {"g": None}


async def test_one_read_serves_all_that_ask_meanwhile_and_a_failed_one_is_repeated() -> None:
    kept: BriefCache[str, int] = BriefCache(kept_s=60.0, items_max=2)
    reads: list[TalosError | None] = [StoreUnavailable("not now"), None, None]

    async def read() -> int:
        await asyncio.sleep(0)
        error = reads.pop(0)
        if error is not None:
            raise error
        return len(reads)

    with pytest.raises(StoreUnavailable):
        await kept.get("k", read)
    assert await asyncio.gather(*(kept.get("k", read) for _ in range(5))) == [1] * 5
    assert await kept.get("other", read) == 0
    assert await kept.get("k", read) == 1
