"""Translation of the values that several services share; the rules themselves are the broker's."""

from typing import Final

from opentalos.broker.values import BaseQuota, PartitionState, QuotaUse, Topic, TopicDescription
from opentalos.model.errors import BadRequest
from opentalos.model.identity import Grantee, GrantType, Permission
from opentalos.model.names import ResourceName
from opentalos.wire._generated import authorization, quota, topic

I32_MAX: Final = (1 << 31) - 1
I64_MAX: Final = (1 << 63) - 1
CLIENT_MASK: Final = 31  # all permission bits


def resource_of(name: topic.TopicTalosResourceName) -> str:
    """Text of a resource name."""
    return name.topicTalosResourceName


def resource_name(text: str) -> topic.TopicTalosResourceName:
    """Struct of a resource name."""
    return topic.TopicTalosResourceName(topicTalosResourceName=text)


def target_of(value: topic.TopicAndPartition) -> tuple[str, int]:
    """Resource name and partition id; the plain topic name only repeats a part of it."""
    return value.topicTalosResourceName.topicTalosResourceName, value.partitionId


def topic_and_partition(resource: str, partition: int) -> topic.TopicAndPartition:
    """Struct of a partition; clients compare all three parts."""
    return topic.TopicAndPartition(
        topicName=ResourceName.parse(resource).topic,
        topicTalosResourceName=resource_name(resource),
        partitionId=partition,
    )


def grantee_of(value: authorization.Grantee) -> Grantee:
    """A grantee; without a type it is a developer."""
    try:
        kind = GrantType.DEVELOPER if value.type is None else GrantType(value.type)
    except ValueError:
        raise BadRequest(f"unknown grantee type {value.type}") from None
    return Grantee(kind, value.identifier or "")


def permission_of(value: int) -> Permission:
    """Permission bits; whether they may be granted is for the broker."""
    if not 0 <= value <= CLIENT_MASK:
        raise BadRequest(f"unknown permission {value}")
    return Permission(value)


def quota_of(value: quota.BaseQuota) -> BaseQuota:
    """Limits of a topic or user; the used and remaining space are the server's to tell."""
    return BaseQuota(
        space_bytes=value.spaceQuota,
        put_requests_per_s=value.putMessageQpsQuota,
        get_requests_per_s=value.getMessageQpsQuota,
        put_bytes_per_s=value.putMessageBytesQpsQuota,
        get_bytes_per_s=value.getMessageBytesQpsQuota,
    )


def base_quota(use: QuotaUse) -> quota.BaseQuota:
    """Limits in force; no limit shows as the largest space, and as an absent rate."""
    limits = use.quota
    return quota.BaseQuota(
        spaceQuota=limits.space_bytes or I64_MAX,
        usedSpace=use.used_bytes,
        remainingSpace=use.remaining_bytes,
        putMessageQpsQuota=_rate(limits.put_requests_per_s, I32_MAX),
        getMessageQpsQuota=_rate(limits.get_requests_per_s, I32_MAX),
        putMessageBytesQpsQuota=_rate(limits.put_bytes_per_s, I64_MAX),
        getMessageBytesQpsQuota=_rate(limits.get_bytes_per_s, I64_MAX),
    )


def _rate(limit: int | None, maximum: int) -> int | None:
    return min(limit, maximum) if limit else None


def topic_info(value: Topic) -> topic.TopicInfo:
    """Names and owner of a topic; the name is the plain one."""
    owner = None
    if value.charge_id or value.owner_name:
        owner = topic.TopicOwnerInfo(chargeId=value.charge_id, ownerName=value.owner_name)
    return topic.TopicInfo(
        topicName=value.name,
        topicTalosResourceName=resource_name(value.resource),
        ownerId=value.owner,
        ownerInfo=owner,
    )


def topic_attribute(value: Topic) -> topic.TopicAttribute:
    """What createTopic and changeTopicAttribute set."""
    return topic.TopicAttribute(
        partitionNumber=value.partitions,
        messageRetentionSecs=value.retention_s,
        attributes=dict(value.attributes),
        oldPartitionNumber=value.old_partitions,
    )


def topic_state(
    value: TopicDescription, shown: list[topic.PartitionState] | None = None
) -> topic.TopicState:
    """Amounts of a topic: the sums of its partitions.

    Args: shown: its partitions' states, if they were converted before.
    """
    states = value.partitions
    return topic.TopicState(
        createTimestamp=value.topic.created_ms,
        topicStatus=topic.TopicStatus(value.topic.status),
        messageNumber=sum([state.messages for state in states]),
        messageBytes=sum([state.bytes_count for state in states]),
        partitionStates=list(map(partition_state, states)) if shown is None else shown,
        totalMessageNumber=sum([state.total_messages for state in states]),
        totalMessageBytes=sum([state.total_bytes for state in states]),
    )


def partition_state(state: PartitionState) -> topic.PartitionState:
    """Amounts of a partition."""
    return topic.PartitionState(
        partitionId=state.partition,
        startOffset=state.start_offset,
        lastestOffset=state.end_offset,
        messageNumber=state.messages,
        messageBytes=state.bytes_count,
        totalMessageNumber=state.total_messages,
        totalMessageBytes=state.total_bytes,
    )


def described(value: TopicDescription) -> topic.Topic:
    """One of the topics of listTopicsInfo and of MetricService.listTopics."""
    return topic.Topic(
        topicInfo=topic_info(value.topic),
        topicAttribute=topic_attribute(value.topic),
        topicState=topic_state(value),
        topicQuota=base_quota(value.quota),
        topicAcl=dict(value.permissions),
    )
