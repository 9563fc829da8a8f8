"""Commits: by time, by count, by hand, and the last ones of partitions that go."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from opentalos.model.errors import LeaseNotHeld, TalosError
from opentalos.sdk.aio.consumer.assigned_partition import AssignedPartition
from opentalos.sdk.aio.consumer.group_member import GroupMember
from opentalos.sdk.core.consumer.settings import ConsumerCounters

_LOG = logging.getLogger("opentalos.sdk.consumer")


class Committer:
    """Commits what the application has processed, one commit of a partition after the other.

    Args: lost: called with a partition whose commit the server refused: the lease is gone.
    """

    def __init__(
        self,
        member: GroupMember,
        counters: ConsumerCounters,
        lost: Callable[[AssignedPartition], None],
    ) -> None:
        self._member, self._counters, self._lost = member, counters, lost
        self._full = asyncio.Event()

    def wake(self) -> None:
        """Some partition may have enough for a commit."""
        self._full.set()

    async def run(
        self, assigned: Mapping[int, AssignedPartition], interval_s: float, records: int
    ) -> None:
        """Until cancelled: at each interval everything, between them whatever has ``records``."""
        loop = asyncio.get_running_loop()
        next_s = loop.time() + interval_s
        while True:
            try:
                async with asyncio.timeout_at(next_s):
                    await self._full.wait()
                enough = records
            except TimeoutError:
                enough, next_s = 1, loop.time() + interval_s
            self._full.clear()
            staying = [held for held in assigned.values() if not held.leaving]
            await self.commit_processed([held for held in staying if held.uncommitted >= enough])

    async def commit_processed(self, partitions: Iterable[AssignedPartition]) -> None:
        """Commit each as far as it is processed; what fails is logged, and done again later."""
        await asyncio.gather(*(self._try(held) for held in partitions if held.uncommitted))

    async def _try(self, held: AssignedPartition) -> None:
        try:
            await self.commit(held, None)
        except TalosError as error:
            _LOG.warning("commit of partition %d failed: %s", held.partition, error)

    async def commit(self, held: AssignedPartition, offset: int | None) -> None:
        """Commit ``offset``, or None: what is processed by then.

        Raises: LeaseNotHeld: not done, and it is lost; Unavailable: not done; OutcomeUnknown.
        """
        async with held.commit_lock:
            wanted = held.processed if offset is None else offset
            if held.lost:
                raise LeaseNotHeld(f"the lease on partition {held.partition} is lost")
            if wanted == held.committed:
                return
            try:
                done = await self._member.commit(held.partition, wanted)
            except TalosError:
                self._counters.commits_failed += 1
                raise
            if not done:
                self._counters.commits_failed += 1
                self._lost(held)
                raise LeaseNotHeld(
                    f"commit {wanted} of partition {held.partition} is refused: the lease is lost"
                )
            held.committed = wanted
            held.processed = max(held.processed, wanted)
            self._counters.commits += 1
