"""What members of Kafka clients' groups take: limits by tenant, and who goes with a connection."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.broker.groups.kafka.test_kafka_groups import heartbeat, lead, subscription
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB

from opentalos.broker.figures.current import figures_of
from opentalos.broker.groups.kafka.consumer_membership import REGEX_S
from opentalos.broker.groups.kafka.member_bytes import LOG_S
from opentalos.broker.groups.kafka.requests import (
    ConsumerAnswer,
    GroupConnection,
    JoinOutcome,
    JoinRequest,
    MemberId,
    Refusal,
    SyncRequest,
)
from opentalos.broker.values import Topic
from opentalos.model.identity import Principal
from opentalos.model.settings.kafka import KafkaGroupLimits

SLOW = KafkaGroupLimits(initial_delay_s=5.0)
SMALL = KafkaGroupLimits(
    initial_delay_s=0.0,
    metadata_bytes_max=1 << 10,
    assignment_bytes_max=1 << 10,
    members_bytes_of_tenant_max=8 << 10,
    members_bytes_max=16 << 10,
)
REQUEST = JoinRequest(
    who=MemberId(""),
    client_id="c",
    host="10.0.0.7",
    session_s=10.0,
    rebalance_s=30.0,
    protocol_type="consumer",
    protocols=(("range", subscription("t") + bytes(900)),),
    fresh_id="",
    ids_required=False,
)
shown: Callable[[Topic], str] = lambda topic: topic.name  # noqa: E731


async def join(
    w: World,
    caller: Principal = ALICE,
    group: str = "g",
    connection: GroupConnection | None = None,
    **more: Any,
) -> JoinOutcome:
    members = w.broker.kafka_groups.members
    return await members.join(caller, group, replace(REQUEST, **more), connection)


async def begin(w: World, connection: GroupConnection, **more: Any) -> "asyncio.Task[JoinOutcome]":
    """A join that waits for its generation."""
    task = asyncio.create_task(join(w, connection=connection, **more))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    return task


def kept(w: World) -> tuple[int, int]:
    """Groups of Alice with members, and the bytes that all members take."""
    groups = w.broker.kafka_groups.groups
    assert sum(groups.memory.by_tenant.values()) == groups.memory.total
    return len(groups.of_tenant("alice")), groups.memory.total


async def test_a_member_without_a_generation_goes_with_its_connection() -> None:
    async with world(kafka_group=SLOW) as w:
        connection = GroupConnection()
        tasks = [await begin(w, connection, group=f"g{number}") for number in range(3)]
        assert kept(w)[0] == 3
        assert kept(w)[1] > 3 * 1900
        connection.close()
        assert {(await task).refusal for task in tasks} == {Refusal.UNKNOWN_MEMBER_ID}
        assert kept(w) == (0, 0)
        late = await join(w, connection=connection)  # its request was still on the way
        assert late.refusal is Refusal.UNKNOWN_MEMBER_ID
        assert kept(w) == (0, 0)


async def test_an_id_that_nobody_used_goes_with_its_connection() -> None:
    async with world(kafka_group=SLOW) as w:
        connection = GroupConnection()
        given = await join(w, connection=connection, ids_required=True)
        assert given.refusal is Refusal.MEMBER_ID_REQUIRED
        assert kept(w)[0] == 1
        connection.close()
        assert kept(w) == (0, 0)


async def test_a_member_that_joined_again_elsewhere_goes_with_that_connection() -> None:
    async with world(kafka_group=SLOW) as w:
        first, second = GroupConnection(), GroupConnection()
        given = await join(w, connection=first, ids_required=True)
        who = MemberId(given.member)
        task = await begin(w, first, who=who)
        again = await begin(w, second, who=who)
        assert (await task).refusal is Refusal.REBALANCE_IN_PROGRESS
        first.close()
        assert kept(w)[0] == 1
        second.close()
        assert (await again).refusal is Refusal.UNKNOWN_MEMBER_ID
        assert kept(w) == (0, 0)


async def test_a_member_that_was_in_a_generation_stays() -> None:
    async with world(kafka_group=SMALL) as w:
        await w.topic(ALICE)
        connection = GroupConnection()
        joined = await join(w, connection=connection)
        assert joined.generation == 1
        connection.close()
        assert kept(w)[0] == 1
        members = w.broker.kafka_groups.members
        assert members.heartbeat(ALICE, "g", MemberId(joined.member), 1) is None


async def test_members_of_one_tenant_have_a_limit_that_touches_no_other() -> None:
    async with world(kafka_group=SMALL) as w:
        outcomes = [await join(w, group=f"g{number}") for number in range(8)]
        refusals = [outcome.refusal for outcome in outcomes]
        assert refusals == [None] * 4 + [Refusal.GROUP_MAX_SIZE_REACHED] * 4
        assert kept(w)[0] == 4  # no group is kept for who was refused
        assert (await join(w, BOB)).refusal is None
        again = await join(w, group="g0", who=MemberId(outcomes[0].member))
        assert again.refusal is None
        members = w.broker.kafka_groups.members
        assert members.leave(ALICE, "g0", [MemberId(outcomes[0].member)]) == [None]
        assert (await join(w, group="g9")).refusal is None


async def test_members_whose_partitions_the_server_assigns_count_as_well() -> None:
    async with world(kafka_group=SMALL) as w:
        await w.topic(ALICE)

        async def beat(
            caller: Principal, member: str, epoch: int = 0, **more: Any
        ) -> ConsumerAnswer:
            consumers = w.broker.kafka_groups.consumers
            return await consumers.heartbeat(caller, "g", heartbeat(member, epoch, **more), shown)

        names = ("t", "x" * 900)
        answers = [await beat(ALICE, f"m{number}", names=names) for number in range(6)]
        assert [answer.refusal for answer in answers] == (
            [None] * 3 + [Refusal.GROUP_MAX_SIZE_REACHED] * 3
        )
        assert "of tenant alice: limit 8192 bytes" in answers[-1].text
        larger = await beat(ALICE, "m0", answers[0].epoch, names=(*names, "y" * 4_000))
        assert larger.refusal is Refusal.GROUP_MAX_SIZE_REACHED
        assert (await beat(ALICE, "m0", answers[0].epoch)).refusal is None
        assert (await beat(BOB, "m0", names=names)).refusal is None
        for number in range(3):
            assert (await beat(ALICE, f"m{number}", -1)).refusal is None
        assert w.broker.kafka_groups.groups.memory.by_tenant["alice"] == 0


async def test_a_new_topic_ends_no_member_that_says_nothing_new() -> None:
    async with world(kafka_group=SMALL) as w:
        consumers = w.broker.kafka_groups.consumers

        async def beat(epoch: int = 0, **more: Any) -> ConsumerAnswer:
            return await consumers.heartbeat(ALICE, "g", heartbeat("m", epoch, **more), shown)

        first = await beat(names=None, regex="app-.*")
        assert first.refusal is None
        memory = w.broker.kafka_groups.groups.memory
        memory.by_tenant["alice"] = SMALL.members_bytes_of_tenant_max  # with what was assigned
        await w.topic(ALICE, name="app-1")
        await asyncio.sleep(REGEX_S)
        assert (await beat(first.epoch)).refusal is None
        longer = await beat(first.epoch, names=None, regex="app-.*|more")
        assert longer.refusal is Refusal.GROUP_MAX_SIZE_REACHED


async def test_assignments_count_until_the_group_ends() -> None:
    async with world(kafka_group=SMALL) as w:
        await w.topic(ALICE)
        joined = await join(w, protocol_type="other")
        before = kept(w)[1]
        others = [await join(w, group=f"g{n}", protocol_type="other") for n in range(3)]
        who = MemberId(joined.member)
        request = SyncRequest(who=who, generation=1, assignments={who.member: bytes(1000)})
        members = w.broker.kafka_groups.members
        refused = await members.sync(ALICE, "g", request)
        assert refused.refusal is Refusal.GROUP_MAX_SIZE_REACHED
        for number, outcome in enumerate(others):
            members.leave(ALICE, f"g{number}", [MemberId(outcome.member)])
        assert (await members.sync(ALICE, "g", request)).assignment == bytes(1000)
        assert kept(w) == (1, before + 1000)
        assert members.leave(ALICE, "g", [who]) == [None]
        assert kept(w) == (0, 0)


@pytest.mark.parametrize("ends", ["session", "coordinator"])
async def test_counters_go_back_to_zero(ends: str) -> None:
    async with world(kafka_group=SMALL) as w:
        await w.topic(ALICE)
        await lead(w, ALICE, 0)
        assert kept(w)[1] > 0
        if ends == "session":
            w.time.advance(60.0)
            for _ in range(20):
                await asyncio.sleep(0)
        else:
            await w.broker.announce_restart()
        assert kept(w) == (0, 0)


async def test_what_an_expression_matched_is_kept_for_members_only() -> None:
    async with world(kafka_group=SMALL) as w:
        await lead(w, ALICE)
        consumers = w.broker.kafka_groups.consumers
        for number in range(200):
            asked = heartbeat(f"m{number}", 0, names=None, regex="t.*")
            answer = await consumers.heartbeat(ALICE, "g", asked, shown)
            assert answer.refusal is Refusal.GROUP_ID_NOT_FOUND
        assert len(consumers._matches) < 100


async def test_a_decision_that_is_repeated_counts_once() -> None:
    async with world(kafka_group=SMALL) as w:
        joined = await join(w, protocol_type="other")
        memory = w.broker.kafka_groups.groups.memory
        room = SMALL.members_bytes_of_tenant_max - memory.total - 1_500
        memory.count("alice", "others", room)
        who, members = MemberId(joined.member), w.broker.kafka_groups.members
        stranger = {"gone": bytes(1_000)}  # it left, so nothing is kept for it
        request = SyncRequest(
            who=who, generation=1, assignments={who.member: bytes(1_000), **stranger}
        )
        first = asyncio.create_task(members.sync(ALICE, "g", request))
        await asyncio.sleep(0)
        repeated = await members.sync(ALICE, "g", request)  # while the first is under way
        assert (repeated.refusal, len(repeated.assignment)) == (None, 1_000)
        assert (await first).refusal is Refusal.REBALANCE_IN_PROGRESS
        again = await members.sync(ALICE, "g", request)
        assert (again.refusal, len(again.assignment)) == (None, 1_000)


async def test_refused_members_are_counted_and_logged_at_a_bounded_rate(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world(kafka_group=SMALL) as w:
        for number in range(9):
            await join(w, group=f"g{number}")
        w.time.advance(LOG_S)
        await join(w, group="g9")
        assert figures_of(w.broker).kafka_members_refused == 6
    lines = [line for line in caplog.messages if "refused a member" in line]
    assert len(lines) == 2
    assert "of tenant alice: limit 8192 bytes" in lines[0]
    assert "refused since the start: 6" in lines[1]
