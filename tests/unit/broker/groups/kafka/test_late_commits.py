"""A commit of a member takes its time, and meanwhile another member is given the partition."""

import asyncio
from typing import Any

from tests.unit.broker.groups.kafka.test_kafka_groups import (
    LIMITS,
    commit,
    heartbeat,
    join,
    lead,
)
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.broker.groups.kafka.consumer_protocol import write_assignment
from opentalos.broker.groups.kafka.requests import (
    ConsumerAnswer,
    MemberId,
    Refusal,
    SyncRequest,
    TopicPart,
)
from opentalos.broker.values import Topic


class Delay:
    """The first question where the log ends is not answered until ``end``."""

    def __init__(self, w: World) -> None:
        ends = w.broker.consumers.ends
        self._real, self._asked, self._ended = ends.above, asyncio.Event(), asyncio.Event()
        ends.above = self._above  # type: ignore[method-assign]

    async def _above(self, topic: Topic, partition: int, offset: int) -> Any:
        if not self._asked.is_set():
            self._asked.set()
            await self._ended.wait()
        return await self._real(topic, partition, offset)

    async def asked(self) -> None:
        await self._asked.wait()

    def end(self) -> None:
        self._ended.set()


async def beat(w: World, member: str, epoch: int, **more: Any) -> ConsumerAnswer:
    service = w.broker.kafka_groups.consumers
    return await service.heartbeat(
        ALICE, "g", heartbeat(member, epoch, **more), lambda topic: topic.name
    )


async def position(w: World, topic: Topic) -> int:
    return (await w.broker.kafka_groups.offsets.fetch(ALICE, "g", topic))[0].next_offset


async def test_a_commit_of_a_former_epoch_is_not_stored_however_late_it_is_decided() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE, partitions=1)
        await w.put(ALICE, topic, 0, 10)
        part = frozenset({TopicPart(topic.uuid, 0)})
        former = await beat(w, "m2", 0)
        assert former.assignment == part
        delay = Delay(w)
        late = asyncio.create_task(
            commit(w, ALICE, topic, MemberId("m2"), 4, generation=former.epoch)
        )
        await delay.asked()
        # The present member has the partition before the commit is decided.
        await beat(w, "m1", 0)
        assert (await beat(w, "m2", -1)).refusal is None
        present = await beat(w, "m1", 0)
        assert present.assignment == part
        again = await beat(w, "m2", 0)
        assert again.assignment == frozenset()
        who = MemberId("m1")
        assert await commit(w, ALICE, topic, who, 8, generation=present.epoch) is None
        delay.end()
        assert await late is Refusal.STALE_MEMBER_EPOCH
        assert await position(w, topic) == 8
        kept = (await beat(w, "m1", present.epoch)).epoch
        assert await commit(w, ALICE, topic, who, 9, generation=kept) is None


async def test_a_commit_of_a_former_generation_is_not_stored_however_late_it_is_decided() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE, partitions=1)
        await w.put(ALICE, topic, 0, 10)
        leader = await lead(w, ALICE, 0)
        delay = Delay(w)
        late = asyncio.create_task(commit(w, ALICE, topic, leader, 4, generation=1))
        await delay.asked()
        other = asyncio.create_task(join(w, ALICE))
        await asyncio.sleep(0)
        again = await join(w, ALICE, leader.member)
        joined = await other
        who = MemberId(joined.member)
        sync = w.broker.kafka_groups.members.sync
        decision = {joined.member: write_assignment({"t": [0]})}
        number = again.generation
        await sync(ALICE, "g", SyncRequest(who=leader, generation=number, assignments=decision))
        await sync(ALICE, "g", SyncRequest(who=who, generation=number))
        assert await commit(w, ALICE, topic, who, 8, generation=number) is None
        delay.end()
        assert await late is Refusal.ILLEGAL_GENERATION
        assert await position(w, topic) == 8
        assert await commit(w, ALICE, topic, who, 9, generation=number) is None
