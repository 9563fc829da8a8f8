"""Administration for asyncio: topics, permissions, quotas, consumer groups, offsets, previews."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self

from opentalos.sdk.aio.admin import structs
from opentalos.sdk.aio.connection.client import Client, attach
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.values import (
    Grantee,
    OffsetRange,
    PartitionLag,
    PartitionQuota,
    Permission,
    Quota,
    TopicDescription,
    TopicInfo,
    TopicRef,
    UserQuota,
    position_ms,
)
from opentalos.wire._generated import consumer, message, metric, quota, topic
from opentalos.wire._generated.consumer import CONSUMER_SERVICE
from opentalos.wire._generated.message import MESSAGE_SERVICE
from opentalos.wire._generated.metric import METRIC_SERVICE
from opentalos.wire._generated.quota import QUOTA_SERVICE
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
        return tuple(structs.info_of(one) for one in found.topicInfos)

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


class PermissionAdmin:
    """Who may do what with a topic. A grantee given as text is a developer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def grant(
        self, name: str | TopicRef, grantee: str | Grantee, permission: Permission
    ) -> None:
        """Let a grantee do exactly this; overwrites what it could do before."""
        ref = await find(self._client, name)
        request = topic.SetPermissionRequest(
            topicResourceName=structs.resource(ref),
            grant=structs.grantee(grantee),
            permission=int(permission),
        )
        await self._client.call(TOPIC_SERVICE, "setPermission", request)

    async def revoke(self, name: str | TopicRef, grantee: str | Grantee) -> None:
        """Take everything back from a grantee."""
        ref = await find(self._client, name)
        request = topic.RevokePermissionRequest(
            topicResourceName=structs.resource(ref), grant=structs.grantee(grantee)
        )
        await self._client.call(TOPIC_SERVICE, "revokePermission", request)

    async def list(self, name: str | TopicRef) -> dict[str, Permission]:
        """What each grantee may do."""
        ref = await find(self._client, name)
        request = topic.ListPermissionRequest(topicResourceName=structs.resource(ref))
        found = await self._client.call(TOPIC_SERVICE, "listPermission", request)
        return structs.permissions_of(found.permissions)

    async def get(self, name: str | TopicRef, grantee: str | Grantee) -> Permission:
        """What one grantee may do."""
        ref = await find(self._client, name)
        request = topic.GetPermissionRequest(
            topicResourceName=structs.resource(ref), grant=structs.grantee(grantee)
        )
        found = await self._client.call(TOPIC_SERVICE, "getPermission", request)
        return Permission(found.permission)


class QuotaAdmin:
    """Limits of users and topics, and partition quotas of organisations.

    Users' limits and decisions on requests are for service administrators.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def own(self) -> UserQuota:
        """The caller's limits, with their use."""
        found = await self._client.call(QUOTA_SERVICE, "queryUserQuota", None)
        return structs.user_quota_of(found.userQuota)

    async def topic(self, name: str | TopicRef) -> Quota:
        """A topic's limits in force, with their use."""
        ref = await find(self._client, name)
        request = topic.QueryTopicQuotaRequest(topicResourceName=structs.resource(ref))
        found = await self._client.call(TOPIC_SERVICE, "queryTopicQuota", request)
        return structs.quota_of(found.topicQuota)

    async def set_topic(self, name: str | TopicRef, limits: Quota) -> None:
        """Set a topic's limits."""
        ref = await find(self._client, name)
        request = topic.SetTopicQuotaRequest(
            topicResourceName=structs.resource(ref), topicQuota=structs.quota_struct(limits)
        )
        await self._client.call(TOPIC_SERVICE, "setTopicQuota", request)

    async def reset_topic(self, name: str | TopicRef) -> None:
        """Back to the defaults."""
        ref = await find(self._client, name)
        request = topic.DeleteTopicQuotaRequest(topicResourceName=structs.resource(ref))
        await self._client.call(TOPIC_SERVICE, "deleteTopicQuota", request)

    async def users(self) -> dict[str, UserQuota]:
        """Every user's limits that were set, by developer id."""
        found = await self._client.call(QUOTA_SERVICE, "listUserQuota", None)
        return {user: structs.user_quota_of(one) for user, one in found.userQuotaList.items()}

    async def set_user(self, user: str, limits: UserQuota) -> None:
        """Set a user's limits; ``user`` is a developer id."""
        request = quota.SetUserQuotaRequest(
            developerId=user, userQuota=structs.user_quota_struct(limits)
        )
        await self._client.call(QUOTA_SERVICE, "setUserQuota", request)

    async def reset_user(self, user: str) -> None:
        """Back to the defaults."""
        request = quota.DeleteUserQuotaRequest(developerId=user)
        await self._client.call(QUOTA_SERVICE, "deleteUserQuota", request)

    async def apply(self, wanted: PartitionQuota, *, automatic: bool = False) -> None:
        """Ask for partitions of an organisation.

        Args:    automatic: grant it at once if it is small enough, else QuotaAutoApproveFailed.
        """
        info = structs.partition_quota_struct(wanted)
        if automatic:
            request = quota.AutoApplyQuotaRequest(quotaInfo=info)
            await self._client.call(QUOTA_SERVICE, "autoApplyQuota", request)
        else:
            await self._client.call(
                QUOTA_SERVICE, "applyQuota", quota.ApplyQuotaRequest(quotaInfo=info)
            )

    async def list(self) -> tuple[PartitionQuota, ...]:
        """Partition quotas of the caller's organisation."""
        found = await self._client.call(QUOTA_SERVICE, "listQuota", None)
        return structs.partition_quotas_of(found.quotaList)

    async def pending(self) -> tuple[PartitionQuota, ...]:
        """Requests that wait for a decision."""
        found = await self._client.call(QUOTA_SERVICE, "listPendingQuota", None)
        return structs.partition_quotas_of(found.pendingQuotaList)

    async def approve(self, wanted: PartitionQuota) -> tuple[PartitionQuota, ...]:
        """Grant a request; the requests that still wait."""
        request = quota.ApproveQuotaRequest(quotaInfo=structs.partition_quota_struct(wanted))
        found = await self._client.call(QUOTA_SERVICE, "approveQuota", request)
        return structs.partition_quotas_of(found.pendingQuotaList)

    async def revoke(self, wanted: PartitionQuota) -> tuple[PartitionQuota, ...]:
        """Refuse a request or take an approval back; the requests that still wait."""
        request = quota.RevokeQuotaRequest(quotaInfo=structs.partition_quota_struct(wanted))
        found = await self._client.call(QUOTA_SERVICE, "revokeQuota", request)
        return structs.partition_quotas_of(found.pendingQuotaList)


class GroupAdmin:
    """Consumer groups of a topic."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self, name: str | TopicRef) -> tuple[str, ...]:
        """Names of a topic's groups, sorted."""
        ref = await find(self._client, name)
        request = metric.QueryConsumerGroupRequest(topicTalosResourceName=structs.resource(ref))
        found = await self._client.call(METRIC_SERVICE, "queryConsumerGroup", request)
        return tuple(sorted(found.consumerGroupList))

    async def lag(self, name: str | TopicRef, group: str) -> tuple[PartitionLag, ...]:
        """How far a group is, by partition."""
        ref = await find(self._client, name)
        unit = metric.ConsumerGroupAndTopic(
            consumerGroupName=group, topicTalosResourceName=structs.resource(ref)
        )
        request = metric.GetTopicConsumeUnitRequest(consumerGroupAndTopic=unit)
        found = await self._client.call(METRIC_SERVICE, "getTopicConsumeUnit", request)
        return structs.lags_of(found.partitionConsumeUnitList)

    async def lags(self, name: str | TopicRef) -> dict[str, tuple[PartitionLag, ...]]:
        """How far every group is, by partition."""
        ref = await find(self._client, name)
        request = metric.QueryTopicConsumeUnitRequest(topicTalosResourceName=structs.resource(ref))
        found = await self._client.call(METRIC_SERVICE, "queryTopicConsumeUnit", request)
        return {group: structs.lags_of(one) for group, one in found.topicConsumeUnitMap.items()}

    async def workers(self, name: str | TopicRef, group: str) -> dict[str, tuple[int, ...]]:
        """Live workers of a group with the partitions they hold."""
        ref = await find(self._client, name)
        request = consumer.QueryWorkerRequest(
            consumerGroup=group, topicTalosResourceName=structs.resource(ref)
        )
        found = await self._client.call(CONSUMER_SERVICE, "queryWorker", request)
        return {worker: tuple(sorted(held)) for worker, held in found.workerMap.items()}

    async def delete(self, name: str | TopicRef, group: str) -> None:
        """Forget a group and its checkpoints.

        Raises: ConsumerGroupWorking: it has live workers; ConsumerGroupNotExist: not done.
        """
        ref = await find(self._client, name)
        request = consumer.DeleteConsumerGroupRequest(
            consumerGroup=group, topicTalosResourceName=structs.resource(ref)
        )
        await self._client.call(CONSUMER_SERVICE, "deleteConsumerGroup", request)


class TalosAdmin:
    """Everything but puts, gets and consuming: ``topics``, ``permissions``, ``quotas``,
    ``groups``, and what partitions hold.

    Args: client: shared with other objects, or a configuration for a client of its own.
    """

    def __init__(self, client: Client | ClientConfig) -> None:
        self._client, self._owned = attach(client)
        self.topics = TopicAdmin(self._client)
        self.permissions = PermissionAdmin(self._client)
        self.quotas = QuotaAdmin(self._client)
        self.groups = GroupAdmin(self._client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def offsets(
        self, name: str | TopicRef, partitions: Sequence[int] | None = None
    ) -> dict[int, OffsetRange]:
        """Retained offsets by partition; of all partitions if none are named."""
        ref = await find(self._client, name)
        return await self._client.offsets(ref, _wanted(ref, partitions))

    async def offsets_at(
        self,
        name: str | TopicRef,
        time: datetime | int,
        partitions: Sequence[int] | None = None,
    ) -> dict[int, int]:
        """By partition the offset of the first message stored at or after a time, else the next
        offset. ``time``: with a zone, or Unix milliseconds."""
        ref = await find(self._client, name)
        time_ms = time if isinstance(time, int) else position_ms(time)
        return await self._client.offsets_at(ref, dict.fromkeys(_wanted(ref, partitions), time_ms))

    async def preview(self, name: str | TopicRef, partition: int) -> tuple[dict[str, str], ...]:
        """The latest messages of a partition as text, by column. Raises: PreviewFailed."""
        ref = await find(self._client, name)
        request = message.GetDataPreviewRequest(topicAndPartition=structs.place(ref, partition))
        found = await self._client.call(MESSAGE_SERVICE, "getDataPreview", request)
        return tuple(found.messageLists)

    async def server_version(self) -> str:
        """What the server says it is."""
        found = await self._client.call(TOPIC_SERVICE, "getServiceVersion", None)
        return found.details or f"{found.major}.{found.minor}.{found.revision}"

    async def close(self) -> None:
        """Close the client if it is this object's own."""
        if self._owned:
            await self._client.close()


async def find(client: Client, name: str | TopicRef) -> TopicRef:
    """The topic of a name, asked for anew: another one may have its name now."""
    return name if isinstance(name, TopicRef) else await client.topic(name, refresh=True)


def _wanted(ref: TopicRef, partitions: Sequence[int] | None) -> Sequence[int]:
    return range(ref.consumer_partitions) if partitions is None else partitions
