"""What administrative calls name is charged to the tenant, before anything is done."""

import asyncio
from typing import Any, NamedTuple, cast

import pytest
from tests.unit.broker.groups.kafka.test_kafka_groups import LIMITS, NOBODY, commit
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, BOB, ROOT

from opentalos.gateway.kafka.call import ClientSession
from opentalos.gateway.kafka.connection import KafkaConnection
from opentalos.gateway.kafka.gateway import KafkaGateway, Services
from opentalos.gateway.kafka.handlers import TABLE
from opentalos.gateway.kafka.handlers.admin.configs import Resource
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.model.identity import Principal
from opentalos.model.limits import QuotaLimits
from opentalos.model.settings.kafka import KafkaSettings
from opentalos.wire.kafka._generated import (
    consumer_group_describe_request,
    delete_groups_request,
    describe_acls_request,
    describe_configs_request,
    describe_groups_request,
    list_groups_request,
    offset_delete_request,
    offset_fetch_request,
)
from opentalos.wire.kafka.apis import SIZE, ApiKey, api_of, read_response, write_request
from opentalos.wire.kafka.codec import Cursor
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.kafka.spec import KafkaStruct

LATER = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)  # clients repeat calls of groups on it
SLOWER = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
REQUESTS: dict[ApiKey, tuple[KafkaStruct, str, int]] = {  # with the array that has the codes
    ApiKey.DESCRIBE_GROUPS: (
        describe_groups_request.DescribeGroupsRequest(groups=["g", "h"]), "groups", LATER
    ),
    ApiKey.LIST_GROUPS: (list_groups_request.ListGroupsRequest(), "", LATER),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        consumer_group_describe_request.ConsumerGroupDescribeRequest(group_ids=["g", "h"]),
        "groups", LATER,
    ),
    ApiKey.DELETE_GROUPS: (
        delete_groups_request.DeleteGroupsRequest(groups_names=["g", "h"]), "results", LATER
    ),
    ApiKey.OFFSET_DELETE: (
        offset_delete_request.OffsetDeleteRequest(
            group_id="g",
            topics=[
                offset_delete_request.OffsetDeleteRequestTopic(
                    name="t",
                    partitions=[
                        offset_delete_request.OffsetDeleteRequestPartition(partition_index=0)
                    ],
                )
            ],
        ), "", LATER,
    ),
    ApiKey.DESCRIBE_CONFIGS: (
        describe_configs_request.DescribeConfigsRequest(
            resources=[
                describe_configs_request.DescribeConfigsResource(
                    resource_type=Resource.TOPIC, resource_name="t", configuration_keys=None
                )
            ]
        ), "results", SLOWER,
    ),
    ApiKey.DESCRIBE_ACLS: (
        describe_acls_request.DescribeAclsRequest(
            resource_type_filter=2, pattern_type_filter=3, operation=1, permission_type=1,
            resource_name_filter=None, principal_filter=None, host_filter=None,
        ), "", SLOWER,
    ),
}  # fmt: skip


class Gateway(NamedTuple):
    """A gateway to a broker; ``ask`` sends a request as bytes."""

    gateway: KafkaGateway
    port: KafkaPort

    async def ask(self, caller: Principal, key: ApiKey, request: KafkaStruct) -> Any:
        api, version = api_of(key), TABLE[key].versions[1]
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        class Connection:
            def answered(self, _call: Any, pieces: list[bytes]) -> None:
                answer.set_result(b"".join(pieces))

        session = ClientSession(
            peer="127.0.0.1", network="", private=True, caller=caller, authenticated=True
        )
        frame = memoryview(write_request(api, version, request, 7, "c"))[SIZE.size :]
        connection = cast(KafkaConnection, Connection())
        call = self.gateway.decode(frame, session, connection)
        if call is None:
            call = await self.gateway.decode_long(frame, session, connection)
        self.gateway.start(call)
        return read_response(api, version, Cursor(await answer, SIZE.size))[1]


def opened(w: World) -> Gateway:
    port = KafkaPort(KafkaSettings(), lambda port: cast(Any, None))
    services = Services(
        broker=w.broker, authenticator=cast(Any, None), mechanisms=cast(Any, None),
        certificates=None, port=port, cluster="c", versions={},
    )  # fmt: skip
    return Gateway(KafkaGateway(services, TABLE), port)


def codes(answer: Any, array: str) -> set[int]:
    return {each.error_code for each in (getattr(answer, array) if array else [answer])}


def quota(rate: int) -> QuotaLimits:
    return QuotaLimits(tenant_admin_items_per_s=rate, throttle_max_s=0)


@pytest.mark.parametrize("key", REQUESTS)
async def test_a_tenant_over_its_rate_is_refused_before_anything_is_done(key: ApiKey) -> None:
    request, array, refused = REQUESTS[key]
    async with world(kafka_group=LIMITS, quota=quota(10)) as w:
        gateway, topic = opened(w), await w.topic(ALICE)
        await w.put(ALICE, topic, 0, 10)
        await commit(w, ALICE, topic, NOBODY, 4, generation=-1)
        w.broker.context.admin_items.add(ALICE, 100)
        assert codes(await gateway.ask(ALICE, key, request), array) == {refused}
        assert gateway.port.failures_by_error["ThrottleRejected"] == 1
        assert list(await w.broker.groups.rows.groups(topic.uuid)) == ["g"]
        found = await w.broker.kafka_groups.offsets.fetch(ALICE, "g", topic)
        assert found[0].next_offset == 4
        assert not codes(await gateway.ask(BOB, key, request), array) & {refused}
        w.broker.context.admin_items.add(ROOT, 100)
        assert not codes(await gateway.ask(ROOT, key, request), array) & {refused}
        w.time.advance(10.0)
        assert not codes(await gateway.ask(ALICE, key, request), array) & {refused}


def test_every_administrative_request_is_tested() -> None:
    assert {key for key, served in TABLE.items() if served.administrative} == set(REQUESTS)


async def test_each_name_costs_as_much_as_a_call() -> None:
    many = describe_groups_request.DescribeGroupsRequest(groups=[f"g{n}" for n in range(3_000)])
    few = describe_groups_request.DescribeGroupsRequest(groups=["g"])
    async with world(kafka_group=LIMITS, quota=quota(1_000)) as w:
        gateway = opened(w)
        answer = await gateway.ask(ALICE, ApiKey.DESCRIBE_GROUPS, many)
        assert not codes(answer, "groups") & {LATER}
        w.time.advance(1.0)  # with the second that was spare, two of three
        answer = await gateway.ask(ALICE, ApiKey.DESCRIBE_GROUPS, few)
        assert codes(answer, "groups") == {LATER}
        w.time.advance(1.1)
        answer = await gateway.ask(ALICE, ApiKey.DESCRIBE_GROUPS, few)
        assert not codes(answer, "groups") & {LATER}


async def test_positions_on_all_topics_are_charged_and_those_of_a_consumer_are_not() -> None:
    def fetch(topics: Any) -> KafkaStruct:
        group = offset_fetch_request.OffsetFetchRequestGroup(group_id="g", topics=topics)
        return offset_fetch_request.OffsetFetchRequest(groups=[group])

    async with world(kafka_group=LIMITS, quota=quota(10)) as w:
        gateway = opened(w)
        w.broker.context.admin_items.add(ALICE, 100)
        answer = await gateway.ask(ALICE, ApiKey.OFFSET_FETCH, fetch(None))
        assert codes(answer, "groups") == {int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)}
        answer = await gateway.ask(ALICE, ApiKey.OFFSET_FETCH, fetch([]))
        assert codes(answer, "groups") == {0}


async def test_topics_that_were_examined_are_charged_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opentalos.broker.groups.kafka.scope.TOPICS_PER_ITEM", 1)
    async with world(kafka_group=LIMITS, quota=quota(2)) as w:
        gateway = opened(w)
        for number in range(9):
            await w.topic(ALICE, f"t{number}")
        request, array, refused = REQUESTS[ApiKey.LIST_GROUPS]
        assert codes(await gateway.ask(BOB, ApiKey.LIST_GROUPS, request), array) == {0}
        assert codes(await gateway.ask(BOB, ApiKey.LIST_GROUPS, request), array) == {refused}
