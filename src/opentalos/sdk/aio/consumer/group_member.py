"""The group coordinator calls of one worker; all are idempotent."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentalos.model.errors import TooManyConsumers
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.connection.messages import resource_name, target
from opentalos.sdk.core.values import TopicRef
from opentalos.wire._generated import consumer
from opentalos.wire._generated.consumer import CONSUMER_SERVICE

CALLS_MAX: Final = 8  # calls per partition in flight
CALL_S: Final = 10.0  # one call including retries; far below a lease
LEAVE_S: Final = 5.0  # the same, at the end of a program: the leases expire anyway


WAIT_S: Final = 3.0  # for a change of the group, in one call; the server allows no more


class Workers(NamedTuple):
    """All live workers with their partitions. ``mark`` differs with them; None: the server
    cannot wait until they change."""

    holdings: Mapping[str, Sequence[int]]
    mark: int | None


class GroupMember:
    """One worker. Every call may raise PermissionDenied or TopicNotExist (permanent), Unavailable
    or OutcomeUnknown (transient)."""

    def __init__(self, client: Client, ref: TopicRef, group: str, worker: str) -> None:
        self._client, self._ref = client, ref
        self._group, self.worker = group, worker
        self._single_calls = asyncio.Semaphore(CALLS_MAX)

    async def register(self) -> None:
        """Join the group. Raises: TooManyConsumers."""
        request = consumer.LockWorkerRequest(consumeUnit=self._unit(()))
        if not (await self._call("lockWorker", request)).registerSuccess:
            raise TooManyConsumers(
                f"cannot join {self._group}: the server accepts no more workers; stop one first"
            )

    async def renew(
        self, partitions: Sequence[int], deadline_s: float
    ) -> tuple[bool, Sequence[int]]:
        """Renew the leases. Returns: whether this is still a worker, and the lost partitions."""
        request = consumer.RenewRequest(consumeUnit=self._unit(partitions))
        found = await self._call("renew", request, deadline_s)
        return found.heartbeatSuccess, found.failedPartitionList

    async def workers(self, known: int | None = None) -> Workers:
        """All live workers with their assigned partitions.

        Args: known: wait until they differ from those with this mark, for ``WAIT_S`` at most.
              Servers that do not know the field answer at once.
        """
        request = consumer.QueryWorkerRequest(
            consumerGroup=self._group,
            topicTalosResourceName=resource_name(self._ref.resource),
            waitMillis=round(WAIT_S * 1000),
            knownMark=known,
        )
        found = await self._call("queryWorker", request)
        return Workers(found.workerMap, found.mark)

    async def lock(self, partitions: Sequence[int]) -> list[int]:
        """Lock the free ones of these partitions in one call. Returns: those locked now."""
        request = consumer.LockPartitionRequest(consumeUnit=self._unit(partitions))
        found = await self._call("lockPartition", request)
        return [partition for partition in found.successPartitions if partition in partitions]

    async def unlock(self, partitions: Sequence[int]) -> None:
        """Unlock partitions in one call."""
        request = consumer.UnlockPartitionRequest(consumeUnit=self._unit(partitions))
        await self._call("unlockPartition", request)

    async def leave(self, partitions: Sequence[int]) -> None:
        """Leave the group and unlock everything, in one call. Other servers than OpenTalos unlock
        these partitions only, and the worker's lease expires."""
        request = consumer.UnlockPartitionRequest(
            consumeUnit=self._unit(partitions), leaveGroup=True
        )
        await self._call("unlockPartition", request, LEAVE_S)

    async def checkpoints(self, partitions: Sequence[int]) -> dict[int, int]:
        """The committed offset of each partition (the last processed one), -1 if none."""
        found = await asyncio.gather(*(self._checkpoint(partition) for partition in partitions))
        return dict(zip(partitions, found, strict=True))

    async def _checkpoint(self, partition: int) -> int:
        request = consumer.QueryOffsetRequest(
            consumerGroup=self._group, topicAndPartition=target(self._ref, partition)
        )
        async with self._single_calls:
            return int((await self._call("queryOffset", request)).msgOffset)

    async def commit(self, partition: int, offset: int) -> bool:
        """Commit the last processed offset; False: the partition is not locked by this worker."""
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
