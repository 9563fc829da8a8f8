"""Which topics a client sees, under which names and ids, in every version of Metadata."""

from pathlib import Path

import pytest
from tests.e2e.kafka.clients import kafka_address
from tests.e2e.rest.client import authorization, rest
from tests.kafka_wire import KafkaWire
from tests.server_process import Key, ServerProcess
from tests.shared_servers import SharedServers

from opentalos.wire.kafka._generated.describe_topic_partitions_request import Cursor, TopicRequest
from opentalos.wire.kafka._generated.metadata_request import MetadataRequestTopic as Wanted
from opentalos.wire.kafka.apis import ApiKey

UNKNOWN, INVALID, UNKNOWN_ID = 3, 17, 100
PARTITIONS = 300  # more than are encoded at a time


@pytest.fixture
def server(servers: SharedServers) -> ServerProcess:
    return servers.get("[topic]\npartitions_max = 1000\n")


def key_of(server: ServerProcess, principal: str) -> Key:
    assert rest(server, "POST", "principals", {"id": principal}).status == 201
    made = rest(server, "POST", f"principals/{principal}/keys").document
    return Key(made["key_id"], made["secret"])


def create(server: ServerProcess, key: Key, name: str, partitions: int = 1) -> None:
    topic = {"name": name, "partitions": partitions}
    assert rest(server, "POST", "topics", topic, authorization(key)).status == 201


async def test_names_ids_and_what_is_not_granted(server: ServerProcess) -> None:
    anna, bert = key_of(server, "anna"), key_of(server, "bert")
    create(server, anna, "orders", PARTITIONS)
    create(server, anna, "secret")
    create(server, bert, "orders")
    grant = {"permissions": ["PUT_MESSAGE"]}
    path = "topics/orders/permissions/bert"
    assert rest(server, "PUT", path, grant, authorization(anna)).status < 300
    address = kafka_address(server)
    async with KafkaWire(address) as wire:
        await wire.plain(anna)
        ids: dict[str, bytes] = {}
        for version in range(14):
            topics: list[Wanted] | None = None if version else []
            listed = await wire.call(ApiKey.METADATA, version, topics=topics)
            found = {topic.name: topic for topic in listed.topics}
            assert list(found) == ["orders", "secret"], version
            numbers = [partition.partition_index for partition in found["orders"].partitions]
            assert numbers == list(range(PARTITIONS))
            ids |= {name: topic.topic_id for name, topic in found.items()}
    async with KafkaWire(address) as wire:
        await wire.plain(bert)
        listed = await wire.call(ApiKey.METADATA, 12, topics=None)
        found = {topic.name: len(topic.partitions) for topic in listed.topics}
        assert found == {"anna/orders": PARTITIONS, "orders": 1}
        names = [
            "orders",
            "anna/orders",
            "anna/secret",
            "anna/nothing",
            "nothing",
            "a.",
            ".a",
            "bert/orders",
        ]
        wanted = [Wanted(name=name) for name in [*names, "orders"]]
        asked = await wire.call(ApiKey.METADATA, 12, topics=wanted)
        assert [topic.name for topic in asked.topics] == names
        codes = [topic.error_code for topic in asked.topics]
        assert codes == [0, 0, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, INVALID, 0]
        by_id = [Wanted(topic_id=ids[name], name=None) for name in ("orders", "secret")]
        by_id.append(Wanted(topic_id=b"x" * 16, name=None))
        asked = await wire.call(ApiKey.METADATA, 12, topics=by_id)
        shown = [(topic.name, topic.error_code) for topic in asked.topics]
        assert shown == [("anna/orders", 0), (None, UNKNOWN_ID), (None, UNKNOWN_ID)]
        described = await wire.call(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0,
            topics=[TopicRequest(name="orders"), TopicRequest(name="anna/orders")],
            response_partition_limit=200,
        )  # fmt: skip
        (first,) = described.topics
        assert (first.name, len(first.partitions)) == ("anna/orders", 200)
        cursor = Cursor(topic_name="anna/orders", partition_index=200)
        assert (described.next_cursor.topic_name, described.next_cursor.partition_index) == (
            "anna/orders", 200,
        )  # fmt: skip
        described = await wire.call(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], cursor=cursor,
        )  # fmt: skip
        left = [(topic.name, len(topic.partitions)) for topic in described.topics]
        assert left == [("anna/orders", PARTITIONS - 200), ("orders", 1)]
        assert described.next_cursor is None


async def test_transactional_ids_have_no_coordinator(server: ServerProcess) -> None:
    async with KafkaWire(kafka_address(server)) as wire:
        await wire.plain()
        for version in range(7):
            keys = {"coordinator_keys": ["g", "h"]} if version > 3 else {"key": "g"}
            found = await wire.call(ApiKey.FIND_COORDINATOR, version, **keys)
            each = found.coordinators if version > 3 else [found]
            assert {item.error_code for item in each} == {0}
            assert {f"{item.host}:{item.port}" for item in each} == {kafka_address(server)}
        found = await wire.call(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["t"], key_type=1)
        assert found.coordinators[0].error_code == 53


async def test_missing_topics_are_made_only_if_both_sides_want_it(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, "[kafka]\nauto_create_topics = true\n").start()
    try:
        async with KafkaWire(kafka_address(server)) as wire:
            await wire.plain()
            wanted = [Wanted(name="made"), Wanted(name="other/made"), Wanted(name="..")]
            asked = await wire.call(
                ApiKey.METADATA, 9, topics=wanted, allow_auto_topic_creation=False
            )
            assert [topic.error_code for topic in asked.topics] == [UNKNOWN, UNKNOWN, INVALID]
            asked = await wire.call(ApiKey.METADATA, 9, topics=wanted)
            assert [topic.error_code for topic in asked.topics] == [0, INVALID, INVALID]
            assert len(asked.topics[0].partitions) == 8
    finally:
        server.stop()
