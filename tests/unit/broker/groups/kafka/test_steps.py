"""Groups with many members, topics and partitions: no step of the loop is long."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from tests.loop_steps import CALLS_MAX, Beside, LoopSteps
from tests.unit.broker.groups.kafka.test_kafka_groups import subscription
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.broker.groups.kafka.consumer_protocol import write_assignment
from opentalos.broker.groups.kafka.hosted import GroupName
from opentalos.broker.groups.kafka.hosted_consumer import HostedConsumerGroup
from opentalos.broker.groups.kafka.requests import (
    ConsumerAnswer,
    ConsumerHeartbeat,
    JoinOutcome,
    JoinRequest,
    MemberId,
    Refusal,
    SyncOutcome,
    SyncRequest,
)
from opentalos.broker.values import Topic
from opentalos.group.kafka.values import DescribedGroup
from opentalos.log.scheduling.read_waiters import AT_ONCE
from opentalos.model.settings.kafka import KafkaGroupLimits

LIMITS = KafkaGroupLimits(initial_delay_s=0.2)  # in which all members join
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
            async with steps.labelled("described"):
                scope = w.broker.kafka_groups.scope(ALICE, ["g"])
                described = await w.broker.kafka_groups.listing.describe(scope, "g")
            async with steps.labelled("gives back"):
                await beat(w, "a", joined.epoch)
            async with steps.labelled("leaves"):
                await beat(w, "a", -1)
                await settled(w)
        assert (joined.refusal, joined.assignment) == (None, frozenset())
        assert len(given.assignment or ()) == len(names)
        assert isinstance(described, DescribedGroup)
        assert [len(each.assignment) > 10 * len(names) for each in described.members] == [1, 0]
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


async def join(w: World, metadata: bytes, group: str = "g", **more: Any) -> JoinOutcome:
    request = JoinRequest(
        who=MemberId(""),
        client_id="c",
        host="h",
        session_s=1_000.0,
        rebalance_s=1_000.0,
        protocol_type="consumer",
        protocols=more.pop("protocols", (("range", metadata),)),
        fresh_id="",
        ids_required=False,
    )
    return await w.broker.kafka_groups.members.join(ALICE, group, request)


async def test_a_join_with_thousands_of_names() -> None:
    steps = LoopSteps()
    many = subscription(*(f"t{number}" for number in range(5_000)))
    protocols = tuple((f"p{number}", b"") for number in range(20_000))
    async with counted(steps, 300) as w:
        with steps:
            async with steps.labelled("joins"):
                joined = await join(w, many)
            async with steps.labelled("many protocols"):
                refused = await join(w, b"", "other", protocols=protocols)
        assert joined.refusal is None
        assert refused.refusal is Refusal.INVALID_REQUEST
        assert steps.largest.calls <= CALLS_MAX, steps.table()


async def test_members_of_a_generation_continue_a_few_in_each_pass_of_the_loop() -> None:
    async with world(kafka_group=LIMITS) as w:
        loop, passes, ended = asyncio.get_running_loop(), 0, Counter[int]()

        def count_passes() -> None:
            nonlocal passes
            passes += 1
            if ended.total() < len(joins):
                loop.call_soon(count_passes)

        def note(_: object) -> None:
            if not ended:
                loop.call_soon(count_passes)
            ended[passes] += 1

        joins = [asyncio.ensure_future(join(w, b"", protocols=(("p", b""),))) for _ in range(100)]
        for each in joins:
            each.add_done_callback(note)
        outcomes = await asyncio.gather(*joins)
        assert {outcome.generation for outcome in outcomes} == {1}
        assert max(ended.values()) <= AT_ONCE


async def test_a_leader_that_assigns_to_many_members() -> None:
    steps, members = LoopSteps(), 250
    async with counted(steps, 1, members) as w:
        joins = [join(w, subscription("t0")) for _ in range(members)]
        joined = await asyncio.gather(*joins)
        leader = next(outcome for outcome in joined if outcome.member == outcome.leader)
        ids = [outcome.member for outcome in joined]
        # Each names partitions of others as well, which are theirs already.
        lists = {name: list(range(place + 1)) for place, name in enumerate(ids)}
        lists[ids[-1]] *= 100
        decided = {name: write_assignment({"t0": lists[name]}) for name in ids}

        async def sync(name: str) -> SyncOutcome:
            assignments = decided if name == leader.member else {}
            request = SyncRequest(
                who=MemberId(name), generation=leader.generation, assignments=assignments
            )
            return await w.broker.kafka_groups.members.sync(ALICE, "g", request)

        with steps:
            async with steps.labelled("decided"):
                decision = await sync(leader.member)
            async with steps.labelled("asks"):
                asked = await sync(ids[-1])
            async with steps.labelled("leave"):
                members_left = [MemberId(name) for name in ids]
                w.broker.kafka_groups.members.leave(ALICE, "g", members_left[:64])
        assert (decision.refusal, asked.refusal) == (None, None)
        assert asked.assignment == decided[ids[-1]]
        assert steps.largest.calls <= CALLS_MAX, steps.table()
