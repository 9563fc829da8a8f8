"""Administration of quotas: of users, of topics, and of partitions per organisation."""

from opentalos.sdk.aio.admin import structs
from opentalos.sdk.aio.admin.topic_admin import find
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.core.values import (
    PartitionQuota,
    Quota,
    TopicRef,
    UserQuota,
)
from opentalos.wire._generated import quota, topic
from opentalos.wire._generated.quota import QUOTA_SERVICE
from opentalos.wire._generated.topic import TOPIC_SERVICE


class QuotaAdmin:
    """Limits of users and topics, and partition quotas of organisations.

    Limits of users, and decisions on requests, are for service administrators.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def own(self) -> UserQuota:
        """The limits of the caller, with their usage."""
        found = await self._client.call(QUOTA_SERVICE, "queryUserQuota", None)
        return structs.user_quota_of(found.userQuota)

    async def topic(self, name: str | TopicRef) -> Quota:
        """The effective limits of a topic, with their usage."""
        ref = await find(self._client, name)
        request = topic.QueryTopicQuotaRequest(topicResourceName=structs.resource(ref))
        found = await self._client.call(TOPIC_SERVICE, "queryTopicQuota", request)
        return structs.quota_of(found.topicQuota)

    async def set_topic(self, name: str | TopicRef, limits: Quota) -> None:
        """Set the limits of a topic."""
        ref = await find(self._client, name)
        request = topic.SetTopicQuotaRequest(
            topicResourceName=structs.resource(ref), topicQuota=structs.quota_struct(limits)
        )
        await self._client.call(TOPIC_SERVICE, "setTopicQuota", request)

    async def reset_topic(self, name: str | TopicRef) -> None:
        """Reset the limits to the defaults."""
        ref = await find(self._client, name)
        request = topic.DeleteTopicQuotaRequest(topicResourceName=structs.resource(ref))
        await self._client.call(TOPIC_SERVICE, "deleteTopicQuota", request)

    async def users(self) -> dict[str, UserQuota]:
        """The limits that are set for users, by developer id."""
        found = await self._client.call(QUOTA_SERVICE, "listUserQuota", None)
        return {user: structs.user_quota_of(limits) for user, limits in found.userQuotaList.items()}

    async def set_user(self, user: str, limits: UserQuota) -> None:
        """Set the limits of a user; ``user`` is a developer id."""
        request = quota.SetUserQuotaRequest(
            developerId=user, userQuota=structs.user_quota_struct(limits)
        )
        await self._client.call(QUOTA_SERVICE, "setUserQuota", request)

    async def reset_user(self, user: str) -> None:
        """Reset the limits to the defaults."""
        request = quota.DeleteUserQuotaRequest(developerId=user)
        await self._client.call(QUOTA_SERVICE, "deleteUserQuota", request)

    async def apply(self, wanted: PartitionQuota, *, automatic: bool = False) -> None:
        """Request a partition quota for an organisation.

        Args:    automatic: grant it immediately if the policy allows, else QuotaAutoApproveFailed.
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
        """List the partition quotas of the caller's organisation."""
        found = await self._client.call(QUOTA_SERVICE, "listQuota", None)
        return structs.partition_quotas_of(found.quotaList)

    async def pending(self) -> tuple[PartitionQuota, ...]:
        """List the requests that wait for a decision."""
        found = await self._client.call(QUOTA_SERVICE, "listPendingQuota", None)
        return structs.partition_quotas_of(found.pendingQuotaList)

    async def approve(self, wanted: PartitionQuota) -> tuple[PartitionQuota, ...]:
        """Approve a request. Returns: the requests still pending."""
        request = quota.ApproveQuotaRequest(quotaInfo=structs.partition_quota_struct(wanted))
        found = await self._client.call(QUOTA_SERVICE, "approveQuota", request)
        return structs.partition_quotas_of(found.pendingQuotaList)

    async def revoke(self, wanted: PartitionQuota) -> tuple[PartitionQuota, ...]:
        """Reject a request or withdraw an approval. Returns: the requests still pending."""
        request = quota.RevokeQuotaRequest(quotaInfo=structs.partition_quota_struct(wanted))
        found = await self._client.call(QUOTA_SERVICE, "revokeQuota", request)
        return structs.partition_quotas_of(found.pendingQuotaList)
