from dataclasses import replace

import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE, BOB, CAROL, DAVE, ROOT

from opentalos.broker.values import BaseQuota, PartitionQuota, UserQuota
from opentalos.model.errors import (
    BadRequest,
    InvalidName,
    PermissionDenied,
    QuotaExceeded,
    QuotaNotExist,
    ThrottleRejected,
)
from opentalos.model.identity import GUEST, Role
from opentalos.model.limits import QuotaLimits


async def test_a_users_quota_is_set_by_administrators_and_holds_at_once() -> None:
    async with world() as w:
        topic, quotas = await w.topic(ALICE), w.broker.quotas
        await w.put(ALICE, topic, 0, 9_000)
        quota = UserQuota(rates=BaseQuota(put_bytes_per_s=1_000), topics=1)
        await quotas.set_user_quota(ROOT, "alice", quota)
        await w.put(ALICE, topic, 0, 5_000)
        with pytest.raises(ThrottleRejected, match="user alice: limit 1000 bytes/s, measured"):
            await w.put(ALICE, topic, 0, 1)
        with pytest.raises(QuotaExceeded, match="limit 1 topics, measured 1 topics"):
            await w.topic(ALICE, "second")
        own = quotas.query_user_quota(ALICE)
        assert (own.use.quota.put_bytes_per_s, own.topics) == (1_000, 1)
        assert own.use.quota.put_requests_per_s == 40_000
        assert own.use.used_bytes >= 14_000
        assert list(quotas.list_user_quota(ROOT)) == ["alice"]
        await quotas.delete_user_quota(ROOT, "alice")
        with pytest.raises(QuotaNotExist):
            await quotas.delete_user_quota(ROOT, "alice")
        await w.put(ALICE, topic, 0, 5_000)


async def test_a_member_sees_the_space_and_topics_of_its_organisation() -> None:
    async with world() as w:
        quotas = w.broker.quotas
        rates = BaseQuota(space_bytes=5_000, put_bytes_per_s=7)
        await quotas.set_user_quota(ROOT, "CLacme", UserQuota(rates=rates, topics=1))
        own = BaseQuota(space_bytes=1, put_bytes_per_s=9_000)
        await quotas.set_user_quota(ROOT, "carol", UserQuota(rates=own, topics=99))
        topic = await w.topic(CAROL)
        await w.put(CAROL, topic, 0, 3_000)
        found = quotas.query_user_quota(CAROL)
        assert (found.use.quota.space_bytes, found.topics) == (5_000, 1)
        assert found.use.quota.put_bytes_per_s == 9_000
        assert found.use.used_bytes >= 3_000
        with pytest.raises(QuotaExceeded, match="space of user CLacme: limit 5000 bytes"):
            await w.put(CAROL, topic, 0, 3_000)
        with pytest.raises(QuotaExceeded, match="topics of CLacme: limit 1 topics"):
            await w.topic(DAVE, "second")


async def test_user_quotas_are_visible_only_to_their_user() -> None:
    async with world() as w:
        quotas = w.broker.quotas
        for caller in (ALICE, GUEST):
            with pytest.raises(PermissionDenied):
                await quotas.set_user_quota(caller, "alice", UserQuota())
            with pytest.raises(PermissionDenied):
                quotas.list_user_quota(caller)
            with pytest.raises(PermissionDenied):
                await quotas.delete_user_quota(caller, "alice")
        with pytest.raises(BadRequest):
            await quotas.set_user_quota(ROOT, "a", UserQuota(rates=BaseQuota(space_bytes=-1)))
        with pytest.raises(InvalidName):
            await quotas.set_user_quota(ROOT, "a/b", UserQuota())
        await quotas.set_user_quota(ROOT, GUEST.id, UserQuota(topics=0))
        assert quotas.query_user_quota(GUEST).topics == 0


async def test_a_topics_quota_is_its_owners() -> None:
    async with world() as w:
        topic, quotas = await w.topic(ALICE), w.broker.quotas
        with pytest.raises(QuotaNotExist):
            await quotas.delete_topic_quota(ALICE, topic.resource)
        quota = BaseQuota(space_bytes=1_000)
        await quotas.set_topic_quota(ALICE, topic.resource, quota)
        await w.put(ALICE, topic, 0, 900)
        with pytest.raises(QuotaExceeded, match="space of topic t: limit 1000 bytes, measured 9"):
            await w.put(ALICE, topic, 0, 200)
        use = quotas.query_topic_quota(ALICE, topic.resource)
        assert use.quota.space_bytes == 1_000
        assert 0 < use.remaining_bytes <= 100
        await w.restart()
        await w.broker.space_upkeep.run_once()
        with pytest.raises(QuotaExceeded):
            await w.put(ALICE, topic, 0, 200)
        await w.broker.quotas.delete_topic_quota(ALICE, topic.resource)
        await w.put(ALICE, topic, 0, 200)


async def test_measured_space_follows_the_log() -> None:
    async with world() as w:
        topic = await w.topic(ALICE, partitions=2)
        await w.put(ALICE, topic, 1, 500)
        await w.broker.space_upkeep.run_once()
        log = w.broker.context.partition_log(topic, 1)
        assert w.broker.context.spaces.used(topic) == (await log.stats()).retained_bytes > 500
        await w.broker.topics.delete_topic(ALICE, topic.resource)
        assert w.broker.context.spaces.used_by_owner("alice") == 0


async def test_a_partition_quota_is_asked_for_approved_and_revoked() -> None:
    async with world(quota=QuotaLimits(organisation_partitions=2)) as w:
        quotas = w.broker.partition_quotas
        await w.topic(CAROL, partitions=2)
        with pytest.raises(QuotaExceeded):
            await w.topic(CAROL, "u", partitions=1)
        wanted = PartitionQuota(organisation="CLacme", total=5, reason="more")
        await quotas.apply_quota(CAROL, wanted)
        waiting = quotas.list_pending_quota(DAVE)
        assert [(q.total, q.used, q.reason) for q in waiting.quotas] == [(5, 2, "more")]
        assert not waiting.admin
        assert quotas.list_pending_quota(BOB).quotas == ()
        assert len(quotas.list_pending_quota(ROOT).quotas) == 1
        left = await quotas.approve_quota(ROOT, PartitionQuota(organisation="CLacme", total=3))
        assert (left.quotas, left.admin) == ((), True)
        found = quotas.list_quota(DAVE)
        assert (found.approved, found.quotas[0].used) == (3, 2)
        assert quotas.list_quota(ROOT).approved == 3
        clerk = replace(DAVE, organisation="CLservice", role=Role.BILLING)
        assert quotas.list_quota(clerk).approved == 3, "also as a member of an organisation"
        await w.topic(CAROL, "u", partitions=1)
        await quotas.revoke_quota(ROOT, PartitionQuota(organisation="CLacme", total=1))
        assert quotas.list_quota(DAVE).approved == 2
        with pytest.raises(QuotaNotExist):
            await quotas.revoke_quota(ROOT, PartitionQuota(organisation="CLacme", total=1))


async def test_a_refused_request_leaves_the_quota_as_it_was() -> None:
    async with world() as w:
        quotas = w.broker.partition_quotas
        wanted = PartitionQuota(organisation="", total=5)
        await quotas.apply_quota(CAROL, wanted)
        left = await quotas.revoke_quota(ROOT, PartitionQuota(organisation="CLacme", total=5))
        assert left.quotas == ()
        assert quotas.list_quota(CAROL).approved == 10_000


async def test_only_members_apply_and_only_administrators_decide() -> None:
    async with world() as w:
        quotas = w.broker.partition_quotas
        wanted = PartitionQuota(organisation="CLacme", total=5)
        for attempt in (
            quotas.apply_quota(BOB, wanted),
            quotas.apply_quota(GUEST, wanted),
            quotas.approve_quota(CAROL, wanted),
            quotas.revoke_quota(CAROL, wanted),
        ):
            with pytest.raises(PermissionDenied):
                await attempt
        with pytest.raises(BadRequest):
            await quotas.apply_quota(CAROL, PartitionQuota(organisation="CLacme", total=0))
        with pytest.raises(BadRequest):
            await quotas.apply_quota(ALICE, PartitionQuota(organisation="", total=1))
        for caller in (BOB, GUEST):
            with pytest.raises(PermissionDenied):
                await quotas.auto_apply_quota(caller, wanted)
            with pytest.raises(PermissionDenied):
                await quotas.put_projections(caller, [])
        assert quotas.list_quota(ALICE).quotas == ()
