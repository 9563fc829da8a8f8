"""TopicService: topic groups and the topics they match."""

from typing import Final

from opentalos.broker.broker import Broker
from opentalos.broker.values import TopicGroup, TopicGroupType
from opentalos.gateway.thrift_http.handlers.context import CallContext, Handler
from opentalos.model.errors import BadRequest
from opentalos.model.identity import Principal
from opentalos.wire._generated import topic


def _group_of(value: topic.TopicGroup) -> TopicGroup:
    try:
        kind = TopicGroupType(value.type)
    except ValueError:
        raise BadRequest(f"unknown topic group type {value.type}") from None
    return TopicGroup(
        name=value.topicGroupName,
        owner=value.ownerId,
        type=kind,
        pattern=value.topicPattern or "",
        topics=tuple(value.topicSet or ()),
        excluded=tuple(value.exclusiveTopics or ()),
    )


def _topic_group(value: TopicGroup) -> topic.TopicGroup:
    return topic.TopicGroup(
        topicGroupName=value.name,
        ownerId=value.owner,
        type=topic.TopicGroupType(value.type),
        topicPattern=value.pattern or None,
        topicSet=list(value.topics),
        exclusiveTopics=list(value.excluded),
    )


async def create_topic_group(
    broker: Broker, caller: Principal, request: topic.CreateTopicGroupRequest, _: CallContext
) -> topic.CreateTopicGroupResponse:
    """Store a group under the caller."""
    wanted = _group_of(request.topicGroup)
    created = await broker.topic_groups.create_topic_group(caller, wanted)
    return topic.CreateTopicGroupResponse(topicGroup=_topic_group(created))


async def describe_topic_group(
    broker: Broker, caller: Principal, request: topic.DescribeTopicGroupRequest, _: CallContext
) -> topic.DescribeTopicGroupResponse:
    """The caller's group of that name."""
    found = broker.topic_groups.describe_topic_group(caller, request.topicGroupName)
    return topic.DescribeTopicGroupResponse(topicGroup=_topic_group(found))


async def delete_topic_group(
    broker: Broker, caller: Principal, request: topic.DeleteTopicGroupRequest, _: CallContext
) -> None:
    """Remove a group."""
    await broker.topic_groups.delete_topic_group(caller, request.topicGroupName)


async def update_topic_group(
    broker: Broker, caller: Principal, request: topic.UpdateTopicGroupRequest, _: CallContext
) -> None:
    """Replace a group's definition."""
    await broker.topic_groups.update_topic_group(caller, _group_of(request.topicGroup))


async def list_topic_group(
    broker: Broker, caller: Principal, _: None, __: CallContext
) -> topic.ListTopicGroupResponse:
    """The caller's groups."""
    found = broker.topic_groups.list_topic_groups(caller)
    groups = await broker.work.each(caller.id, found, _topic_group)
    return topic.ListTopicGroupResponse(topicGroupList=groups)


async def lookup_topics(
    broker: Broker, caller: Principal, request: topic.LookupTopicsRequest, _: CallContext
) -> topic.LookupTopicsResponse:
    """Partition count by resource name of a group's readable topics."""
    found = await broker.topic_groups.lookup_topics(caller, request.topicGroup)
    return topic.LookupTopicsResponse(topics=dict(found))


async def match_topics(
    broker: Broker, caller: Principal, request: topic.MatchTopicsRequest, _: CallContext
) -> topic.MatchTopicsResponse:
    """Names of a team's topics that match a pattern."""
    pattern, team = request.topicPattern, request.teamId
    found = await broker.topic_groups.match_topics(caller, pattern, team)
    return topic.MatchTopicsResponse(topics=list(found))


HANDLERS: Final[dict[str, Handler]] = {
    "createTopicGroup": create_topic_group,
    "describeTopicGroup": describe_topic_group,
    "deleteTopicGroup": delete_topic_group,
    "updateTopicGroup": update_topic_group,
    "listTopicGroup": list_topic_group,
    "lookupTopics": lookup_topics,
    "matchTopics": match_topics,
}
