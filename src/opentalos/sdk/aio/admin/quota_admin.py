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
        return {user: structs.user_quota_of(limits) for user, limits in found.userQuotaList.items()}

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
