"""Consumer groups over several servers with real ports: any of them answers, none is needed."""

import asyncio
from typing import Any

from tests.e2e.memory_cluster import MemoryServer, memory_cluster, settled
from tests.raw_client import RawClient, RawTopic, TalosError, idl
from tests.waiting import eventually_async, limit_s

from opentalos.model.errors import NotOwner
from opentalos.model.limits import GroupLimits

PARTITIONS = 12
NOT_SERVING = 21
GROUPS = ("g0", "g1", "g2", "g3", "g4", "g5")  # enough for every server to coordinate one


class Worker:
    """One worker of a group, which talks to another server with each call."""

    def __init__(self, clients: list[RawClient], topic: RawTopic, group: str, name: str) -> None:
        self.clients, self.topic, self.group, self.name = clients, topic, group, name
        self._calls = 0

    async def call(self, rpc: str, request: Any) -> Any:
        self._calls += 1
        client = self.clients[self._calls % len(self.clients)]
        return await asyncio.to_thread(client.call, "consumer", rpc, request)

    def unit(self, *partitions: int) -> Any:
        return idl("consumer").ConsumeUnit(
            consumerGroup=self.group,
            topicTalosResourceName=self.topic.resource,
            partitionIdList=list(partitions),
            workerId=self.name,
        )

    async def lock(self, *partitions: int) -> list[int]:
        request = idl("consumer").LockPartitionRequest(consumeUnit=self.unit(*partitions))
        return list((await self.call("lockPartition", request)).successPartitions)

    async def renew(self, *partitions: int) -> list[int]:
        request = idl("consumer").RenewRequest(consumeUnit=self.unit(*partitions))
        reply = await self.call("renew", request)
        assert reply.heartbeatSuccess
        return list(reply.failedPartitionList)

    async def commit(self, partition: int, offset: int) -> bool:
        checkpoint = idl("consumer").CheckPoint(
            consumerGroup=self.group,
            topicAndPartition=self.topic.partition(partition),
            msgOffset=offset,
            workerId=self.name,
        )
        request = idl("consumer").UpdateOffsetRequest(checkpoint=checkpoint)
        return bool((await self.call("updateOffset", request)).success)

    async def checkpoint(self, partition: int) -> int:
        request = idl("consumer").QueryOffsetRequest(
            consumerGroup=self.group, topicAndPartition=self.topic.partition(partition)
        )
        return int((await self.call("queryOffset", request)).msgOffset)

    async def workers(self) -> dict[str, list[int]]:
        request = idl("consumer").QueryWorkerRequest(
            consumerGroup=self.group, topicTalosResourceName=self.topic.resource
        )
        found = (await self.call("queryWorker", request)).workerMap
        return {name: sorted(held) for name, held in found.items()}


async def _filled(servers: list[MemoryServer], clients: list[RawClient]) -> RawTopic:
    topic = await asyncio.to_thread(RawTopic.create, clients[0], "t", partitions=PARTITIONS)
    uuid = topic.resource.topicTalosResourceName.rsplit("#", 1)[1]
    await settled(servers, uuid, PARTITIONS)
    for partition in range(PARTITIONS):
        await asyncio.to_thread(topic.put, b"a", b"b", b"c", partition=partition)
    return topic


async def test_a_worker_may_talk_to_another_server_with_each_call() -> None:
    async with memory_cluster() as servers:
        clients = [server.client() for server in servers]
        topic = await _filled(servers, clients)
        for group in GROUPS:
            first = Worker(clients, topic, group, "w1")
            second = Worker(clients, topic, group, "w2")
            assert await first.lock(*range(6)) == list(range(6))
            assert await second.lock(*range(PARTITIONS)) == list(range(6, PARTITIONS))
            for partition in range(6):
                assert await first.commit(partition, 1)
                assert not await second.commit(partition, 2)
                assert await second.checkpoint(partition) == 1
            for _ in servers:
                assert await first.renew(*range(6)) == []
                assert await first.workers() == {"w1": [*range(6)], "w2": [*range(6, PARTITIONS)]}
        for client in clients:
            client.close()


def _coordinator(server: MemoryServer, group: str) -> str:
    try:
        server.broker.context.ownership.check_group(group)
    except NotOwner as error:
        return error.address
    return server.address


async def _renewed(worker: Worker, *partitions: int) -> bool:
    """False: the coordinator is just changing; any other refusal fails the test."""
    try:
        assert await worker.renew(*partitions) == []
    except TalosError as error:
        if error.code != NOT_SERVING:
            raise
        return False
    return True


async def test_a_stopped_server_takes_no_lease_and_no_checkpoint_with_it() -> None:
    lasting = GroupLimits(lease_s=limit_s())  # above what a takeover takes on a busy machine
    async with memory_cluster(group=lasting) as servers:
        clients = [server.client() for server in servers]
        topic = await _filled(servers, clients)
        assert servers[2].address in [_coordinator(servers[0], group) for group in GROUPS]
        workers = [Worker(clients[:2], topic, group, "w1") for group in GROUPS]
        for worker in workers:
            assert await worker.lock(0, 5, 11) == [0, 5, 11]
            assert await worker.commit(5, 2)
        # Its port refuses and its session ends, as after a crash; nothing is handed over.
        await servers[2].http.drain(0.0)
        await servers[2].meta.close()
        for worker in workers:
            other = Worker(clients[:2], topic, worker.group, "w2")

            async def renewed(worker: Worker = worker) -> bool:
                return await _renewed(worker, 0, 5, 11)

            await eventually_async(f"{worker.group} has a coordinator again", renewed)
            assert await other.lock(0, 5, 11) == []
            assert await worker.checkpoint(5) == 2
            assert await worker.workers() == {"w1": [0, 5, 11], "w2": []}
        for client in clients:
            client.close()
