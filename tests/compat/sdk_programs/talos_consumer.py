"""One TalosConsumer worker. Says every batch; stops in order when stdin ends."""

import sys
import threading
from typing import Any

from sdk import Arguments, config, credential, run, say
from talos.consumer.MessageProcessor import MessageProcessor
from talos.consumer.MessageProcessorFactory import MessageProcessorFactory
from talos.consumer.TalosConsumer import TalosConsumer

OUTPUT = threading.Lock()


class Processor(MessageProcessor):  # type: ignore[misc]  # the SDK has no types
    """Says what one partition delivers."""

    def init(self, topicAndPartition: Any = None, startMessageOffset: Any = None) -> None:
        self.partition = topicAndPartition.partitionId
        with OUTPUT:
            say(event="taken", partition=self.partition, start=startMessageOffset)

    def process(self, messages: Any = None, messageCheckPointer: Any = None) -> None:
        with OUTPUT:
            say(
                event="batch",
                partition=self.partition,
                offsets=[message.messageOffset for message in messages],
                payloads=[message.message.message.decode() for message in messages],
            )

    def shutdown(self, messageCheckPointer: Any = None) -> None:
        with OUTPUT:
            say(event="released", partition=self.partition)


class Processors(MessageProcessorFactory):  # type: ignore[misc]  # the SDK has no types
    def create_processor(self) -> Processor:
        return Processor()


def program(arguments: Arguments) -> None:
    consumer = TalosConsumer(
        consumerGroup=arguments["group"],
        consumerConfig=config(arguments),
        credential=credential(arguments),
        topicName=arguments["topic"],
        messageProcessorFactory=Processors(),
        clientPrefix=arguments["worker"],
    )
    with OUTPUT:
        say(event="started", worker=consumer.get_worker_id())
    sys.stdin.read()
    consumer.shut_down_fetcher()
    with OUTPUT:
        say(event="stopped")


if __name__ == "__main__":
    run(program)
