"""OverviewService: lists, amounts, rates and lags of the topics that a caller may see."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.lag.figures import LagFigures
from opentalos.broker.groups.metrics import MetricService
from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.broker.peer_rpc.remote_logs import Question, RemoteLogs, Wanted
from opentalos.broker.values import Topic
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.topics.topics import of_tenants, topic_by_uuid
from opentalos.group.lag import LagSummary
from opentalos.model.errors import DAMAGE, TalosError
from opentalos.model.identity import Permission, Principal

TOPICS_MAX = 200  # with amounts and lags in one overview
LAGS_AT_ONCE = 16  # topics whose groups are read together
STATES_MAX = 1_000  # partitions of one overview whose states are read
AGES_S = 3.0  # for all groups of one list
SAMPLES_MAX = 10_000  # topics whose amounts are remembered
SAMPLE_S_MIN = 1.0  # shortest time of a rate
RATE_S = 60.0  # and at most, if it was requested often enough


class Amounts(NamedTuple):
    """Of a whole topic. ``total_bytes``: None: not read, because it has many partitions.
    ``damaged``: of so many partitions the amounts are not known, and not included."""

    messages: int  # retained
    bytes_count: int  # retained
    total_messages: int  # ever
    total_bytes: int | None  # ever
    damaged: int = 0


class _Sample(NamedTuple):
    at_s: float
    amounts: Amounts


class Rate(NamedTuple):
    """What was appended per second, over about the last minute. Bytes: None: not known."""

    messages_per_s: float
    bytes_per_s: float | None


class TopicOverview(NamedTuple):
    """A topic with its amounts. ``rate``: None at the first request; ``lags``: messages by
    group, None if they cannot be read now; of one group None if a partition is damaged."""

    topic: Topic
    amounts: Amounts
    rate: Rate | None
    lags: Mapping[str, int | None] | None


async def visible_in_pieces(
    context: BrokerContext, caller: Principal, permission: Permission
) -> list[Topic]:
    """Topics on which the caller has a permission, by name; there may be very many others."""
    topics, bits = of_tenants(context.topics.all()), int(permission)
    found: list[Topic] = []
    for start in range(0, len(topics), SHORT_ITEMS):
        if start:
            await context.work.pause()
        found += [
            topic
            for topic in topics[start : start + SHORT_ITEMS]
            if permissions_of(caller, topic) & bits
        ]
    return sorted(found, key=attrgetter("name", "owner"))


class OverviewService:
    """Combines the results of other use cases."""

    def __init__(
        self, context: BrokerContext, metrics: MetricService, lag_figures: LagFigures
    ) -> None:
        self._context, self._metrics, self._lag_figures = context, metrics, lag_figures
        self._logs = RemoteLogs(context)
        self._samples: dict[str, deque[_Sample]] = {}  # of the last minute, oldest first

    async def listed_topics(self, caller: Principal) -> Sequence[Topic]:
        """Every topic that the caller may describe, by name."""
        return await visible_in_pieces(self._context, caller, Permission.DESCRIBE_TOPIC)

    async def usable_topics(self, caller: Principal) -> Sequence[Topic]:
        """Every topic on which the caller has any permission, by name."""
        return await visible_in_pieces(self._context, caller, Permission.ADMIN)

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
        topics = await self.listed_topics(caller)
        found = await self.overview_of(caller, topics[:TOPICS_MAX])
        return found, max(0, len(topics) - TOPICS_MAX)

    async def overview_of(
        self, caller: Principal, topics: Sequence[Topic]
    ) -> Sequence[TopicOverview]:
        """These of ``listed_topics``, in order."""
        amounts = await self._amounts(topics)
        lags = await self.lags(caller, topics)
        now_s = asyncio.get_running_loop().time()
        return [
            TopicOverview(
                topic,
                of_topic,
                self._rate(topic.uuid, of_topic, now_s),
                None if groups is None else _lags_of(groups),
            )
            for topic, of_topic, groups in zip(topics, amounts, lags, strict=True)
        ]

    async def lags(
        self, caller: Principal, topics: Sequence[Topic]
    ) -> Sequence[Mapping[str, LagSummary] | None]:
        """Lags of each topic's groups that the caller may know of, by group.

        Returns: one entry per topic, in order; None: its groups cannot be read now.
        """
        grouped = None
        if len(topics) > LAGS_AT_ONCE:  # most have no groups: do not ask for each
            grouped = await self._metrics.topics_with_groups()
        asked = [topic for topic in topics if grouped is None or topic.uuid in grouped]
        found: dict[str, Mapping[str, LagSummary] | None] = {}
        for start in range(0, len(asked), LAGS_AT_ONCE):
            part = asked[start : start + LAGS_AT_ONCE]
            lags = await asyncio.gather(*(self._lags(caller, topic) for topic in part))
            found.update(zip((topic.uuid for topic in part), lags, strict=True))
        return [found.get(topic.uuid, {}) for topic in topics]

    async def ages(
        self, topics: Sequence[Topic], lags: Sequence[Mapping[str, LagSummary] | None]
    ) -> Sequence[Mapping[str, float | None]]:
        """How long the oldest message has waited that a group has not processed, in seconds, of
        what ``lags`` found; None: it cannot be read in time."""
        found: list[Mapping[str, float | None]] = []
        ends_s = asyncio.get_running_loop().time() + AGES_S
        for topic, groups in zip(topics, lags, strict=True):
            if not groups or asyncio.get_running_loop().time() > ends_s:
                found.append({})
            else:
                found.append(await self._lag_figures.ages(topic, groups))
        return found

    async def _lags(self, caller: Principal, topic: Topic) -> Mapping[str, LagSummary] | None:
        try:
            return await self._lag_figures.of_topic(caller, topic)
        except TalosError:
            return None

    async def _amounts(self, topics: Sequence[Topic]) -> Sequence[Amounts]:
        """By the states of partitions, of the narrowest topics first; of those that have too many,
        by their logs' ends and what quotas count."""
        left = STATES_MAX
        exact: list[Topic] = []
        for topic in sorted(topics, key=lambda topic: topic.consumer_partitions):
            left -= topic.consumer_partitions
            if left < 0:
                break
            exact.append(topic)
        found = await asyncio.gather(*map(self._exact_amounts, exact))
        by_uuid = dict(zip((topic.uuid for topic in exact), found, strict=True))
        for topic in topics:
            if topic.uuid not in by_uuid:
                by_uuid[topic.uuid] = await self._wide_amounts(topic)
        return [by_uuid[topic.uuid] for topic in topics]

    async def _exact_amounts(self, topic: Topic) -> Amounts:
        partitions = range(topic.consumer_partitions)
        read = await self._logs.read(topic, partitions, Question(Wanted.AMOUNTS))
        stats = [fact.stats for fact in read if not isinstance(fact, TalosError)]
        known = [each for each in stats if each is not None]
        return Amounts(
            sum(each.retained_messages for each in known),
            sum(each.retained_bytes for each in known),
            sum(each.total_messages for each in known),
            sum(each.total_bytes for each in known),
            sum(isinstance(fact, DAMAGE) for fact in read),
        )

    async def _wide_amounts(self, topic: Topic) -> Amounts:
        ends = await self._lag_figures.ends.read(topic)
        total, used_bytes = sum(ends.nexts), self._context.spaces.used(topic)
        return Amounts(total - sum(ends.starts), used_bytes, total, None, len(ends.damaged))

    def _rate(self, uuid: str, amounts: Amounts, now_s: float) -> Rate | None:
        latest = _Sample(now_s, amounts)
        samples = self._samples.get(uuid)
        if samples is None:
            if len(self._samples) >= SAMPLES_MAX:
                self._samples.clear()
            self._samples[uuid] = deque((latest,))
            return None
        while len(samples) > 1 and samples[1].at_s <= now_s - RATE_S:
            samples.popleft()
        older, passed_s = samples[0].amounts, now_s - samples[0].at_s
        if now_s - samples[-1].at_s >= SAMPLE_S_MIN:
            samples.append(latest)
        if passed_s < SAMPLE_S_MIN or amounts.total_messages < older.total_messages:
            return None
        bytes_per_s = None
        if amounts.total_bytes is not None and older.total_bytes is not None:
            bytes_per_s = max(0, amounts.total_bytes - older.total_bytes) / passed_s
        return Rate((amounts.total_messages - older.total_messages) / passed_s, bytes_per_s)


def _lags_of(groups: Mapping[str, LagSummary]) -> Mapping[str, int | None]:
    return {name: None if group.damaged else group.lag for name, group in groups.items()}
