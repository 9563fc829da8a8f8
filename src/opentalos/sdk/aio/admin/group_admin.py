"""Administration of consumer groups."""

from opentalos.sdk.aio.admin import structs
from opentalos.sdk.aio.admin.topic_admin import find
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.core.values import (
    PartitionLag,
    TopicRef,
)
from opentalos.wire._generated import consumer, metric
from opentalos.wire._generated.consumer import CONSUMER_SERVICE
from opentalos.wire._generated.metric import METRIC_SERVICE


class GroupAdmin:
    """Consumer groups of a topic."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, name: str | TopicRef) -> tuple[str, ...]:
        """List the names of the groups of a topic, sorted."""
        ref = await find(self._client, name)
        request = metric.QueryConsumerGroupRequest(topicTalosResourceName=structs.resource(ref))
        found = await self._client.call(METRIC_SERVICE, "queryConsumerGroup", request)
        return tuple(sorted(found.consumerGroupList))

    async def lag(self, name: str | TopicRef, group: str) -> tuple[PartitionLag, ...]:
        """The committed offset and lag of a group, by partition."""
        ref = await find(self._client, name)
        unit = metric.ConsumerGroupAndTopic(
            consumerGroupName=group, topicTalosResourceName=structs.resource(ref)
        )
        request = metric.GetTopicConsumeUnitRequest(consumerGroupAndTopic=unit)
        found = await self._client.call(METRIC_SERVICE, "getTopicConsumeUnit", request)
        return structs.lags_of(found.partitionConsumeUnitList)

    async def lags(self, name: str | TopicRef) -> dict[str, tuple[PartitionLag, ...]]:
        """The committed offset and lag of every group, by partition."""
        ref = await find(self._client, name)
        request = metric.QueryTopicConsumeUnitRequest(topicTalosResourceName=structs.resource(ref))
        found = await self._client.call(METRIC_SERVICE, "queryTopicConsumeUnit", request)
        return {group: structs.lags_of(units) for group, units in found.topicConsumeUnitMap.items()}

    async def workers(self, name: str | TopicRef, group: str) -> dict[str, tuple[int, ...]]:
        """The live workers of a group with their assigned partitions."""
        ref = await find(self._client, name)
        request = consumer.QueryWorkerRequest(
            consumerGroup=group, topicTalosResourceName=structs.resource(ref)
        )
        found = await self._client.call(CONSUMER_SERVICE, "queryWorker", request)
        return {worker: tuple(sorted(held)) for worker, held in found.workerMap.items()}

    async def delete(self, name: str | TopicRef, group: str) -> None:
        """Delete a group and its committed offsets.

        Raises: ConsumerGroupWorking: it has live workers; ConsumerGroupNotExist: not deleted.
        """
        ref = await find(self._client, name)
        request = consumer.DeleteConsumerGroupRequest(
            consumerGroup=group, topicTalosResourceName=structs.resource(ref)
        )
        await self._client.call(CONSUMER_SERVICE, "deleteConsumerGroup", request)
