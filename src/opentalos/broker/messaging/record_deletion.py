"""RecordDeletion: deletes the beginning of a partition, as an administrator's change of a topic."""

from opentalos.broker.audit.trail import audited
from opentalos.broker.context import BrokerContext
from opentalos.log.manifest.deletion import delete_before
from opentalos.model.errors import PartitionNotExist
from opentalos.model.identity import Permission, Principal


class RecordDeletion:
    """Served by the server of the partition."""

    def __init__(self, context: BrokerContext) -> None:
        self._context, self._audit = context, context.audit

    @audited("delete messages", "resource", "partition", "offset")
    async def delete(self, caller: Principal, resource: str, partition: int, offset: int) -> int:
        """Delete all messages below an offset; -1: all there are. The first offset that is left.

        Raises: TopicNotExist, PermissionDenied, PartitionNotExist, OffsetOutOfRange, NotOwner.
        """
        topic = self._context.topic(caller, Permission.CHANGE_TOPIC, resource)
        if not 0 <= partition < topic.consumer_partitions:
            raise PartitionNotExist(f"topic {topic.name} has no partition {partition}")
        log = self._context.partition_log(topic, partition)
        await self._context.changes.admit(caller)
        return await delete_before(log, offset)
