"""Every use case that changes a record for a tenant counts against the tenant's rate."""

from collections.abc import Awaitable, Callable

import pytest
from tests.unit.broker.support import World, world
from tests.unit.broker.tables.support import PLAIN
from tests.unit.catalog.support import ALICE, BOB, CAROL, ROOT

from opentalos.broker.tables.api.values import TableSpec
from opentalos.broker.values import (
    AttributeChange,
    BaseQuota,
    PartitionQuota,
    TopicGroup,
    TopicGroupType,
)
from opentalos.model.errors import PermissionDenied, ThrottleRejected
from opentalos.model.identity import Grantee, GrantType, Permission, Principal
from opentalos.model.limits import QuotaLimits
from opentalos.model.table import AppRight

STRICT = QuotaLimits(tenant_changes_per_s=1, throttle_max_s=0)
BOB_GRANT, PUT = Grantee(GrantType.DEVELOPER, "bob"), Permission.PUT_MESSAGE
GROUP = TopicGroup(name="g", owner="", type=TopicGroupType.TOPIC_SET, topics=("t",))
SPEC = TableSpec(schema=PLAIN)
ORGANISATION = PartitionQuota(organisation="CLacme", total=5)

Change = Callable[[World, str], Awaitable[object]]  # the resource name of ALICE's topic
CHANGES: dict[str, tuple[Principal, Change]] = {
    "create topic": (ALICE, lambda w, _: w.topic(ALICE, "new")),
    "delete topic": (ALICE, lambda w, t: w.broker.topics.delete_topic(ALICE, t)),
    "change attribute": (
        ALICE, lambda w, t: w.broker.topics.change_attribute(ALICE, t, AttributeChange())
    ),
    "delete attribute": (ALICE, lambda w, t: w.broker.topics.delete_attribute(ALICE, t, "x")),
    "change owner": (ALICE, lambda w, t: w.broker.topics.change_owner_info(ALICE, t, "", "x")),
    "bind": (ALICE, lambda w, t: w.broker.topics.add_sub_resource_name(ALICE, t, "CLa", "CIa")),
    "grant": (ALICE, lambda w, t: w.broker.permissions.set_permission(ALICE, t, BOB_GRANT, PUT)),
    "grant to": (ALICE, lambda w, t: w.broker.permissions.grant_to(ALICE, t, "bob", PUT)),
    "revoke": (ALICE, lambda w, t: w.broker.permissions.revoke_permission(ALICE, t, BOB_GRANT)),
    "revoke from": (ALICE, lambda w, t: w.broker.permissions.revoke_from(ALICE, t, "bob")),
    "accept": (BOB, lambda w, _: w.broker.permissions.set_accepted(BOB, "alice/t", True)),
    "topic quota": (ALICE, lambda w, t: w.broker.quotas.set_topic_quota(ALICE, t, BaseQuota())),
    "no topic quota": (ALICE, lambda w, t: w.broker.quotas.delete_topic_quota(ALICE, t)),
    "create group": (ALICE, lambda w, _: w.broker.topic_groups.create_topic_group(ALICE, GROUP)),
    "update group": (ALICE, lambda w, _: w.broker.topic_groups.update_topic_group(ALICE, GROUP)),
    "delete group": (ALICE, lambda w, _: w.broker.topic_groups.delete_topic_group(ALICE, "g")),
    "apply": (CAROL, lambda w, _: w.broker.partition_quotas.apply_quota(CAROL, ORGANISATION)),
    "decide": (CAROL, lambda w, _: w.broker.partition_quotas.decide_quota(CAROL, ORGANISATION)),
    "create table": (ALICE, lambda w, _: w.broker.table_admin.create(ALICE, "new", SPEC)),
    "alter table": (ALICE, lambda w, _: w.broker.table_admin.alter(ALICE, "people", SPEC)),
    "drop table": (ALICE, lambda w, _: w.broker.table_admin.drop(ALICE, "people")),
    "enable": (ALICE, lambda w, _: w.broker.table_admin.enable(ALICE, "people")),
    "disable": (ALICE, lambda w, _: w.broker.table_admin.disable(ALICE, "people")),
    "accept table": (
        BOB, lambda w, _: w.broker.table_admin.set_accepted(BOB, "alice/people", True)
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
async def test_a_tenant_over_its_rate_changes_nothing(change: str) -> None:
    caller, call = CHANGES[change]
    async with world(quota=STRICT) as w:
        topic = await w.topic(ALICE, acl={BOB_GRANT: PUT})
        w.time.advance(1.0)
        readers = {"bob": (AppRight.APP_SECRET_READ,)}
        await w.broker.table_admin.create(ALICE, "people", TableSpec(schema=PLAIN, app_acl=readers))
        w.time.advance(2.0)
        for _ in range(2):
            await w.broker.context.changes.admit(caller)
        before = _records(w)
        with pytest.raises(ThrottleRejected, match=f"changes by {caller.owner_id}: limit 1"):
            await call(w, topic.resource)
        assert _records(w) == before


async def test_a_caller_without_the_right_is_denied_first_and_not_charged() -> None:
    async with world(quota=STRICT) as w:
        topic = await w.topic(ALICE, acl={BOB_GRANT: PUT})
        for _ in range(5):
            with pytest.raises(PermissionDenied):
                await w.broker.topics.delete_topic(BOB, topic.resource)
        await w.topic(BOB)
        for _ in range(5):
            await w.broker.topics.delete_attribute(ROOT, topic.resource, "x")


def _records(w: World) -> dict[str, bytes]:
    return {path: stored.record.value for path, stored in w.storage.records.items()}
