"""Read partitions whole, after everything: the last word on what their logs hold."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from load_history import History
from load_writer import is_not_done
from sdk import Arguments, config, credential, run, topic_and_partition
from talos.client.TalosClientFactory import TalosClientFactory
from talos.consumer.SimpleConsumer import SimpleConsumer
from talos.thrift.message.ttypes import GetPartitionOffsetRequest

PAUSE_S = 0.2  # a partition that moves just now answers a moment later


def answered(call: Callable[[], Any]) -> Any:
    """The answer, as soon as its partition is served. The test ends a program that hangs."""
    while True:
        try:
            return call()
        except Exception as error:
            if not is_not_done(error):
                raise
        time.sleep(PAUSE_S)


def bounds_of(messages: Any, address: Any) -> Any:
    """Start and end of a log."""
    while True:
        bounds = messages.get_partition_offset(GetPartitionOffsetRequest(address))
        if bounds.errorCode is None:
            return bounds
        time.sleep(PAUSE_S)


def program(arguments: Arguments) -> None:
    topic = arguments["topic"]
    messages = TalosClientFactory(config(arguments), credential(arguments)).new_message_client()
    history = History(arguments["history"], "final")
    for partition in range(arguments["partitions"]):
        address = topic_and_partition(arguments, topic, partition)
        consumer = SimpleConsumer(
            clientConfig=config(arguments),
            topicName=topic,
            partitionId=partition,
            credential=credential(arguments),
        )
        args = {"topic": topic, "partition": partition, "final": True, "healed": True}
        read = history.invoke("read", offset=0, **args)
        bounds = answered(partial(bounds_of, messages, address))
        blocks = []
        offset = bounds.startOffset
        while fetched := answered(partial(consumer.fetch_message, offset, 2000)):
            blocks += [
                [record.messageOffset, [record.message.message.decode()]] for record in fetched
            ]
            offset = fetched[-1].messageOffset + 1
        history.ok(read, blocks=blocks, start=bounds.startOffset, next=bounds.endOffset + 1)


if __name__ == "__main__":
    run(program)
