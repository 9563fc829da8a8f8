"""MetricService: progress and lag of consumer groups."""

from collections.abc import Mapping, Sequence

from opentalos.broker.admin.topic_state import TopicReader
from opentalos.broker.context import BrokerContext
from opentalos.broker.groups.group_names import plain_name, shown_name, visible_groups
from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.broker.peer_rpc.remote_logs import RemoteLogs
from opentalos.broker.values import PartitionConsumeUnit, Topic, TopicDescription
from opentalos.group.coordinator import Coordinator
from opentalos.group.directory import GroupUser
from opentalos.group.progress import Progress
from opentalos.group.row_format import NO_CHECKPOINT
from opentalos.model.errors import DAMAGE, ConsumerGroupNotExist, PartitionNotServing, TalosError
from opentalos.model.identity import Permission, Principal
from opentalos.model.message import OffsetRange
from opentalos.model.names import check_group_name

_NOBODY = Progress("", "", NO_CHECKPOINT)


class MetricService:
    """Source: idl/metric.thrift; getDataPreview is in MessageService.

    A topic's owner sees every consumer group of it, those of other tenants as TENANT/name; other
    callers see those of their own tenant.
    Calls over all groups are answered by any server from what the rows tell; only a group's
    coordinator knows whether a worker in them is still alive.
    """

    def __init__(self, context: BrokerContext, groups: Coordinator, reader: TopicReader) -> None:
        self._context, self._groups, self._reader = context, groups, reader
        self._logs = RemoteLogs(context)

    async def list_topics_info(self, caller: Principal) -> Sequence[TopicDescription]:
        """Descriptions of the caller's topics (listTopicsInfo and MetricService.listTopics)."""
        return await self._reader.describe_all(caller, self._reader.owned_by(caller))

    async def consumer_groups(self, caller: Principal, resource: str) -> Sequence[str]:
        """Consumer groups of a topic that the caller may know of, sorted."""
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource)
        return list(await self._visible(caller, topic))

    async def consume_unit(
        self, caller: Principal, group: str, resource: str
    ) -> Sequence[PartitionConsumeUnit]:
        """Progress of one group, one entry per partition.

        Raises: ConsumerGroupNotExist: unknown, or another tenant's: both answer alike.
        """
        name = plain_name(group)
        self._context.ownership.check_group(name)
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource)
        check_group_name(name)
        visible = await self._visible(caller, topic)
        user = visible.get(shown_name(caller, topic, group))
        if user is None:
            raise ConsumerGroupNotExist(f"no consumer group {name}")
        return await self._units(user, await self._ranges(topic))

    async def consume_units(
        self, caller: Principal, resource: str
    ) -> Mapping[str, Sequence[PartitionConsumeUnit]]:
        """Progress of every group of the topic that the caller may know of."""
        topic = self._context.topic(caller, Permission.DESCRIBE_TOPIC, resource)
        visible = await self._visible(caller, topic)
        ranges = await self._ranges(topic) if visible else []
        return {group: await self._units(user, ranges) for group, user in visible.items()}

    async def topics_with_groups(self) -> frozenset[str] | None:
        """UUIDs of topics that may have groups, by few reads for all; None: not known so."""
        try:
            return await self._groups.rows.topics()
        except TalosError:
            return None

    async def _visible(self, caller: Principal, topic: Topic) -> Mapping[str, GroupUser]:
        return visible_groups(caller, topic, await self._groups.rows.groups(topic.uuid))

    async def _ranges(self, topic: Topic) -> Sequence[OffsetRange | None]:
        """By partition; None: it is damaged, so its end is not known. Raises: Unavailable."""
        ranges: list[OffsetRange | None] = []
        read = await self._logs.read(topic, range(topic.consumer_partitions))
        for partition, found in enumerate(read):
            if partition % SHORT_ITEMS == SHORT_ITEMS - 1:
                await self._context.work.pause()
            if isinstance(found, DAMAGE):
                ranges.append(None)
            elif isinstance(found, TalosError):
                raise found
            else:
                ranges.append(found.offsets)
        return ranges

    async def _units(
        self, user: GroupUser, ranges: Sequence[OffsetRange | None]
    ) -> Sequence[PartitionConsumeUnit]:
        progress = await self._progress(user)
        units: list[PartitionConsumeUnit] = []
        for partition, offsets in enumerate(ranges):
            if partition % SHORT_ITEMS == SHORT_ITEMS - 1:
                await self._context.work.pause()
            worker, address, checkpoint = progress.get(partition, _NOBODY)
            lag = None if offsets is None else offsets.lag(checkpoint)
            units.append(PartitionConsumeUnit(partition, address, checkpoint, lag, worker))
        return units

    async def _progress(self, user: GroupUser) -> Mapping[int, Progress]:
        try:
            self._context.ownership.check_group(user.key.name)
        except PartitionNotServing:  # another server coordinates the group
            return await self._groups.progress.of_rows(user)
        return await self._groups.progress.of_group(user)
