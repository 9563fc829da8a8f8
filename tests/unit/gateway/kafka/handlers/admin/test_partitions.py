from typing import Any

import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE, BOB
from tests.unit.gateway.kafka.handlers.admin.support import Client

from opentalos.wire.kafka._generated.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from opentalos.wire.kafka.apis import ApiKey
from opentalos.wire.kafka.errors import ErrorCode


def more(name: str, count: int, assigned: bool = False) -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(broker_ids=[1])] if assigned else None
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


async def grow(client: Client, *topics: CreatePartitionsTopic, **fields: Any) -> list[Any]:
    version = fields.pop("version", -1)
    request = CreatePartitionsRequest(topics=list(topics), timeout_ms=10_000, **fields)
    return list((await client.ask(ApiKey.CREATE_PARTITIONS, request, version)).results)


@pytest.mark.parametrize("version", range(4))
async def test_a_topic_gets_more_partitions(version: int) -> None:
    async with world() as w:
        await w.topic(ALICE)
        (tried,) = await grow(Client(w, ALICE), more("t", 4), validate_only=True, version=version)
        assert (tried.error_code, w.broker.topics.find_topic(ALICE, "t").partitions) == (0, 1)
        (done,) = await grow(Client(w, ALICE), more("t", 4), version=version)
        assert (done.name, done.error_code, done.error_message) == ("t", 0, None)
        assert w.broker.topics.find_topic(ALICE, "t").partitions == 4


async def test_each_topic_fails_on_its_own() -> None:
    async with world() as w:
        for name in ("same", "fewer", "many", "assigned", "twice"):
            await w.topic(ALICE, name, partitions=2)
        results = await grow(
            Client(w, ALICE),
            more("same", 2),
            more("fewer", 1),
            more("many", 100_000),
            more("assigned", 3, assigned=True),
            more("twice", 3),
            more("twice", 4),
            more("unknown", 3),
        )
        assert [ErrorCode(result.error_code).name for result in results] == [
            "INVALID_PARTITIONS",
            "INVALID_PARTITIONS",
            "INVALID_PARTITIONS",
            "INVALID_REPLICA_ASSIGNMENT",
            "INVALID_REQUEST",
            "INVALID_REQUEST",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]
        assert all(result.error_message for result in results)


async def test_unknown_and_not_granted_are_answered_alike() -> None:
    async with world() as w:
        await w.topic(ALICE)
        secret, unknown = await grow(Client(w, BOB), more("alice/t", 3), more("alice/u", 3))
        assert secret.error_code == unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert secret.error_message == unknown.error_message.replace("/u", "/t")
