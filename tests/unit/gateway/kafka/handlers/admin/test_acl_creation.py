from typing import Any

import pytest
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB
from tests.unit.gateway.kafka.handlers.admin.acl_calls import (
    DESCRIBE,
    READ,
    WRITE,
    create,
    delete,
    describe,
    entry,
)
from tests.unit.gateway.kafka.handlers.admin.support import Client

from opentalos.catalog.access.grants import GRANTS_MAX
from opentalos.gateway.kafka.handlers.admin.acl_terms import (
    AclOperation,
    PatternType,
    ResourceType,
)
from opentalos.gateway.kafka.handlers.admin.outcome import ITEMS_MAX
from opentalos.model.identity import GUEST, Grantee, GrantType, Permission, Principal
from opentalos.model.limits import QuotaLimits
from opentalos.wire.kafka._generated.create_acls_request import CreateAclsRequest
from opentalos.wire.kafka._generated.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from opentalos.wire.kafka.apis import ApiKey
from opentalos.wire.kafka.errors import ErrorCode

CREATE, DESCRIBE_CONFIGS = AclOperation.CREATE, AclOperation.DESCRIBE_CONFIGS
GROUP: Any = {"resource_type": int(ResourceType.GROUP)}
PREFIXED: Any = {"resource_pattern_type": int(PatternType.PREFIXED)}
IDEMPOTENT = entry(
    "User:bob",
    AclOperation.IDEMPOTENT_WRITE,
    "kafka-cluster",
    resource_type=int(ResourceType.CLUSTER),
)


def masks(w: World, topic: str = "t") -> dict[str, int]:
    resource = w.broker.topics.find_topic(ALICE, topic).resource
    granted = dict(w.broker.permissions.list_permission(ALICE, resource))
    assert granted.pop("alice") == Permission.ADMIN
    return granted


async def creates(w: World, who: Principal, name: str) -> ErrorCode:
    """What a client is told that creates a topic."""
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
    )
    (made,) = (await Client(w, who).ask(ApiKey.CREATE_TOPICS, request)).topics
    return ErrorCode(made.error_code)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"resource_type": int(ResourceType.CLUSTER)}, "only topics"),
        ({"resource_type": int(ResourceType.TRANSACTIONAL_ID)}, "only topics"),
        ({"resource_pattern_type": 4}, "one topic"),
        ({"topic": "*"}, "one topic"),
        ({"permission_type": 2}, "only allow"),
        ({"host": "127.0.0.1"}, "any host"),
        ({"principal": "User:*"}, "everybody"),
        ({"principal": "Group:x"}, "User:NAME"),
        ({"principal": "User:"}, "User:NAME"),
        ({"operation": AclOperation.ALL}, "READ, WRITE and DESCRIBE"),
        ({"operation": AclOperation.CREATE}, "the topic exists"),
        ({"operation": AclOperation.ALTER_CONFIGS}, "owner"),
        ({"operation": AclOperation.DESCRIBE_CONFIGS}, "DESCRIBE includes"),
        ({"operation": AclOperation.CLUSTER_ACTION}, "no operation on topics"),
        ({"operation": 99}, "99"),
        ({**GROUP, "operation": AclOperation.DELETE}, "groups have no permissions"),
        ({**GROUP, "operation": AclOperation.ALL}, "groups have no permissions"),
        ({**GROUP, "topic": "alice/readers"}, "nobody can use this group"),
        ({**GROUP, "topic": ""}, "nobody can use this group"),
        ({**GROUP, "principal": "readers"}, "User:NAME"),
        ({**GROUP, "permission_type": 2}, "only allow"),
        ({**GROUP, "host": "127.0.0.1"}, "any host"),
        ({**GROUP, "resource_pattern_type": 2}, "a group has a name"),
        ({**GROUP, "operation": 99}, "99"),
    ],
)
async def test_one_entry_that_permissions_cannot_express_refuses_the_request(
    fields: Any, why: str
) -> None:
    async with world() as w:
        await w.topic(ALICE)
        asked = entry(**{"principal": "User:bob", "operation": READ, **fields})
        refused, other = await create(Client(w, ALICE), asked, entry("User:carol", READ))
        assert refused.error_code == other.error_code == ErrorCode.INVALID_REQUEST
        assert why in refused.error_message
        assert refused.error_message.startswith("no permission is ")
        assert other.error_message == (
            f"nothing of this request was granted: {refused.error_message}"
        )
        assert masks(w) == {}


async def test_a_producer_gets_what_the_tool_asks_for() -> None:
    async with world() as w:
        await w.topic(ALICE)
        client = Client(w, ALICE)
        assert await creates(w, BOB, "alice/t") == ErrorCode.INVALID_TOPIC_EXCEPTION
        asked = [entry("User:bob", operation) for operation in (CREATE, WRITE, DESCRIBE)]
        made = await create(client, *asked, IDEMPOTENT)
        assert [(each.error_code, each.error_message) for each in made] == [(0, None)] * 4
        assert masks(w) == {"bob": 5}
        listed = [("t", "User:bob", "WRITE"), ("t", "User:bob", "DESCRIBE")]
        assert await describe(client) == listed
        # Who may create a topic that exists is told that it does.
        assert await creates(w, BOB, "alice/t") == ErrorCode.TOPIC_ALREADY_EXISTS
        # The tool leaves out what is listed when it is run again.
        (again,) = await create(client, entry("User:bob", CREATE))
        assert again.error_code == 0
        filters = [{"operation": int(each)} for each in (CREATE, WRITE, DESCRIBE)]
        taken = await delete(client, *filters)
        assert [len(each.matching_acls) for each in taken] == [0, 1, 1]
        assert masks(w) == {}
        assert await creates(w, BOB, "alice/t") == ErrorCode.INVALID_TOPIC_EXCEPTION
        (refused,) = await create(client, entry("User:bob", CREATE))
        assert refused.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", [{"topic": "readers"}, {"topic": "*"}, {"topic": "r", **PREFIXED}])
@pytest.mark.parametrize("principal", ["User:bob", "User:*", "User:ANONYMOUS"])
async def test_everybody_may_read_in_groups_without_an_entry(name: Any, principal: str) -> None:
    async with world() as w:
        await w.topic(ALICE)
        client = Client(w, ALICE)
        asked = [entry(principal, operation, **GROUP, **name) for operation in (READ, DESCRIBE)]
        made = await create(client, *asked)
        assert [(each.error_code, each.error_message) for each in made] == [(0, None)] * 2
        assert await describe(client) == []
        every = {"resource_type_filter": int(ResourceType.GROUP)}
        (nothing,) = await delete(client, every)
        assert (nothing.error_code, list(nothing.matching_acls)) == (0, [])
        assert masks(w) == {}


async def test_settings_may_be_seen_with_the_topic_alone() -> None:
    async with world() as w:
        await w.topic(ALICE)
        client, asked = Client(w, ALICE), entry("User:bob", DESCRIBE_CONFIGS)
        (refused, _) = await create(client, asked, entry("User:bob", WRITE))
        assert "DESCRIBE includes" in refused.error_message
        assert masks(w) == {}
        made = await create(client, asked, entry("User:bob", DESCRIBE))
        assert [each.error_code for each in made] == [0, 0]
        assert masks(w) == {"bob": 4}


async def test_rights_of_a_team_count_for_what_they_imply() -> None:
    async with world() as w:
        topic, client = await w.topic(ALICE), Client(w, ALICE)
        grant = w.broker.permissions.set_permission
        team = Grantee(GrantType.APP_USER, "CIblue")
        await grant(ALICE, topic.resource, team, Permission.PUT_MESSAGE)
        (made,) = await create(client, entry("User:CIblue", CREATE))
        assert made.error_code == 0
        assert await creates(w, BOB, "alice/t") == ErrorCode.TOPIC_ALREADY_EXISTS
        (refused,) = await create(client, entry("User:ANONYMOUS", CREATE))
        assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_a_topic_that_cannot_be_granted_refuses_the_request() -> None:
    async with world() as w:
        await w.topic(ALICE)
        for name in ("u", "", "bob/t"):
            missing = entry("User:bob", READ, name)
            done, refused = await create(Client(w, ALICE), entry("User:bob", READ), missing)
            assert done.error_code == refused.error_code != 0
            assert done.error_message.endswith(refused.error_message)
            assert masks(w) == {}
        for caller in (BOB, GUEST):
            refused, group = await create(
                Client(w, caller),
                entry("User:carol", CREATE, "alice/t"),
                entry("User:carol", READ, "readers", **GROUP),
            )
            assert refused.error_code == group.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_owner_has_no_entry_and_gets_none() -> None:
    async with world() as w:
        await w.topic(ALICE)
        client = Client(w, ALICE)
        assert await describe(client) == []
        refused, other = await create(client, entry("User:alice", READ), entry("User:bob", READ))
        assert refused.error_code == other.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert masks(w) == {}


async def test_more_grants_than_a_topic_can_have_are_refused_together() -> None:
    async with world() as w:
        await w.topic(ALICE)
        asked = [entry(f"User:u{n}", READ) for n in range(GRANTS_MAX + 1)]
        results = await create(Client(w, ALICE), *asked)
        assert {each.error_code for each in results} == {ErrorCode.INVALID_REQUEST}
        assert masks(w) == {}


async def test_too_many_entries_are_refused_together() -> None:
    async with world() as w:
        await w.topic(ALICE)
        asked = [entry("User:bob", READ)] * (ITEMS_MAX + 1)
        results = await create(Client(w, ALICE), *asked)
        assert len(results) == ITEMS_MAX + 1
        assert {each.error_code for each in results} == {ErrorCode.INVALID_REQUEST}
        assert masks(w) == {}


async def test_a_request_without_entries_grants_nothing() -> None:
    async with world() as w:
        assert await create(Client(w, ALICE)) == []


async def test_changes_of_permissions_have_a_rate() -> None:
    limits = QuotaLimits(tenant_changes_per_s=1, throttle_max_s=0.001)
    async with world(quota=limits) as w:
        await w.topic(ALICE)
        request = CreateAclsRequest(creations=[entry(f"User:u{n}", READ) for n in range(30)])
        response = await Client(w, ALICE).ask(ApiKey.CREATE_ACLS, request)
        assert response.results[-1].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert response.throttle_time_ms == 1_000
