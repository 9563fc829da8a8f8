"""Calls that must fail, with the error code that the SDK sees."""

from functools import partial
from typing import Any

from sdk import Arguments, error_of, factory, run, say, service, topic_and_partition
from talos.thrift.message import MessageService
from talos.thrift.message.ttypes import (
    CommitRequest,
    GetMessageRequest,
    MessageBlock,
    MessageCompressionType,
    PutMessageRequest,
)
from talos.thrift.topic.ttypes import (
    CreateTopicRequest,
    GetDescribeInfoRequest,
    TopicAndPartition,
    TopicAttribute,
)

NAMES = {
    "create with slash": "a/b",
    "create with dots": "..",
    "create with space": "a b",
    "create with NUL": "a\x00b",
    "create 10 KB": "a" * 10_240,
}


def creations(topics: Any) -> None:
    for title, name in NAMES.items():
        request = CreateTopicRequest(name, TopicAttribute(partitionNumber=1))
        say(call=title, **error_of(partial(topics.create_topic, request)))
    for title, count in (
        ("create without partitions", 0),
        ("create with too many partitions", 1_000_000),
    ):
        request = CreateTopicRequest("partitions", TopicAttribute(partitionNumber=count))
        say(call=title, **error_of(partial(topics.create_topic, request)))


def messages(client: Any, first: Any) -> None:
    absent = TopicAndPartition(first.topicName, first.topicTalosResourceName, 99)
    block = MessageBlock(
        startMessageOffset=0,
        messageNumber=1,
        compressionType=MessageCompressionType.NONE,
        messageBlock=b"\x00\x00\x00\x00\x00\x00\x00\x02hi",
        messageBlockSize=10,
        createTimestamp=1,
    )
    put = PutMessageRequest(absent, [block], 1, "errors#1")
    say(call="put to a missing partition", **error_of(lambda: client.putMessage(put)))
    get = GetMessageRequest(first, 1_000_000, 10, 1024, True, "errors#2")
    say(call="get beyond the end", **error_of(lambda: client.getMessage(get)))
    commit = CommitRequest(first, 77, "errors#3")
    say(call="commit of a transaction", **error_of(lambda: client.commit(commit)))


def program(arguments: Arguments) -> None:
    topics = factory(arguments).new_topic_client()
    unknown = GetDescribeInfoRequest("no-such-topic")
    denied = error_of(lambda: topics.get_describe_info(unknown))
    say(call="describe unknown topic", **denied)
    if "status" in denied:
        return
    creations(topics)
    first = topic_and_partition(arguments, arguments["topic"], 0)
    messages(service(arguments, MessageService), first)


if __name__ == "__main__":
    run(program)
