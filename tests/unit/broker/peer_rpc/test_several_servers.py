"""Every use case gives the right answer at any server, or names the server that can."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.broker.several import Several, several
from tests.unit.catalog.support import ALICE, BOB, ROOT

from opentalos.broker.admin.topic_upkeep import TopicUpkeep
from opentalos.broker.messaging.messages import PutTarget
from opentalos.broker.peer_rpc.calls import PARTITIONS
from opentalos.broker.peer_rpc.remote_logs import PartitionFacts, Question, RemoteLogs, Wanted
from opentalos.broker.values import (
    AttributeChange,
    CheckpointKey,
    Commit,
    ConsumeUnit,
    LockedPartitions,
    NewTopic,
    Topic,
    UserQuota,
)
from opentalos.catalog.topics.change import tombstone
from opentalos.model.errors import (
    NotOwner,
    OutcomeUnknown,
    PartitionNotExist,
    PartitionNotServing,
    QuotaExceeded,
    StoreUnavailable,
    TopicExists,
    TopicNotExist,
    UnexpectedOffset,
)
from opentalos.model.identity import Grantee, GrantType, Permission
from opentalos.model.limits import GroupLimits
from opentalos.model.message import MessageBlock, OffsetRange

LEASE_S = GroupLimits().lease_s


def _unit(topic: Topic, *partitions: int, worker: str = "w1") -> ConsumeUnit:
    return ConsumeUnit("g", topic.resource, worker, partitions)


def _commit(topic: Topic, partition: int, offset: int, worker: str = "w1") -> Commit:
    return Commit("g", topic.resource, partition, worker, offset)


async def _spread(s: Several) -> Topic:
    """A topic with partition 0 at a (10 messages) and 1 at b (20), known to all; 2 has no owner."""
    topic = await s.show(await s["a"].topic(ALICE, partitions=3))
    s.placed.partitions.update({0: "a", 1: "b", 2: ""})
    await s["a"].put(ALICE, topic, 0, 10)
    await s["b"].put(ALICE, topic, 1, 20)
    return topic


# --- logs of other servers -----------------------------------------------------------------------


async def test_any_server_reports_offsets_and_amounts_of_all_partitions() -> None:
    async with several("a", "b") as s:
        topic = await _spread(s)
        for name in ("a", "b"):
            found = await s[name].broker.messages.offsets_of(ALICE, topic.resource, range(3))
            assert found[:2] == [OffsetRange(0, 10), OffsetRange(0, 20)]
            assert isinstance(found[2], PartitionNotServing)
            states = (await s[name].broker.topics.describe_topic(ALICE, "t")).partitions
            assert [(state.partition, state.end_offset, state.messages) for state in states] == [
                (0, 9, 10),
                (1, 19, 20),
            ]
        assert s.peers.asked == [("b", "partitions")] * 2 + [("a", "partitions")] * 2


async def test_any_server_finds_offsets_by_time_and_of_listed_partitions() -> None:
    async with several("a", "b") as s:
        topic = await _spread(s)
        s["a"].clock.now_ms += 5_000
        later_ms = s["a"].clock.now_ms
        await s["b"].put(ALICE, topic, 1, 3)
        for name in ("a", "b"):
            messages = s[name].broker.messages
            times = {1: later_ms, 0: later_ms}
            assert await messages.offsets_at(ALICE, topic.resource, times) == {1: 20, 0: 10}
            assert await messages.offset_at(ALICE, topic.resource, 1, 0) == 0
            assert await messages.offsets(ALICE, topic.resource, 1) == OffsetRange(0, 23)
            found = await messages.offsets_of(ALICE, topic.resource, [1, 9, 1, 0])
            assert isinstance(found[1], PartitionNotExist)
            assert [found[at] for at in (0, 2, 3)] == [
                OffsetRange(0, 23),
                OffsetRange(0, 23),
                OffsetRange(0, 10),
            ]
            with pytest.raises(PartitionNotServing):
                await messages.offsets_at(ALICE, topic.resource, {1: 0, 2: 0})


async def test_each_server_is_asked_once_for_all_its_partitions() -> None:
    async with several("a", "b", "c") as s:
        topic = await s.show(await s["a"].topic(ALICE, partitions=9))
        s.placed.partitions.update({number: "abc"[number % 3] for number in range(9)})
        found = await RemoteLogs(s["a"].broker.context).read(
            topic, range(9), Question(Wanted.AMOUNTS)
        )
        assert not any(isinstance(item, BaseException) for item in found)
        assert sorted(s.peers.asked) == [("b", "partitions"), ("c", "partitions")]


async def test_many_partitions_are_asked_in_parts_and_a_silent_server_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opentalos.broker.peer_rpc.remote_logs.PART", 4)
    async with several("a", "b", "c") as s:
        topic = await s.show(await s["a"].topic(ALICE, partitions=10))
        s.placed.partitions.update({number: "abc"[number % 3] for number in range(10)})
        for number in range(10):
            await s["abc"[number % 3]].put(ALICE, topic, number, 1 + number)
        logs, context = RemoteLogs(s["a"].broker.context), s["a"].broker.context
        pauses = context.work.counters.pauses
        found = await logs.read(topic, range(10), Question(Wanted.AMOUNTS))
        ends = [fact.offsets.next for fact in found if isinstance(fact, PartitionFacts)]
        assert ends == [*range(1, 11)]
        assert context.work.counters.pauses == pauses + 2
        # The parts are 0 to 3, 4 to 7 with two of b, and 8 and 9.
        assert sorted(s.peers.asked) == [("b", "partitions")] * 2 + [("c", "partitions")] * 3
        s.peers.asked.clear()
        s.peers.errors["b"] = OutcomeUnknown("no reply")
        found = await logs.read(topic, range(10), Question(Wanted.AMOUNTS))
        wrong = {n for n, fact in enumerate(found) if isinstance(fact, PartitionNotServing)}
        assert wrong == {1, 4, 7}
        assert s.peers.asked.count(("c", "partitions")) == 3
        assert s.peers.asked.count(("b", "partitions")) == 2  # an idempotent call is repeated


@pytest.mark.parametrize("error", [StoreUnavailable("down"), OutcomeUnknown("no reply")])
async def test_a_server_that_fails_leaves_only_its_partitions_unknown(error: Any) -> None:
    async with several("a", "b") as s:
        topic = await _spread(s)
        s.peers.errors["b"] = error
        found = await s["a"].broker.messages.offsets_of(ALICE, topic.resource, range(3))
        assert found[0] == OffsetRange(0, 10)
        assert [type(item) for item in found[1:]] == [PartitionNotServing] * 2
        with pytest.raises(PartitionNotServing, match="server b"):
            await RemoteLogs(s["a"].broker.context).facts(topic, 1)


async def test_a_server_that_does_not_answer_in_time_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hurried = replace(PARTITIONS, deadline_s=0.0)
    monkeypatch.setattr("opentalos.broker.peer_rpc.remote_logs.PARTITIONS", hurried)
    async with several("a", "b") as s:
        topic = await _spread(s)
        s.peers.hang = True
        with pytest.raises(PartitionNotServing, match="no reply"):
            await RemoteLogs(s["a"].broker.context).facts(topic, 1)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"partitions": 1},
        {"partitions": [{}]},
        {"partitions": []},
        {"partitions": [{"partition": 1, "offsets": [1], "epoch": 1}]},
        {"partitions": [{"partition": 1, "error": "SystemExit", "text": "x"}]},
        {"partitions": [{"partition": 1, "error": "os", "text": "x"}]},
    ],
)
async def test_an_invalid_response_counts_as_no_response(answer: dict[str, Any]) -> None:
    async with several("a", "b") as s:
        topic = await _spread(s)
        s.peers.answers["b"] = answer
        with pytest.raises(PartitionNotServing):
            await RemoteLogs(s["a"].broker.context).facts(topic, 1)


async def test_the_owner_of_a_partition_that_just_moved_is_read_again() -> None:
    async with several("a", "b", "c") as s:
        topic = await _spread(s)
        s.ownership("a").known = {0: "a", 1: "c"}  # a has not heard that b serves 1
        facts = await RemoteLogs(s["a"].broker.context).facts(topic, 1)
        assert facts.offsets == OffsetRange(0, 20)
        assert s.ownership("a").caught_up == 1
        assert s.peers.asked == [("c", "partitions"), ("b", "partitions")]


async def test_a_check_of_a_partition_is_never_forwarded_to_its_server() -> None:
    async with several("a", "b", "c") as s:
        topic = await _spread(s)
        s.placed.partitions[1] = "b"
        s.peers.answers["b"] = {
            "partitions": [{"partition": 1, "error": "NotOwner", "text": "it is c's"}]
        }
        with pytest.raises(PartitionNotServing, match="it is c's") as caught:
            await RemoteLogs(s["a"].broker.context).facts(topic, 1)
        assert not isinstance(caught.value, NotOwner)


# --- consumer groups -----------------------------------------------------------------------------


async def test_every_call_of_a_group_is_for_its_coordinator() -> None:
    async with several("a", "b") as s:
        topic = await _spread(s)
        s.move_group("g", "b")
        consumers, resource = s["a"].broker.consumers, topic.resource
        topics = s["a"].broker.topic_consumers
        calls: list[Awaitable[object]] = [
            consumers.check_register(ALICE, _unit(topic)),
            consumers.lock_worker(ALICE, _unit(topic), ""),
            consumers.lock_partitions(ALICE, _unit(topic, 0), ""),
            consumers.unlock_partitions(ALICE, _unit(topic, 0)),
            consumers.renew(ALICE, _unit(topic, 0), ""),
            consumers.query_workers(ALICE, "g", resource),
            consumers.query_offset(ALICE, "g", resource, 0),
            consumers.update_offset(ALICE, _commit(topic, 0, 1)),
            consumers.worker_id(ALICE, "g", resource, 0),
            consumers.delete_group(ALICE, "g", resource),
            consumers.reset_checkpoint(ROOT, CheckpointKey("g", resource, 0), 1),
            topics.lock_worker(ALICE, "g", [resource], "w1", ""),
            topics.renew(ALICE, "g", {resource: [0]}, "w1", ""),
            topics.query_workers(ALICE, "g", [resource]),
            s["a"].broker.metrics.consume_unit(ALICE, "g", resource),
        ]
        for call in calls:
            with pytest.raises(NotOwner) as caught:
                await call
            assert caught.value.address == "b"


async def test_a_commit_is_bounded_by_a_log_that_another_server_has() -> None:
    async with several("a", "b") as s:
        topic, consumers = await _spread(s), s["a"].broker.consumers
        await consumers.lock_partitions(ALICE, _unit(topic, 0, 1, 2), "10.0.0.1")
        assert await consumers.update_offset(ALICE, _commit(topic, 1, 19))
        with pytest.raises(UnexpectedOffset, match="beyond the log's end 19"):
            await consumers.update_offset(ALICE, _commit(topic, 1, 20))
        asked = len(s.peers.asked)
        assert await consumers.update_offset(ALICE, _commit(topic, 1, 5))
        assert len(s.peers.asked) == asked  # below a known end
        with pytest.raises(PartitionNotServing):
            await consumers.update_offset(ALICE, _commit(topic, 2, 0))
        await consumers.reset_checkpoint(ROOT, CheckpointKey("g", topic.resource, 1), 12)
        assert await consumers.query_offset(ALICE, "g", topic.resource, 1) == 12


async def test_a_checkpoint_has_the_epoch_of_its_log() -> None:
    async with several("a", "b") as s:
        topic, a = await _spread(s), s["a"].broker
        await a.consumers.lock_partitions(ALICE, _unit(topic, 1), "")
        await a.consumers.update_offset(ALICE, _commit(topic, 1, 3))
        (found,) = await RemoteLogs(a.context).read(topic, [1])
        assert not isinstance(found, BaseException)
        assert found.epoch > 0
        rows = await a.groups.rows.groups(topic.uuid)
        assert list(rows) == ["g"]
        key = (await a.groups.rows.checkpoints("alice", "g"))[0].key
        assert (await a.groups.rows.partitions([key], "alice"))[1].epoch == found.epoch


async def test_a_group_moves_with_its_leases_and_checkpoints() -> None:
    async with several("a", "b") as s:
        topic = await _spread(s)
        await s["a"].broker.consumers.lock_partitions(ALICE, _unit(topic, 0, 1), "10.0.0.1")
        await s["a"].broker.consumers.update_offset(ALICE, _commit(topic, 1, 7))
        s.move_group("g", "b")
        b = s["b"].broker.consumers
        assert await b.query_offset(ALICE, "g", topic.resource, 1) == 7
        taken = await b.lock_partitions(ALICE, _unit(topic, 0, 1, worker="w2"), "")
        assert taken == LockedPartitions((), (0, 1))
        assert await b.renew(ALICE, _unit(topic, 0, 1), "10.0.0.1") == (True, [])
        assert await b.update_offset(ALICE, _commit(topic, 1, 8))
        s.move_group("g", "a")
        a = s["a"].broker.consumers
        assert await a.query_offset(ALICE, "g", topic.resource, 1) == 8
        s["a"].time.advance(LEASE_S + 1)
        taken = await a.lock_partitions(ALICE, _unit(topic, 0, worker="w2"), "")
        assert taken == LockedPartitions((0,), ())


async def test_calls_over_many_groups_are_answered_by_any_server_from_rows() -> None:
    async with several("a", "b") as s:
        topic = await _spread(s)
        s.move_group("h", "b")
        for name, group in (("a", "g"), ("b", "h")):
            unit = ConsumeUnit(group, topic.resource, "w1", (0, 1))
            await s[name].broker.consumers.lock_partitions(ROOT, unit, "10.0.0.9")
            commit = Commit(group, topic.resource, 1, "w1", 4)
            assert await s[name].broker.consumers.update_offset(ROOT, commit)
        s.placed.partitions[2] = "a"
        for name in ("a", "b"):
            metrics = s[name].broker.metrics
            assert await metrics.consumer_groups(ALICE, topic.resource) == ["g", "h"]
            units = await metrics.consume_units(ALICE, topic.resource)
            for group in ("g", "h"):
                assert [(item.address, item.checkpoint, item.lag) for item in units[group]] == [
                    ("10.0.0.9", -1, 10),
                    ("10.0.0.9", 4, 15),
                    ("", -1, 0),
                ]


# --- topics and background work ------------------------------------------------------------------


async def test_only_the_leader_completes_deletions_and_ends_shrinks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opentalos.broker.admin.topic_upkeep.REMOVE_WAIT_S", 0.0)
    async with several("a", "b") as s:
        topic = await s.show(await s["a"].topic(ALICE, partitions=2))
        change = AttributeChange(partitions=1)
        s.placed.partitions[1] = "b"
        await s.show(await s["a"].broker.topics.change_attribute(ALICE, topic.resource, change))
        for name, shrinking in (("b", True), ("a", False)):
            await TopicUpkeep(s[name].broker.context, s[name].broker.groups.directory).run_once()
            await s.show(topic)
            assert bool(s["a"].broker.context.topics.shrinking()) == shrinking


async def test_two_servers_that_complete_the_same_deletion_do_no_harm() -> None:
    async with several("a", "b") as s:
        topic = await _spread(s)
        await s["a"].broker.consumers.lock_partitions(ALICE, _unit(topic, 0), "")
        await s["b"].broker.space_upkeep.run_once()
        dead = await s["a"].broker.context.topics.change(topic, tombstone)
        await s.show(topic)
        await asyncio.gather(
            *(
                TopicUpkeep(s[name].broker.context, s[name].broker.groups.directory).remove_soon(
                    dead
                )
                for name in ("a", "b")
            )
        )
        await s.show(topic)
        for name in ("a", "b"):
            broker = s[name].broker
            assert broker.context.topics.tombstones() == []
            assert broker.context.spaces.used_by_owner("alice") == 0
            assert await broker.groups.rows.groups(topic.uuid) == {}


async def test_a_space_quota_counts_what_other_servers_store() -> None:
    async with several("a", "b") as s:
        topic = await _spread(s)
        s.placed.partitions[2] = "a"
        for name in ("a", "b"):
            await s[name].broker.space_upkeep.run_once()
        used = [s[name].broker.context.spaces.used(topic) for name in ("a", "b")]
        assert used[0] == used[1] > 30
        s.peers.errors["b"] = StoreUnavailable("down")
        await s["a"].put(ALICE, topic, 0, 10)
        await s["a"].broker.space_upkeep.run_once()
        assert s["a"].broker.context.spaces.used(topic) > used[0]  # the known part stays


async def test_a_topic_made_elsewhere_is_found_at_the_second_try() -> None:
    async with several("a", "b") as s:
        topic = await s["a"].topic(ALICE)
        b = s["b"].broker
        target = PutTarget(topic.resource, 0)
        with pytest.raises(TopicNotExist) as caught:
            b.messages.put(ALICE, target, [MessageBlock(b"x", 1)], lambda _, error: None)
        assert await b.context.appeared(caught.value)
        s.placed.partitions[0] = "b"
        await s["b"].put(ALICE, topic, 0, 1)
        other = await s["a"].topic(ALICE, "other")
        for name in ("other", "alice/other", other.resource):
            with pytest.raises(TopicNotExist) as caught:
                b.topics.find_topic(ALICE, name)
            assert caught.value.records == (("alice", "other", None),)
        assert await b.context.appeared(caught.value)
        assert b.topics.find_topic(ALICE, "other") == other
        with pytest.raises(TopicNotExist) as caught:
            b.topics.find_topic(BOB, "alice/other")
        assert not await b.context.appeared(caught.value)  # known, and nothing is granted
        grant = Grantee(GrantType.DEVELOPER, "bob")
        await s["a"].broker.permissions.set_permission(
            ALICE, other.resource, grant, Permission.DESCRIBE_TOPIC
        )
        assert await b.context.appeared(caught.value)
        assert b.topics.find_topic(BOB, "alice/other").uuid == other.uuid


async def test_a_partition_added_elsewhere_is_found_at_the_second_try() -> None:
    async with several("a", "b") as s:
        topic, b = await s.show(await s["a"].topic(ALICE)), s["b"].broker
        change = AttributeChange(partitions=2)
        await s["a"].broker.topics.change_attribute(ALICE, topic.resource, change)
        s.placed.partitions[1] = "b"
        with pytest.raises(PartitionNotExist) as caught:
            await b.messages.offsets(ALICE, topic.resource, 1)
        assert await b.context.appeared(caught.value)
        assert await b.messages.offsets(ALICE, topic.resource, 1) == OffsetRange(0, 0)
        with pytest.raises(PartitionNotExist) as caught:
            await b.messages.offsets(ALICE, topic.resource, 2)
        assert not await b.context.appeared(caught.value)


async def test_reads_of_unknown_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentalos.catalog.records.unseen_records.READS_PER_S_MAX", 1)
    async with several("a", "b") as s:
        first, second = await s["a"].topic(ALICE, "t1"), await s["a"].topic(ALICE, "t2")
        topics = s["b"].broker.context.topics
        odd = [("", "x", None), ("x" * 999, "y", None)]
        assert await topics.unseen.look([*odd, ("alice", first.name, None)])
        assert not await topics.unseen.look([("alice", second.name, None)])
        s["b"].time.advance(1.0)
        assert await topics.unseen.look([("alice", second.name, None)])


async def test_a_worker_does_not_lose_a_topic_that_was_made_elsewhere_a_moment_ago() -> None:
    async with several("a", "b") as s:
        topic = await s["a"].topic(ALICE)
        s.move_group("g", "b")
        alive = await s["b"].broker.topic_consumers.renew(
            ALICE, "g", {topic.resource: [0]}, "w1", ""
        )
        assert alive == (True, [])


async def test_a_single_server_looks_nothing_up() -> None:
    async with several("a") as s:
        s["a"].broker.context.peers = None
        with pytest.raises(TopicNotExist) as caught:
            s["a"].broker.topics.find_topic(BOB, "t")
        assert not await s["a"].broker.context.appeared(caught.value)


async def test_servers_that_create_at_once_pass_a_limit_by_what_they_have_not_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with several("a", "b", "c") as s:
        for server in s.servers.values():
            monkeypatch.setattr(
                server.broker.catalogs.quotas, "user", lambda _: UserQuota(topics=1)
            )
        outcomes = await asyncio.gather(
            *(
                item.broker.topics.create_topic(ALICE, NewTopic(name=f"t-{name}", partitions=1))
                for name, item in s.servers.items()
            ),
            return_exceptions=True,
        )
        made = [outcome for outcome in outcomes if isinstance(outcome, Topic)]
        assert len(made) == 3
        for topic in made:
            await s.show(topic)
        with pytest.raises(QuotaExceeded):
            await s["a"].topic(ALICE, "one-more")


async def test_a_name_that_another_server_freed_or_took_is_judged_by_its_record() -> None:
    async with several("a", "b") as s:
        former = await s.show(await s["a"].topic(ALICE))
        await s["a"].broker.topics.delete_topic(ALICE, former.resource)
        again = await s["b"].topic(ALICE)  # b has not seen the deletion
        assert again.uuid != former.uuid
        with pytest.raises(TopicExists):
            await s["a"].topic(ALICE)  # a has not seen the new one
        dead = await s["b"].broker.context.topics.change(again, tombstone)
        assert (await s["a"].topic(ALICE)).uuid != dead.uuid  # its deletion is completed here


async def test_many_topics_of_one_call_are_looked_at_together() -> None:
    async with several("a") as s:
        topics = [await s["a"].topic(ALICE, f"t{number}") for number in range(40)]
        resources = [topic.resource for topic in topics]
        consumers = s["a"].broker.topic_consumers
        assert await consumers.lock_worker(ALICE, "g", resources, "w1", "")
        gone = "alice#gone#0"
        held = {resource: [0] for resource in [*resources, gone]}
        assert await consumers.renew(ALICE, "g", held, "w1", "") == (True, [(gone, 0)])
        workers = await consumers.query_workers(ALICE, "g", [*resources, gone])
        assert workers == {"w1": [(resource, 0) for resource in resources]}
        with pytest.raises(TopicNotExist):
            await consumers.lock_worker(ALICE, "g", [gone], "w1", "")


async def test_an_accepted_grant_gives_its_plain_name_at_every_server() -> None:
    async with several("a", "b") as s:
        grant = {Grantee(GrantType.DEVELOPER, "bob"): Permission.DESCRIBE_TOPIC}
        topic = await s.show(await s["a"].topic(ALICE, acl=grant))
        await s["b"].broker.permissions.set_accepted(BOB, "alice/t", True)
        assert s["b"].broker.topics.find_topic(BOB, "t").uuid == topic.uuid
        await asyncio.sleep(1.0)
        assert s["a"].broker.topics.find_topic(BOB, "t").uuid == topic.uuid
        await s["a"].broker.permissions.revoke_from(ALICE, topic.resource, "bob")
        await asyncio.sleep(1.0)
        for name in "ab":
            with pytest.raises(TopicNotExist):
                s[name].broker.topics.find_topic(BOB, "t")
