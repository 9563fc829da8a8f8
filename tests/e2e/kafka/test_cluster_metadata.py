"""Several servers: clients of Kafka learn of all of them, and of a move at once."""

import asyncio
from functools import partial
from typing import Any

from tests.e2e.memory_cluster import MemoryServer, memory_cluster, settled
from tests.kafka_wire import KafkaWire
from tests.raw_client import RawTopic
from tests.waiting import eventually_async

from opentalos.broker.cluster.kafka_nodes import node_number
from opentalos.model.errors import NotOwner
from opentalos.wire.kafka._generated.fetch_request import FetchPartition, FetchTopic
from opentalos.wire.kafka._generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsTopic,
)
from opentalos.wire.kafka._generated.metadata_request import MetadataRequestTopic
from opentalos.wire.kafka._generated.produce_request import PartitionProduceData, TopicProduceData
from opentalos.wire.kafka.apis import ApiKey
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.message.kafka_format import encode_kafka_batch
from opentalos.wire.message.message import Message

PARTITIONS = 12


def create(server: MemoryServer, partitions: int, *, fill: bool = False) -> RawTopic:
    client = server.client()
    try:
        topic = RawTopic.create(client, "orders", partitions=partitions)
        for partition in range(partitions if fill else 0):
            topic.put(b"x", partition=partition)
        return topic
    finally:
        client.close()


def uuid_of(topic: RawTopic) -> str:
    return str(topic.resource.topicTalosResourceName).rpartition("#")[2]


async def leaders(server: MemoryServer, topic: str) -> list[int]:
    async with KafkaWire(server.kafka_address) as wire:
        await wire.plain()
        return await led(wire, topic)


async def led(wire: KafkaWire, topic: str) -> list[int]:
    wanted = [MetadataRequestTopic(name=topic)]
    found = await wire.call(ApiKey.METADATA, 12, topics=wanted)
    (described,) = found.topics
    return [partition.leader_id for partition in described.partitions]


async def test_every_server_names_all_servers_and_the_owners() -> None:
    async with memory_cluster() as servers:
        topic = await asyncio.to_thread(create, servers[0], PARTITIONS)
        uuid = uuid_of(topic)
        owners = await settled(servers, uuid, PARTITIONS)
        numbers = [node_number(server.name) for server in servers]
        for server in servers:
            assert await leaders(server, "orders") == [numbers[owner] for owner in owners]
            async with KafkaWire(server.kafka_address) as wire:
                await wire.plain()
                found = await wire.call(ApiKey.DESCRIBE_CLUSTER, 1)
            known = {broker.broker_id: f"{broker.host}:{broker.port}" for broker in found.brokers}
            assert known == {
                number: each.kafka_address for number, each in zip(numbers, servers, strict=True)
            }
            assert found.controller_id == node_number(server.name)


async def test_a_group_is_coordinated_where_its_calls_are_answered() -> None:
    groups = [f"g{number}" for number in range(12)]
    async with memory_cluster() as servers:
        topic = await asyncio.to_thread(create, servers[0], 1)
        await settled(servers, uuid_of(topic), 1)
        async with KafkaWire(servers[0].kafka_address) as wire:
            await wire.plain()
            found = await wire.call(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=groups)
        named = {each.key: each.node_id for each in found.coordinators}
        numbers = {server.address: node_number(server.name) for server in servers}
        assert len(set(named.values())) == len(servers)
        for server in servers:
            for group in groups:
                try:
                    server.broker.context.ownership.check_group(group)
                except NotOwner as refusal:
                    known = numbers[refusal.address]
                else:
                    known = node_number(server.name)
                assert known == named[group]


async def drained(server: MemoryServer) -> None:
    root = server.broker.principals.key("AKROOTTEST")
    assert root is not None
    assert server.broker.cluster is not None
    await server.broker.cluster.drain(root.principal, server.name)


async def epoch_of(server: MemoryServer, topic: str) -> int:
    async with KafkaWire(server.kafka_address) as wire:
        await wire.plain()
        found = await wire.call(ApiKey.METADATA, 12, topics=[MetadataRequestTopic(name=topic)])
    (epoch,) = {int(partition.leader_epoch) for partition in found.topics[0].partitions}
    return epoch


async def emptied(servers: list[MemoryServer], uuid: str, left: MemoryServer) -> list[int]:
    """Numbers of the leaders once ``left`` has none and nothing moves any more, by all servers."""
    number = node_number(left.name)

    def others() -> list[int]:
        known = [server.broker.kafka_nodes.leaders(uuid, PARTITIONS) for server in servers]
        assert servers[0].broker.cluster is not None
        record = servers[0].broker.cluster._state.assignment(uuid)
        quiet = record is not None and not record.moved_from
        if quiet and number not in known[0].numbers and known == [known[0]] * len(servers):
            return list(known[0].numbers)
        return []

    return await eventually_async("all servers know that others lead all partitions", others)


async def test_a_planned_move_is_seen_by_clients_of_every_server() -> None:
    async with memory_cluster() as servers:
        topic = await asyncio.to_thread(create, servers[0], PARTITIONS, fill=True)
        uuid = uuid_of(topic)
        owners = await settled(servers, uuid, PARTITIONS)
        before = await epoch_of(servers[0], "orders")
        leaving = servers[owners[0]]
        number = node_number(leaving.name)
        await drained(leaving)

        async def known_to_clients_of(server: MemoryServer) -> bool:
            return number not in await leaders(server, "orders")

        for server in servers:
            await eventually_async(
                f"clients of {server.name} learn of the move", partial(known_to_clients_of, server)
            )
        await emptied(servers, uuid, leaving)
        seen = {await epoch_of(server, "orders") for server in servers}
        assert len(seen) == 1
        assert min(seen) > before


def fetched(partition: int, epoch: int = -1) -> dict[str, Any]:
    part = FetchPartition(
        partition=partition, fetch_offset=0, current_leader_epoch=epoch, partition_max_bytes=1_000
    )
    topics = [FetchTopic(topic="orders", partitions=[part])]
    return {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1_000, "topics": topics}


async def test_a_former_owner_names_the_new_one_and_epochs_are_checked() -> None:
    async with memory_cluster() as servers:
        topic = await asyncio.to_thread(create, servers[0], PARTITIONS, fill=True)
        uuid = uuid_of(topic)
        owners = await settled(servers, uuid, PARTITIONS)
        before = await epoch_of(servers[0], "orders")
        leaving = servers[owners[0]]
        await drained(leaving)
        after = await emptied(servers, uuid, leaving)
        (new,) = (server for server in servers if node_number(server.name) == after[0])
        batch = bytes(encode_kafka_batch([Message(b"m", create_ms=1)]))
        data = [PartitionProduceData(index=0, records=batch)]
        put = {"acks": -1, "timeout_ms": 9_000}
        async with KafkaWire(leaving.kafka_address) as wire:
            await wire.plain()
            named = [TopicProduceData(name="orders", partition_data=data)]
            produced = await wire.call(ApiKey.PRODUCE, 10, topic_data=named, **put)
            uuids = [TopicProduceData(topic_id=bytes.fromhex(uuid), partition_data=data)]
            by_id = await wire.call(ApiKey.PRODUCE, 13, topic_data=uuids, **put)
            now = await epoch_of(leaving, "orders")
            read = await wire.call(ApiKey.FETCH, 12, **fetched(0))
            fields = fetched(0)
            fields["topics"][0].topic_id = bytes.fromhex(uuid)
            read_by_id = await wire.call(ApiKey.FETCH, 16, **fields)
        answers = [
            produced.responses[0].partition_responses[0],
            by_id.responses[0].partition_responses[0],
            read.responses[0].partitions[0],
            read_by_id.responses[0].partitions[0],
        ]
        for answer in answers:
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            leader = answer.current_leader
            assert (leader.leader_id, leader.leader_epoch) == (node_number(new.name), now)
        for response in (produced, by_id, read_by_id):
            (node,) = response.node_endpoints
            assert (node.node_id, f"{node.host}:{node.port}") == (
                node_number(new.name),
                new.kafka_address,
            )
        async with KafkaWire(new.kafka_address) as wire:
            await wire.plain()
            for epoch, code in (
                (before, ErrorCode.FENCED_LEADER_EPOCH),
                (now, ErrorCode.NONE),
                (now + 1_000, ErrorCode.UNKNOWN_LEADER_EPOCH),
            ):
                (part,) = (
                    (await wire.call(ApiKey.FETCH, 12, **fetched(0, epoch))).responses[0].partitions
                )
                assert part.error_code == code
                fields = {"partition_index": 0, "current_leader_epoch": epoch, "timestamp": -1}
                listed = ListOffsetsTopic(
                    name="orders", partitions=[ListOffsetsPartition(**fields)]
                )
                found = await wire.call(ApiKey.LIST_OFFSETS, 4, topics=[listed])
                assert found.topics[0].partitions[0].error_code == code


async def test_a_server_that_does_not_serve_yet_closes_connections() -> None:
    from opentalos.model.settings.kafka import KafkaSettings
    from opentalos.server.ports.kafka import KafkaServer

    server = KafkaServer(KafkaSettings())
    address = await server.listen(None, "127.0.0.1")
    try:
        async with KafkaWire(address) as wire:
            assert await wire.ended()
    finally:
        await server.drain(0.0)
