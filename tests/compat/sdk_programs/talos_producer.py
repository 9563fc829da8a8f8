"""Send messages with TalosProducer and wait until its callback confirmed every one."""

import threading
from typing import Any

from sdk import Arguments, config, credential, run, say
from talos.client.TopicAbnormalCallback import TopicAbnormalCallback
from talos.producer.TalosProducer import TalosProducer
from talos.producer.UserMessageCallback import UserMessageCallback
from talos.thrift.message.ttypes import Message


class Confirmations(UserMessageCallback):  # type: ignore[misc]  # the SDK has no types
    """Counts what the SDK calls back."""

    def __init__(self, wanted: int) -> None:
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.wanted = wanted
        self.succeeded: dict[int, int] = {}
        self.failed: list[str] = []

    def on_success(self, userMessageResult: Any = None) -> None:
        with self.lock:
            partition = userMessageResult.get_partition_id()
            count = len(userMessageResult.get_message_list())
            self.succeeded[partition] = self.succeeded.get(partition, 0) + count
            if sum(self.succeeded.values()) >= self.wanted:
                self.done.set()

    def on_error(self, userMessageResult: Any = None) -> None:
        with self.lock:
            self.failed.append(str(userMessageResult.get_cause()))
            self.done.set()


class Abnormal(TopicAbnormalCallback):  # type: ignore[misc]  # the SDK has no types
    """Hears that the topic is gone."""

    def __init__(self) -> None:
        self.gone = threading.Event()

    def abnormal_handler(self, topicTalosResourceName: Any = None, throwable: Any = None) -> None:
        self.gone.set()


def program(arguments: Arguments) -> None:
    payloads = arguments["payloads"]
    confirmations = Confirmations(len(payloads))
    producer = TalosProducer(
        producerConfig=config(arguments),
        credential=credential(arguments),
        topicName=arguments["topic"],
        topicAbnormalCallback=Abnormal(),
        userMessageCallback=confirmations,
    )
    for first in range(0, len(payloads), 100):
        batch = [Message(message=text.encode()) for text in payloads[first : first + 100]]
        producer.add_user_message(batch)
    confirmations.done.wait()  # the test ends a program that hangs
    say(succeeded=sum(confirmations.succeeded.values()), failed=confirmations.failed)


if __name__ == "__main__":
    run(program)
