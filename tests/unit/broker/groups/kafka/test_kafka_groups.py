"""Groups of Kafka clients over a whole broker: rows, workers, restarts, tenants."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB

from opentalos.broker.groups.kafka.consumer_protocol import write_assignment
from opentalos.broker.groups.kafka.listing import WorkersGroup
from opentalos.broker.groups.kafka.offsets import Committer, OffsetToCommit, Outcome
from opentalos.broker.groups.kafka.requests import (
    ConsumerHeartbeat,
    GroupState,
    JoinOutcome,
    JoinRequest,
    MemberId,
    Refusal,
    SyncRequest,
)
from opentalos.broker.groups.kafka.scope import GroupScope
from opentalos.broker.values import CheckpointKey, ConsumeUnit, Topic
from opentalos.group.kafka.values import DescribedGroup
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    ConsumerGroupWorking,
    InvalidName,
    SizeExceeded,
    TooManyConsumers,
    UnexpectedOffset,
)
from opentalos.model.identity import Grantee, GrantType, Permission, Principal
from opentalos.model.settings.kafka import KafkaGroupLimits
from opentalos.wire.kafka._generated.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from opentalos.wire.kafka.codec import encode

LIMITS = KafkaGroupLimits(initial_delay_s=0.0)
READ = {Grantee(GrantType.DEVELOPER, "bob"): Permission(6)}


def subscription(*topics: str) -> bytes:
    out = bytearray(b"\0\0")
    encode(ConsumerProtocolSubscription(topics=list(topics)), 0, out)
    return bytes(out)


async def join(w: World, caller: Principal, member: str = "", **more: Any) -> JoinOutcome:
    request = JoinRequest(
        who=MemberId(member),
        client_id="c",
        host="10.0.0.7",
        session_s=10.0,
        rebalance_s=30.0,
        protocol_type="consumer",
        protocols=(("range", subscription("t")),),
        fresh_id="",
        ids_required=False,
    )
    return await w.broker.kafka_groups.members.join(caller, "g", replace(request, **more))


async def lead(w: World, caller: Principal, *partitions: int) -> MemberId:
    """A group of one member that has the partitions of topic ``t``."""
    joined = await join(w, caller)
    assert joined.refusal is None
    who = MemberId(joined.member)
    assignment = write_assignment({"t": partitions})
    request = SyncRequest(
        who=who, generation=joined.generation, assignments={who.member: assignment}
    )
    synced = await w.broker.kafka_groups.members.sync(caller, "g", request)
    assert (synced.refusal, synced.assignment) == (None, assignment)
    return who


async def commit(
    w: World, caller: Principal, topic: Topic, who: MemberId, offset: int, **more: Any
) -> Outcome:
    committer = Committer(group="g", who=who, generation=more.pop("generation", 1))
    offsets = [OffsetToCommit(topic, more.pop("partition", 0), offset, **more)]
    outcomes: Sequence[Outcome] = await w.broker.kafka_groups.offsets.commit(
        caller, committer, offsets
    )
    return outcomes[0]


NOBODY = MemberId("")


def scope(w: World) -> GroupScope:
    """Of a call of Alice about group ``g``."""
    return w.broker.kafka_groups.scope(ALICE, ["g"])


async def test_both_protocols_see_the_same_checkpoint_and_lag() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE, partitions=2)
        await w.put(ALICE, topic, 0, 10)
        who = await lead(w, ALICE, 0, 1)
        assert await commit(w, ALICE, topic, who, 4, metadata="x") is None
        units = await w.broker.metrics.consume_unit(ALICE, "g", topic.resource)
        assert [(u.checkpoint, u.lag, u.worker) for u in units] == [
            (3, 6, f"kafka:{who.member}"),
            (-1, 0, f"kafka:{who.member}"),
        ]
        assert await w.broker.consumers.query_offset(ALICE, "g", topic.resource, 0) == 3
        found = await w.broker.kafka_groups.offsets.fetch(ALICE, "g", topic, [0])
        assert {number: (p.next_offset, p.metadata) for number, p in found.items()} == {0: (4, "x")}
        listed = await w.broker.kafka_groups.offsets.fetch_all(scope(w), "g")
        assert [(each.name, sorted(positions)) for each, positions in listed] == [("t", [0])]


async def test_a_restart_loses_members_and_nothing_else() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 10)
        who = await lead(w, ALICE, 0)
        assert await commit(w, ALICE, topic, who, 4) is None
        await w.restart()
        topic = w.broker.context.find_topic(ALICE, Permission.GET_MESSAGE, "t")
        members = w.broker.kafka_groups.members
        assert members.heartbeat(ALICE, "g", who, 1) is Refusal.UNKNOWN_MEMBER_ID
        assert await commit(w, ALICE, topic, who, 9) is Refusal.UNKNOWN_MEMBER_ID
        assert (await join(w, ALICE, who.member)).refusal is Refusal.UNKNOWN_MEMBER_ID
        again = await lead(w, ALICE, 0)
        assert again.member != who.member
        assert await commit(w, ALICE, topic, who, 9) is Refusal.UNKNOWN_MEMBER_ID
        found = await w.broker.kafka_groups.offsets.fetch(ALICE, "g", topic, [0])
        assert found[0].next_offset == 4
        assert await commit(w, ALICE, topic, again, 5) is None


async def test_workers_and_members_are_never_in_one_group() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE)
        unit = ConsumeUnit("g", topic.resource, "w1", (0,))
        await w.broker.consumers.lock_partitions(ALICE, unit, "10.0.0.1")
        assert (await join(w, ALICE)).refusal is Refusal.INCONSISTENT_GROUP_PROTOCOL
        shown = await w.broker.kafka_groups.listing.describe(scope(w), "g")
        assert isinstance(shown, WorkersGroup)
        assert [(each.worker, each.address) for each in shown.workers] == [("w1", "10.0.0.1")]
        listed = await w.broker.kafka_groups.listing.list(ALICE)
        assert [(g.name, g.state, g.type) for g in listed] == [("g", GroupState.STABLE, "classic")]
        await w.broker.group_membership.leave(ALICE, unit)
        await lead(w, ALICE, 0)
        with pytest.raises(TooManyConsumers):
            await w.broker.consumers.lock_partitions(ALICE, unit, "10.0.0.1")


async def test_clients_without_a_group_commit_while_it_has_no_members() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 10)
        alone = {"generation": -1}
        assert await commit(w, ALICE, topic, NOBODY, 0, **alone) is None
        found = await w.broker.kafka_groups.offsets.fetch(ALICE, "g", topic)
        assert found[0].next_offset == 0
        outcome = await commit(w, ALICE, topic, NOBODY, 11, **alone)
        assert isinstance(outcome, UnexpectedOffset)
        text = "x" * (LIMITS.offset_metadata_bytes_max + 1)
        outcome = await commit(w, ALICE, topic, NOBODY, 1, metadata=text, **alone)
        assert isinstance(outcome, SizeExceeded)
        await lead(w, ALICE, 0)
        assert await commit(w, ALICE, topic, NOBODY, 1, **alone) is Refusal.UNKNOWN_MEMBER_ID


async def test_a_reset_makes_members_join_again() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 10)
        who = await lead(w, ALICE, 0)
        key = CheckpointKey("g", topic.resource, 0)
        await w.broker.consumers.reset_checkpoint(ALICE, key, 7)
        assert await commit(w, ALICE, topic, who, 2) is Refusal.ILLEGAL_GENERATION
        assert await w.broker.consumers.query_offset(ALICE, "g", topic.resource, 0) == 7


async def test_a_member_that_leaves_frees_what_it_had() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE)
        who = await lead(w, ALICE, 0)
        assert w.broker.kafka_groups.members.leave(ALICE, "g", [who]) == [None]
        for _ in range(20):
            await asyncio.sleep(0)
        unit = ConsumeUnit("g", topic.resource, "w1", (0,))
        locked = await w.broker.consumers.lock_partitions(ALICE, unit, "10.0.0.1")
        assert locked.locked == (0,)


async def test_groups_of_tenants_are_apart() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE, acl=READ)
        await w.put(ALICE, topic, 0, 10)
        who = await lead(w, ALICE, 0)
        members = w.broker.kafka_groups.members
        assert members.heartbeat(BOB, "g", who, 1) is Refusal.UNKNOWN_MEMBER_ID
        assert await commit(w, BOB, topic, who, 3) is Refusal.UNKNOWN_MEMBER_ID
        assert await commit(w, BOB, topic, NOBODY, 3, generation=-1) is None
        listing = w.broker.kafka_groups.listing
        assert [group.name for group in await listing.list(BOB)] == ["g"]
        assert [group.name for group in await listing.list(ALICE)] == ["bob/g", "g"]
        mine = await w.broker.kafka_groups.offsets.fetch(ALICE, "g", topic)
        assert mine == {}
        his = await w.broker.kafka_groups.offsets.fetch(ALICE, "bob/g", topic)
        assert his[0].next_offset == 3
        with pytest.raises(InvalidName):
            await join_named(w, "bob/g")


async def join_named(w: World, group: str) -> None:
    request = JoinRequest(
        who=NOBODY,
        client_id="",
        host="",
        session_s=10.0,
        rebalance_s=10.0,
        protocol_type="consumer",
        protocols=(("range", b""),),
        fresh_id="",
    )
    await w.broker.kafka_groups.members.join(ALICE, group, request)


async def test_deleting_needs_a_group_without_members() -> None:
    async with world(kafka_group=LIMITS) as w:
        await w.topic(ALICE)
        listing = w.broker.kafka_groups.listing
        with pytest.raises(ConsumerGroupNotExist):
            await listing.delete(scope(w), "g")
        who = await lead(w, ALICE, 0)
        described = await listing.describe(scope(w), "g")
        assert isinstance(described, DescribedGroup)
        assert described.state is GroupState.STABLE
        with pytest.raises(ConsumerGroupWorking):
            await listing.delete(scope(w), "g")
        w.broker.kafka_groups.members.leave(ALICE, "g", [who])
        for _ in range(20):
            await asyncio.sleep(0)
        await listing.delete(scope(w), "g")
        assert await listing.describe(scope(w), "g") is None


async def test_calls_that_wait_return_when_the_server_stops() -> None:
    async with world(kafka_group=KafkaGroupLimits(initial_delay_s=5.0)) as w:
        await w.topic(ALICE)
        waiting = asyncio.ensure_future(join(w, ALICE))
        await asyncio.sleep(0.1)
        await w.broker.announce_restart()
        with pytest.raises(Exception, match="moved"):
            await waiting


def heartbeat(member: str, epoch: int, **more: Any) -> ConsumerHeartbeat:
    if epoch == 0:
        more = {"names": ("t",), "rebalance_s": 10.0, **more}
    return ConsumerHeartbeat(who=MemberId(member), epoch=epoch, host="10.0.0.7", **more)


async def test_the_server_assigns_and_grants() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await w.topic(ALICE, partitions=2)
        await w.put(ALICE, topic, 0, 10)
        beat = w.broker.kafka_groups.consumers.heartbeat
        names: Any = lambda topic: topic.name  # noqa: E731
        first = await beat(ALICE, "g", heartbeat("m1", 0), names)
        assert first.assignment is not None
        assert {part.partition for part in first.assignment} == {0, 1}
        generation = {"generation": first.epoch}
        assert await commit(w, ALICE, topic, MemberId("m1"), 4, **generation) is None
        stale = await commit(w, ALICE, topic, MemberId("m1"), 4, generation=first.epoch - 1)
        assert stale is Refusal.STALE_MEMBER_EPOCH
        units = await w.broker.metrics.consume_unit(ALICE, "g", topic.resource)
        assert [unit.worker for unit in units] == ["kafka:m1", "kafka:m1"]
        second = await beat(ALICE, "g", heartbeat("m2", 0, names=None, regex="t.*"), names)
        assert second.assignment == frozenset()
        refused = await beat(ALICE, "g", heartbeat("m3", 0, regex="(?=t)"), names)
        assert refused.refusal is Refusal.INVALID_REGULAR_EXPRESSION
        assert "character 2: of the groups with (? only (?: is supported" in refused.text
        assert (await join(w, ALICE)).refusal is Refusal.INCONSISTENT_GROUP_PROTOCOL


async def test_an_expression_that_ruins_backtracking_engines_stops_nobody() -> None:
    async with world(kafka_group=LIMITS) as w:
        for name in "acde":
            await w.topic(ALICE, name * 60)
        wanted = await w.topic(ALICE, "a" * 59 + "b")
        beat = w.broker.kafka_groups.consumers.heartbeat
        for number, regex in enumerate(("a?" * 60 + "b", "(a|aa)+b", "([ac]?[cd]?[de]?){80}b")):
            joined = heartbeat("m", 0, names=None, regex=regex)
            answer = await beat(ALICE, f"g{number}", joined, lambda topic: topic.name)
            assert answer.assignment is not None
            assert {part.topic for part in answer.assignment} == {wanted.uuid}
        assert w.broker.context.work.counters.pauses > 0


async def test_a_classic_group_is_not_joined_by_heartbeats() -> None:
    async with world(kafka_group=LIMITS) as w:
        await w.topic(ALICE)
        await lead(w, ALICE, 0)
        beat = w.broker.kafka_groups.consumers.heartbeat
        answer = await beat(ALICE, "g", heartbeat("m1", 0), lambda topic: topic.name)
        assert answer.refusal is Refusal.GROUP_ID_NOT_FOUND
