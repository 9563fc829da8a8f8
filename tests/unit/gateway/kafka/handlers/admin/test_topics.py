from typing import Any

import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE, BOB
from tests.unit.gateway.kafka.handlers.admin.support import Client

from opentalos.gateway.kafka.handlers.admin.outcome import ITEMS_MAX
from opentalos.model.identity import Permission
from opentalos.model.limits import QuotaLimits, TopicLimits
from opentalos.model.settings.partitioning import Partitioning
from opentalos.wire.kafka._generated.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from opentalos.wire.kafka._generated.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from opentalos.wire.kafka.apis import ApiKey
from opentalos.wire.kafka.errors import ErrorCode


def new(name: str, partitions: int = -1, replicas: int = -1, **configs: str) -> CreatableTopic:
    pairs = [
        CreatableTopicConfig(name=key.replace("_", "."), value=value)
        for key, value in configs.items()
    ]
    return CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, configs=pairs
    )


async def create(client: Client, *topics: CreatableTopic, **fields: Any) -> list[Any]:
    version = fields.pop("version", -1)
    request = CreateTopicsRequest(topics=list(topics), **fields)
    return list((await client.ask(ApiKey.CREATE_TOPICS, request, version)).topics)


async def codes(client: Client, *topics: CreatableTopic, **fields: Any) -> list[int]:
    return [result.error_code for result in await create(client, *topics, **fields)]


async def delete(client: Client, *names: str, version: int = -1) -> list[Any]:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])
    if 0 <= version < 6:
        request = DeleteTopicsRequest(topic_names=list(names))
    return list((await client.ask(ApiKey.DELETE_TOPICS, request, version)).responses)


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_made_with_defaults_in_every_version(version: int) -> None:
    async with world(topic=TopicLimits(partitions_default=3)) as w:
        (made,) = await create(Client(w, ALICE), new("t"), version=version)
        topic = w.broker.topics.find_topic(ALICE, "t")
        assert (made.name, made.error_code, made.error_message) == ("t", 0, None)
        assert topic.partitions == 3
        assert topic.partitioning is Partitioning.MURMUR2  # as Kafka's producers place keys
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (3, 1)
            shown = {config.name: config.value for config in made.configs}
            assert shown["retention.ms"] == "86400000"
        if version >= 7:
            assert made.topic_id.hex() == topic.uuid


async def test_settings_come_with_the_topic() -> None:
    async with world() as w:
        made = await create(
            Client(w, ALICE),
            new(
                "t",
                2,
                3,
                retention_ms="7200001",
                retention_bytes="5000",
                talos_durability="flushed",
            ),
            new("u", 1, talos_partitioner="official", cleanup_policy="delete"),
        )
        assert [result.error_code for result in made] == [0, 0]
        topic, other = (w.broker.topics.find_topic(ALICE, name) for name in "tu")
        assert (topic.partitions, topic.retention_s, topic.retention_bytes) == (2, 7201, 5000)
        assert topic.durability.value == "flushed"
        assert other.partitioning is Partitioning.OFFICIAL
        sources = {config.name: config.config_source for config in made[0].configs}
        assert (sources["retention.ms"], sources["flush.messages"]) == (1, 1)
        assert (sources["talos.partitioner"], sources["cleanup.policy"]) == (5, 5)


async def test_each_topic_fails_on_its_own_and_says_why() -> None:
    async with world() as w:
        client = Client(w, ALICE)
        assert await codes(client, new("there")) == [0]
        by_hand = new("t1")
        by_hand.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
        wrong = {
            "a topic exists": new("there"),
            "a name that is not allowed": new("__t"),
            "no partition": new("t2", 0),
            "too many partitions": new("t3", 100_000),
            "no replica": new("t4", 1, 0),
            "assignments": by_hand,
            "compaction": new("t5", cleanup_policy="compact"),
            "an unknown setting": new("t6", segment_ms="1"),
            "no number": new("t7", retention_ms="soon"),
            "no limit": new("t8", retention_ms="-1"),
            "too short": new("t9", retention_ms="1"),
            "another one's topic": new("CLacme/t"),
            "flushing that contradicts durability": new(
                "t10", flush_messages="1", talos_durability="flushed"
            ),
        }
        results = await create(client, *wrong.values(), new("good"))
        assert [ErrorCode(result.error_code).name for result in results] == [
            "TOPIC_ALREADY_EXISTS",
            "INVALID_TOPIC_EXCEPTION",
            "INVALID_PARTITIONS",
            "INVALID_PARTITIONS",
            "INVALID_REPLICATION_FACTOR",
            "INVALID_REPLICA_ASSIGNMENT",
            "INVALID_CONFIG",
            "INVALID_CONFIG",
            "INVALID_CONFIG",
            "INVALID_CONFIG",
            "INVALID_CONFIG",
            "TOPIC_AUTHORIZATION_FAILED",
            "INVALID_CONFIG",
            "NONE",
        ]
        assert all(result.error_message for result in results[:-1])
        assert "Compaction is not supported" in results[6].error_message
        assert "retention.ms" in results[7].error_message  # it lists what there is
        assert [topic.name for topic in w.broker.topics.list_topics(ALICE)] == ["good", "there"]


async def test_what_is_only_validated_is_not_stored_and_fails_alike() -> None:
    async with world(quota=QuotaLimits(user_topics=1)) as w:
        client = Client(w, ALICE)
        assert await codes(client, new("t"), validate_only=True) == [0]
        assert list(w.broker.topics.list_topics(ALICE)) == []
        assert await codes(client, new("t")) == [0]
        found = await codes(client, new("t"), new("second"), validate_only=True)
        assert found == [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.POLICY_VIOLATION]


async def test_a_topic_named_twice_is_not_made() -> None:
    async with world() as w:
        assert await codes(Client(w, ALICE), new("t"), new("t")) == [ErrorCode.INVALID_REQUEST] * 2
        assert list(w.broker.topics.list_topics(ALICE)) == []


async def test_a_request_is_bounded_in_number() -> None:
    async with world() as w:
        client = Client(w, ALICE)
        many = await delete(client, *(f"t{number}" for number in range(ITEMS_MAX + 1)))
        assert many[-2].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert many[-1].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("version", "code"),
    [(7, ErrorCode.THROTTLING_QUOTA_EXCEEDED), (5, ErrorCode.POLICY_VIOLATION)],
)
async def test_a_tenant_that_changes_too_much_is_told_to_wait(version: int, code: int) -> None:
    limits = QuotaLimits(tenant_changes_per_s=1, throttle_max_s=0.001)
    async with world(quota=limits) as w:
        request = CreateTopicsRequest(topics=[new(f"t{number}") for number in range(30)])
        response = await Client(w, ALICE).ask(ApiKey.CREATE_TOPICS, request, version)
        found = [result.error_code for result in response.topics]
        assert found[0] == 0
        assert found[-1] == code
        assert response.throttle_time_ms == (1_000 if version == 7 else 0)


@pytest.mark.parametrize("version", range(1, 7))
async def test_topics_are_deleted_by_name(version: int) -> None:
    async with world() as w:
        client = Client(w, ALICE)
        await w.topic(ALICE)
        gone, unknown = await delete(client, "t", "u", version=version)
        assert (gone.name, gone.error_code) == ("t", 0)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert list(w.broker.topics.list_topics(ALICE)) == []


async def test_a_topic_is_deleted_by_id() -> None:
    async with world() as w:
        client, topic = Client(w, ALICE), await w.topic(ALICE)
        states = [
            DeleteTopicState(topic_id=bytes.fromhex(topic.uuid)),
            DeleteTopicState(topic_id=b"x" * 16),
            DeleteTopicState(),
        ]
        response = await client.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topics=states))
        gone, unknown, neither = response.responses
        assert (gone.name, gone.error_code) == ("t", 0)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert neither.error_code == ErrorCode.INVALID_REQUEST
        assert list(w.broker.topics.list_topics(ALICE)) == []


async def test_unknown_and_not_granted_are_answered_alike() -> None:
    async with world() as w:
        topic, bob = await w.topic(ALICE), Client(w, BOB)
        secret, unknown = await delete(bob, "alice/t", "alice/u")
        assert secret.error_code == unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert secret.error_message == unknown.error_message.replace("/u", "/t")
        ids = [
            DeleteTopicState(topic_id=bytes.fromhex(topic.uuid)),
            DeleteTopicState(topic_id=b"x" * 16),
        ]
        response = await bob.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topics=ids))
        secret, unknown = response.responses
        assert secret.error_code == unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert secret.error_message == unknown.error_message.replace("78" * 16, topic.uuid)
        assert secret.name is unknown.name is None
        # Whoever has any permission knows that there is a topic, so the answer is the plain one.
        await w.broker.permissions.grant_to(ALICE, topic.resource, "bob", Permission.GET_MESSAGE)
        (denied,) = await delete(bob, "alice/t")
        assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
