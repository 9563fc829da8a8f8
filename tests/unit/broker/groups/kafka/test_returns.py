"""Members that come back, topics that grow: who is a member can commit what it was given."""

import asyncio

from tests.unit.broker.groups.kafka.test_steps import beat, group_of, settled
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.broker.groups.kafka.offsets import Committer, OffsetToCommit
from opentalos.broker.groups.kafka.requests import MemberId
from opentalos.broker.values import Topic
from opentalos.catalog.topics.change import AttributeChange
from opentalos.model.settings.kafka import KafkaGroupLimits

PARTITIONS = 200


async def commit_all(w: World, topic: Topic, member: str, epoch: int) -> set[object]:
    committer = Committer(group="g", who=MemberId(member), generation=epoch)
    offsets = [OffsetToCommit(topic, number, 0) for number in range(PARTITIONS)]
    return set(await w.broker.kafka_groups.offsets.commit(ALICE, committer, offsets))


async def test_the_only_member_leaves_and_is_back_before_its_partitions_were_released() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, "t", partitions=PARTITIONS)
        for passes in range(0, 30, 3):
            joined = await beat(w, "a", 0, names=("t",), rebalance_s=9.0)
            await settled(w)
            given = await beat(w, "a", joined.epoch)
            answer = given if given.assignment is not None else joined
            assert len(answer.assignment or ()) == PARTITIONS
            for _ in range(200):
                await asyncio.sleep(0)
            assert await commit_all(w, topic, "a", answer.epoch) == {None}
            await beat(w, "a", -1)
            for _ in range(passes):
                await asyncio.sleep(0)


async def test_a_topic_that_grows_beyond_the_limit_leaves_its_group_what_it_has() -> None:
    limits = KafkaGroupLimits(partitions_max=10)
    async with world(kafka_group=limits) as w:
        topic = await w.topic(ALICE, "t", partitions=8)
        joined = await beat(w, "a", 0, names=("t",), rebalance_s=9.0)
        assert len(joined.assignment or ()) == 8
        await w.broker.topics.change_attribute(
            ALICE, topic.resource, AttributeChange(partitions=20)
        )
        for _ in range(3):
            alive = await beat(w, "a", joined.epoch)
            assert (alive.refusal, alive.epoch) == (None, joined.epoch)
        assert group_of(w).machine.topics.partitions == 8
        assert (await beat(w, "b", 0, names=("t",), rebalance_s=9.0)).refusal is not None
