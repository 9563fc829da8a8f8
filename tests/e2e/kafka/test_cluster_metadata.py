"""Several servers: clients of Kafka learn of all of them, and of a move at once."""

import asyncio

from tests.e2e.memory_cluster import MemoryServer, memory_cluster, settled
from tests.kafka_wire import KafkaWire
from tests.raw_client import RawTopic

from opentalos.broker.cluster.kafka_nodes import node_number
from opentalos.model.errors import NotOwner
from opentalos.wire.kafka._generated.metadata_request import MetadataRequestTopic
from opentalos.wire.kafka.apis import ApiKey

PARTITIONS = 12
MOVED_S = 15.0


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
        assert len(set(named.values())) == len(servers)
        for server in servers:
            for group in groups:
                here = named[group] == node_number(server.name)
                try:
                    server.broker.context.ownership.check_group(group)
                except NotOwner as error:
                    assert not here
                    node = server.broker.kafka_nodes.at(error.address)
                    assert node is not None
                    assert node.number == named[group]
                else:
                    assert here


async def test_a_planned_move_is_seen_by_clients_of_every_server() -> None:
    async with memory_cluster() as servers:
        topic = await asyncio.to_thread(create, servers[0], PARTITIONS, fill=True)
        uuid = uuid_of(topic)
        owners = await settled(servers, uuid, PARTITIONS)
        leaving = servers[owners[0]]
        assert leaving.broker.cluster is not None
        number = node_number(leaving.name)
        root = leaving.broker.principals.key("AKROOTTEST")
        assert root is not None
        await leaving.broker.cluster.drain(root.principal, leaving.name)
        async with asyncio.timeout(MOVED_S):
            for server in servers:
                while number in await leaders(server, "orders"):
                    pass
        # The drained server answers with the new owner, by which clients follow.
        try:
            leaving.broker.context.ownership.check(uuid, 0)
        except NotOwner as error:
            node = leaving.broker.kafka_nodes.at(error.address)
            assert node is not None
            assert node.number == (await leaders(servers[0], "orders"))[0]
        else:
            raise AssertionError("the drained server still owns the partition")


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
