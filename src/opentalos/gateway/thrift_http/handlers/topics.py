"""TopicService: topics and their attributes."""

from typing import Final

from opentalos.broker.broker import Broker
from opentalos.broker.values import AttributeChange, NewTopic
from opentalos.gateway.thrift_http.handlers import values
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler
from opentalos.model.identity import Principal
from opentalos.wire._generated import topic


async def create_topic(
    broker: Broker, caller: Principal, request: topic.CreateTopicRequest, _: CallContext
) -> topic.CreateTopicResponse:
    """Create a topic; the name may be ``organisation/name``."""
    attribute, acl = request.topicAttribute, request.aclMap or {}
    new = NewTopic(
        name=request.topicName,
        partitions=attribute.partitionNumber,
        retention_s=attribute.messageRetentionSecs,
        attributes=attribute.attributes or {},
        quota=None if request.topicQuota is None else values.quota_of(request.topicQuota),
        acl={values.grantee_of(who): values.permission_of(bits) for who, bits in acl.items()},
        owner_name=request.ownerName or "",
    )
    created = await broker.topics.create_topic(caller, new)
    return topic.CreateTopicResponse(topicInfo=values.topic_info(created))


async def create_replication_topic(
    broker: Broker, caller: Principal, _: topic.CreateReplicationTopicRequest, __: CallContext
) -> topic.CreateTopicResponse:
    """Not served yet."""
    created = broker.topics.replicate_topic(caller)
    return topic.CreateTopicResponse(topicInfo=values.topic_info(created))


async def change_replication_source(
    broker: Broker,
    caller: Principal,
    _: topic.ChangeReplicationTopicSourceInfoRequest,
    __: CallContext,
) -> None:
    """Not served yet."""
    broker.topics.replicate_topic(caller)


async def delete_topic(
    broker: Broker, caller: Principal, request: topic.DeleteTopicRequest, _: CallContext
) -> None:
    """Delete by resource name."""
    resource = values.resource_of(request.topicTalosResourceName)
    await broker.topics.delete_topic(caller, resource)


async def change_topic_attribute(
    broker: Broker, caller: Principal, request: topic.ChangeTopicAttributeRequest, _: CallContext
) -> None:
    """Change the fields that are set."""
    attribute = request.topicAttribute
    change = AttributeChange(
        partitions=attribute.partitionNumber,
        retention_s=attribute.messageRetentionSecs,
        attributes=attribute.attributes,
    )
    resource = values.resource_of(request.topicTalosResourceName)
    await broker.topics.change_attribute(caller, resource, change)


async def delete_topic_attribute(
    broker: Broker, caller: Principal, request: topic.DeleteTopicAttributeRequest, _: CallContext
) -> None:
    """Remove one key of the free attributes."""
    resource = values.resource_of(request.topicTalosResourceName)
    await broker.topics.delete_attribute(caller, resource, request.topicAttributeKey)


async def change_topic_owner_info(
    broker: Broker, caller: Principal, request: topic.ChangeTopicOwnerInfoRequest, _: CallContext
) -> None:
    """Set the responsible person."""
    resource, owner = values.resource_of(request.topicTalosResourceName), request.ownerInfo
    charge_id, name = owner.chargeId or "", owner.ownerName or ""
    await broker.topics.change_owner_info(caller, resource, charge_id, name)


async def describe_topic(
    broker: Broker, caller: Principal, request: topic.DescribeTopicRequest, _: CallContext
) -> topic.DescribeTopicResponse:
    """Everything: Java 2.0.2 refuses a reply that lacks any of the five parts."""
    found = await broker.topics.describe_topic(caller, request.topicName)
    states = await broker.work.each(caller.id, found.partitions, values.partition_state)
    return topic.DescribeTopicResponse(
        topicInfo=values.topic_info(found.topic),
        topicAttribute=values.topic_attribute(found.topic),
        topicState=values.topic_state(found, states),
        topicQuota=values.base_quota(found.quota),
        aclMap=dict(found.permissions),
    )


async def get_describe_info(
    broker: Broker, caller: Principal, request: topic.GetDescribeInfoRequest, _: CallContext
) -> topic.GetDescribeInfoResponse:
    """Resource name and the partition count for consumers, larger while a shrink drains."""
    found = broker.topics.find_topic(caller, request.topicName)
    return topic.GetDescribeInfoResponse(
        topicTalosResourceName=values.resource_name(found.resource),
        partitionNumber=found.consumer_partitions,
    )


async def get_topic_attribute(
    broker: Broker, caller: Principal, request: topic.GetTopicAttributeRequest, _: CallContext
) -> topic.GetTopicAttributeResponse:
    """Resource name and attributes, as producers see them."""
    found = broker.topics.find_topic(caller, request.topicName)
    return topic.GetTopicAttributeResponse(
        topicTalosResourceName=values.resource_name(found.resource),
        topicAttribute=values.topic_attribute(found),
    )


async def list_topics(
    broker: Broker, caller: Principal, _: None, __: CallContext
) -> topic.ListTopicsResponse:
    """Topics that the caller owns."""
    found = broker.topics.list_topics(caller)
    infos = await broker.work.each(caller.id, found, values.topic_info)
    return topic.ListTopicsResponse(topicInfos=infos)


async def list_topics_info(
    broker: Broker, caller: Principal, _: None, __: CallContext
) -> topic.ListTopicsInfoResponse:
    """Topics that the caller owns, with everything."""
    found = await broker.metrics.list_topics_info(caller)
    topics = await broker.work.each(
        caller.id, found, values.described, weight=lambda topic: 10 + len(topic.partitions)
    )
    return topic.ListTopicsInfoResponse(topicList=topics)


async def get_bind_topics(
    broker: Broker, caller: Principal, _: None, __: CallContext
) -> topic.ListTopicsResponse:
    """Topics bound to the caller's organisation or team."""
    found = broker.topics.bind_topics(caller)
    infos = await broker.work.each(caller.id, found, values.topic_info)
    return topic.ListTopicsResponse(topicInfos=infos)


async def add_sub_resource_name(
    broker: Broker, caller: Principal, request: topic.AddSubResourceNameRequest, _: CallContext
) -> None:
    """Bind a developer's topic to an organisation and its admin team."""
    resource = values.resource_of(request.topicTalosResourceName)
    organisation, team = request.orgId, request.adminTeamId
    await broker.topics.add_sub_resource_name(caller, resource, organisation, team)


async def set_topic_quota(
    broker: Broker, caller: Principal, request: topic.SetTopicQuotaRequest, _: CallContext
) -> None:
    """Set a topic's quota."""
    resource = values.resource_of(request.topicResourceName)
    await broker.quotas.set_topic_quota(caller, resource, values.quota_of(request.topicQuota))


async def query_topic_quota(
    broker: Broker, caller: Principal, request: topic.QueryTopicQuotaRequest, _: CallContext
) -> topic.QueryTopicQuotaResponse:
    """The quota in force, with its use."""
    resource = values.resource_of(request.topicResourceName)
    use = broker.quotas.query_topic_quota(caller, resource)
    return topic.QueryTopicQuotaResponse(topicQuota=values.base_quota(use))


async def delete_topic_quota(
    broker: Broker, caller: Principal, request: topic.DeleteTopicQuotaRequest, _: CallContext
) -> None:
    """Back to the defaults."""
    resource = values.resource_of(request.topicResourceName)
    await broker.quotas.delete_topic_quota(caller, resource)


HANDLERS: Final[dict[str, Handler]] = {
    "createTopic": create_topic,
    "createReplicationTopic": create_replication_topic,
    "changeReplicationTopicSourceInfo": change_replication_source,
    "deleteTopic": delete_topic,
    "changeTopicAttribute": change_topic_attribute,
    "deleteTopicAttribute": delete_topic_attribute,
    "changeTopicOwnerInfo": change_topic_owner_info,
    "describeTopic": describe_topic,
    "getDescribeInfo": get_describe_info,
    "getTopicAttribute": get_topic_attribute,
    "listTopics": list_topics,
    "listTopicsInfo": list_topics_info,
    "getBindTopics": get_bind_topics,
    "addSubResourceName": add_sub_resource_name,
    "setTopicQuota": set_topic_quota,
    "queryTopicQuota": query_topic_quota,
    "deleteTopicQuota": delete_topic_quota,
}
