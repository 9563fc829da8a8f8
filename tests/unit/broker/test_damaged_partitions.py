"""What a broker says of a topic with a damaged partition: an error or unknown, never an empty log.

Ten messages of partition 0 are whole and what follows is damaged; partition 1 is whole.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.unit.broker.several import several
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, ROOT

from opentalos.broker.figures.alarms import Severity, alarms_of
from opentalos.broker.figures.current import figures_of
from opentalos.broker.groups.kafka.offsets import Committer, OffsetToCommit
from opentalos.broker.groups.lag.figures import Order, Window
from opentalos.broker.groups.resets import ResetOffsets, ResetTo
from opentalos.broker.groups.rest_workers import Seat
from opentalos.broker.messaging.messages import LATEST_OFFSET, START_OFFSET, GetQuery
from opentalos.broker.messaging.plain_messages import Bounds, Spot
from opentalos.broker.messaging.reading.fetches import FetchBounds, FetchPlace
from opentalos.broker.peer_rpc.remote_logs import PROVEN, Question, RemoteLogs, Wanted
from opentalos.broker.values import AttributeChange, CheckpointKey, Commit, ConsumeUnit, Topic
from opentalos.group.directory import GroupOnTopic
from opentalos.group.explanation import Code
from opentalos.group.kafka.values import MemberId
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.model.errors import CorruptLog, OffsetOutOfRange, TalosError
from opentalos.model.message import OffsetRange
from opentalos.model.names import AUDIT_TOPIC, SYSTEM_TENANT
from opentalos.wire.message import Message
from opentalos.wire.metrics.audit_event import AuditEvent

COUNT = 10
BOUNDS = Bounds(1_000, 1 << 20)


async def put(w: World, topic: Topic, partition: int, count: int) -> None:
    """Messages that readers of single ones can decode."""
    messages = [Message(b"%d" % number) for number in range(count)]
    await w.broker.plain_messages.put(ALICE, topic.resource, partition, messages, None)


@asynccontextmanager
async def damaged() -> AsyncIterator[tuple[World, Topic]]:
    async with world() as w:
        topic = await w.topic(ALICE, partitions=2)
        for partition in range(2):
            await put(w, topic, partition, COUNT)
        unit = ConsumeUnit("g", topic.resource, "w1", (0, 1))
        await w.broker.consumers.lock_partitions(ALICE, unit, "10.0.0.1")
        await w.damage(topic, 0)
        yield w, topic


def raise_floor(log: PartitionLog, offset: int) -> None:
    """As if messages had been deleted for readers."""
    held = log.writer.versioned
    log.writer.versioned = held._replace(manifest=replace(held.manifest, floor=offset))


def query(topic: Topic, offset: int, partition: int = 0) -> GetQuery:
    return GetQuery(topic.resource, partition, offset, 1_000, 1 << 20)


async def test_a_get_at_the_end_of_what_is_whole_fails_and_the_rest_is_not_counted() -> None:
    async with damaged() as (w, topic):
        messages = w.broker.messages
        found = await messages.get(ALICE, query(topic, START_OFFSET))
        assert (found.messages, found.unhandled) == (COUNT, None)
        for offset in (COUNT, LATEST_OFFSET, COUNT + 7):
            with pytest.raises(CorruptLog, match="partition 0 is damaged"):
                await messages.get(ALICE, query(topic, offset))
        whole = await messages.get(ALICE, query(topic, START_OFFSET, 1))
        assert (whole.messages, whole.unhandled) == (COUNT, 0)


async def test_ends_are_an_error_and_starts_are_known() -> None:
    async with damaged() as (w, topic):
        messages, resource = w.broker.messages, topic.resource
        first, second = await messages.offsets_of(ALICE, resource, [0, 1])
        assert isinstance(first, CorruptLog)
        assert second == OffsetRange(0, COUNT)
        with pytest.raises(CorruptLog):
            await messages.offsets(ALICE, resource, 0)
        (fact, _) = await messages.facts_of(ALICE, resource, [0, 1])
        assert not isinstance(fact, TalosError)
        assert (fact.offsets, type(fact.damage)) == (OffsetRange(0, COUNT), CorruptLog)
        with pytest.raises(CorruptLog):
            await messages.preview(ALICE, resource, 0)
        assert await messages.offset_at(ALICE, resource, 0, 1) == 0
        with pytest.raises(CorruptLog):
            await messages.offset_at(ALICE, resource, 0, 1 << 50)


async def test_plain_messages_start_at_the_start_and_have_no_lag() -> None:
    async with damaged() as (w, topic):
        plain = w.broker.plain_messages
        found = await plain.get(ALICE, topic.resource, Spot(0, START_OFFSET), Bounds(3, 1 << 20), 0)
        assert (len(found.messages), found.next_offset, found.lag) == (3, 3, None)
        for offset in (COUNT, LATEST_OFFSET):
            with pytest.raises(CorruptLog):
                await plain.get(ALICE, topic.resource, Spot(0, offset), BOUNDS, 0)


async def test_a_fetch_of_many_waits_with_the_error_for_messages_of_the_others() -> None:
    async with damaged() as (w, topic):
        places = [FetchPlace(topic, number, COUNT, 1 << 20) for number in range(2)]
        fetches, bounds = w.broker.reads.fetches, FetchBounds(1, 1 << 20, 30.0)
        began_s = asyncio.get_running_loop().time()
        result = await fetches.fetch(ALICE, places, bounds)
        assert asyncio.get_running_loop().time() - began_s >= 30.0
        assert isinstance(result.places[0].error, CorruptLog)
        assert result.places[1].error is None
        fetching = asyncio.create_task(fetches.fetch(ALICE, places, bounds))
        await asyncio.sleep(1)
        await put(w, topic, 1, 3)
        result = await fetching
        assert isinstance(result.places[0].error, CorruptLog)
        assert result.places[1].messages == 3
        (found,) = (await fetches.fetch(ALICE, [places[0]._replace(offset=0)], bounds)).places
        assert (found.messages, type(found.damage)) == (COUNT, CorruptLog)


async def test_a_fetch_that_waits_gets_damage_that_is_found_meanwhile() -> None:
    async with damaged() as (w, topic):
        places = [FetchPlace(topic, 1, COUNT, 1 << 20)]
        waiting = asyncio.create_task(
            w.broker.reads.fetches.fetch(ALICE, places, FetchBounds(1, 1 << 20, 5.0))
        )
        await asyncio.sleep(1)
        await w.damage(topic, 1)
        (found,) = (await waiting).places
        assert isinstance(found.error, CorruptLog)


async def test_what_was_read_can_be_committed_and_nothing_beyond() -> None:
    async with damaged() as (w, topic):
        consumers, resource = w.broker.consumers, topic.resource
        assert await consumers.update_offset(ALICE, Commit("g", resource, 0, "w1", COUNT - 1))
        with pytest.raises(CorruptLog):
            await consumers.update_offset(ALICE, Commit("g", resource, 0, "w1", COUNT))
        with pytest.raises(CorruptLog):
            await consumers.reset_checkpoint(ALICE, CheckpointKey("g", resource, 0), COUNT)
        assert await consumers.query_offset(ALICE, "g", resource, 0) == COUNT - 1
        alone = Committer(group="k", who=MemberId(""), generation=-1)
        offsets = w.broker.kafka_groups.offsets
        sent = [OffsetToCommit(topic, 0, next_offset) for next_offset in (COUNT, COUNT + 1)]
        done, refused = await offsets.commit(ALICE, alone, sent)
        assert done is None
        assert isinstance(refused, CorruptLog)


async def test_a_position_beyond_what_is_whole_is_no_lost_end_but_an_expired_one_is_heard() -> None:
    async with damaged() as (w, topic):
        consumers, counters = w.broker.consumers, w.broker.consumers.positions.counters
        await consumers.update_offset(ALICE, Commit("g", topic.resource, 0, "w1", 4))
        log = w.broker.context.partition_log(topic, 0)
        log.writer.next_offset = 2  # less is proven now than was read once
        await consumers.query_offset(ALICE, "g", topic.resource, 0)
        assert (counters.logs_truncated, counters.positions_expired) == (0, 0)
        raise_floor(log, 6)
        await consumers.query_offset(ALICE, "g", topic.resource, 0)
        assert (counters.logs_truncated, counters.positions_expired) == (0, 1)


async def test_a_rest_worker_gets_messages_of_the_others_then_the_error() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, partitions=2)
        for partition in range(2):
            await put(w, topic, partition, COUNT)
        await w.damage(topic, 0)
        workers, seat = w.broker.group_members, Seat("g", topic.resource, "", "10.0.0.1")
        joined = await workers.join(ALICE, seat)
        seat = seat._replace(worker=joined.worker)
        found = await workers.fetch(ALICE, seat, BOUNDS, 0.0)
        assert sorted({message.partition for message in found}) == [0, 1]
        await workers.commit(ALICE, seat, {0: COUNT - 1})
        found = await workers.fetch(ALICE, seat, BOUNDS, 0.0)
        assert {message.partition for message in found} == {1}
        await workers.commit(ALICE, seat, {1: COUNT - 1})
        with pytest.raises(CorruptLog):
            await workers.fetch(ALICE, seat, BOUNDS, 0.0)


async def test_lags_are_unknown_and_those_of_other_partitions_are_not() -> None:
    async with damaged() as (w, topic):
        broker, resource = w.broker, topic.resource
        summary = (await broker.lag_figures.of_topic(ALICE, topic))["g"]
        assert (summary.lag, summary.behind, summary.damaged) == (COUNT, 1, 1)
        assert await broker.lag_figures.ages(topic, {"g": summary}) == {"g": None}
        window = Window(0, 10, Order.LAG)
        figures = await broker.lag_figures.of_group(ALICE, "g", topic, window)
        assert [(unit.partition, unit.lag) for unit in figures.shown] == [(0, None), (1, COUNT)]
        assert [member.lag for member in figures.members] == [None]
        units = await broker.metrics.consume_unit(ALICE, "g", resource)
        assert [unit.lag for unit in units] == [None, COUNT]
        (overview,) = await broker.overview.overview_of(ALICE, [topic])
        assert (overview.lags, overview.amounts.damaged) == ({"g": None}, 1)
        why = await broker.observing.explanations.explain(ALICE, "g", resource)
        assert (why.lag, why.reasons[0].code) == (None, Code.DAMAGED)
        assert list(why.reasons[0].partitions) == [0]


async def test_measured_lags_leave_out_what_nobody_knows() -> None:
    async with damaged() as (w, topic):
        lags, group = w.broker.group_lags, GroupOnTopic(topic.uuid, "alice/g")
        found = await lags.read()
        assert set(found) == {(topic.uuid, 1)}
        assert group not in lags.by_group
        assert math.isnan(lags.by_partition[group, 0])
        assert lags.by_partition[group, 1] == COUNT


async def test_resets_need_the_end_only_if_they_go_there() -> None:
    async with damaged() as (w, topic):
        resets, resource = w.broker.group_resets, topic.resource
        with pytest.raises(CorruptLog):
            await resets.reset(ALICE, "g", resource, ResetTo.END, dry_run=True)
        for offsets in ({0: COUNT}, {0: COUNT + 5}):
            with pytest.raises(CorruptLog):
                await resets.reset(ALICE, "g", resource, ResetOffsets(offsets), dry_run=True)
        found = await resets.reset(ALICE, "g", resource, ResetTo.START, dry_run=False)
        assert [change.after for change in found] == [-1, -1]
        found = await resets.reset(ALICE, "g", resource, ResetOffsets({0: 4, 1: 9}), dry_run=False)
        assert [change.after for change in found] == [4, 9]


async def test_descriptions_leave_the_partition_out_and_its_storage_still_counts() -> None:
    async with damaged() as (w, topic):
        described = await w.broker.topics.describe_topic(ALICE, topic.resource)
        assert [state.partition for state in described.partitions] == [1]
        w.broker.context.spaces.set_used(topic, 0)
        await w.broker.space_upkeep.run_once()
        stats = [await w.broker.context.partition_log(topic, number).stats() for number in range(2)]
        used_bytes = sum(each.retained_bytes for each in stats)
        assert w.broker.context.spaces.used(topic) == used_bytes > 0


async def test_a_shrink_waits_for_a_partition_whose_messages_nobody_can_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as w:
        topic = await w.topic(ALICE, partitions=2)
        await w.damage(topic, 1)  # nothing of it is proven
        await w.broker.topics.change_attribute(ALICE, topic.resource, AttributeChange(partitions=1))
        await w.broker.topic_upkeep.run_once()
        assert w.broker.topics.find_topic(ALICE, "t").shrinking
        assert not [each for each in caplog.messages if "could not check the shrink" in each]


async def test_the_messages_of_a_damaged_log_are_not_deleted() -> None:
    async with damaged() as (w, topic):
        with pytest.raises(CorruptLog):
            await w.broker.record_deletion.delete(ALICE, topic.resource, 0, 3)


async def test_usage_for_the_bill_is_what_is_whole() -> None:
    """An error would keep the month of every tenant open, since bills ask all partitions."""
    async with damaged() as (w, topic):
        usage = w.broker.usage
        page = await usage.partition_usage(ALICE, topic.resource, 0, offset=0, minutes_max=10)
        assert (page.start_offset, page.next_offset) == (0, COUNT)
        assert page.minutes


async def test_the_audit_is_read_up_to_its_damage() -> None:
    async with world() as w:
        event = AuditEvent(
            "0" * 16, 1, "s1", "root", "root", "10.0.0.1", "r", "grant", "a#t#1", "", "done"
        )
        await w.broker.system_topics.put(AUDIT_TOPIC, [event.encode()], key="audit")
        topic = w.broker.context.topics.record(SYSTEM_TENANT, AUDIT_TOPIC)
        assert topic is not None
        await w.damage(topic, 0)
        page = await w.broker.audit.read(ROOT, page=0, since_ms=0, events_max=100)
        assert page.events
        assert page.next_page is not None
        with pytest.raises(CorruptLog):
            await w.broker.audit.read(ROOT, page=page.next_page, since_ms=0, events_max=100)


async def test_alarms_name_the_partition_by_its_topic() -> None:
    async with damaged() as (w, topic):
        (alarm,) = alarms_of(figures_of(w.broker))
        assert (alarm.name, alarm.severity) == ("CorruptLog", Severity.CRITICAL)
        assert "damaged: 1: alice/t/0 (partition 0 is damaged)" in alarm.text
        await w.broker.topics.delete_topic(ALICE, topic.resource)
        assert not alarms_of(figures_of(w.broker))


async def test_other_servers_say_the_same_and_learn_what_is_whole() -> None:
    async with several("a", "b") as servers:
        servers.placed.partitions = {0: "b", 1: "a"}
        topic = await servers.show(await servers["a"].topic(ALICE, partitions=2))
        await put(servers["b"], topic, 0, COUNT)
        await put(servers["a"], topic, 1, COUNT)
        await servers["b"].damage(topic, 0)
        for name in ("a", "b"):
            messages, logs = servers[name].broker.messages, RemoteLogs(servers[name].broker.context)
            first, second = await messages.offsets_of(ALICE, topic.resource, [0, 1])
            assert isinstance(first, CorruptLog)
            assert second == OffsetRange(0, COUNT)
            (fact,) = await logs.read(topic, [0], PROVEN)
            assert not isinstance(fact, TalosError)
            assert (fact.offsets, str(fact.damage)) == (
                OffsetRange(0, COUNT), "partition 0 is damaged",
            )  # fmt: skip
            amounts = Question(Wanted.AMOUNTS)
            (found,) = await logs.read(topic, [0], amounts)
            assert isinstance(found, CorruptLog)
            (stored,) = await logs.read(topic, [0], amounts._replace(proven=True))
            assert not isinstance(stored, TalosError)
            assert stored.stats is not None
            assert stored.stats.retained_messages == COUNT
        plain = servers["a"].broker.plain_messages
        found_there = await plain.get_anywhere(
            ALICE, topic.resource, Spot(0, START_OFFSET), BOUNDS, 0
        )
        assert (len(found_there.messages), found_there.lag) == (COUNT, None)
        with pytest.raises(CorruptLog):
            await plain.get_anywhere(ALICE, topic.resource, Spot(0, COUNT), BOUNDS, 0)


async def test_an_expired_position_is_out_of_range_as_ever() -> None:
    async with damaged() as (w, topic):
        log = w.broker.context.partition_log(topic, 0)
        raise_floor(log, 5)
        with pytest.raises(OffsetOutOfRange):
            await w.broker.messages.get(ALICE, query(topic, 2))
