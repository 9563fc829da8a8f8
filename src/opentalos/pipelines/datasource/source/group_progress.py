"""Commits the progress of a query to a consumer group, so that its lag is visible.

Only the worker that holds the lease may commit (promise I5), so this takes the leases of the
partitions, commits, and releases them at once. It does not keep them: a killed driver would leave
them behind, and its successor could not commit until they expire. The query itself never needs the
group: its progress is in Spark's checkpoint.
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
SETTLE_S: Final = 5.0  # how long an idle query waits for a commit in flight
RETRY_S: Final = 10.0  # before a failed commit is retried, if the query made no progress


class GroupProgress:
    """Commits of one query in a background task: they never fail or delay a batch.

    Its state is used in the SDK's event loop only.
    """

    def __init__(self, config: ClientConfig, group: str) -> None:
        self._config, self._group = config, group
        self._worker = f"spark-{secrets.token_hex(8)}"
        self._wanted: Positions = {}
        self._committed: dict[str, dict[int, int]] = {}
        self._task: asyncio.Task[None] | None = None
        self._failed_s: float | None = None  # time of the last failure, on the loop's clock

    def reached(self, positions: Positions) -> None:
        """Everything before ``positions`` is processed. Does not wait for the commit."""
        LoopThread.shared().run(self._reached(positions))

    def settle(self) -> None:
        """Wait up to ``SETTLE_S`` for a commit in flight."""
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
                _LOG.warning("a commit is still in flight: group=%s", self._group)

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
        _LOG.warning(
            "could not commit progress (the query is not affected): group=%s error=%s",
            self._group,
            why,
        )

    async def _commit_topic(
        self, client: Client, resource: str, offsets: Mapping[int, int]
    ) -> None:
        """Raises: TalosError: some partitions were not committed."""
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
            shown = ", ".join(map(str, others))
            raise LeaseNotHeld(f"other workers of the group hold the leases of {shown}")
