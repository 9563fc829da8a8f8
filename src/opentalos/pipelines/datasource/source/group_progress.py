"""Tells a consumer group how far a query is, so that its lag shows.

A checkpoint moves only by the worker that holds the lease, so this takes the leases of what it
commits, commits, and gives them back at once. It does not keep them: a driver that is killed would
leave them behind, and the query that is started in its place could commit nothing until they ran
out. The query itself never needs the group: its progress is in Spark's checkpoint.
"""

import asyncio
import logging
import secrets
from collections.abc import Mapping
from typing import Final

from opentalos.model.errors import LeaseNotHeld, TalosError
from opentalos.model.names import ResourceName
from opentalos.pipelines.datasource.connection import client_of
from opentalos.pipelines.datasource.source.batch_range import Positions
from opentalos.sdk import ClientConfig, TopicRef
from opentalos.sdk.aio import Client
from opentalos.sdk.aio.consumer.group_member import GroupMember
from opentalos.sdk.sync.loop_thread import LoopThread

_LOG: Final = logging.getLogger("opentalos.datasource")
SETTLE_S: Final = 5.0  # an idle query waits so long for a commit that is under way
RETRY_S: Final = 10.0  # before a commit that failed is tried again, if the query did not move


class GroupProgress:
    """Commits of one query, beside it: none fails it or holds a batch up. What it knows belongs
    to the SDK's loop."""

    def __init__(self, config: ClientConfig, group: str) -> None:
        self._config, self._group = config, group
        self._worker = f"spark-{secrets.token_hex(8)}"
        self._wanted: Positions = {}
        self._committed: dict[str, dict[int, int]] = {}
        self._task: asyncio.Task[None] | None = None
        self._failed_s: float | None = None  # by the loop's clock; the last try

    def reached(self, positions: Positions) -> None:
        """All before ``positions`` is processed. Does not wait for the group."""
        LoopThread.shared().run(self._reached(positions))

    def settle(self) -> None:
        """Wait for what is under way, within a bound."""
        LoopThread.shared().run(self._settle())

    async def _reached(self, positions: Positions) -> None:
        moved, self._wanted = positions != self._wanted, positions
        now_s = asyncio.get_running_loop().time()
        again = self._failed_s is not None and now_s - self._failed_s >= RETRY_S
        if (self._task is None or self._task.done()) and (moved or again):
            self._task = asyncio.create_task(self._commit())

    async def _settle(self) -> None:
        if self._task is not None:
            _, late = await asyncio.wait([self._task], timeout=SETTLE_S)
            if late:
                _LOG.warning("a commit to group %s takes longer than the query", self._group)

    async def _commit(self) -> None:
        client = client_of(self._config).on(LoopThread.shared())
        self._failed_s = None
        done: Positions = {}
        while done != (wanted := self._wanted):
            for resource, offsets in wanted.items():
                try:
                    await self._commit_topic(client, resource, offsets)
                except TalosError as error:
                    self._failed(f"{ResourceName.parse(resource).topic}: {error}")
            done = wanted

    def _failed(self, why: str) -> None:
        self._failed_s = asyncio.get_running_loop().time()
        _LOG.warning("progress is not committed to group %s, only its lag is: %s", self._group, why)

    async def _commit_topic(
        self, client: Client, resource: str, offsets: Mapping[int, int]
    ) -> None:
        """Raises: TalosError: not all is committed."""
        known = self._committed.setdefault(resource, {})
        moved = {p: offset for p, offset in offsets.items() if offset and known.get(p) != offset}
        if not moved:
            return
        ref = TopicRef(ResourceName.parse(resource).topic, resource, max(moved) + 1)
        member = GroupMember(client, ref, self._group, self._worker)
        await member.register()
        locked = await member.lock(list(moved))
        try:
            stored = [p for p in locked if await member.commit(p, moved[p] - 1)]
        finally:
            await member.unlock(locked)
        known.update((partition, moved[partition]) for partition in stored)
        if len(stored) < len(moved):
            others = sorted(moved.keys() - set(stored))
            raise LeaseNotHeld(f"other workers of the group hold partitions {others}")
