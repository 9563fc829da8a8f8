"""What a topic's logs and quotas say about it, for callers that may see it."""

from collections.abc import Sequence

from opentalos.broker.context import BrokerContext
from opentalos.broker.values import PartitionState, QuotaUse, Topic, TopicDescription
from opentalos.catalog.grants import grants_of
from opentalos.catalog.quotas import topic_rates
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal

LIST_PARTITIONS_MAX = 1_000  # above it a list of descriptions has no partition states


class TopicReader:
    """Joins catalog and log. It does not authorise: its callers have."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def owned_by(self, caller: Principal) -> Sequence[Topic]:
        """Topics of the caller and of its organisation, by name."""
        if caller.anonymous:
            return []
        topics = self._context.topics
        owned = list(topics.owned_by(caller.owner_id))
        if caller.id != caller.owner_id:
            owned += topics.owned_by(caller.id)
        return sorted(owned, key=lambda topic: (topic.name, topic.owner))

    async def describe(self, topic: Topic) -> TopicDescription:
        """Everything; a partition that cannot tell its state now is left out."""
        states: list[PartitionState] = []
        for partition in range(topic.consumer_partitions):
            try:
                states.append(await self._state(topic, partition))
            except TalosError:
                continue
        return self._description(topic, states)

    async def describe_all(self, topics: Sequence[Topic]) -> Sequence[TopicDescription]:
        """Everything about many topics; partition states only if they are not too many."""
        if sum(topic.consumer_partitions for topic in topics) > LIST_PARTITIONS_MAX:
            return [self._description(topic, []) for topic in topics]
        return [await self.describe(topic) for topic in topics]

    async def _state(self, topic: Topic, partition: int) -> PartitionState:
        log = self._context.partition_log(topic, partition)
        offsets, stats = await log.offsets(), await log.stats()
        return PartitionState(
            partition,
            offsets.start,
            offsets.end,
            stats.retained_messages,
            stats.retained_bytes,
            stats.total_messages,
            stats.total_bytes,
        )

    def _description(self, topic: Topic, states: list[PartitionState]) -> TopicDescription:
        rates = topic_rates(self._context.config.quota, topic.quota)
        use = QuotaUse(rates, self._context.spaces.used(topic))
        return TopicDescription(topic, tuple(states), use, grants_of(topic))
