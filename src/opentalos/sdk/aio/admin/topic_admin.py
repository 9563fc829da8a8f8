"""Administration of topics and their attributes."""

from collections.abc import Mapping

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
    """Topics and their attributes. A topic is given by its name or by what ``create`` returned."""

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
        """Make a topic; what is left out is the server's default.

        Args:    name: ``name`` or ``organisation/name``; permissions: by grantee.
        Raises:  TopicExists, InvalidName, InvalidTopicParams, QuotaExceeded: not done.
                 OutcomeUnknown: describe tells whether it was made.
        """
        grants = permissions or {}
        request = topic.CreateTopicRequest(
            topicName=name,
            topicAttribute=structs.attribute(partitions, retention_s, attributes),
            topicQuota=None if quota is None else structs.quota_struct(quota),
            aclMap={structs.grantee(who): int(bits) for who, bits in grants.items()} or None,
        )
        await self._client.call(TOPIC_SERVICE, "createTopic", request)
        return await self._client.topic(name, refresh=True)

    async def describe(self, name: str) -> TopicDescription:
        """Everything about a topic. Raises: TopicNotExist, PermissionDenied."""
        request = topic.DescribeTopicRequest(topicName=name)
        found = await self._client.call(TOPIC_SERVICE, "describeTopic", request)
        return structs.description_of(found)

    async def list(self) -> tuple[TopicInfo, ...]:
        """Topics that the caller or its organisation owns, by name."""
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
        """Change what is given; ``attributes`` are added to those there are.

        Raises: InvalidTopicParams, ChangePartitionTooFast, PermissionDenied: not done.
        """
        ref = await find(self._client, name)
        request = topic.ChangeTopicAttributeRequest(
            topicTalosResourceName=structs.resource(ref),
            topicAttribute=structs.attribute(partitions, retention_s, attributes),
        )
        await self._client.call(TOPIC_SERVICE, "changeTopicAttribute", request)

    async def delete_attribute(self, name: str | TopicRef, key: str) -> None:
        """Remove one attribute."""
        ref = await find(self._client, name)
        request = topic.DeleteTopicAttributeRequest(
            topicTalosResourceName=structs.resource(ref), topicAttributeKey=key
        )
        await self._client.call(TOPIC_SERVICE, "deleteTopicAttribute", request)

    async def set_owner(self, name: str | TopicRef, owner_name: str, charge_id: str = "") -> None:
        """Say who is responsible for a topic, and whom it is charged to."""
        ref = await find(self._client, name)
        request = topic.ChangeTopicOwnerInfoRequest(
            topicTalosResourceName=structs.resource(ref),
            ownerInfo=topic.TopicOwnerInfo(chargeId=charge_id, ownerName=owner_name),
        )
        await self._client.call(TOPIC_SERVICE, "changeTopicOwnerInfo", request)

    async def delete(self, name: str | TopicRef) -> None:
        """Delete a topic with all its messages. Given a TopicRef, no topic that was made anew
        under its name is deleted."""
        ref = await find(self._client, name)
        request = topic.DeleteTopicRequest(topicTalosResourceName=structs.resource(ref))
        await self._client.call(TOPIC_SERVICE, "deleteTopic", request)


async def find(client: Client, name: str | TopicRef) -> TopicRef:
    """The topic of a name, asked for anew: another one may have its name now."""
    return name if isinstance(name, TopicRef) else await client.topic(name, refresh=True)
