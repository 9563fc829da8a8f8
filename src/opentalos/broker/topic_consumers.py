"""Consumer use cases of many topics at once (the ...ForTopics calls)."""

from collections.abc import Mapping, Sequence

from opentalos.model.identity import Principal


class TopicsConsumerService:
    """Like ConsumerService, with one worker id over several topics."""

    async def lock_worker(
        self, caller: Principal, group: str, resources: Sequence[str], worker: str, address: str
    ) -> bool:
        """Register the worker on every topic."""
        raise NotImplementedError

    async def renew(
        self,
        caller: Principal,
        group: str,
        partitions: Mapping[str, Sequence[int]],
        worker: str,
        address: str,
    ) -> tuple[bool, Sequence[tuple[str, int]]]:
        """Refresh on every topic: (heartbeat, (resource, partition) pairs held by others)."""
        raise NotImplementedError

    async def query_workers(
        self, caller: Principal, group: str, resources: Sequence[str]
    ) -> Mapping[str, Sequence[tuple[str, int]]]:
        """Live workers with the (resource, partition) pairs they hold."""
        raise NotImplementedError
