"""Thousands of calls of the SDK, one after another, and whether each did what it must.

One thread, since the SDK keeps the headers of all its clients in one dictionary.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from sdk import Arguments, config, credential, factory, run, say, service
from talos.consumer.SimpleConsumer import SimpleConsumer
from talos.producer.SimpleProducer import SimpleProducer
from talos.thrift.consumer import ConsumerService
from talos.thrift.consumer.ttypes import (
    CheckPoint,
    ConsumeUnit,
    LockPartitionRequest,
    LockWorkerRequest,
    QueryOffsetRequest,
    RenewRequest,
    UpdateOffsetRequest,
)
from talos.thrift.message.ttypes import GetPartitionOffsetRequest, Message
from talos.thrift.topic.ttypes import (
    CreateTopicRequest,
    GetDescribeInfoRequest,
    TopicAndPartition,
    TopicAttribute,
)

PAYLOAD_MAX = 300
SHOWN_MAX = 20


class Calls:
    """Counts calls and failures."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def make(self, name: str, call: Callable[[], Any]) -> Any:
        self.counts[name] += 1
        try:
            return call()
        except Exception as error:
            self.failures.append(f"{name}: {error!r}")
            return None

    def check(self, right: bool, what: str) -> None:
        if not right:
            self.failures.append(f"wrong: {what}")


class Tour:
    """The clients, one topic of one partition, and a worker that holds it."""

    def __init__(self, arguments: Arguments) -> None:
        name, clients = arguments["topic"], factory(arguments)
        self.topics, self.messages = clients.new_topic_client(), clients.new_message_client()
        request = CreateTopicRequest(topicName=name, topicAttribute=TopicAttribute(1))
        self.resource = self.topics.create_topic(request).topicInfo.topicTalosResourceName
        self.name, self.place = name, TopicAndPartition(name, self.resource, 0)
        self.consumers = service(arguments, ConsumerService)
        self.unit = ConsumeUnit("many", self.resource, [0], "worker")
        settings, caller = config(arguments), credential(arguments)
        self.producer = SimpleProducer(
            producerConfig=settings, topicName=name, partitionId=0, credential=caller
        )
        self.consumer = SimpleConsumer(
            clientConfig=settings, topicName=name, partitionId=0, credential=caller
        )

    def round(self, calls: Calls, offset: int, payload: bytes) -> None:
        """Put a message, read it back, commit it, and ask about all of that."""
        calls.make("put", lambda: self.producer.put_message_list([Message(message=payload)]))
        found = calls.make("get", lambda: self.consumer.fetch_message(offset, 10)) or []
        read = [(item.messageOffset, item.message.message) for item in found]
        calls.check(read == [(offset, payload)], f"message {offset}")
        one = GetPartitionOffsetRequest(self.place)
        end = calls.make("offset", lambda: self.messages.get_partition_offset(one))
        calls.check(end is not None and end.endOffset == offset, f"end offset {offset}")
        point = CheckPoint("many", self.place, offset, "worker")
        calls.make("renew", lambda: self.consumers.renew(RenewRequest(self.unit)))
        calls.make("commit", lambda: self.consumers.updateOffset(UpdateOffsetRequest(point)))
        query = QueryOffsetRequest("many", self.place)
        known = calls.make("committed", lambda: self.consumers.queryOffset(query))
        calls.check(known is not None and known.msgOffset == offset, f"commit {offset}")
        about = GetDescribeInfoRequest(self.name)
        told = calls.make("describe", lambda: self.topics.get_describe_info(about))
        calls.check(told is not None and told.partitionNumber == 1, "partitions")


def program(arguments: Arguments) -> None:
    tour, calls, source = Tour(arguments), Calls(), random.Random(arguments["seed"])
    tour.consumers.lockWorker(LockWorkerRequest(tour.unit))
    tour.consumers.lockPartition(LockPartitionRequest(tour.unit))
    for offset in range(arguments["rounds"]):
        tour.round(calls, offset, source.randbytes(source.randint(1, PAYLOAD_MAX)))
    say(calls=calls.counts, failed=len(calls.failures), failures=calls.failures[:SHOWN_MAX])


if __name__ == "__main__":
    run(program)
