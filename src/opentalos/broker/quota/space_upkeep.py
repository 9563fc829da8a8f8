"""SpaceUpkeep: background task that corrects storage accounts by what the logs store."""

import asyncio
import logging

from opentalos.broker.context import BrokerContext
from opentalos.broker.peer_rpc.remote_logs import Question, RemoteLogs, Wanted
from opentalos.catalog.topics.topic import Topic
from opentalos.model.errors import TalosError

_LOG = logging.getLogger("opentalos.topics")
PASS_INTERVAL_S = 1.0
READ_S = 1.0  # a log that takes longer to answer is measured in a later pass
CHANGED_PARTITIONS_MAX = 200  # of topics that are put to, per pass
# Of the others, whose logs a read may open: a server that starts after a crash must not recover
# them all at once. What they store counts against their owner's quota only after that.
IDLE_PARTITIONS_MAX = 8
_STORED = Question(Wanted.AMOUNTS, proven=True)


class SpaceUpkeep:
    """One loop per server: topics that are put to first, the others in turn.

    Every server keeps accounts of all topics: it measures the partitions it serves and asks the
    others for theirs, so a quota holds for the whole topic at each of them. Puts at other servers
    count here from the next pass on; a topic keeps its figure while one of its partitions does not
    answer.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._logs = RemoteLogs(context)
        self._task: asyncio.Task[None] | None = None
        self._next_idle = 0

    def start(self) -> None:
        """Start the loop."""
        self._task = asyncio.create_task(self._run(), name="space upkeep")

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def run_once(self) -> None:
        """One pass."""
        topics = self._context.topics
        left = CHANGED_PARTITIONS_MAX
        for resource in self._context.spaces.changed():
            topic = topics.by_resource(resource)
            if topic is not None and left > 0:
                left -= topic.partitions_ever
                await self._measure(topic)
        left = IDLE_PARTITIONS_MAX
        waiting = list(topics.all())[self._next_idle :]
        if not waiting:
            self._next_idle = 0
        for topic in waiting:
            if left <= 0:
                break
            left -= topic.partitions_ever
            self._next_idle += 1
            await self._measure(topic)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PASS_INTERVAL_S)
            try:
                await self.run_once()
            except Exception:
                # Without this loop accounts would never be corrected.
                _LOG.exception("space upkeep failed, next attempt in %.0f s", PASS_INTERVAL_S)

    async def _measure(self, topic: Topic) -> None:
        try:
            async with asyncio.timeout(READ_S):
                await self._measure_partitions(topic)
        except (TalosError, TimeoutError) as error:
            _LOG.debug("could not measure the storage of topic %s: %r", topic.resource, error)

    async def _measure_partitions(self, topic: Topic) -> None:
        spaces, used_bytes = self._context.spaces, 0
        charged_before = spaces.used(topic)
        partitions = range(topic.partitions_ever)
        for found in await self._logs.read(topic, partitions, _STORED):
            if isinstance(found, TalosError):
                raise found
            used_bytes += found.stats.retained_bytes if found.stats else 0
        if self._context.topics.by_resource(topic.resource) is None:
            return  # deleted meanwhile: its account is closed and must not come back
        # Puts that came meanwhile may not be in the figure; the next pass is exact about them.
        spaces.set_used(topic, used_bytes + max(0, spaces.used(topic) - charged_before))
