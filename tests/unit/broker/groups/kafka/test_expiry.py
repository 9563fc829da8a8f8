"""Groups of Kafka clients that nobody uses are deleted, and no others."""

import asyncio
import logging

import pytest
from tests.unit.broker.groups.kafka.test_kafka_groups import LIMITS, NOBODY, commit, join, lead
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.broker.groups.group_names import user_of
from opentalos.broker.groups.kafka.requests import MemberId
from opentalos.broker.values import ConsumeUnit, Topic
from opentalos.group.kafka.leases import NewPosition
from opentalos.model.errors import ConsumerGroupWorking, NotOwner
from opentalos.model.limits import LogLimits
from opentalos.model.settings.kafka import KafkaGroupLimits

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS


async def topic_with_messages(w: World, retention_s: int = 86_400) -> Topic:
    topic = await w.topic(ALICE, retention_s=retention_s)
    await w.put(ALICE, topic, 0, 10)
    return topic


async def commit_alone(w: World, topic: Topic, offset: int = 4) -> None:
    assert await commit(w, ALICE, topic, NOBODY, offset, generation=-1) is None


async def groups(w: World, topic: Topic) -> list[str]:
    return sorted(await w.broker.groups.rows.groups(topic.uuid))


async def expire(w: World) -> int:
    """How many groups a pass deletes."""
    before = w.broker.kafka_groups.expiry.expired
    await w.broker.kafka_groups.expiry.run_once()
    return w.broker.kafka_groups.expiry.expired - before


async def test_a_group_that_nobody_uses_is_deleted_after_a_week(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w)
        await commit_alone(w, topic)
        w.clock.now_ms += WEEK_MS - 1
        assert await expire(w) == 0
        w.clock.now_ms += 1
        with caplog.at_level(logging.INFO):
            assert await expire(w) == 1
        assert await groups(w, topic) == []
        assert "group alice/g on topic" in caplog.text
        assert "action='expire a group'" in caplog.text
        assert await w.broker.kafka_groups.offsets.fetch(ALICE, "g", topic) == {}
        await commit_alone(w, topic, 2)
        assert (await w.broker.kafka_groups.offsets.fetch(ALICE, "g", topic))[0].next_offset == 2


async def test_each_use_counts_from_then_and_a_restart_changes_nothing() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w)
        await commit_alone(w, topic)
        w.clock.now_ms += 6 * DAY_MS
        await commit_alone(w, topic, 5)
        w.clock.now_ms += 6 * DAY_MS
        await w.restart()
        assert await expire(w) == 0
        w.clock.now_ms += DAY_MS
        assert await expire(w) == 1
        assert await groups(w, topic) == []


async def test_groups_of_workers_do_not_expire_even_if_kafka_clients_used_them() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w)
        first, second = (ConsumeUnit(name, topic.resource, "w") for name in ("mine", "g"))
        await w.broker.consumers.lock_worker(ALICE, first, "")
        await commit_alone(w, topic)
        await w.broker.consumers.lock_worker(ALICE, second, "")
        w.clock.now_ms += 100 * WEEK_MS
        w.time.advance(60)
        assert await expire(w) == 0
        await commit_alone(w, topic)
        w.clock.now_ms += 100 * WEEK_MS
        assert await expire(w) == 0
        assert await groups(w, topic) == ["g", "mine"]


async def test_a_group_of_an_earlier_version_does_not_expire() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w)
        await w.broker.consumers.lock_worker(ALICE, ConsumeUnit("g", topic.resource, "w"), "")
        w.time.advance(60)
        await commit_alone(w, topic)  # its row has no time, as rows of earlier versions
        w.clock.now_ms += 100 * WEEK_MS
        assert await expire(w) == 0
        assert await groups(w, topic) == ["g"]


async def test_a_topic_that_keeps_messages_longer_keeps_its_groups_as_long() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w, retention_s=10 * 86_400)
        await commit_alone(w, topic)
        w.clock.now_ms += 10 * DAY_MS - 1
        assert await expire(w) == 0
        w.clock.now_ms += 1
        assert await expire(w) == 1


async def test_members_keep_a_group_however_long_they_commit_nothing() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w)
        who = await lead(w, ALICE, 0)
        assert await commit(w, ALICE, topic, who, 4) is None
        w.clock.now_ms += 3 * WEEK_MS
        assert await expire(w) == 0
        w.broker.kafka_groups.members.leave(ALICE, "g", [who])
        w.clock.now_ms += WEEK_MS - 1
        assert await expire(w) == 0
        w.clock.now_ms += 1
        assert await expire(w) == 1
        assert await groups(w, topic) == []


async def test_a_member_that_joins_keeps_the_group_from_then_on() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w)
        await commit_alone(w, topic)
        w.clock.now_ms += 2 * WEEK_MS
        joined = await join(w, ALICE)
        assert await expire(w) == 0
        w.broker.kafka_groups.members.leave(ALICE, "g", [MemberId(joined.member)])
        assert await expire(w) == 0
        assert await groups(w, topic) == ["g"]


async def test_a_commit_at_the_same_time_is_kept() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w)
        leases = w.broker.groups.kafka
        position = NewPosition(partition=0, next_offset=6, log_end=10, epoch=1)
        user = user_of(ALICE, topic, "g")
        for first in (True, False):
            await commit_alone(w, topic, 3)
            w.clock.now_ms += 2 * WEEK_MS
            calls = [leases.commit_alone(user, position), expire(w)]
            await asyncio.gather(*(calls if first else reversed(calls)))
            found = await w.broker.kafka_groups.offsets.fetch(ALICE, "g", topic)
            assert found[0].next_offset == 6


async def test_a_wrong_clock_deletes_nothing() -> None:
    async with world(kafka_group=LIMITS, log=LogLimits()) as w:
        topic = await topic_with_messages(w)
        await commit_alone(w, topic)
        w.clock.now_ms += 2 * WEEK_MS  # alone: the loop's clock says that no time has passed
        assert w.broker.context.log.time.retention_ms() is None
        assert await expire(w) == 0
        w.clock.now_ms -= 2 * WEEK_MS
        assert await expire(w) == 0
        assert await groups(w, topic) == ["g"]


async def test_a_time_in_the_future_counts_from_when_it_is_found() -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w)
        directory = w.broker.groups.directory
        wrong_ms = w.clock.now_ms + 100 * 365 * DAY_MS
        directory.time_ms = lambda: wrong_ms
        await commit_alone(w, topic)
        directory.time_ms = w.broker.context.log.time.append_ms
        assert await expire(w) == 0
        w.clock.now_ms += WEEK_MS
        assert await expire(w) == 1
        assert await groups(w, topic) == []


async def test_only_the_coordinator_of_a_group_lets_it_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w)
        await commit_alone(w, topic)
        w.clock.now_ms += 2 * WEEK_MS

        def elsewhere(group: str) -> None:
            raise NotOwner(f"{group} is coordinated by s2", "10.0.0.2:1")

        with monkeypatch.context() as patch:
            patch.setattr(w.broker.context.ownership, "check_group", elsewhere)
            assert await expire(w) == 0
        assert await expire(w) == 1
        assert await groups(w, topic) == []


async def test_a_group_with_members_that_are_not_known_as_such_counts_as_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of an administrator are another tenant's; only the leases in the rows show them."""

    async def working(*_: object, **__: object) -> bool:
        raise ConsumerGroupWorking("a member holds a partition")

    async with world(kafka_group=LIMITS) as w:
        topic = await topic_with_messages(w)
        await commit_alone(w, topic)
        w.clock.now_ms += WEEK_MS
        with monkeypatch.context() as patch:
            patch.setattr(w.broker.groups.directory, "delete_group", working)
            assert await expire(w) == 0
        w.clock.now_ms += WEEK_MS - 1
        assert await expire(w) == 0
        w.clock.now_ms += 1
        assert await expire(w) == 1
        assert await groups(w, topic) == []


async def test_groups_stay_where_the_setting_is_zero() -> None:
    async with world(kafka_group=KafkaGroupLimits(offsets_retention_s=0.0)) as w:
        topic = await topic_with_messages(w)
        await commit_alone(w, topic)
        w.clock.now_ms += 100 * WEEK_MS
        assert await expire(w) == 0
        assert await groups(w, topic) == ["g"]
    with pytest.raises(ValueError, match="offsets_retention_s"):
        KafkaGroupLimits(offsets_retention_s=60.0)
