"""Groups with many members, topics and partitions: no step of the loop is long."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from tests.loop_steps import CALLS_MAX, Beside, LoopSteps
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.broker.groups.kafka.hosted import GroupName
from opentalos.broker.groups.kafka.hosted_consumer import HostedConsumerGroup
from opentalos.broker.groups.kafka.requests import ConsumerAnswer, ConsumerHeartbeat, MemberId
from opentalos.broker.values import Topic
from opentalos.model.settings.kafka import KafkaGroupLimits

LIMITS = KafkaGroupLimits(initial_delay_s=0.0)
PASSES_MAX = 5_000
shown: Callable[[Topic], str] = lambda topic: topic.name  # noqa: E731


@asynccontextmanager
async def counted(steps: LoopSteps, topics: int, partitions: int = 1) -> AsyncIterator[World]:
    """A broker with so many topics t0, t1, ..."""
    async with world(offload=Beside(steps), kafka_group=LIMITS) as w:
        for number in range(topics):
            await w.topic(ALICE, f"t{number}", partitions=partitions)
        yield w


async def beat(w: World, member: str, epoch: int, **more: Any) -> ConsumerAnswer:
    heartbeat = ConsumerHeartbeat(who=MemberId(member), epoch=epoch, **more)
    return await w.broker.kafka_groups.consumers.heartbeat(ALICE, "g", heartbeat, shown)


def group_of(w: World) -> HostedConsumerGroup:
    hosted = w.broker.kafka_groups.groups.find(GroupName("alice", "g"))
    assert isinstance(hosted, HostedConsumerGroup)
    return hosted


async def settled(w: World) -> None:
    """Returns once a target is decided."""
    machine = group_of(w).machine
    for _ in range(PASSES_MAX):
        if not machine.decides_later:
            return
        await asyncio.sleep(0)
    raise AssertionError("no target was decided")


async def test_a_member_that_reads_thousands_of_topics() -> None:
    steps = LoopSteps()
    names = tuple(f"t{number}" for number in range(500))
    async with counted(steps, len(names)) as w:
        with steps:
            async with steps.labelled("joins"):
                joined = await beat(w, "a", 0, names=names, rebalance_s=9.0)
            async with steps.labelled("decided"):
                await settled(w)
            async with steps.labelled("given"):
                given = await beat(w, "a", joined.epoch)
            async with steps.labelled("alive"):
                await beat(w, "a", joined.epoch)
            async with steps.labelled("another"):
                await beat(w, "b", 0, names=names, rebalance_s=9.0)
                await settled(w)
            async with steps.labelled("gives back"):
                await beat(w, "a", joined.epoch)
            async with steps.labelled("leaves"):
                await beat(w, "a", -1)
                await settled(w)
        assert (joined.refusal, joined.assignment) == (None, frozenset())
        assert len(given.assignment or ()) == len(names)
        assert steps.largest.calls <= CALLS_MAX, steps.table()


async def test_members_that_read_different_topics() -> None:
    steps, random = LoopSteps(), Random(1)
    async with counted(steps, 100, 20) as w:
        with steps:
            for member in range(30):
                names = tuple(f"t{n}" for n in random.sample(range(100), 3 * member + 1))
                async with steps.labelled("joins"):
                    await beat(w, f"m{member}", 0, names=names, rebalance_s=9.0)
            async with steps.labelled("decided"):
                await settled(w)
            async with steps.labelled("given"):
                given = await beat(w, "m29", group_of(w).machine.members["m29"].epoch)
        machine = group_of(w).machine
        assert sum(len(parts) for parts in machine.target.values()) == 2_000
        assert given.assignment
        assert given.assignment <= machine.target["m29"]
        assert steps.largest.calls <= CALLS_MAX, steps.table()
