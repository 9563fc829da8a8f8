"""DescribeGroups and its relatives: what an administrator sees of groups of every tenant."""

from tests.unit.broker.groups.kafka.test_kafka_groups import LIMITS, READ, heartbeat, join
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB, ROOT
from tests.unit.gateway.kafka.handlers.admin.support import Client

from opentalos.broker.groups.kafka.consumer_protocol import write_assignment
from opentalos.broker.groups.kafka.requests import MemberId, SyncRequest
from opentalos.model.identity import Principal
from opentalos.wire.kafka._generated.consumer_group_describe_request import (
    ConsumerGroupDescribeRequest,
)
from opentalos.wire.kafka._generated.describe_groups_request import DescribeGroupsRequest
from opentalos.wire.kafka._generated.list_groups_request import ListGroupsRequest
from opentalos.wire.kafka.apis import ApiKey

TOPIC = "alice/t"


async def bob_leads(w: World) -> None:
    """A group ``g`` of another tenant than the topic's owner, with one member."""
    await w.topic(ALICE, acl=READ)
    joined = await join(w, BOB)
    who = MemberId(joined.member)
    assignments = {who.member: write_assignment({TOPIC: [0]})}
    request = SyncRequest(who=who, generation=joined.generation, assignments=assignments)
    synced = await w.broker.kafka_groups.members.sync(BOB, "g", request)
    assert synced.refusal is None


async def members(w: World, caller: Principal, group: str) -> tuple[str, list[tuple[str, bytes]]]:
    client = Client(w, caller)
    answer = await client.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[group]), 5)
    found = answer.groups[0]
    assert found.error_code == 0
    shown = [(each.client_host, bytes(each.member_assignment)) for each in found.members]
    return found.group_state, shown


async def listed(w: World, caller: Principal) -> list[tuple[str, str, str]]:
    answer = await Client(w, caller).ask(ApiKey.LIST_GROUPS, ListGroupsRequest(), 5)
    return [(each.group_id, each.group_state, each.group_type) for each in answer.groups]


async def test_an_administrator_sees_members_as_their_tenant_does() -> None:
    async with world(kafka_group=LIMITS) as w:
        await bob_leads(w)
        of_bob = await members(w, BOB, "g")
        assert of_bob == ("Stable", [("10.0.0.7", write_assignment({TOPIC: [0]}))])
        assert await members(w, ROOT, "bob/g") == of_bob
        assert await listed(w, ROOT) == [("bob/g", "Stable", "classic")]
        assert await members(w, ALICE, "bob/g") == ("Empty", []), "only on her topics"


async def test_a_plain_name_means_the_owners_group_to_an_administrator() -> None:
    async with world(kafka_group=LIMITS) as w:
        await w.topic(ALICE)
        await join(w, ALICE)
        of_alice = await members(w, ALICE, "g")
        assert len(of_alice[1]) == 1
        assert await members(w, ROOT, "g") == await members(w, ROOT, "alice/g") == of_alice


async def test_members_whose_server_assigns_are_shown_too() -> None:
    async with world(kafka_group=LIMITS) as w:
        await w.topic(ALICE)
        beat = w.broker.kafka_groups.consumers.heartbeat
        await beat(ALICE, "g", heartbeat("m1", 0), lambda topic: topic.name)
        for caller, name in ((ALICE, "g"), (ROOT, "alice/g"), (ROOT, "g")):
            request = ConsumerGroupDescribeRequest(group_ids=[name])
            answer = await Client(w, caller).ask(ApiKey.CONSUMER_GROUP_DESCRIBE, request)
            assert [each.member_id for each in answer.groups[0].members] == ["m1"]
