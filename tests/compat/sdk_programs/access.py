"""What a principal may do with one topic: each call's outcome by name."""

from typing import Any

from sdk import Arguments, error_of, factory, run, say, service
from talos.thrift.message import MessageService
from talos.thrift.message.ttypes import (
    GetMessageRequest,
    MessageBlock,
    MessageCompressionType,
    PutMessageRequest,
)
from talos.thrift.topic.ttypes import (
    DeleteTopicRequest,
    GetDescribeInfoRequest,
    TopicAndPartition,
    TopicTalosResourceName,
)


def block() -> Any:
    return MessageBlock(
        startMessageOffset=0,
        messageNumber=1,
        compressionType=MessageCompressionType.NONE,
        messageBlock=b"\x00\x00\x00\x00\x00\x00\x00\x02hi",
        messageBlockSize=10,
        createTimestamp=1,
    )


def program(arguments: Arguments) -> None:
    topics, messages = factory(arguments).new_topic_client(), service(arguments, MessageService)
    resource = TopicTalosResourceName(arguments["resource"])
    first = TopicAndPartition(arguments["topic"], resource, 0)
    describe = GetDescribeInfoRequest(arguments["topic"])
    put = PutMessageRequest(first, [block()], 1, "a#1")
    get = GetMessageRequest(first, 0, 10, 1024, True, "a#2")
    say(
        describe=error_of(lambda: topics.get_describe_info(describe)),
        put=error_of(lambda: messages.putMessage(put)),
        get=error_of(lambda: messages.getMessage(get)),
        delete=error_of(lambda: topics.delete_topic(DeleteTopicRequest(resource))),
        listed=[topic.topicName for topic in topics.list_topics()],
    )


if __name__ == "__main__":
    run(program)
