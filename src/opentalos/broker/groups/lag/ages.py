"""LagAges: for how long the oldest message that a group has not processed has waited."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.messaging.messages import GetQuery
from opentalos.broker.messaging.reading.peer_reads import RemoteMessages
from opentalos.catalog.topics.topic import Topic
from opentalos.group.lag import LagSummary
from opentalos.model.errors import NotOwner, TalosError
from opentalos.model.message import StoredBlock

KNOWN_MAX: Final = 20_000  # append times that are remembered
READS_AT_ONCE: Final = 8  # of all callers together
READ_S: Final = 1.0  # for all groups of one call
_MS: Final = 1_000


class _Place(NamedTuple):
    topic_uuid: str
    partition: int
    offset: int


class LagAges:
    """Reads one block of the partitions that a summary names: those with the greatest lag.

    When a message was appended never changes, so it is remembered: a group that stands still costs
    no further read.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._remote = RemoteMessages(context)
        self._known: OrderedDict[_Place, int] = OrderedDict()
        self._room = asyncio.Semaphore(READS_AT_ONCE)

    async def of(
        self, topic: Topic, groups: Mapping[str, LagSummary]
    ) -> Mapping[str, float | None]:
        """Seconds by group; 0.0: nothing waits; None: it cannot be read now.

        The caller has authorised, and learns no more of the messages than when they came.
        """
        wanted = {
            _Place(topic.uuid, unread.partition, unread.offset)
            for summary in groups.values()
            for unread in summary.largest
        }
        await self._learn(topic, sorted(wanted - self._known.keys()))
        return {group: self._age_s(topic, summary) for group, summary in groups.items()}

    def _age_s(self, topic: Topic, summary: LagSummary) -> float | None:
        if summary.damaged:
            return None
        if not summary.largest:
            return 0.0
        times = [
            time
            for _, partition, offset in summary.largest
            if (time := self._known.get(_Place(topic.uuid, partition, offset))) is not None
        ]
        if len(times) < len(summary.largest):
            return None
        return max(0, self._context.clock.wall_ms() - min(times)) / _MS

    async def _learn(self, topic: Topic, places: list[_Place]) -> None:
        tasks = [asyncio.ensure_future(self._read(topic, place)) for place in places]
        if not tasks:
            return
        try:
            done, _ = await asyncio.wait(tasks, timeout=READ_S)
        finally:
            for task in tasks:
                task.cancel()
        for task in done:
            task.result()  # an unexpected error is the caller's

    async def _read(self, topic: Topic, place: _Place) -> None:
        """What cannot be read now stays unknown."""
        try:
            async with self._room:
                blocks = await self._blocks(topic, place)
        except TalosError:
            return
        if not blocks:
            return
        if len(self._known) >= KNOWN_MAX:
            self._known.popitem(last=False)
        self._known[place] = blocks[0].append_ms

    async def _blocks(self, topic: Topic, place: _Place) -> list[StoredBlock]:
        try:
            log = self._context.partition_log(topic, place.partition)
        except NotOwner as error:
            if not error.address:
                raise
            query = GetQuery(topic.resource, place.partition, place.offset, 1, 1)
            return list((await self._remote.read(error.address, query))[0])
        cached = log.read_cached(place.offset, messages_max=1, bytes_max=1)
        read = cached or await log.read(place.offset, messages_max=1, bytes_max=1)
        return read.blocks
