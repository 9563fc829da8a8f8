"""Consumer use cases of many topics at once (the ...ForTopics calls)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from opentalos.broker.groups.consumers import ConsumerService
from opentalos.broker.values import ConsumeUnit
from opentalos.model.errors import BadRequest, TopicNotExist
from opentalos.model.identity import Principal

T = TypeVar("T")
TOPICS_MAX = 1_000  # of one call
TOPICS_AT_ONCE = 32  # whose rows are read or written at the same time for one call


class TopicsConsumerService:
    """Like ConsumerService, with one worker id over several topics.

    A topic that was deleted meanwhile must not stop the worker's others, so after registration
    it only counts as lost.
    """

    def __init__(self, consumers: ConsumerService) -> None:
        self._consumers = consumers

    async def lock_worker(
        self, caller: Principal, group: str, resources: Sequence[str], worker: str, address: str
    ) -> bool:
        """Register the worker on every topic; a failure leaves leases that expire."""
        _check_count(resources)
        units = (ConsumeUnit(group, resource, worker) for resource in dict.fromkeys(resources))
        lock = self._consumers.lock_worker
        for outcome in await self._all([partial(lock, caller, unit, address) for unit in units]):
            if isinstance(outcome, TopicNotExist):
                raise outcome
        return True

    async def renew(
        self,
        caller: Principal,
        group: str,
        partitions: Mapping[str, Sequence[int]],
        worker: str,
        address: str,
    ) -> tuple[bool, Sequence[tuple[str, int]]]:
        """Refresh on every topic: (heartbeat, (resource, partition) pairs that were lost)."""
        _check_count(partitions)
        alive, lost = True, []
        units = (ConsumeUnit(group, name, worker, tuple(held)) for name, held in partitions.items())
        renew = self._consumers.renew
        outcomes = await self._all([partial(renew, caller, unit, address) for unit in units])
        for (resource, held), outcome in zip(partitions.items(), outcomes, strict=True):
            heartbeat, failed = (True, held) if isinstance(outcome, TopicNotExist) else outcome
            alive = alive and heartbeat
            lost += [(resource, partition) for partition in failed]
        return alive, lost

    async def query_workers(
        self, caller: Principal, group: str, resources: Sequence[str]
    ) -> Mapping[str, Sequence[tuple[str, int]]]:
        """Live workers with the (resource, partition) pairs they hold."""
        _check_count(resources)
        found: dict[str, list[tuple[str, int]]] = {}
        names = list(dict.fromkeys(resources))
        query = self._consumers.query_workers
        outcomes = await self._all([partial(query, caller, group, name) for name in names])
        for resource, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, TopicNotExist):
                continue
            for worker, held in outcome.items():
                pairs = found.setdefault(worker, [])
                pairs += [(resource, partition) for partition in held]
        return found

    async def _all(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | TopicNotExist]:
        """Each call's result; a topic that does not exist is a result, any other error is raised
        once all have ended."""
        room = asyncio.Semaphore(TOPICS_AT_ONCE)

        async def one(call: Callable[[], Awaitable[T]]) -> T | TopicNotExist:
            async with room:
                try:
                    return await self._once_more(call)
                except TopicNotExist as error:
                    return error

        found: list[T | TopicNotExist] = []
        outcomes = await asyncio.gather(*map(one, calls), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, TopicNotExist):
                raise outcome
            found.append(outcome)
        return found

    async def _once_more(self, call: Callable[[], Awaitable[T]]) -> T:
        """A topic that another server has just created is not lost."""
        try:
            return await call()
        except TopicNotExist as error:
            if not await self._consumers.context.appeared(error):
                raise
            return await call()


def _check_count(topics: Sequence[str] | Mapping[str, Sequence[int]]) -> None:
    if len(topics) > TOPICS_MAX:
        raise BadRequest(f"{len(topics)} topics in one call, at most {TOPICS_MAX}")
