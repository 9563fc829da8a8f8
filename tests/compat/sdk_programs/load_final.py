"""Read partitions whole, after everything: the last word on what their logs hold."""

import time
from typing import Any

from load_history import History
from sdk import Arguments, config, credential, run, topic_and_partition
from talos.client.TalosClientFactory import TalosClientFactory
from talos.consumer.SimpleConsumer import SimpleConsumer
from talos.thrift.message.ttypes import GetPartitionOffsetRequest

TIMEOUT_S = 10.0  # a partition that moves just now answers a moment later


def bounds_of(messages: Any, address: Any) -> Any:
    """Start and end of a log."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        bounds = messages.get_partition_offset(GetPartitionOffsetRequest(address))
        if bounds.errorCode is None:
            return bounds
        if time.monotonic() > deadline:
            raise TimeoutError(f"{bounds.errorCode}: {bounds.errorMsg}")
        time.sleep(0.2)


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
        bounds = bounds_of(messages, address)
        blocks = []
        offset = bounds.startOffset
        while fetched := consumer.fetch_message(offset, 2000):
            blocks += [
                [record.messageOffset, [record.message.message.decode()]] for record in fetched
            ]
            offset = fetched[-1].messageOffset + 1
        history.ok(read, blocks=blocks, start=bounds.startOffset, next=bounds.endOffset + 1)


if __name__ == "__main__":
    run(program)
