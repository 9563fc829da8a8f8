from typing import Any

import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE, BOB
from tests.unit.gateway.kafka.handlers.admin.support import Client

from opentalos.gateway.kafka.handlers.admin.configs import Resource
from opentalos.gateway.kafka.handlers.admin.outcome import ITEMS_MAX
from opentalos.gateway.kafka.handlers.admin.topic_configs import CONFIGS, Operation
from opentalos.model.limits import TopicLimits
from opentalos.wire.kafka._generated import alter_configs_request as replacing
from opentalos.wire.kafka._generated.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from opentalos.wire.kafka._generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from opentalos.wire.kafka.apis import ApiKey
from opentalos.wire.kafka.errors import ErrorCode

SET, DELETE, APPEND, SUBTRACT = Operation


async def describe(client: Client, *names: str, **fields: Any) -> list[Any]:
    version, kind = fields.pop("version", -1), fields.pop("kind", Resource.TOPIC)
    keys = fields.pop("keys", None)
    resources = [
        DescribeConfigsResource(
            resource_type=int(kind), resource_name=name, configuration_keys=keys
        )
        for name in names
    ]
    request = DescribeConfigsRequest(resources=resources, **fields)
    return list((await client.ask(ApiKey.DESCRIBE_CONFIGS, request, version)).results)


def change(name: str, *operations: tuple[Operation, str, str | None]) -> AlterConfigsResource:
    configs = [
        AlterableConfig(name=key, config_operation=int(operation), value=value)
        for operation, key, value in operations
    ]
    return AlterConfigsResource(
        resource_type=int(Resource.TOPIC), resource_name=name, configs=configs
    )


async def alter(client: Client, *resources: AlterConfigsResource, **fields: Any) -> list[Any]:
    version = fields.pop("version", -1)
    request = IncrementalAlterConfigsRequest(resources=list(resources), **fields)
    return list((await client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, version)).responses)


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_topic_shows_its_settings(version: int) -> None:
    async with world() as w:
        await w.topic(ALICE, attributes={"durability": "flushed", "partitioner": "murmur2"})
        (result,) = await describe(
            Client(w, ALICE),
            "t",
            include_synonyms=True,
            include_documentation=True,
            version=version,
        )
        assert (result.error_code, result.resource_name) == (0, "t")
        shown = {entry.name: entry for entry in result.configs}
        assert list(shown) == list(CONFIGS)
        assert {name: entry.value for name, entry in shown.items()} == {
            "retention.ms": "86400000",
            "retention.bytes": "-1",
            "talos.durability": "flushed",
            "talos.partitioner": "murmur2",
            "flush.messages": "9223372036854775807",
            "max.message.bytes": str(20 << 20),
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "message.timestamp.type": "CreateTime",
            "min.insync.replicas": "1",
        }
        writable = [name for name, entry in shown.items() if not entry.read_only]
        assert writable == [
            "retention.ms",
            "retention.bytes",
            "talos.durability",
            "flush.messages",
        ]
        of_topic = [name for name, entry in shown.items() if entry.config_source == 1]
        assert of_topic == ["talos.durability", "flush.messages"]
        synonyms = [(each.name, each.source) for each in shown["flush.messages"].synonyms]
        assert synonyms == [("flush.messages", 1), ("log.flush.interval.messages", 5)]
        if version >= 3:
            assert shown["retention.ms"].config_type == 5
            assert all(entry.documentation for entry in shown.values())


async def test_a_setting_is_shown_alone_and_with_the_servers_default() -> None:
    async with world(topic=TopicLimits(retention_default_s=7_200)) as w:
        await w.topic(ALICE)
        (result,) = await describe(
            Client(w, ALICE), "t", keys=["retention.ms", "unknown"], include_synonyms=True
        )
        (entry,) = result.configs
        assert (entry.value, entry.config_source) == ("7200000", 5)
        assert [each.name for each in entry.synonyms] == ["log.retention.ms"]
        assert entry.documentation is None


async def test_servers_show_a_few_settings_and_cannot_be_changed() -> None:
    async with world() as w:
        client = Client(w, ALICE)
        (server,) = await describe(client, "17", kind=Resource.SERVER, include_synonyms=True)
        shown = {entry.name: entry.value for entry in server.configs}
        assert (shown["num.partitions"], shown["message.max.bytes"]) == ("8", str(20 << 20))
        own = w.broker.kafka_nodes
        addresses = [f"SASL_PLAINTEXT://{node.host}:{node.port}" for node in own.nodes()]
        assert shown["advertised.listeners"] == ",".join(addresses)
        assert shown["node.id"] == str(own.own)
        assert all(entry.read_only for entry in server.configs)
        every, wrong = await describe(client, "", "name", kind=Resource.SERVER)
        assert (every.error_code, list(every.configs)) == (0, [])
        assert wrong.error_code == ErrorCode.INVALID_REQUEST
        change_it = change("17", (SET, "num.partitions", "3"))
        change_it.resource_type = int(Resource.SERVER)
        (refused,) = await alter(client, change_it)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert "configuration file" in refused.error_message


@pytest.mark.parametrize("version", range(2))
async def test_settings_are_changed_and_reset(version: int) -> None:
    async with world() as w:
        await w.topic(ALICE)
        client = Client(w, ALICE)
        wanted = change(
            "t",
            (SET, "retention.ms", "7200000"),
            (SET, "retention.bytes", "1000"),
            (SET, "talos.durability", "flushed"),
            (SET, "flush.messages", "9223372036854775807"),  # what follows from flushed
            (APPEND, "cleanup.policy", "delete"),
        )
        (tried,) = await alter(client, wanted, validate_only=True, version=version)
        assert (tried.error_code, tried.error_message) == (0, None)
        assert w.broker.topics.find_topic(ALICE, "t").retention_s == 86_400
        (done,) = await alter(client, wanted, version=version)
        assert done.error_code == 0
        topic = w.broker.topics.find_topic(ALICE, "t")
        assert (topic.retention_s, topic.retention_bytes) == (7_200, 1_000)
        assert topic.durability.value == "flushed"
        names = ("retention.ms", "retention.bytes", "talos.durability", "cleanup.policy")
        (done,) = await alter(client, change("t", *((DELETE, name, None) for name in names)))
        assert done.error_code == 0
        topic = w.broker.topics.find_topic(ALICE, "t")
        assert (topic.retention_s, topic.retention_bytes) == (86_400, None)
        assert topic.durability.value == "synced"


@pytest.mark.parametrize(
    "operation",
    [
        (SET, "cleanup.policy", "compact"),
        (APPEND, "cleanup.policy", "compact"),
        (SUBTRACT, "cleanup.policy", "delete"),
        (APPEND, "retention.ms", "1"),
        (SET, "retention.ms", None),
        (SET, "retention.ms", "-1"),
        (SET, "retention.ms", "9" * 40),
        (SET, "retention.bytes", "-2"),
        (SET, "talos.durability", "maybe"),
        (SET, "talos.partitioner", "murmur2"),
        (DELETE, "talos.partitioner", None),
        (SET, "message.timestamp.type", "LogAppendTime"),
        (SET, "min.insync.replicas", "2"),
        (SET, "flush.messages", "100"),
        (SET, "segment.ms", "1000"),
        (DELETE, "segment.ms", None),
    ],
)
async def test_what_cannot_be_is_refused_with_all_of_its_change(
    operation: tuple[Operation, str, str | None],
) -> None:
    async with world() as w:
        topic = await w.topic(ALICE)
        good = (SET, "retention.bytes" if "ms" in operation[1] else "retention.ms", "7200000")
        (refused,) = await alter(Client(w, ALICE), change("t", good, operation))
        assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert refused.error_message
        assert w.broker.topics.find_topic(ALICE, "t") == topic


async def test_requests_that_make_no_sense_are_refused() -> None:
    async with world() as w:
        await w.topic(ALICE)
        client, once = Client(w, ALICE), change("t", (SET, "retention.ms", "7200000"))
        of_group = change("g")
        of_group.resource_type = 32
        odd = change("t", (SET, "retention.ms", "1"))
        odd.configs[0].config_operation = 9
        for resources in (
            [once, once],
            [of_group],
            [odd],
            [change("t", (SET, "retention.ms", "1"), (DELETE, "retention.ms", None))],
        ):
            found = await alter(client, *resources)
            assert {result.error_code for result in found} == {ErrorCode.INVALID_REQUEST}
        (group,) = await describe(client, "g", kind=32)
        assert group.error_code == ErrorCode.INVALID_REQUEST


async def test_unknown_and_not_granted_are_answered_alike() -> None:
    async with world() as w:
        await w.topic(ALICE)
        bob = Client(w, BOB)
        shown = await describe(bob, "alice/t", "alice/u")
        changed = await alter(bob, change("alice/t"), change("alice/u"))
        for secret, unknown in (shown, changed):
            assert secret.error_code == unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert secret.error_message == unknown.error_message.replace("/u", "/t")


async def test_durability_has_a_name_of_kafka_too() -> None:
    async with world() as w:
        await w.topic(ALICE)
        client, never = Client(w, ALICE), "9223372036854775807"
        for operations, level in (
            ([(SET, "flush.messages", never)], "flushed"),
            ([(DELETE, "flush.messages", None)], "synced"),
            ([(SET, "flush.messages", never), (SET, "talos.durability", "flushed")], "flushed"),
            ([(SET, "flush.messages", "1")], "synced"),
            ([(SET, "talos.durability", "synced"), (DELETE, "flush.messages", None)], "synced"),
        ):
            (done,) = await alter(client, change("t", *operations))
            assert (done.error_code, done.error_message) == (0, None)
            assert w.broker.topics.find_topic(ALICE, "t").durability.value == level
        for contradiction in (
            [(SET, "flush.messages", never), (SET, "talos.durability", "synced")],
            [(SET, "talos.durability", "flushed"), (SET, "flush.messages", "1")],
        ):
            (refused,) = await alter(client, change("t", *contradiction))
            assert refused.error_code == ErrorCode.INVALID_CONFIG


async def test_a_request_for_many_settings_is_bounded() -> None:
    async with world() as w:
        await w.topic(ALICE)
        results = await describe(Client(w, ALICE), *["t"] * (ITEMS_MAX + 1))
        assert [result.error_code for result in results[-2:]] == [0, ErrorCode.INVALID_REQUEST]


async def replace(client: Client, name: str, version: int, **values: str | None) -> Any:
    """``values``: settings with _ for each dot."""
    configs = [
        replacing.AlterableConfig(name=key.replace("_", "."), value=value)
        for key, value in values.items()
    ]
    resource = replacing.AlterConfigsResource(
        resource_type=int(Resource.TOPIC), resource_name=name, configs=configs
    )
    request = replacing.AlterConfigsRequest(resources=[resource])
    (result,) = (await client.ask(ApiKey.ALTER_CONFIGS, request, version)).responses
    return result


@pytest.mark.parametrize("version", range(3))
async def test_settings_that_a_replacement_leaves_out_get_their_defaults(version: int) -> None:
    async with world() as w:
        attributes = {"durability": "flushed", "partitioner": "official", "owner": "billing"}
        await w.topic(ALICE, attributes=attributes)
        client = Client(w, ALICE)

        async def shown() -> tuple[str, ...]:
            (result,) = await describe(client, "t")
            values = {entry.name: entry.value for entry in result.configs}
            return tuple(
                values[name] for name in ("retention.ms", "retention.bytes", "talos.durability")
            )

        kept = await replace(client, "t", version, retention_ms="7200000", retention_bytes="99")
        assert (kept.error_code, kept.resource_name) == (0, "t")
        assert await shown() == ("7200000", "99", "synced")
        kept = await replace(client, "t", version, flush_messages=str((1 << 63) - 1))
        assert kept.error_code == 0
        assert await shown() == ("86400000", "-1", "flushed")
        topic = w.broker.context.topics.find(ALICE, "t")
        assert topic.attributes["owner"] == "billing"
        assert topic.attributes["partitioner"] == "official"
        for name, value in (("segment_bytes", "1"), ("cleanup_policy", "compact"), ("x", None)):
            refused = await replace(client, "t", version, **{name: value})
            assert refused.error_code == ErrorCode.INVALID_CONFIG
        assert await shown() == ("86400000", "-1", "flushed"), "nothing changed"
        other = await replace(client.of(BOB), "t", version, retention_ms="7200000")
        assert other.error_code != 0
