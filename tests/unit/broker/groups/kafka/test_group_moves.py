"""A group of Kafka clients moves to another server, and the former one does not know."""

import asyncio
from typing import Any

import pytest
from tests.unit.broker.several import Several, several
from tests.unit.catalog.support import ALICE

from opentalos.broker.groups.kafka.offsets import Committer, OffsetToCommit, Outcome
from opentalos.broker.groups.kafka.requests import (
    ConsumerAnswer,
    ConsumerHeartbeat,
    JoinRequest,
    MemberId,
    Refusal,
)
from opentalos.broker.values import Topic
from opentalos.model.errors import NotOwner, PartitionNotServing
from opentalos.model.settings.kafka import KafkaGroupLimits

LIMITS = KafkaGroupLimits(initial_delay_s=5.0)


async def beat(s: Several, server: str, member: str, epoch: int) -> ConsumerAnswer:
    more: dict[str, Any] = {"names": ("t",), "rebalance_s": 10.0} if epoch == 0 else {}
    heartbeat = ConsumerHeartbeat(who=MemberId(member), epoch=epoch, **more)
    service = s[server].broker.kafka_groups.consumers
    return await service.heartbeat(ALICE, "g", heartbeat, lambda topic: topic.name)


async def commit(
    s: Several, server: str, topic: Topic, member: str, epoch: int, offset: int
) -> Outcome:
    committer = Committer(group="g", who=MemberId(member), generation=epoch)
    offsets = [OffsetToCommit(topic, 0, offset)]
    return (await s[server].broker.kafka_groups.offsets.commit(ALICE, committer, offsets))[0]


async def with_topic(s: Several) -> Topic:
    topic = await s.show(await s["a"].topic(ALICE))
    await s["a"].put(ALICE, topic, 0, 10)
    return topic


async def position(s: Several, server: str, topic: Topic) -> int:
    offsets = s[server].broker.kafka_groups.offsets
    return (await offsets.fetch(ALICE, "g", topic))[0].next_offset


async def test_members_find_the_next_coordinator_and_nothing_is_lost() -> None:
    async with several("a", "b", kafka_group=LIMITS) as s:
        topic = await with_topic(s)
        joined = await beat(s, "a", "m1", 0)
        assert await commit(s, "a", topic, "m1", joined.epoch, 4) is None
        s.move_group("g", "b")
        with pytest.raises(NotOwner):
            await beat(s, "a", "m1", joined.epoch)
        with pytest.raises(NotOwner):
            await commit(s, "a", topic, "m1", joined.epoch, 9)
        assert (await beat(s, "b", "m1", joined.epoch)).refusal is Refusal.UNKNOWN_MEMBER_ID
        assert await commit(s, "b", topic, "m1", joined.epoch, 9) is Refusal.UNKNOWN_MEMBER_ID
        again = await beat(s, "b", "m1", 0)
        assert again.assignment
        assert await position(s, "b", topic) == 4
        assert await commit(s, "b", topic, "m1", again.epoch, 5) is None


async def test_a_former_coordinator_stores_nothing_more() -> None:
    """It still believes in its members, whose ids are the same at the next one."""
    async with several("a", "b", kafka_group=LIMITS) as s:
        topic = await with_topic(s)
        former = await beat(s, "a", "m1", 0)
        assert await commit(s, "a", topic, "m1", former.epoch, 4) is None
        s.placed.groups["g"] = "b"  # and nobody tells a
        present = await beat(s, "b", "m1", 0)
        s.placed.groups["g"] = "a"
        refused = await commit(s, "a", topic, "m1", former.epoch, 9)
        assert isinstance(refused, PartitionNotServing)
        s.placed.groups["g"] = "b"
        assert await position(s, "b", topic) == 4
        assert await commit(s, "b", topic, "m1", present.epoch, 6) is None
        assert await position(s, "b", topic) == 6


async def test_who_waits_for_a_generation_is_sent_on() -> None:
    async with several("a", "b", kafka_group=LIMITS) as s:
        await with_topic(s)
        request = JoinRequest(
            who=MemberId(""),
            client_id="c",
            host="h",
            session_s=10.0,
            rebalance_s=10.0,
            protocol_type="consumer",
            protocols=(("range", b""),),
            fresh_id="",
            ids_required=False,
        )
        members = s["a"].broker.kafka_groups.members
        waiting = asyncio.ensure_future(members.join(ALICE, "g", request))
        await asyncio.sleep(0.1)
        s.move_group("g", "b")
        with pytest.raises(PartitionNotServing):
            await waiting
