"""A tour of OpenTalos with the official Talos SDK, unmodified.

usage: tour.py URL KEY_ID:SECRET [MESSAGES]

Creates a topic, sends messages with TalosProducer, reads them with a TalosConsumer in a group, and
shows offsets, lag and throughput. Runs where ``talos-python3`` is installed (make setup puts it
into .sdk-venv). It is written for Talos: nothing in it is specific to OpenTalos.
"""

import logging
import os
import sys
import threading
import time

from talos.admin.TalosAdmin import TalosAdmin
from talos.client.TalosClientConfig import TalosClientConfig
from talos.client.TalosClientFactory import TalosClientFactory
from talos.client.TopicAbnormalCallback import TopicAbnormalCallback
from talos.consumer.MessageProcessor import MessageProcessor
from talos.consumer.MessageProcessorFactory import MessageProcessorFactory
from talos.consumer.TalosConsumer import TalosConsumer
from talos.producer.TalosProducer import TalosProducer
from talos.producer.UserMessageCallback import UserMessageCallback
from talos.thrift.auth.ttypes import Credential, UserType
from talos.thrift.consumer.ttypes import QueryOffsetRequest
from talos.thrift.message.ttypes import GetTopicOffsetRequest, Message
from talos.thrift.topic.ttypes import CreateTopicRequest, TopicAndPartition, TopicAttribute

PARTITIONS = 8
BATCH = 500
MESSAGE_BYTES = 1024
GROUP = "tour"
TIMEOUT_S = 120.0
BAR_WIDTH = 40


class Progress:
    """A counter that several threads raise, drawn as a bar on one line."""

    def __init__(self, what, wanted):
        self.what, self.wanted, self.count = what, wanted, 0
        self.started = time.monotonic()
        self.lock = threading.Lock()
        self.full = threading.Event()
        self.error = None

    def add(self, number):
        with self.lock:
            self.count += number
            if self.count >= self.wanted:
                self.full.set()

    def fail(self, reason):
        self.error = reason
        self.full.set()

    def watch(self):
        """Draw until everything arrived; return messages per second."""
        deadline = self.started + TIMEOUT_S
        while not self.full.wait(0.1):
            self.draw()
            if time.monotonic() > deadline:
                self.error = f"only {self.count} of {self.wanted} after {TIMEOUT_S:.0f} s"
                break
        took = time.monotonic() - self.started
        self.draw()
        sys.stdout.write("\n")
        if self.error:
            raise RuntimeError(self.error)
        return self.count / took

    def draw(self):
        if sys.stdout.isatty() or self.full.is_set():
            share = min(1.0, self.count / self.wanted)
            bar = "#" * int(share * BAR_WIDTH)
            text = f"\r  {self.what:<9} [{bar:<{BAR_WIDTH}}] {self.count:>7} / {self.wanted}"
            sys.stdout.write(text)
            sys.stdout.flush()


class Confirm(UserMessageCallback):
    """What the producer calls back for each batch."""

    def __init__(self, progress):
        self.progress = progress

    def on_success(self, userMessageResult=None):
        self.progress.add(len(userMessageResult.get_message_list()))

    def on_error(self, userMessageResult=None):
        self.progress.fail(f"a put failed: {userMessageResult.get_cause()}")


class Gone(TopicAbnormalCallback):
    """What the producer calls back when its topic is deleted."""

    def abnormal_handler(self, topicTalosResourceName=None, throwable=None):
        sys.stderr.write(f"the topic is gone: {throwable}\n")


class Count(MessageProcessor):
    """What the consumer hands each batch to: here it is only counted."""

    def __init__(self, progress):
        self.progress = progress

    def process(self, messages=None, messageCheckPointer=None):
        self.progress.add(len(messages))


class Counters(MessageProcessorFactory):
    def __init__(self, progress):
        self.progress = progress

    def create_processor(self):
        return Count(self.progress)


def produce(config, credential, topic, messages):
    progress = Progress("produced", messages)
    producer = TalosProducer(
        producerConfig=config,
        credential=credential,
        topicName=topic,
        topicAbnormalCallback=Gone(),
        userMessageCallback=Confirm(progress),
    )
    payload = os.urandom(MESSAGE_BYTES // 2).hex()
    for first in range(0, messages, BATCH):
        count = min(BATCH, messages - first)
        batch = [Message(message=payload.encode()) for _ in range(count)]
        producer.add_user_message(batch, first // BATCH % PARTITIONS)
        progress.draw()
    return progress.watch()


def consume(config, credential, topic, messages):
    progress = Progress("consumed", messages)
    consumer = TalosConsumer(
        consumerGroup=GROUP,
        consumerConfig=config,
        credential=credential,
        topicName=topic,
        messageProcessorFactory=Counters(progress),
        clientPrefix="tour",
    )
    rate = progress.watch()
    consumer.shut_down_fetcher()  # commits and releases every partition
    return rate


def show_offsets(clients, topic, resource):
    """A table of log ends, checkpoints and lag."""
    messages, consumers = clients.new_message_client(), clients.new_consumer_client()
    sys.stdout.write("\n  partition   start     end   checkpoint   lag\n")
    total = 0
    infos = messages.get_topic_offset(GetTopicOffsetRequest(resource))
    for info in sorted(infos, key=lambda info: info.partitionId):
        partition = TopicAndPartition(topic, resource, info.partitionId)
        stored = consumers.query_offset(QueryOffsetRequest(GROUP, partition)).msgOffset
        lag = info.endOffset - stored
        total += lag
        sys.stdout.write(
            f"  {info.partitionId:>9} {info.startOffset:>7} {info.endOffset:>7}"
            f" {stored:>12} {lag:>5}\n"
        )
    sys.stdout.write(f"  lag of group {GROUP!r}: {total}\n\n")


def main():
    url, key = sys.argv[1], sys.argv[2]
    messages = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    logging.disable(logging.CRITICAL)
    config = TalosClientConfig(
        {
            "galaxy.talos.service.endpoint": url,
            "galaxy.talos.client.is.open.dns.resolver": False,
            "galaxy.talos.client.falcon.monitor.switch": False,
        }
    )
    credential = Credential(UserType.DEV_XIAOMI, *key.split(":", 1))
    clients = TalosClientFactory(config, credential)
    topic = f"tour-{int(time.time())}"
    request = CreateTopicRequest(topic, TopicAttribute(partitionNumber=PARTITIONS))
    info = TalosAdmin(clients).create_topic(request).topicInfo
    resource = info.topicTalosResourceName
    sys.stdout.write(f"  created   topic {topic} with {PARTITIONS} partitions\n")
    sys.stdout.write(f"            {resource.topicTalosResourceName}\n")
    put_rate = produce(config, credential, topic, messages)
    get_rate = consume(config, credential, topic, messages)
    show_offsets(clients, topic, resource)
    megabytes = MESSAGE_BYTES / 1e6
    sys.stdout.write(f"  produced {put_rate:>9,.0f} messages/s, {put_rate * megabytes:.1f} MB/s\n")
    sys.stdout.write(f"  consumed {get_rate:>9,.0f} messages/s, {get_rate * megabytes:.1f} MB/s\n")


if __name__ == "__main__":
    status = 1
    try:
        main()
        status = 0
    except Exception as error:
        sys.stderr.write(f"\ntour: {type(error).__name__}: {error}\n")
    sys.stdout.flush()
    os._exit(status)  # the SDK leaves timer threads behind
