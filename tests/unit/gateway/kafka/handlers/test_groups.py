"""Members of groups go with the connection on which they join."""

import asyncio
from types import SimpleNamespace
from typing import cast

from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE

from opentalos.gateway.kafka.call import ClientSession, KafkaCall, Received
from opentalos.gateway.kafka.gateway import Services
from opentalos.gateway.kafka.handlers.group import groups
from opentalos.model.settings.kafka import KafkaGroupLimits
from opentalos.wire.kafka._generated.join_group_request import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from opentalos.wire.kafka.apis import ApiKey, RequestHeader, api_of
from opentalos.wire.kafka.errors import ErrorCode

VERSION = 9
CLIENTS = 50


async def test_clients_that_join_and_hang_up_leave_nothing() -> None:
    async with world(kafka_group=KafkaGroupLimits(initial_delay_s=5.0)) as w:
        services = cast(Services, SimpleNamespace(broker=w.broker))
        hosted = w.broker.kafka_groups.groups

        async def join(session: ClientSession, member: str, group: str) -> tuple[int, str]:
            request = JoinGroupRequest(
                group_id=group,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id=member,
                protocol_type="other",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(60_000))],
            )
            header = RequestHeader(int(ApiKey.JOIN_GROUP), VERSION, 1, "c")
            received = Received(api_of(ApiKey.JOIN_GROUP), header, request)
            call = KafkaCall(received, session, w.broker.work, lambda call, pieces: None)
            answer = await groups.join(services, call)
            return answer.error_code, answer.member_id

        for number in range(CLIENTS):
            session = ClientSession(peer="127.0.0.1", network="", private=True, caller=ALICE)
            code, member = await join(session, "", f"g{number}")
            assert code == ErrorCode.MEMBER_ID_REQUIRED
            waiting = asyncio.create_task(join(session, member, f"g{number}"))
            for _ in range(5):
                await asyncio.sleep(0)
            assert hosted.memory.total > 60_000
            session.close()
            assert (await waiting)[0] == ErrorCode.UNKNOWN_MEMBER_ID
        assert (hosted.memory.total, hosted.of_tenant("alice")) == (0, {})
