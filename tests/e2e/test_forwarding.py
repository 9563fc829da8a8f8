"""Requests at the wrong server of a cluster: forwarded once, counted, answered as by the owner."""

import asyncio

from tests.e2e.memory_cluster import memory_cluster, settled
from tests.raw_client import RawTopic


async def test_any_server_answers_puts_and_gets_of_any_partition() -> None:
    async with memory_cluster() as servers:
        clients = [server.client() for server in servers]
        topic = await asyncio.to_thread(RawTopic.create, clients[0], "t", partitions=12)
        uuid = topic.resource.topicTalosResourceName.rsplit("#", 1)[1]
        owners = await settled(servers, uuid, 12)
        for number, client in enumerate(clients):
            there = RawTopic(client, "t", topic.resource)
            for partition in range(12):
                put = await asyncio.to_thread(there.put, b"x", partition=partition)
                assert bool(put.isTransfer) is (owners[partition] != number)
        for number, client in enumerate(clients):
            there = RawTopic(client, "t", topic.resource)
            for partition in range(12):
                got = await asyncio.to_thread(there.get, 0, partition=partition)
                assert got.messageNumber == 3
                assert bool(got.isTransfer) is (owners[partition] != number)
        counters = [server.counters() for server in servers]
        assert sum(counter["requests"] for counter in counters) == 2 * 24
        assert sum(counter["received"] for counter in counters) == 2 * 24
        assert sum(counter["failures"] for counter in counters) == 0
        assert all(counter["bytes_out"] > 0 and counter["bytes_in"] > 0 for counter in counters)
        for client in clients:
            client.close()
