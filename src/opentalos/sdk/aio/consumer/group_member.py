"""The calls of one worker of a consumer group; each may be repeated without harm."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentalos.model.errors import TooManyConsumers
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.connection.messages import resource_name, target
from opentalos.sdk.core.values import TopicRef
from opentalos.wire._generated import consumer
from opentalos.wire._generated.consumer import CONSUMER_SERVICE

CALLS_MAX: Final = 8  # of single partitions, at once
CALL_S: Final = 10.0  # one call with its retries; far below a lease


class GroupMember:
    """One worker. Raises in every call: PermissionDenied, TopicNotExist: for good; Unavailable,
    OutcomeUnknown: for now."""

    def __init__(self, client: Client, ref: TopicRef, group: str, worker: str) -> None:
        self._client, self._ref = client, ref
        self._group, self.worker = group, worker
        self._single_calls = asyncio.Semaphore(CALLS_MAX)

    async def register(self) -> None:
        """Become a worker of the group. Raises: TooManyConsumers."""
        request = consumer.LockWorkerRequest(consumeUnit=self._unit(()))
        if not (await self._call("lockWorker", request)).registerSuccess:
            raise TooManyConsumers(f"the server refuses one more worker of {self._group}")

    async def renew(
        self, partitions: Sequence[int], deadline_s: float
    ) -> tuple[bool, Sequence[int]]:
        """Go on: whether this is still a worker, and which of the partitions it has lost."""
        request = consumer.RenewRequest(consumeUnit=self._unit(partitions))
        found = await self._call("renew", request, deadline_s)
        return found.heartbeatSuccess, found.failedPartitionList

    async def workers(self) -> Mapping[str, Sequence[int]]:
        """All live workers and what they hold."""
        request = consumer.QueryWorkerRequest(
            consumerGroup=self._group, topicTalosResourceName=resource_name(self._ref.resource)
        )
        found: Mapping[str, Sequence[int]] = (await self._call("queryWorker", request)).workerMap
        return found

    async def lock(self, partitions: Sequence[int]) -> list[int]:
        """Take what is free of the partitions, in one call; what is ours now."""
        request = consumer.LockPartitionRequest(consumeUnit=self._unit(partitions))
        found = await self._call("lockPartition", request)
        return [partition for partition in found.successPartitions if partition in partitions]

    async def unlock(self, partitions: Sequence[int]) -> None:
        """Give partitions back, in one call."""
        request = consumer.UnlockPartitionRequest(consumeUnit=self._unit(partitions))
        await self._call("unlockPartition", request)

    async def checkpoints(self, partitions: Sequence[int]) -> dict[int, int]:
        """Last processed offset of each, -1 if none."""
        found = await asyncio.gather(*(self._checkpoint(partition) for partition in partitions))
        return dict(zip(partitions, found, strict=True))

    async def _checkpoint(self, partition: int) -> int:
        request = consumer.QueryOffsetRequest(
            consumerGroup=self._group, topicAndPartition=target(self._ref, partition)
        )
        async with self._single_calls:
            return int((await self._call("queryOffset", request)).msgOffset)

    async def commit(self, partition: int, offset: int) -> bool:
        """Store the last processed offset; False: this worker does not hold the partition."""
        checkpoint = consumer.CheckPoint(
            consumerGroup=self._group,
            topicAndPartition=target(self._ref, partition),
            msgOffset=offset,
            workerId=self.worker,
        )
        request = consumer.UpdateOffsetRequest(checkpoint=checkpoint)
        async with self._single_calls:
            return bool((await self._call("updateOffset", request)).success)

    async def _call(self, method: str, request: Any, deadline_s: float = CALL_S) -> Any:
        return await self._client.call(
            CONSUMER_SERVICE, method, request, deadline_s=deadline_s, retry_unknown=True
        )

    def _unit(self, partitions: Sequence[int]) -> consumer.ConsumeUnit:
        return consumer.ConsumeUnit(
            consumerGroup=self._group,
            topicTalosResourceName=resource_name(self._ref.resource),
            partitionIdList=list(partitions),
            workerId=self.worker,
        )
