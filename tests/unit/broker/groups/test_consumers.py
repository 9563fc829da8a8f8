import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT, MovableTime

from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.broker.values import CheckpointKey, Commit, ConsumeUnit, LockedPartitions, Topic
from opentalos.model.errors import (
    BadRequest,
    ConsumerGroupNotExist,
    ConsumerGroupWorking,
    InvalidName,
    PartitionNotExist,
    PermissionDenied,
    TooManyConsumers,
    TopicNotExist,
    UnexpectedOffset,
)
from opentalos.model.identity import Grantee, GrantType, KeyLimits, Permission, Scope
from opentalos.model.limits import PARTITIONS_MAX, GroupLimits, TopicLimits
from opentalos.model.message import OffsetRange

READ = {Grantee(GrantType.DEVELOPER, name): Permission(6) for name in ("bob", "CLacme")}
LEASE_S = GroupLimits().lease_s


def _unit(topic: Topic, *partitions: int, worker: str = "w1", group: str = "g") -> ConsumeUnit:
    return ConsumeUnit(group, topic.resource, worker, partitions)


def _commit(topic: Topic, offset: int, *, worker: str = "w1", partition: int = 0) -> Commit:
    return Commit("g", topic.resource, partition, worker, offset)


async def _ready(w: World, count: int = 10) -> Topic:
    """A topic of two partitions with messages; ``w1`` of ALICE holds partition 0."""
    topic = await w.topic(ALICE, partitions=2, acl=READ)
    await w.put(ALICE, topic, 0, count)
    await w.broker.consumers.lock_partitions(ALICE, _unit(topic, 0), "10.0.0.1")
    return topic


async def test_a_workers_life_from_lock_to_unlock() -> None:
    async with world() as w:
        topic, consumers = await w.topic(ALICE, partitions=2), w.broker.consumers
        await w.put(ALICE, topic, 0, 10)
        assert await consumers.check_register(ALICE, _unit(topic))
        assert await consumers.lock_worker(ALICE, _unit(topic), "10.0.0.1")
        assert await consumers.query_workers(ALICE, "g", topic.resource) == {"w1": []}
        locked = await consumers.lock_partitions(ALICE, _unit(topic, 0), "10.0.0.1")
        assert locked == LockedPartitions((0,), ())
        assert await consumers.query_offset(ALICE, "g", topic.resource, 0) == -1
        assert await consumers.update_offset(ALICE, _commit(topic, 9))
        assert await consumers.query_offset(ALICE, "g", topic.resource, 0) == 9
        assert await consumers.worker_id(ALICE, "g", topic.resource, 0) == "w1"
        assert await consumers.renew(ALICE, _unit(topic, 0), "10.0.0.1") == (True, [])
        await consumers.unlock_partitions(ALICE, _unit(topic, 0))
        assert await consumers.query_workers(ALICE, "g", topic.resource) == {"w1": []}
        assert await consumers.worker_id(ALICE, "g", topic.resource, 0) == ""


async def test_ids_outside_the_partition_range_fail_and_never_show() -> None:
    async with world() as w:
        topic, consumers = await _ready(w), w.broker.consumers
        locked = await consumers.lock_partitions(ALICE, _unit(topic, 1, 2, -1, 99), "")
        assert locked == LockedPartitions((1,), (2, -1, 99))
        assert await consumers.renew(ALICE, _unit(topic, 0, 1, 2), "") == (True, [2])
        assert await consumers.query_workers(ALICE, "g", topic.resource) == {"w1": [0, 1]}
        for attempt in (
            consumers.query_offset(ALICE, "g", topic.resource, 2),
            consumers.update_offset(ALICE, _commit(topic, 1, partition=2)),
            consumers.worker_id(ALICE, "g", topic.resource, -1),
        ):
            with pytest.raises(PartitionNotExist):
                await attempt


async def test_many_partitions_are_locked_renewed_and_unlocked_in_parts() -> None:
    count = 2 * SHORT_ITEMS + 10
    async with world(topic=TopicLimits(partitions_max=count)) as w:
        topic, consumers = await w.topic(ALICE, partitions=count), w.broker.consumers
        work, listed = w.broker.work.counters, (*range(count + 5), 0, 1)
        pauses = work.pauses
        locked = await consumers.lock_partitions(ALICE, _unit(topic, *listed), "10.0.0.1")
        assert locked == LockedPartitions(tuple(range(count)), tuple(range(count, count + 5)))
        assert work.pauses == pauses + 2
        assert await consumers.renew(ALICE, _unit(topic, *listed), "10.0.0.1") == (
            True,
            list(range(count, count + 5)),
        )
        assert work.pauses == pauses + 4
        await consumers.unlock_partitions(ALICE, _unit(topic, *listed))
        assert await consumers.query_workers(ALICE, "g", topic.resource) == {"w1": []}


async def test_a_list_of_more_partitions_than_a_topic_may_have_is_refused() -> None:
    async with world() as w:
        topic, consumers = await _ready(w), w.broker.consumers
        unit = _unit(topic, *range(PARTITIONS_MAX), 0)
        for call in (
            consumers.lock_partitions(ALICE, unit, ""),
            consumers.renew(ALICE, unit, ""),
            consumers.unlock_partitions(ALICE, unit),
        ):
            with pytest.raises(BadRequest, match="10001 partitions in one call"):
                await call
        assert await consumers.worker_id(ALICE, "g", topic.resource, 0) == "w1"


async def test_a_checkpoint_is_never_negative_nor_beyond_the_end() -> None:
    async with world() as w:
        topic, consumers = await _ready(w), w.broker.consumers
        with pytest.raises(UnexpectedOffset, match="beyond the log's end 9"):
            await consumers.update_offset(ALICE, _commit(topic, 10))
        with pytest.raises(UnexpectedOffset, match="negative"):
            await consumers.update_offset(ALICE, _commit(topic, -1))
        await w.put(ALICE, topic, 0, 1)
        assert await consumers.update_offset(ALICE, _commit(topic, 10))


async def test_tenants_meet_in_no_group_and_an_organisation_shares_its_own() -> None:
    async with world() as w:
        topic, consumers = await _ready(w), w.broker.consumers
        await consumers.update_offset(ALICE, _commit(topic, 4))
        assert await consumers.query_offset(BOB, "g", topic.resource, 0) == -1
        await consumers.lock_partitions(BOB, _unit(topic, 0, worker="w2"), "")
        assert await consumers.query_workers(BOB, "g", topic.resource) == {"w2": [0]}
        assert "w2" not in await consumers.query_workers(ALICE, "g", topic.resource)
        assert await consumers.query_offset(ALICE, "g", topic.resource, 0) == 4
        shared = _unit(topic, 1, group="acme")
        await consumers.lock_partitions(CAROL, shared, "")
        assert await consumers.query_workers(DAVE, "acme", topic.resource) == {"w1": [1]}


async def test_consuming_needs_the_permission_to_get() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, acl={Grantee(GrantType.DEVELOPER, "bob"): Permission(5)})
        with pytest.raises(PermissionDenied):
            await w.broker.consumers.lock_worker(BOB, _unit(topic), "")
        with pytest.raises(TopicNotExist):
            await w.broker.consumers.lock_worker(CAROL, _unit(topic), "")


async def test_odd_group_and_worker_names_are_refused() -> None:
    async with world() as w:
        topic, consumers = await w.topic(ALICE), w.broker.consumers
        for group in ("", "a/b", "x" * 10_240, "a\0b"):
            with pytest.raises(InvalidName):
                await consumers.lock_worker(ALICE, _unit(topic, group=group), "")
        for worker in ("", "x" * 257):
            with pytest.raises(BadRequest):
                await consumers.lock_worker(ALICE, _unit(topic, worker=worker), "")


async def test_a_worker_above_the_bound_is_refused_and_its_heartbeat_fails() -> None:
    async with world(group=GroupLimits(workers_max=1)) as w:
        topic, consumers = await _ready(w), w.broker.consumers
        second = _unit(topic, 1, worker="w2")
        assert not await consumers.check_register(ALICE, second)
        with pytest.raises(TooManyConsumers):
            await consumers.lock_worker(ALICE, second, "")
        assert await consumers.renew(ALICE, second, "") == (False, [1])


async def test_checkpoints_survive_a_restart_and_leases_a_while() -> None:
    async with world() as w:
        topic = await _ready(w)
        await w.broker.consumers.update_offset(ALICE, _commit(topic, 4))
        consumers = (await w.restart()).consumers
        assert await consumers.query_offset(ALICE, "g", topic.resource, 0) == 4
        locked = await consumers.lock_partitions(ALICE, _unit(topic, 0, worker="w2"), "")
        assert locked == LockedPartitions((), (0,))
        w.time.advance(LEASE_S + 1)
        locked = await consumers.lock_partitions(ALICE, _unit(topic, 0, worker="w2"), "")
        assert locked == LockedPartitions((0,), ())


async def test_a_recreated_topic_starts_with_fresh_leases_and_checkpoints() -> None:
    async with world() as w:
        former = await _ready(w)
        await w.broker.consumers.update_offset(ALICE, _commit(former, 4))
        await w.broker.topics.delete_topic(ALICE, former.resource)
        topic, consumers = await w.topic(ALICE, partitions=2), w.broker.consumers
        assert await consumers.query_workers(ALICE, "g", topic.resource) == {}
        assert await consumers.query_offset(ALICE, "g", topic.resource, 0) == -1
        with pytest.raises(TopicNotExist):
            await consumers.renew(ALICE, _unit(former, 0), "")


async def test_a_group_is_deleted_only_without_workers() -> None:
    async with world() as w:
        topic, consumers = await _ready(w), w.broker.consumers
        with pytest.raises(ConsumerGroupWorking):
            await consumers.delete_group(ALICE, "g", topic.resource)
        w.time.advance(LEASE_S + 1)
        await consumers.delete_group(ALICE, "g", topic.resource)
        with pytest.raises(ConsumerGroupNotExist):
            await consumers.delete_group(ALICE, "g", topic.resource)


async def test_a_reset_is_audited_and_revokes_the_lease(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as w:
        topic, consumers = await _ready(w), w.broker.consumers
        await consumers.update_offset(ALICE, _commit(topic, 4))
        key = CheckpointKey("g", topic.resource, 0)
        for offset in (-2, 10):
            with pytest.raises(UnexpectedOffset):
                await consumers.reset_checkpoint(ALICE, key, offset)
        with pytest.raises(ConsumerGroupNotExist):
            await consumers.reset_checkpoint(BOB, key, 0)
        with pytest.raises(PermissionDenied):
            await consumers.reset_checkpoint(BOB, replace(key, group="alice/g"), 0)
        caplog.set_level(logging.WARNING, "opentalos.audit")
        await consumers.reset_checkpoint(ROOT, key, -1)
        assert not await consumers.update_offset(ALICE, _commit(topic, 5))
        assert await consumers.query_offset(ALICE, "g", topic.resource, 0) == -1
        fields = caplog.records[-1].__dict__["audit"]
        assert (fields["principal"], fields["offset"], fields["revoked"]) == ("root", -1, "w1")


async def test_offsets_of_an_organisations_groups_are_for_its_members() -> None:
    async with world() as w:
        topic, consumers = await _ready(w), w.broker.consumers
        unit = _unit(topic, 0, group="acme-1")
        await consumers.lock_partitions(CAROL, unit, "")
        await consumers.update_offset(CAROL, Commit("acme-1", topic.resource, 0, "w1", 7))
        expected = {CheckpointKey("acme-1", topic.resource, 0): 7}
        assert await consumers.org_offsets(DAVE, "acme", "CLacme") == expected
        assert await consumers.org_offsets(ROOT, "", "CLacme") == expected
        assert await consumers.org_offsets(DAVE, "other", "CLacme") == {}
        cannot_read = replace(DAVE, limits=KeyLimits(scopes=(Scope.PUT, Scope.DESCRIBE)))
        assert await consumers.org_offsets(cannot_read, "acme", "CLacme") == {}
        for caller, organisation in ((BOB, "CLacme"), (DAVE, "CLother"), (BOB, "")):
            with pytest.raises(PermissionDenied):
                await consumers.org_offsets(caller, "", organisation)


async def test_one_worker_reads_several_topics() -> None:
    async with world() as w:
        first, second = await w.topic(ALICE, "a"), await w.topic(ALICE, "b", partitions=2)
        both, many = [first.resource, second.resource], w.broker.topic_consumers
        assert await many.lock_worker(ALICE, "g", both, "w1", "10.0.0.1")
        assert await many.query_workers(ALICE, "g", both) == {"w1": []}
        listed = {first.resource: [], second.resource: [0, 1, 5]}
        alive, lost = await many.renew(ALICE, "g", listed, "w1", "")
        assert (alive, lost) == (True, [(second.resource, 5)])
        held = await many.query_workers(ALICE, "g", both)
        assert held == {"w1": [(second.resource, 0), (second.resource, 1)]}


async def test_a_deleted_topic_does_not_stop_the_workers_others() -> None:
    async with world() as w:
        first, second = await w.topic(ALICE, "a"), await w.topic(ALICE, "b")
        both, many = [first.resource, second.resource], w.broker.topic_consumers
        await many.lock_worker(ALICE, "g", both, "w1", "")
        await w.broker.topics.delete_topic(ALICE, first.resource)
        alive, lost = await many.renew(
            ALICE, "g", {first.resource: [0], second.resource: [0]}, "w1", ""
        )
        assert (alive, lost) == (True, [(first.resource, 0)])
        held = await many.query_workers(ALICE, "g", both)
        assert held == {"w1": [(second.resource, 0)]}
        with pytest.raises(BadRequest):
            await many.query_workers(ALICE, "g", ["x"] * 1_001)


async def test_metrics_show_progress_and_lag_to_the_owner_and_the_groups_tenant() -> None:
    async with world() as w:
        topic, metrics = await _ready(w), w.broker.metrics
        await w.broker.consumers.update_offset(ALICE, _commit(topic, 3))
        await w.broker.consumers.lock_worker(BOB, _unit(topic, group="b"), "")
        units = await metrics.consume_unit(ALICE, "g", topic.resource)
        assert [(u.partition, u.address, u.checkpoint, u.lag) for u in units] == [
            (0, "10.0.0.1", 3, 6),
            (1, "", -1, 0),
        ]
        assert await metrics.consumer_groups(ALICE, topic.resource) == ["bob/b", "g"]
        assert await metrics.consumer_groups(BOB, topic.resource) == ["b"]
        assert list(await metrics.consume_units(BOB, topic.resource)) == ["b"]
        for name in ("g", "none"):
            with pytest.raises(ConsumerGroupNotExist, match=f"no consumer group {name}"):
                await metrics.consume_unit(BOB, name, topic.resource)
        assert (await metrics.consume_units(ALICE, topic.resource))["bob/b"][0].lag == 10
        assert (await metrics.consume_unit(ALICE, "bob/b", topic.resource))[0].lag == 10
        assert (await metrics.consume_unit(ROOT, "g", topic.resource))[0].checkpoint == 3
        with pytest.raises(ConsumerGroupNotExist, match="no consumer group"):
            await metrics.consume_unit(BOB, "alice/g", topic.resource)


async def test_ones_own_tenant_may_be_written_before_a_group_in_every_call() -> None:
    async with world() as w:
        topic, metrics = await _ready(w), w.broker.metrics
        await w.broker.consumers.update_offset(ALICE, _commit(topic, 3))
        assert (await metrics.consume_unit(ALICE, "alice/g", topic.resource))[0].checkpoint == 3
        assert (await metrics.consume_unit(ROOT, "alice/g", topic.resource))[0].checkpoint == 3
        await w.broker.consumers.lock_worker(BOB, _unit(topic, group="b"), "")
        assert (await metrics.consume_unit(BOB, "bob/b", topic.resource))[0].checkpoint == -1


async def test_the_topics_owner_lists_and_deletes_the_groups_of_every_tenant() -> None:
    async with world() as w:
        time = MovableTime(asyncio.get_running_loop())
        topic, consumers = await _ready(w), w.broker.consumers
        await consumers.lock_worker(BOB, _unit(topic, group="g", worker="w2"), "")
        with pytest.raises(PermissionDenied):
            await consumers.delete_group(BOB, "alice/g", topic.resource)
        with pytest.raises(ConsumerGroupWorking):
            await consumers.delete_group(ALICE, "bob/g", topic.resource)
        for nobody in ("carol/g", "/g", "a\0b/g"):
            with pytest.raises(ConsumerGroupNotExist):
                await consumers.delete_group(ALICE, nobody, topic.resource)
        time.advance(LEASE_S + 1)
        await consumers.delete_group(ALICE, "bob/g", topic.resource)
        assert await w.broker.metrics.consumer_groups(ALICE, topic.resource) == ["g"]
        await consumers.delete_group(ROOT, "g", topic.resource)
        assert await w.broker.metrics.consumer_groups(ALICE, topic.resource) == []


@pytest.mark.parametrize(
    ("start", "end", "event"),
    [(0, 9, ""), (5, 9, ""), (6, 9, "position-expired"), (0, 3, "log-truncated")],
)
async def test_a_position_outside_the_log_is_reported_once_and_kept(
    start: int, end: int, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        topic, consumers = await _ready(w), w.broker.consumers
        await consumers.update_offset(ALICE, _commit(topic, 4))
        log = w.broker.context.partition_log(topic, 0)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(log), "proven", _fixed_range(OffsetRange(start, end + 1)))
            for _ in range(2):
                assert await consumers.query_offset(ALICE, "g", topic.resource, 0) == 4
        events = [r.message for r in caplog.records if r.name == "opentalos.group"]
        counters = consumers.positions.counters
        assert (counters.positions_expired, counters.logs_truncated) == (
            int(event == "position-expired"),
            int(event == "log-truncated"),
        )
        assert [message.split()[0] for message in events] == ([event] if event else [])


def _fixed_range(offsets: OffsetRange) -> Callable[[object], Awaitable[OffsetRange]]:
    async def answer(_: object) -> OffsetRange:
        return offsets

    return answer
