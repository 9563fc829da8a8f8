"""A client process of the official SDK: the counterpart of ``sdk_load``, in ``.sdk-venv``.

Same argument, same result. It uses the defaults of the SDK, except that nothing is resolved or
reported outside this machine.
"""

import itertools
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from talos.client.TalosClientConfig import TalosClientConfig
from talos.client.TopicAbnormalCallback import TopicAbnormalCallback
from talos.consumer.MessageProcessor import MessageProcessor
from talos.consumer.MessageProcessorFactory import MessageProcessorFactory
from talos.consumer.SimpleConsumer import SimpleConsumer
from talos.consumer.TalosConsumer import TalosConsumer
from talos.producer.TalosProducer import TalosProducer
from talos.producer.UserMessageCallback import UserMessageCallback
from talos.thrift.auth.ttypes import Credential, UserType
from talos.thrift.message.ttypes import Message

from bench.sdk_payloads import payloads_of

Arguments = dict[str, Any]
PUT_MANY = 1_000
FETCH_MESSAGES = 2_000  # the most it asks for
WARM_MESSAGES = 1_000
DONE_TIMEOUT_S = 300.0


def config(arguments: Arguments) -> Any:
    return TalosClientConfig(
        {
            "galaxy.talos.service.endpoint": arguments["url"],
            "galaxy.talos.client.is.open.dns.resolver": False,
            "galaxy.talos.client.falcon.monitor.switch": False,
        }
    )


def credential(arguments: Arguments) -> Any:
    return Credential(UserType.DEV_XIAOMI, arguments["key_id"], arguments["secret"])


class Counted:
    """Counts up to a number, from any thread."""

    def __init__(self, wanted: int) -> None:
        self._lock, self._done = threading.Lock(), threading.Event()
        self._left = wanted

    def add(self, count: int) -> None:
        with self._lock:
            self._left -= count
            if self._left <= 0:
                self._done.set()

    def wait(self) -> None:
        if not self._done.wait(DONE_TIMEOUT_S):
            raise TimeoutError(f"{self._left} messages are missing")


class Stored(UserMessageCallback):  # type: ignore[misc]  # the SDK has no types
    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def on_success(self, userMessageResult: Any = None) -> None:
        self._counted.add(len(userMessageResult.get_message_list()))

    def on_error(self, userMessageResult: Any = None) -> None:
        print(userMessageResult.get_cause(), file=sys.stderr)
        os._exit(1)


class Abnormal(TopicAbnormalCallback):  # type: ignore[misc]  # the SDK has no types
    def abnormal_handler(self, topicTalosResourceName: Any = None, throwable: Any = None) -> None:
        os._exit(1)


def producer(arguments: Arguments, counted: Counted) -> Any:
    return TalosProducer(
        producerConfig=config(arguments),
        credential=credential(arguments),
        topicName=arguments["topic"],
        topicAbnormalCallback=Abnormal(),
        userMessageCallback=Stored(counted),
    )


def put(arguments: Arguments) -> int:
    """One call for each message."""
    wanted, counted = arguments["messages"], Counted(arguments["messages"])
    sender = producer(arguments, counted)
    for payload in itertools.islice(itertools.cycle(payloads_of(arguments["size"])), wanted):
        sender.add_user_message([Message(message=payload)])
    counted.wait()
    return int(wanted)


def put_many(arguments: Arguments) -> int:
    """One call per thousand messages; the SDK modifies them, so each call gets new ones."""
    payloads = payloads_of(arguments["size"])[:PUT_MANY]
    calls = arguments["messages"] // PUT_MANY
    counted = Counted(calls * PUT_MANY)
    sender = producer(arguments, counted)
    for _ in range(calls):
        sender.add_user_message([Message(message=payload) for payload in payloads])
    counted.wait()
    return int(calls * PUT_MANY)


def fetch(arguments: Arguments) -> int:
    """Fetch partition by partition."""
    read = 0
    for partition in range(arguments["partitions"]):
        consumer = SimpleConsumer(
            clientConfig=config(arguments),
            topicName=arguments["topic"],
            partitionId=partition,
            credential=credential(arguments),
        )
        offset = 0
        while found := consumer.fetch_message(offset, FETCH_MESSAGES):
            offset = found[-1].messageOffset + 1
            read += len(found)
            if read >= arguments["messages"]:
                return read
    return read


class Processor(MessageProcessor):  # type: ignore[misc]  # the SDK has no types
    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def init(self, topicAndPartition: Any = None, startMessageOffset: Any = None) -> None: ...

    def process(self, messages: Any = None, messageCheckPointer: Any = None) -> None:
        self._counted.add(len(messages))

    def shutdown(self, messageCheckPointer: Any = None) -> None: ...


class Processors(MessageProcessorFactory):  # type: ignore[misc]  # the SDK has no types
    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def create_processor(self) -> Processor:
        return Processor(self._counted)


def consume(arguments: Arguments) -> int:
    """Consume as a worker of a group; the shutdown is not measured."""
    counted = Counted(arguments["messages"])
    TalosConsumer(
        consumerGroup=arguments["group"],
        consumerConfig=config(arguments),
        credential=credential(arguments),
        topicName=arguments["topic"],
        messageProcessorFactory=Processors(counted),
        clientPrefix="official",
    )
    counted.wait()
    return int(arguments["messages"])


JOBS: dict[str, Callable[[Arguments], int]] = {
    job.__name__: job for job in (put, put_many, fetch, consume)
}


def main() -> None:
    """Run the job named in the argument; exit immediately, because the SDK leaks threads."""
    logging.disable(logging.CRITICAL)
    arguments = json.loads(sys.argv[1])
    payloads_of(arguments["size"])
    job = JOBS[arguments["job"]]
    if arguments["job"] != "consume":  # its first consumer would stay and take its share
        job({**arguments, "messages": WARM_MESSAGES})
    cpu_s, begin_s = time.process_time(), time.perf_counter()
    messages = job(arguments)
    cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - begin_s
    print(json.dumps({"messages": messages, "cpu_s": cpu_s, "wall_s": wall_s}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
