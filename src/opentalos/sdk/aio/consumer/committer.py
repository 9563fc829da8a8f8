"""Commits offsets: at intervals, after a number of records, on request, before a release."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from opentalos.model.errors import LeaseNotHeld, TalosError
from opentalos.sdk.aio.consumer.assigned_partition import AssignedPartition
from opentalos.sdk.aio.consumer.group_member import GroupMember
from opentalos.sdk.core.consumer.settings import ConsumerCounters

_LOG = logging.getLogger("opentalos.sdk.consumer")


class Committer:
    """Commits what the application has processed, one commit per partition at a time.

    Args: lost: called with a partition whose commit the server rejected: the lease is lost.
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
        """A partition may have enough records for a commit."""
        self._full.set()

    async def run(
        self, assigned: Mapping[int, AssignedPartition], interval_s: float, records: int
    ) -> None:
        """Commit everything at each interval, and in between partitions with ``records`` more."""
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
        """Commit the processed offset of each partition; a failure is logged and retried later."""
        await asyncio.gather(*(self._try(held) for held in partitions if held.uncommitted))

    async def _try(self, held: AssignedPartition) -> None:
        try:
            await self.commit(held, None)
        except TalosError as error:
            _LOG.warning("commit failed: partition=%d error=%s", held.partition, error)

    async def commit(self, held: AssignedPartition, offset: int | None) -> None:
        """Commit ``offset``; None: the processed offset at that time.

        Raises: LeaseNotHeld: lease lost, not committed; Unavailable: not committed; OutcomeUnknown.
        """
        async with held.commit_lock:
            wanted = held.processed if offset is None else offset
            if held.lost:
                raise LeaseNotHeld(
                    f"commit of partition {held.partition} failed: the lease is lost"
                )
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
                    f"commit of partition {held.partition} at {wanted} rejected: the lease is lost"
                )
            held.committed = wanted
            held.processed = max(held.processed, wanted)
            self._counters.commits += 1
