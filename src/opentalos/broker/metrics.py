"""Metric use cases: how far consumer groups are."""

from collections.abc import Mapping, Sequence

from opentalos.broker.values import PartitionConsumeUnit, TopicDescription
from opentalos.model.identity import Principal


class MetricService:
    """Source: metric.thrift; getDataPreview is in MessageService."""

    async def list_topics_info(self, caller: Principal) -> Sequence[TopicDescription]:
        """Descriptions of the caller's topics (listTopicsInfo and MetricService.listTopics)."""
        raise NotImplementedError

    async def consumer_groups(self, caller: Principal, resource: str) -> Sequence[str]:
        """Consumer groups of a topic that the caller may know of, sorted."""
        raise NotImplementedError

    async def consume_unit(
        self, caller: Principal, group: str, resource: str
    ) -> Sequence[PartitionConsumeUnit]:
        """Progress of one group, one entry per partition."""
        raise NotImplementedError

    async def consume_units(
        self, caller: Principal, resource: str
    ) -> Mapping[str, Sequence[PartitionConsumeUnit]]:
        """Progress of every group of the topic that the caller may know of."""
        raise NotImplementedError
