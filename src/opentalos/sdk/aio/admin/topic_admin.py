"""Administration of topics and their attributes."""

from collections.abc import Mapping

from opentalos.model.settings.partitioning import with_partitioner
from opentalos.sdk.aio.admin import structs
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.core.values import (
    Grantee,
    Permission,
    Quota,
    TopicDescription,
    TopicInfo,
    TopicRef,
)
from opentalos.wire._generated import topic
from opentalos.wire._generated.topic import TOPIC_SERVICE


class TopicAdmin:
    """Topics and their attributes. Name a topic by its name, or by what ``create`` returned."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        retention_s: int | None = None,
        attributes: Mapping[str, str] | None = None,
        quota: Quota | None = None,
        permissions: Mapping[str | Grantee, Permission] | None = None,
    ) -> TopicRef:
        """Create a topic; omitted parameters take the server's defaults.

        Keys are spread evenly, as by Kafka (``partitioner=murmur2``). For a topic to which official
        SDKs write keys, set the attribute ``partitioner`` to ``official``.

        Args:    name: ``name`` or ``organisation/name``; permissions: by grantee.
        Raises:  TopicExists, InvalidName, InvalidTopicParams, QuotaExceeded: not created.
                 OutcomeUnknown: call ``describe`` to find out whether it was created.
        """
        grants = permissions or {}
        request = topic.CreateTopicRequest(
            topicName=name,
            topicAttribute=structs.attribute(
                partitions, retention_s, with_partitioner(attributes or {})
            ),
            topicQuota=None if quota is None else structs.quota_struct(quota),
            aclMap={structs.grantee(who): int(bits) for who, bits in grants.items()} or None,
        )
        await self._client.call(TOPIC_SERVICE, "createTopic", request)
        return await self._client.topic(name, refresh=True)

    async def describe(self, name: str) -> TopicDescription:
        """Describe a topic. Raises: TopicNotExist, PermissionDenied."""
        request = topic.DescribeTopicRequest(topicName=name)
        found = await self._client.call(TOPIC_SERVICE, "describeTopic", request)
        return structs.description_of(found)

    async def list(self) -> tuple[TopicInfo, ...]:
        """List the topics that the caller or its organisation owns, by name."""
        found = await self._client.call(TOPIC_SERVICE, "listTopics", None)
        return tuple(structs.info_of(info) for info in found.topicInfos)

    async def change(
        self,
        name: str | TopicRef,
        *,
        partitions: int | None = None,
        retention_s: int | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Change the given settings; ``attributes`` are merged into the existing ones.

        Raises: InvalidTopicParams, ChangePartitionTooFast, PermissionDenied: not changed.
        """
        ref = await find(self._client, name)
        request = topic.ChangeTopicAttributeRequest(
            topicTalosResourceName=structs.resource(ref),
            topicAttribute=structs.attribute(partitions, retention_s, attributes),
        )
        await self._client.call(TOPIC_SERVICE, "changeTopicAttribute", request)

    async def delete_attribute(self, name: str | TopicRef, key: str) -> None:
        """Remove an attribute."""
        ref = await find(self._client, name)
        request = topic.DeleteTopicAttributeRequest(
            topicTalosResourceName=structs.resource(ref), topicAttributeKey=key
        )
        await self._client.call(TOPIC_SERVICE, "deleteTopicAttribute", request)

    async def set_owner(self, name: str | TopicRef, owner_name: str, charge_id: str = "") -> None:
        """Set the person responsible for a topic, and the account it is charged to."""
        ref = await find(self._client, name)
        request = topic.ChangeTopicOwnerInfoRequest(
            topicTalosResourceName=structs.resource(ref),
            ownerInfo=topic.TopicOwnerInfo(chargeId=charge_id, ownerName=owner_name),
        )
        await self._client.call(TOPIC_SERVICE, "changeTopicOwnerInfo", request)

    async def delete(self, name: str | TopicRef) -> None:
        """Delete a topic with all its messages. Given a TopicRef, a topic that was recreated
        under the same name is not deleted."""
        ref = await find(self._client, name)
        request = topic.DeleteTopicRequest(topicTalosResourceName=structs.resource(ref))
        await self._client.call(TOPIC_SERVICE, "deleteTopic", request)


async def find(client: Client, name: str | TopicRef) -> TopicRef:
    """Look up a topic by name, bypassing the cache: it may have been recreated."""
    return name if isinstance(name, TopicRef) else await client.topic(name, refresh=True)
