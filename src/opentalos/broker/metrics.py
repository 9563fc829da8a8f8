"""Metric use cases: how far consumer groups are."""

from collections.abc import Mapping, Sequence

from opentalos.broker.context import BrokerContext
from opentalos.broker.topic_state import TopicReader
from opentalos.broker.values import PartitionConsumeUnit, Topic, TopicDescription
from opentalos.catalog.authorize import permissions_of
from opentalos.group.coordinator import Coordinator, Progress
from opentalos.group.directory import GroupUser
from opentalos.group.row_format import NO_CHECKPOINT, GroupKey
from opentalos.model.errors import ConsumerGroupNotExist
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import OffsetRange
from opentalos.model.names import check_name

_NOBODY = Progress("", "", NO_CHECKPOINT)


class MetricService:
    """Source: metric.thrift; getDataPreview is in MessageService.

    A topic's owner sees every consumer group of it, other callers those of their own tenant.
    """

    def __init__(self, context: BrokerContext, groups: Coordinator, reader: TopicReader) -> None:
        self._context, self._groups, self._reader = context, groups, reader

    async def list_topics_info(self, caller: Principal) -> Sequence[TopicDescription]:
        """Descriptions of the caller's topics (listTopicsInfo and MetricService.listTopics)."""
        return await self._reader.describe_all(self._reader.owned_by(caller))

    async def consumer_groups(self, caller: Principal, resource: str) -> Sequence[str]:
        """Consumer groups of a topic that the caller may know of, sorted."""
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource)
        return await self._visible(caller, topic)

    async def consume_unit(
        self, caller: Principal, group: str, resource: str
    ) -> Sequence[PartitionConsumeUnit]:
        """Progress of one group, one entry per partition.

        Raises: ConsumerGroupNotExist: unknown, or another tenant's: both answer alike.
        """
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource)
        if check_name(group, "consumer group") not in await self._visible(caller, topic):
            raise ConsumerGroupNotExist(f"no consumer group {group}")
        return await self._units(topic, group, await self._ranges(topic))

    async def consume_units(
        self, caller: Principal, resource: str
    ) -> Mapping[str, Sequence[PartitionConsumeUnit]]:
        """Progress of every group of the topic that the caller may know of."""
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource)
        visible = await self._visible(caller, topic)
        ranges = await self._ranges(topic) if visible else []
        return {group: await self._units(topic, group, ranges) for group in visible}

    async def _visible(self, caller: Principal, topic: Topic) -> Sequence[str]:
        groups = await self._groups.directory.groups(topic.uuid)
        if permissions_of(caller, topic) & Permission.CHANGE_TOPIC:
            return list(groups)
        return [name for name, tenant in groups.items() if tenant == caller.owner_id]

    async def _ranges(self, topic: Topic) -> Sequence[OffsetRange]:
        return [
            await self._context.partition_log(topic, partition).offsets()
            for partition in range(topic.consumer_partitions)
        ]

    async def _units(
        self, topic: Topic, group: str, ranges: Sequence[OffsetRange]
    ) -> Sequence[PartitionConsumeUnit]:
        # The caller may see the group, whoever its tenant is.
        user = GroupUser(GroupKey(topic.uuid, group), tenant="", admin=True)
        progress = await self._groups.progress(user)
        units: list[PartitionConsumeUnit] = []
        for partition, offsets in enumerate(ranges):
            _, address, checkpoint = progress.get(partition, _NOBODY)
            lag = max(0, offsets.next - max(checkpoint + 1, offsets.start))
            units.append(PartitionConsumeUnit(partition, address, checkpoint, lag))
        return units
