import asyncio
from dataclasses import replace

import pytest
from tests.unit.broker.support import ADDRESS, world
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT

from opentalos.broker.values import (
    AttributeChange,
    BaseQuota,
    Commit,
    ConsumeUnit,
    NewTopic,
    PartitionQuota,
    TopicStatus,
)
from opentalos.model.errors import (
    ChangePartitionTooFast,
    InvalidName,
    InvalidTopicParams,
    NotSupported,
    PartitionNotExist,
    PermissionDenied,
    QuotaExceeded,
    StoreUnavailable,
    SubResourceNameExists,
    TopicExists,
    TopicNotExist,
)
from opentalos.model.identity import GUEST, Grantee, GrantType, KeyLimits, Permission, Scope
from opentalos.model.limits import QuotaLimits, TopicLimits

BOB_GRANT = Grantee(GrantType.DEVELOPER, "bob")


async def test_a_created_topic_is_described_with_all_its_parts() -> None:
    async with world() as w:
        topic = await w.topic(
            ALICE,
            partitions=2,
            attributes={"a": "1"},
            acl={BOB_GRANT: Permission.GET_MESSAGE | Permission.DESCRIBE_TOPIC},
            quota=BaseQuota(space_bytes=1 << 20),
        )
        await w.put(ALICE, topic, 1, 5)
        for caller in (ALICE, BOB, ROOT):
            found = await w.broker.topics.describe_topic(caller, "alice/t")
            assert found.topic == topic
        assert [(s.partition, s.start_offset, s.end_offset) for s in found.partitions] == [
            (0, 0, -1),
            (1, 0, 4),
        ]
        assert found.partitions[1].messages == 5
        assert found.permissions == {"alice": 31, "bob": 6}
        assert found.quota.quota.space_bytes == 1 << 20
        assert found.quota.quota.put_requests_per_s == 40_000
        assert found.quota.used_bytes >= 5


async def test_names_answer_alike_whether_unknown_or_not_granted() -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        for name in ("t", topic.resource, "alice/t"):
            with pytest.raises(TopicNotExist, match=f"topic {name} does not exist"):
                w.broker.topics.find_topic(BOB, name)
        with pytest.raises(TopicNotExist, match="topic u does not exist"):
            w.broker.topics.find_topic(BOB, "u")


async def test_a_name_is_taken_once_per_owner() -> None:
    async with world() as w:
        await w.topic(ALICE)
        with pytest.raises(TopicExists):
            await w.topic(ALICE)
        await w.topic(BOB)
        await w.topic(CAROL)
        with pytest.raises(TopicExists):
            await w.topic(DAVE, "CLacme/t")
        assert [topic.owner for topic in w.broker.topics.list_topics(DAVE)] == ["CLacme"]
        assert w.broker.topics.list_topics(GUEST) == []


async def test_creating_needs_a_name_a_count_and_a_permission() -> None:
    async with world() as w:
        for name in ("a/b", "..", "a\0b", "a b", "x" * 10_240):
            with pytest.raises(InvalidName):
                await w.topic(ALICE, name)
        with pytest.raises(InvalidTopicParams):
            await w.broker.topics.create_topic(ALICE, NewTopic(name="t", partitions=None))
        with pytest.raises(PermissionDenied):
            await w.topic(GUEST)
        with pytest.raises(PermissionDenied):
            await w.topic(CAROL, "CLother/t")
        assert w.broker.context.authorizer.denials == 2


async def test_a_deleted_topic_is_unknown_and_its_name_free_for_another() -> None:
    async with world() as w:
        former = await w.topic(ALICE)
        await w.put(ALICE, former, 0, 3)
        await w.broker.topics.delete_topic(ALICE, former.resource)
        with pytest.raises(TopicNotExist):
            await w.put(ALICE, former, 0, 1)
        with pytest.raises(TopicNotExist):
            await w.broker.topics.delete_topic(ALICE, former.resource)
        topic = await w.topic(ALICE)
        assert topic.resource != former.resource
        found = await w.broker.topics.describe_topic(ALICE, "t")
        assert found.partitions[0].end_offset == -1
        assert not any(former.uuid in path for path in w.storage.files)


async def test_a_deletion_that_storage_refuses_is_kept_and_resumes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 3)
        delete_topic = w.broker.context.log.delete_topic
        monkeypatch.setattr(w.broker.context.log, "delete_topic", _refuse)
        await w.broker.topics.delete_topic(ALICE, topic.resource)
        with pytest.raises(TopicNotExist):
            w.broker.topics.find_topic(ALICE, "t")
        with pytest.raises(StoreUnavailable, match="still being deleted"):
            await w.topic(ALICE)
        monkeypatch.setattr(w.broker.context.log, "delete_topic", delete_topic)
        assert (await w.topic(ALICE)).status is TopicStatus.ACTIVE


@pytest.mark.parametrize("cut", ["before the logs", "before the groups", "before the record"])
async def test_a_crash_in_a_deletion_is_completed_after_the_next_start(
    cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 3)
        log, groups = w.broker.context.log, w.broker.groups.directory
        if cut == "before the logs":
            monkeypatch.setattr(log, "delete_topic", _refuse)
        elif cut == "before the groups":
            monkeypatch.setattr(groups, "delete_topic", _refuse)
        else:
            monkeypatch.setattr(w.broker.context.topics, "remove", _refuse)
        await w.broker.topics.delete_topic(ALICE, topic.resource)
        broker = await w.restart()
        with pytest.raises(TopicNotExist):
            broker.topics.find_topic(ALICE, "t")
        await broker.topic_upkeep.run_once()
        for _ in range(200):
            if not broker.context.topics.tombstones():
                break
            await asyncio.sleep(0)
        assert broker.context.topics.tombstones() == []
        assert not any(topic.uuid in path for path in w.storage.files)
        assert not any(path.startswith("topics/") for path in w.storage.records)


async def test_creating_on_a_tombstone_completes_the_deletion_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        former = await w.topic(ALICE)
        await w.put(ALICE, former, 0, 3)
        monkeypatch.setattr(w.broker.context.log, "delete_topic", _refuse)
        await w.broker.topics.delete_topic(ALICE, former.resource)
        await w.restart()
        topic = await w.topic(ALICE)
        assert topic.uuid != former.uuid
        assert not any(former.uuid in path for path in w.storage.files)


async def test_only_who_may_change_a_topic_changes_or_deletes_it() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, acl={BOB_GRANT: Permission(7)})
        topics, change = w.broker.topics, AttributeChange(retention_s=7_200)
        for attempt in (
            topics.delete_topic(BOB, topic.resource),
            topics.change_attribute(BOB, topic.resource, change),
            topics.delete_attribute(BOB, topic.resource, "a"),
            topics.change_owner_info(BOB, topic.resource, "", ""),
            topics.add_sub_resource_name(BOB, topic.resource, "CLacme", "CIred"),
            topics.finish_shrink(BOB, topic.resource),
        ):
            with pytest.raises(PermissionDenied):
                await attempt
        with pytest.raises(TopicNotExist):
            await topics.change_attribute(CAROL, topic.resource, change)
        assert w.broker.context.authorizer.denials == 7


async def test_attributes_change_and_are_removed_separately() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, attributes={"a": "1", "b": "2"})
        change = AttributeChange(attributes={"b": "3"}, retention_s=7_200)
        await w.broker.topics.change_attribute(ALICE, topic.resource, change)
        await w.broker.topics.delete_attribute(ALICE, topic.resource, "a")
        await w.broker.topics.change_owner_info(ALICE, topic.resource, "c1", "Alice")
        found = w.broker.topics.find_topic(ALICE, "t")
        assert (found.attributes, found.retention_s) == ({"b": "3"}, 7_200)
        assert (found.charge_id, found.owner_name) == ("c1", "Alice")
        assert (await w.restart()).topics.find_topic(ALICE, "t") == found


async def test_a_shrink_keeps_removed_partitions_for_consumers_until_they_are_read() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, partitions=3)
        await w.put(ALICE, topic, 2, 4)
        unit = _unit(topic.resource, 2)
        await w.broker.consumers.lock_partitions(ALICE, unit, "")
        change = AttributeChange(partitions=1)
        await w.broker.topics.change_attribute(ALICE, topic.resource, change)
        found = w.broker.topics.find_topic(ALICE, "t")
        assert (found.partitions, found.consumer_partitions) == (1, 3)
        with pytest.raises(PartitionNotExist):
            await w.put(ALICE, topic, 2, 1)
        with pytest.raises(ChangePartitionTooFast):
            await w.broker.topics.change_attribute(
                ALICE, topic.resource, AttributeChange(partitions=4)
            )
        await w.broker.topic_upkeep.run_once()
        assert w.broker.topics.find_topic(ALICE, "t").shrinking
        assert await w.broker.consumers.update_offset(ALICE, _commit(topic.resource, 2, 3))
        await w.broker.topic_upkeep.run_once()
        assert w.broker.topics.find_topic(ALICE, "t").consumer_partitions == 1


async def test_a_shrink_ends_at_once_if_empty_and_by_time_if_unread() -> None:
    async with world(topic=TopicLimits(shrink_force_s=60.0)) as w:
        topic = await w.topic(ALICE, partitions=3)
        await w.put(ALICE, topic, 1, 4)
        await w.broker.topics.change_attribute(ALICE, topic.resource, AttributeChange(partitions=2))
        await w.broker.topic_upkeep.run_once()
        assert w.broker.topics.find_topic(ALICE, "t").consumer_partitions == 2
        w.clock.now_ms += 10_000
        await w.broker.topics.change_attribute(ALICE, topic.resource, AttributeChange(partitions=1))
        await w.broker.topic_upkeep.run_once()
        assert w.broker.topics.find_topic(ALICE, "t").shrinking
        w.clock.now_ms += 61_000
        await w.broker.topic_upkeep.run_once()
        assert not w.broker.topics.find_topic(ALICE, "t").shrinking


async def test_an_administrator_ends_a_shrink() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, partitions=2)
        await w.put(ALICE, topic, 1, 4)
        await w.broker.topics.change_attribute(ALICE, topic.resource, AttributeChange(partitions=1))
        await w.broker.topics.finish_shrink(ROOT, topic.resource)
        assert w.broker.topics.find_topic(ALICE, "t").consumer_partitions == 1


async def test_partitions_that_come_back_continue_their_offsets() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, partitions=2)
        await w.put(ALICE, topic, 1, 4)
        for count in (1, 2):
            w.clock.now_ms += 10_000
            await w.broker.topics.change_attribute(
                ALICE, topic.resource, AttributeChange(partitions=count)
            )
            await w.broker.topics.finish_shrink(ROOT, topic.resource)
        await w.put(ALICE, topic, 1, 1)
        found = await w.broker.topics.describe_topic(ALICE, "t")
        assert found.partitions[1].end_offset == 4


async def test_topic_and_partition_counts_are_bounded_with_limit_and_measured_value() -> None:
    limits = QuotaLimits(user_topics=2, organisation_partitions=10)
    async with world(quota=limits) as w:
        await w.topic(ALICE, "a")
        outcomes = await asyncio.gather(
            *(w.topic(ALICE, name) for name in ("b", "c", "d")), return_exceptions=True
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, QuotaExceeded)]
        assert [str(error) for error in refused] == [
            "topics of alice: limit 2 topics, measured 2 topics"
        ] * 2
        await w.topic(CAROL, "a", partitions=6)
        with pytest.raises(QuotaExceeded, match="limit 10 partitions, measured 6 partitions"):
            await w.topic(CAROL, "b", partitions=5)
        await w.topic(CAROL, "b", partitions=4)
        resource = w.broker.topics.find_topic(CAROL, "a").resource
        with pytest.raises(QuotaExceeded, match="measured 10 partitions, requested 1 more"):
            await w.broker.topics.change_attribute(CAROL, resource, AttributeChange(partitions=7))


async def test_owners_without_an_organisation_have_a_partition_quota_too() -> None:
    async with world(quota=QuotaLimits(user_partitions=10)) as w:
        topic = await w.topic(ALICE, "a", partitions=6)
        with pytest.raises(
            QuotaExceeded,
            match="partitions of alice: limit 10 partitions, measured 6 partitions, requested 5",
        ):
            await w.topic(ALICE, "b", partitions=5)
        with pytest.raises(QuotaExceeded, match="requested 6 more"):
            await w.broker.topics.change_attribute(
                ALICE, topic.resource, AttributeChange(partitions=12)
            )
        await w.topic(BOB, "a", partitions=10)
        approved = PartitionQuota(organisation="alice", total=11)
        await w.broker.partition_quotas.approve_quota(ROOT, approved)
        await w.topic(ALICE, "b", partitions=5)
    async with world(quota=QuotaLimits(user_partitions=0)) as w:
        await w.topic(ALICE, "a", partitions=200)


async def test_the_whole_service_has_a_topic_limit() -> None:
    async with world(topic=TopicLimits(topics_max=1)) as w:
        await w.topic(ALICE)
        with pytest.raises(QuotaExceeded, match="topics of this service: limit 1, measured 1"):
            await w.topic(BOB)


async def test_a_bound_topic_shows_itself_to_organisation_and_team() -> None:
    async with world() as w:
        topics = w.broker.topics
        topic = await w.topic(ALICE)
        own = await w.topic(CAROL)
        with pytest.raises(PermissionDenied):
            await topics.add_sub_resource_name(CAROL, own.resource, "CLacme", "CIred")
        await topics.add_sub_resource_name(ALICE, topic.resource, "CLacme", "CIred")
        with pytest.raises(SubResourceNameExists):
            await topics.add_sub_resource_name(ALICE, topic.resource, "CLacme", "CIred")
        with pytest.raises(SubResourceNameExists):
            await topics.add_sub_resource_name(ROOT, own.resource, "CLother", "CIred")
        assert [found.name for found in topics.bind_topics(CAROL)] == ["t"]
        assert [found.name for found in topics.bind_topics(DAVE)] == ["t"]
        assert topics.bind_topics(BOB) == []
        assert topics.bind_topics(replace(DAVE, limits=KeyLimits(scopes=(Scope.PUT,)))) == []
        await w.put(CAROL, topic, 0, 1)
        with pytest.raises(PermissionDenied):
            await w.put(DAVE, topic, 0, 1)


async def test_lists_have_states_only_if_they_are_not_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        for name in ("a", "b"):
            await w.topic(ALICE, name, partitions=2)
        infos = await w.broker.metrics.list_topics_info(ALICE)
        assert [(info.topic.name, len(info.partitions)) for info in infos] == [("a", 2), ("b", 2)]
        monkeypatch.setattr("opentalos.broker.admin.topic_state.LIST_PARTITIONS_MAX", 3)
        infos = await w.broker.metrics.list_topics_info(ALICE)
        assert [len(info.partitions) for info in infos] == [0, 0]


async def test_an_unimplemented_call_is_refused() -> None:
    async with world() as w:
        with pytest.raises(NotSupported):
            w.broker.topics.replicate_topic(ROOT)


async def test_schedule_info_names_every_partition_that_consumers_see() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, partitions=3)
        w.broker.set_advertise("10.0.0.1:80")
        _, addresses = w.broker.messages.schedule_info(ALICE, topic.resource)
        assert list(addresses) == ["10.0.0.1:80"] * 3
        assert w.config.advertise == ADDRESS


async def _refuse(*args: object) -> None:
    raise StoreUnavailable("refused")


def _unit(resource: str, *partitions: int) -> "ConsumeUnit":
    return ConsumeUnit("g", resource, "w1", partitions)


def _commit(resource: str, partition: int, offset: int) -> "Commit":
    return Commit("g", resource, partition, "w1", offset)
