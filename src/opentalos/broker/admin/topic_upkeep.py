"""TopicUpkeep: background task that completes deletions and ends shrinks."""

import asyncio
import logging

from opentalos.broker.context import BrokerContext
from opentalos.broker.peer_rpc.remote_logs import RemoteLogs
from opentalos.broker.quota.metering import Metering
from opentalos.catalog.topics.change import shrunk_topic
from opentalos.catalog.topics.topic import Topic
from opentalos.group.directory import GroupDirectory
from opentalos.model.errors import DAMAGE, TalosError

_LOG = logging.getLogger("opentalos.topics")
UPKEEP_INTERVAL_S = 1.0
REMOVE_WAIT_S = 2.0  # a caller waits so long for the deletion of logs; below its own timeout
REMOVALS_MAX = 8  # deletions under way at once in the background
READ_S = 1.0  # a log that takes longer to answer is read again in the next pass


class TopicUpkeep:
    """One loop per server; in a cluster only the leader's works.

    A deletion is a tombstone, then fences and files, then the record of the deletion, which
    outlives the topic's. The server that was asked for it completes it at once; a leader that does
    the same meanwhile is harmless.
    """

    def __init__(
        self, context: BrokerContext, groups: GroupDirectory, metering: Metering | None = None
    ) -> None:
        self._context, self._groups, self._metering = context, groups, metering
        self._logs = RemoteLogs(context)
        self.removing: dict[str, asyncio.Task[None]] = {}
        self._loop_task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop; deletions that a crash interrupted are completed first."""
        self._loop_task = asyncio.create_task(self._run(), name="topic upkeep")

    async def close(self) -> None:
        """Stop; the next start completes the rest."""
        tasks = [*self.removing.values()]
        if self._loop_task is not None:
            tasks.append(self._loop_task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def remove_soon(self, dead: Topic) -> None:
        """Complete a deletion; returns when it is done, failed, or after a bounded wait."""
        await asyncio.wait({self._remove_task(dead)}, timeout=REMOVE_WAIT_S)

    async def run_once(self) -> None:
        """One pass."""
        if not self._context.ownership.leads():
            return
        room = REMOVALS_MAX - len(self.removing)
        for dead in self._context.topics.tombstones()[: max(0, room)]:
            self._remove_task(dead)
        for topic in self._context.topics.shrinking():
            await self._try_end_shrink(topic)

    def _remove_task(self, dead: Topic) -> asyncio.Task[None]:
        task = self.removing.get(dead.uuid)
        if task is None:
            task = asyncio.create_task(self._remove(dead), name=f"delete topic {dead.uuid}")
            self.removing[dead.uuid] = task
        return task

    async def _remove(self, dead: Topic) -> None:
        try:
            if self._metering is not None:
                await self._metering.before_removal(dead)
            await self._context.log.delete_topic(dead.uuid, dead.partitions_ever)
            await self._groups.delete_topic(dead.uuid)
            await self._context.topics.remove(dead, self._context.clock.wall_ms())
            self._context.spaces.forget(dead)
        except TalosError as error:
            _LOG.warning(
                "could not complete the deletion of topic %s, will retry: %s", dead.resource, error
            )
        except Exception:
            _LOG.exception("the deletion of topic %s failed, will retry", dead.resource)
        finally:
            del self.removing[dead.uuid]

    async def _run(self) -> None:
        while True:
            try:
                await self.run_once()
            except TalosError as error:
                _LOG.warning("topic upkeep failed, will retry: %s", error)
            except Exception:
                # Without this loop no deletion or shrink would complete.
                _LOG.exception(
                    "topic upkeep failed unexpectedly, next attempt in %.0f s", UPKEEP_INTERVAL_S
                )
            await asyncio.sleep(UPKEEP_INTERVAL_S)

    async def _try_end_shrink(self, topic: Topic) -> None:
        try:
            async with asyncio.timeout(READ_S):  # a topic that hangs must not stop the others
                reason = await self._shrink_end_reason(topic)
            if reason:
                await self._context.topics.change(topic, shrunk_topic)
                _LOG.info("shrink of topic %s ended: %s", topic.resource, reason)
        except (TalosError, TimeoutError) as error:
            _LOG.warning(
                "could not check the shrink of topic %s, will retry: %r", topic.resource, error
            )

    async def _shrink_end_reason(self, topic: Topic) -> str:
        """Why the removed partitions may end for consumers now; empty: not yet."""
        # Partitions end for good, so a clock in doubt ends none: as if no time had passed.
        now_ms = self._context.log.time.retention_ms()
        since_s = 0.0 if now_ms is None else (now_ms - topic.partitions_changed_ms) / 1000
        if since_s >= topic.retention_s:
            return "retention passed"
        if since_s >= self._context.config.topic.shrink_force_s:
            return "forced"
        for partition in range(topic.partitions, topic.consumer_partitions):
            try:
                offsets = (await self._logs.facts(topic, partition)).offsets
            except DAMAGE:  # the alarm names the partition
                return ""
            if offsets.start == offsets.next:
                continue
            # Without any group no consumer has read the messages, so they stay until retention.
            if not await self._groups.rows.drained(topic.uuid, partition, offsets.next):
                return ""
        return "drained"
