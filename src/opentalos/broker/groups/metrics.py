"""MetricService: progress and lag of consumer groups."""

from collections.abc import Mapping, Sequence

from opentalos.broker.admin.topic_state import TopicReader
from opentalos.broker.context import BrokerContext
from opentalos.broker.peer_rpc.remote_logs import RemoteLogs
from opentalos.broker.values import PartitionConsumeUnit, Topic, TopicDescription
from opentalos.catalog.access.authorize import permissions_of
from opentalos.group.coordinator import Coordinator
from opentalos.group.directory import GroupUser
from opentalos.group.progress import Progress
from opentalos.group.row_format import NO_CHECKPOINT, GroupKey
from opentalos.model.errors import ConsumerGroupNotExist, PartitionNotServing, TalosError
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import OffsetRange
from opentalos.model.names import check_name

_NOBODY = Progress("", "", NO_CHECKPOINT)


class MetricService:
    """Source: idl/metric.thrift; getDataPreview is in MessageService.

    A topic's owner sees every consumer group of it, other callers those of their own tenant.
    Calls over all groups are answered by any server from what the rows tell; only a group's
    coordinator knows whether a worker in them is still alive.
    """

    def __init__(self, context: BrokerContext, groups: Coordinator, reader: TopicReader) -> None:
        self._context, self._groups, self._reader = context, groups, reader
        self._logs = RemoteLogs(context)

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
        self._context.ownership.check_group(group)
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
        groups = await self._groups.rows.groups(topic.uuid)
        if permissions_of(caller, topic) & Permission.CHANGE_TOPIC:
            return list(groups)
        return [name for name, group in groups.items() if group.tenant == caller.owner_id]

    async def _ranges(self, topic: Topic) -> Sequence[OffsetRange]:
        ranges: list[OffsetRange] = []
        for found in await self._logs.read(topic, range(topic.consumer_partitions)):
            if isinstance(found, TalosError):
                raise found
            ranges.append(found.offsets)
        return ranges

    async def _units(
        self, topic: Topic, group: str, ranges: Sequence[OffsetRange]
    ) -> Sequence[PartitionConsumeUnit]:
        progress = await self._progress(GroupKey(topic.uuid, group))
        units: list[PartitionConsumeUnit] = []
        for partition, offsets in enumerate(ranges):
            worker, address, checkpoint = progress.get(partition, _NOBODY)
            lag = offsets.lag(checkpoint)
            units.append(PartitionConsumeUnit(partition, address, checkpoint, lag, worker))
        return units

    async def _progress(self, key: GroupKey) -> Mapping[int, Progress]:
        try:
            self._context.ownership.check_group(key.group)
        except PartitionNotServing:  # another server coordinates the group
            return await self._groups.progress.of_rows(key)
        # The caller may see the group of any tenant here.
        return await self._groups.progress.of_group(GroupUser(key, tenant="", admin=True))
