"""Converts between the SDK's values and the Thrift structs of administration calls."""

from collections.abc import Iterable, Mapping
from typing import Final

from opentalos.sdk.aio.connection import messages
from opentalos.sdk.core.values import (
    Grantee,
    GrantType,
    PartitionLag,
    PartitionQuota,
    PartitionState,
    Permission,
    Quota,
    TopicDescription,
    TopicInfo,
    TopicRef,
    TopicStatus,
    UserQuota,
)
from opentalos.wire._generated import authorization, metric, quota, topic

_NO_LIMIT_BYTES: Final = (1 << 63) - 1  # servers report this for unlimited space
_NO_LIMIT_TOPICS: Final = (1 << 31) - 1

place = messages.target


def resource(ref: TopicRef) -> topic.TopicTalosResourceName:
    """Struct of a topic's resource name."""
    return messages.resource_name(ref.resource)


def grantee(who: str | Grantee) -> authorization.Grantee:
    """Struct of a grantee."""
    known = Grantee(GrantType.DEVELOPER, who) if isinstance(who, str) else who
    return authorization.Grantee(type=int(known.type), identifier=known.identifier)


def attribute(
    partitions: int | None, retention_s: int | None, attributes: Mapping[str, str] | None
) -> topic.TopicAttribute:
    """Struct of the settings of a topic."""
    return topic.TopicAttribute(
        partitionNumber=partitions,
        messageRetentionSecs=retention_s,
        attributes=None if attributes is None else dict(attributes),
    )


def permissions_of(masks: Mapping[str, int]) -> dict[str, Permission]:
    """Permissions by grantee."""
    return {who: Permission(mask) for who, mask in masks.items()}


def quota_struct(limits: Quota) -> quota.BaseQuota:
    """Struct of limits."""
    return quota.BaseQuota(
        spaceQuota=_NO_LIMIT_BYTES if limits.space_bytes is None else limits.space_bytes,
        putMessageQpsQuota=limits.put_requests_per_s,
        getMessageQpsQuota=limits.get_requests_per_s,
        putMessageBytesQpsQuota=limits.put_bytes_per_s,
        getMessageBytesQpsQuota=limits.get_bytes_per_s,
    )


def quota_of(found: quota.BaseQuota) -> Quota:
    """Limits with their usage."""
    return Quota(
        space_bytes=None if found.spaceQuota >= _NO_LIMIT_BYTES else found.spaceQuota,
        put_requests_per_s=found.putMessageQpsQuota,
        get_requests_per_s=found.getMessageQpsQuota,
        put_bytes_per_s=found.putMessageBytesQpsQuota,
        get_bytes_per_s=found.getMessageBytesQpsQuota,
        used_bytes=found.usedSpace,
        remaining_bytes=found.remainingSpace,
    )


def user_quota_struct(limits: UserQuota) -> quota.UserQuota:
    """Struct of the limits of a user."""
    return quota.UserQuota(baseQuota=quota_struct(limits.quota), topicNumberQuota=limits.topics)


def user_quota_of(found: quota.UserQuota) -> UserQuota:
    """The limits of a user with their usage."""
    topics = found.topicNumberQuota
    unlimited = topics is None or topics >= _NO_LIMIT_TOPICS
    return UserQuota(quota=quota_of(found.baseQuota), topics=None if unlimited else topics)


def partition_quota_struct(wanted: PartitionQuota) -> quota.PartitionQuotaInfo:
    """Struct of a partition quota."""
    return quota.PartitionQuotaInfo(
        orgId=wanted.organisation,
        totalQuota=wanted.total,
        usedOuota=wanted.used,
        applyReason=wanted.reason or None,
        orgName=wanted.organisation_name or None,
    )


def partition_quotas_of(found: Iterable[quota.PartitionQuotaInfo]) -> tuple[PartitionQuota, ...]:
    """Partition quotas."""
    return tuple(
        PartitionQuota(
            organisation=info.orgId,
            total=info.totalQuota,
            used=info.usedOuota,
            reason=info.applyReason or "",
            organisation_name=info.orgName or "",
        )
        for info in found
    )


def lags_of(found: Iterable[metric.PartitionConsumeUnit]) -> tuple[PartitionLag, ...]:
    """Committed offset and lag of a group, by partition."""
    lags = [
        PartitionLag(
            unit.partitionId,
            unit.consumerCommitOffset,
            None if unit.consumerOffsetLag < 0 else unit.consumerOffsetLag,
            unit.ipAddr,
        )
        for unit in found
    ]
    return tuple(sorted(lags, key=lambda lag: lag.partition))


def info_of(found: topic.TopicInfo) -> TopicInfo:
    """Names and owner of a topic."""
    owner = found.ownerInfo
    return TopicInfo(
        found.topicName,
        found.topicTalosResourceName.topicTalosResourceName,
        found.ownerId,
        "" if owner is None else owner.ownerName or "",
    )


def description_of(found: topic.DescribeTopicResponse) -> TopicDescription:
    """The description of a topic."""
    given, state = found.topicAttribute, found.topicState
    return TopicDescription(
        info=info_of(found.topicInfo),
        partitions=given.partitionNumber or 0,
        retention_s=given.messageRetentionSecs or 0,
        status=TopicStatus(state.topicStatus),
        created_ms=state.createTimestamp,
        states=tuple(_state_of(partition) for partition in state.partitionStates),
        quota=quota_of(found.topicQuota),
        old_partitions=given.oldPartitionNumber,
        attributes=dict(given.attributes or {}),
        permissions=permissions_of(found.aclMap),
    )


def _state_of(found: topic.PartitionState) -> PartitionState:
    return PartitionState(
        partition=found.partitionId,
        start_offset=found.startOffset,
        end_offset=found.lastestOffset,
        messages=found.messageNumber,
        bytes_count=found.messageBytes,
        total_messages=found.totalMessageNumber or 0,
        total_bytes=found.totalMessageBytes or 0,
    )
