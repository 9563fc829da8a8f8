"""TopicReader: descriptions of topics from catalog, logs and quotas."""

import asyncio
from collections.abc import Sequence
from operator import attrgetter

from opentalos.broker.context import BrokerContext
from opentalos.broker.peer_rpc.remote_logs import PartitionFacts, Question, RemoteLogs, Wanted
from opentalos.broker.values import PartitionState, QuotaUse, Topic, TopicDescription
from opentalos.catalog.access.authorize import permissions_of
from opentalos.catalog.access.grants import grants_seen
from opentalos.catalog.quota.quotas import topic_rates
from opentalos.log.results import PartitionStats
from opentalos.model.errors import TalosError
from opentalos.model.identity import Permission, Principal

DESCRIBED_AT_ONCE = 64  # topics
LIST_PARTITIONS_MAX = 1_000  # above it a list of descriptions has no partition states


class TopicReader:
    """Joins catalog and log. It does not authorise: its callers have."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._logs = RemoteLogs(context)

    def owned_by(self, caller: Principal) -> Sequence[Topic]:
        """Topics of the caller and of its organisation, by name."""
        if caller.anonymous:
            return []
        topics = self._context.topics
        owned = list(topics.owned_by(caller.owner_id))
        if caller.id != caller.owner_id:
            owned += topics.owned_by(caller.id)
        if caller.role or caller.limits is not None:
            bits = int(Permission.DESCRIBE_TOPIC)
            owned = [topic for topic in owned if permissions_of(caller, topic) & bits]
        return sorted(owned, key=attrgetter("name", "owner"))

    async def describe(
        self, caller: Principal, topic: Topic, partitions: range | None = None
    ) -> TopicDescription:
        """The full description; a partition whose state cannot be read now is left out.

        Args: partitions: those whose states are read; None: all.
        """
        if partitions is None:
            partitions = range(topic.consumer_partitions)
        found = await self._logs.read(topic, partitions, Question(Wanted.STATE))
        known = [
            (partition, facts)
            for partition, facts in zip(partitions, found, strict=True)
            if not isinstance(facts, TalosError)
        ]
        states = await self._context.work.each(caller.id, known, lambda item: _state(*item))
        return self._description(caller, topic, states)

    async def describe_all(
        self, caller: Principal, topics: Sequence[Topic]
    ) -> Sequence[TopicDescription]:
        """Descriptions of many topics; partition states only if they are not too many."""
        if sum([topic.consumer_partitions for topic in topics]) > LIST_PARTITIONS_MAX:
            return await self._context.work.each(
                caller.id,
                topics,
                lambda topic: self._description(caller, topic, []),
                weight=lambda topic: 10 + len(topic.acl),
            )
        found: list[TopicDescription] = []
        for start in range(0, len(topics), DESCRIBED_AT_ONCE):
            part = topics[start : start + DESCRIBED_AT_ONCE]
            found += await asyncio.gather(*(self.describe(caller, topic) for topic in part))
        return found

    def _description(
        self, caller: Principal, topic: Topic, states: list[PartitionState]
    ) -> TopicDescription:
        rates = topic_rates(self._context.config.quota, topic.quota)
        use = QuotaUse(rates, self._context.spaces.used(topic))
        return TopicDescription(topic, tuple(states), use, grants_seen(caller, topic))


def _state(partition: int, facts: PartitionFacts) -> PartitionState:
    stats = facts.stats or PartitionStats(0, 0, 0, 0)
    return PartitionState(
        partition,
        facts.offsets.start,
        facts.offsets.end,
        stats.retained_messages,
        stats.retained_bytes,
        stats.total_messages,
        stats.total_bytes,
    )
