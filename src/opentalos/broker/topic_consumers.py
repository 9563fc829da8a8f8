"""Consumer use cases of many topics at once (the ...ForTopics calls)."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from opentalos.broker.consumers import ConsumerService
from opentalos.broker.values import ConsumeUnit
from opentalos.model.errors import BadRequest, TopicNotExist
from opentalos.model.identity import Principal

T = TypeVar("T")
TOPICS_MAX = 1_000  # of one call


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
        """Register the worker on every topic; a failure leaves leases that run out."""
        _check_count(resources)
        for resource in resources:
            unit = ConsumeUnit(group, resource, worker)
            await self._consumers.lock_worker(caller, unit, address)
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
        for resource, held in partitions.items():
            unit = ConsumeUnit(group, resource, worker, tuple(held))
            try:
                heartbeat, failed = await self._once_more(
                    partial(self._consumers.renew, caller, unit, address)
                )
            except TopicNotExist:
                heartbeat, failed = True, list(held)
            alive = alive and heartbeat
            lost += [(resource, partition) for partition in failed]
        return alive, lost

    async def query_workers(
        self, caller: Principal, group: str, resources: Sequence[str]
    ) -> Mapping[str, Sequence[tuple[str, int]]]:
        """Live workers with the (resource, partition) pairs they hold."""
        _check_count(resources)
        found: dict[str, list[tuple[str, int]]] = {}
        for resource in dict.fromkeys(resources):
            try:
                workers = await self._once_more(
                    partial(self._consumers.query_workers, caller, group, resource)
                )
            except TopicNotExist:
                continue
            for worker, held in workers.items():
                pairs = found.setdefault(worker, [])
                pairs += [(resource, partition) for partition in held]
        return found

    async def _once_more(self, call: Callable[[], Awaitable[T]]) -> T:
        """A topic that another server has just made is not lost."""
        try:
            return await call()
        except TopicNotExist as error:
            if not await self._consumers.context.appeared(error):
                raise
            return await call()


def _check_count(topics: Sequence[str] | Mapping[str, Sequence[int]]) -> None:
    if len(topics) > TOPICS_MAX:
        raise BadRequest(f"{len(topics)} topics in one call, at most {TOPICS_MAX}")
