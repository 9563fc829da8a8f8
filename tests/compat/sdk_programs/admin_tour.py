"""Every call of the SDK's administration clients on one topic, with what the server answers."""

from typing import Any

from sdk import Arguments, error_of, factory, run, say
from talos.thrift.authorization.ttypes import Grantee, GrantType
from talos.thrift.message.ttypes import (
    GetPartitionCheckpointRequest,
    GetPartitionOffsetRequest,
    GetScheduleInfoRequest,
    GetTopicOffsetRequest,
)
from talos.thrift.topic.ttypes import (
    ChangeTopicAttributeRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    GetDescribeInfoRequest,
    GetTopicAttributeRequest,
    ListPermissionRequest,
    Permission,
    RevokePermissionRequest,
    SetPermissionRequest,
    TopicAndPartition,
    TopicAttribute,
)


def describe(topics: Any, name: str, resource: Any) -> None:
    described = topics.get_describe_info(GetDescribeInfoRequest(name))
    say(
        call="describe",
        resource=described.topicTalosResourceName.topicTalosResourceName,
        partitions=described.partitionNumber,
    )
    attribute = topics.get_topic_attribute(GetTopicAttributeRequest(name)).topicAttribute
    say(
        call="attribute",
        partitions=attribute.partitionNumber,
        retention=attribute.messageRetentionSecs,
    )
    say(call="list", names=[topic.topicName for topic in topics.list_topics()])
    topics.change_topic_attribute(
        ChangeTopicAttributeRequest(resource, TopicAttribute(partitionNumber=4))
    )
    grown = topics.get_describe_info(GetDescribeInfoRequest(name))
    say(call="change", partitions=grown.partitionNumber)


def grant(topics: Any, resource: Any, identifier: str) -> None:
    grantee = Grantee(type=GrantType.DEVELOPER, identifier=identifier)
    wanted = Permission.GET_MESSAGE_AND_DESCRIBE_TOPIC
    topics.set_permission(SetPermissionRequest(resource, grantee, wanted))
    granted = topics.list_permission(ListPermissionRequest(resource))
    say(call="granted", mask=granted.get(identifier, 0))
    # The SDK sends this one as setPermission without a permission.
    topics.revoke_permission(RevokePermissionRequest(resource, grantee))
    granted = topics.list_permission(ListPermissionRequest(resource))
    say(call="revoked", mask=granted.get(identifier, 0))


def offsets(messages: Any, name: str, resource: Any) -> None:
    infos = messages.get_topic_offset(GetTopicOffsetRequest(resource))
    say(call="offsets", ranges=sorted([info.partitionId, info.endOffset] for info in infos))
    first = TopicAndPartition(name, resource, 0)
    retained = messages.get_partition_offset(GetPartitionOffsetRequest(first))
    say(call="partition offset", start=retained.startOffset, end=retained.endOffset)
    found = messages.get_partition_checkpoint(GetPartitionCheckpointRequest(first, 1))
    say(call="time lookup", offset=found.partitionCheckPoint)
    schedule = messages.get_schedule_info(GetScheduleInfoRequest(resource))
    say(
        call="schedule",
        partitions=sorted(item.partitionId for item in schedule),
        hosts=sorted(set(schedule.values())),
        names=sorted({item.topicName for item in schedule}),
    )


def program(arguments: Arguments) -> None:
    clients = factory(arguments)
    topics, messages = clients.new_topic_client(), clients.new_message_client()
    name = arguments["topic"]
    attribute = TopicAttribute(partitionNumber=3, messageRetentionSecs=7200)
    request = CreateTopicRequest(topicName=name, topicAttribute=attribute)
    resource = topics.create_topic(request).topicInfo.topicTalosResourceName
    say(call="create", resource=resource.topicTalosResourceName)
    say(call="create twice", **error_of(lambda: topics.create_topic(request)))
    describe(topics, name, resource)
    grant(topics, resource, arguments["grantee"])
    offsets(messages, name, resource)
    topics.delete_topic(DeleteTopicRequest(resource))
    gone = error_of(lambda: topics.get_describe_info(GetDescribeInfoRequest(name)))
    say(call="describe deleted", **gone)


if __name__ == "__main__":
    run(program)
