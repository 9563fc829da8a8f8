"""OverviewService: lists, amounts, rates and lags of the topics that a caller may see."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from opentalos.broker.admin.topic_state import TopicReader
from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.metrics import MetricService
from opentalos.broker.values import Topic, TopicDescription
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.topics.topics import of_tenants, topic_by_uuid
from opentalos.model.errors import TalosError
from opentalos.model.identity import Permission, Principal

TOPICS_MAX = 200  # with amounts and lags in one overview
LAGS_AT_ONCE = 16  # topics whose groups are read together
SAMPLES_MAX = 10_000  # topics whose amounts are remembered
SAMPLE_S_MIN = 1.0  # shortest time of a rate
RATE_S = 60.0  # and at most, if it was requested often enough


class _Sample(NamedTuple):
    at_s: float
    messages: int  # ever
    bytes_count: int  # ever


class Rate(NamedTuple):
    """What was appended per second, over about the last minute."""

    messages_per_s: float
    bytes_per_s: float


class TopicOverview(NamedTuple):
    """A topic with its amounts. ``rate``: None at the first request; ``lags``: messages by
    group, None if they cannot be read now."""

    description: TopicDescription
    rate: Rate | None
    lags: dict[str, int] | None


class OverviewService:
    """Combines the results of other use cases."""

    def __init__(self, context: BrokerContext, reader: TopicReader, metrics: MetricService) -> None:
        self._context, self._reader, self._metrics = context, reader, metrics
        self._samples: dict[str, deque[_Sample]] = {}  # of the last minute, oldest first

    def visible_topics(self, caller: Principal) -> Sequence[Topic]:
        """Every topic that the caller may describe, by name."""
        bits = int(Permission.DESCRIBE_TOPIC)
        found = [
            topic
            for topic in of_tenants(self._context.topics.all())
            if permissions_of(caller, topic) & bits
        ]
        return sorted(found, key=lambda topic: (topic.name, topic.owner))

    def usable_topics(self, caller: Principal) -> Sequence[Topic]:
        """Every topic on which the caller has any permission, by name."""
        topics = of_tenants(self._context.topics.all())
        found = [topic for topic in topics if permissions_of(caller, topic)]
        return sorted(found, key=lambda topic: (topic.name, topic.owner))

    def permissions(self, caller: Principal, topic: Topic) -> Permission:
        """What the caller may do with a topic."""
        return Permission(permissions_of(caller, topic))

    def usable_topic_of_uuid(self, caller: Principal, uuid: str) -> Topic:
        """Like ``usable_topic``. Raises: TopicNotExist."""
        topic = topic_by_uuid(self._context.topics, uuid)
        if topic is not None and permissions_of(caller, topic):
            return topic
        return self._context.topic_of_uuid(caller, Permission.DESCRIBE_TOPIC, uuid)

    def usable_topic(self, caller: Principal, name: str) -> Topic:
        """The topic of a name, if the caller has any permission on it: who may write or read needs
        to know where. Raises: TopicNotExist, InvalidName."""
        topic = self._context.topics.find(caller, name)
        if permissions_of(caller, topic):
            return topic
        return self._context.find_topic(caller, Permission.DESCRIBE_TOPIC, name)  # it is denied

    async def overview(self, caller: Principal) -> tuple[Sequence[TopicOverview], int]:
        """The first topics that the caller may see, and how many more there are."""
        topics = self.visible_topics(caller)
        described = await self._reader.describe_all(caller, topics[:TOPICS_MAX])
        lags = await self.lags(caller, [found.topic for found in described])
        now_s = asyncio.get_running_loop().time()
        found = [
            TopicOverview(topic, self._rate(topic, now_s), of_topic)
            for topic, of_topic in zip(described, lags, strict=True)
        ]
        return found, max(0, len(topics) - TOPICS_MAX)

    async def lags(
        self, caller: Principal, topics: Sequence[Topic]
    ) -> Sequence[dict[str, int] | None]:
        """Lag in messages of each topic's groups that the caller may know of, by group.

        Returns: one entry per topic, in order; None: its groups cannot be read now.
        """
        grouped = None
        if len(topics) > LAGS_AT_ONCE:  # most have no groups: do not ask for each
            grouped = await self._metrics.topics_with_groups()
        asked = [topic for topic in topics if grouped is None or topic.uuid in grouped]
        found: dict[str, dict[str, int] | None] = {}
        for start in range(0, len(asked), LAGS_AT_ONCE):
            part = asked[start : start + LAGS_AT_ONCE]
            lags = await asyncio.gather(*(self._lags(caller, topic) for topic in part))
            found.update(zip((topic.uuid for topic in part), lags, strict=True))
        return [found.get(topic.uuid, {}) for topic in topics]

    async def _lags(self, caller: Principal, topic: Topic) -> dict[str, int] | None:
        try:
            units = await self._metrics.consume_units(caller, topic.resource)
        except TalosError:
            return None
        return {group: sum(unit.lag for unit in found) for group, found in units.items()}

    def _rate(self, described: TopicDescription, now_s: float) -> Rate | None:
        latest = _Sample(
            now_s,
            sum(state.total_messages for state in described.partitions),
            sum(state.total_bytes for state in described.partitions),
        )
        uuid = described.topic.uuid
        samples = self._samples.get(uuid)
        if samples is None:
            if len(self._samples) >= SAMPLES_MAX:
                self._samples.clear()
            self._samples[uuid] = deque((latest,))
            return None
        while len(samples) > 1 and samples[1].at_s <= now_s - RATE_S:
            samples.popleft()
        older = samples[0]
        if now_s - samples[-1].at_s >= SAMPLE_S_MIN:
            samples.append(latest)
        passed_s = now_s - older.at_s
        if passed_s < SAMPLE_S_MIN or latest.messages < older.messages:
            return None
        return Rate(
            (latest.messages - older.messages) / passed_s,
            max(0, latest.bytes_count - older.bytes_count) / passed_s,
        )
