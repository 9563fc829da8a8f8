"""Lags of the groups that a server coordinates, as the metric calls return them."""

import asyncio

import pytest
from tests.unit.broker.several import several
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.broker.groups.lag import sampled as group_lags_module
from opentalos.broker.groups.lag.sampled import Lag
from opentalos.broker.values import Commit, ConsumeUnit, Topic
from opentalos.group.directory import GroupOnTopic


async def join(made: World, topic: Topic, group: str, partitions: tuple[int, ...]) -> None:
    unit = ConsumeUnit(group, topic.resource, "w1", partitions)
    await made.broker.consumers.lock_partitions(ALICE, unit, "10.0.0.1")


async def commit(made: World, topic: Topic, group: str, partition: int, offset: int) -> None:
    asked = Commit(group, topic.resource, partition, "w1", offset)
    assert await made.broker.consumers.update_offset(ALICE, asked)


async def test_lags_of_all_groups_are_added_and_the_worst_is_reported() -> None:
    async with world() as made:
        topic = await made.topic(ALICE, partitions=3)
        await made.put(ALICE, topic, 0, 10)
        await made.put(ALICE, topic, 1, 4)
        await join(made, topic, "g", (0, 1))
        await join(made, topic, "h", (0,))
        await commit(made, topic, "g", 0, 6)  # three behind
        await commit(made, topic, "h", 0, 9)  # at the end
        broker = made.broker
        found = await broker.group_lags.read()
        assert found == {(topic.uuid, 0): Lag(3, 3), (topic.uuid, 1): Lag(4, 4)}
        await made.put(ALICE, topic, 0, 5)
        found = await broker.group_lags.read()
        assert found[topic.uuid, 0] == Lag(3 + 5 + 5, 8)
        units = await broker.metrics.consume_units(ALICE, topic.resource)
        assert found[topic.uuid, 0].total == sum(units[group][0].lag or 0 for group in units)
        assert broker.group_lags.by_group == {
            GroupOnTopic(topic.uuid, "alice/g"): 8 + 4,
            GroupOnTopic(topic.uuid, "alice/h"): 5,
        }


async def test_there_is_no_lag_without_groups() -> None:
    async with world() as made:
        topic = await made.topic(ALICE)
        await made.put(ALICE, topic, 0, 3)
        assert await made.broker.group_lags.read() == {}


async def test_a_deleted_topic_has_no_lag() -> None:
    async with world() as made:
        topic = await made.topic(ALICE)
        await join(made, topic, "g", (0,))
        await made.broker.topics.delete_topic(ALICE, topic.resource)
        assert await made.broker.group_lags.read() == {}


async def test_partitions_of_another_server_are_asked_for() -> None:
    async with several("a", "b") as servers:
        servers.placed.partitions = {0: "b"}
        topic = await servers.show(await servers["a"].topic(ALICE))
        await servers["b"].put(ALICE, topic, 0, 6)
        await join(servers["a"], topic, "g", (0,))
        await commit(servers["a"], topic, "g", 0, 1)
        assert await servers["a"].broker.group_lags.read() == {(topic.uuid, 0): Lag(4, 4)}


async def test_a_server_that_hangs_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_lags_module, "READ_S", 0.05)
    async with several("a", "b") as servers:
        servers.placed.partitions = {0: "b"}
        topic = await servers.show(await servers["a"].topic(ALICE))
        await join(servers["a"], topic, "g", (0,))
        servers.peers.hang = True
        async with asyncio.timeout(10):
            assert await servers["a"].broker.group_lags.read() == {}
