"""Put small batches until stdin ends, and write down what became of each: a history to judge.

One JSON line per event in the file ``history``: ``invoke`` before a put, then ``ok``, ``fail`` (not
done) or ``unknown``. Every value is sent once, so a value that is read twice was duplicated by a
retry inside the SDK or by the server.
"""

import json
import sys
import threading
import time

from sdk import Arguments, config, credential, run, say, topic_and_partition
from talos.client.TalosClientFactory import TalosClientFactory
from talos.client.TalosErrors import TalosTransportError
from talos.producer.SimpleProducer import SimpleProducer
from talos.thrift.common.ttypes import ErrorCode, GalaxyTalosException
from talos.thrift.message.ttypes import Message

PAUSE_AFTER_FAILURE_S = 0.02
BATCH = 3
# Refused before anything was appended; every other error leaves the outcome open.
NOT_DONE = {
    ErrorCode.PARTITION_NOT_SERVING,
    ErrorCode.EXCESSIVE_PENDING_MESSAGE,
    ErrorCode.QUOTA_EXCEEDED,
    ErrorCode.THROTTLE_REJECT_ERROR,
}


def outcome(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "fail"
    if isinstance(error, GalaxyTalosException):
        return "fail" if error.errorCode in NOT_DONE else "unknown"
    if isinstance(error, TalosTransportError) and error.HttpStatusCode in (401, 412, 413):
        return "fail"
    return "unknown"


def program(arguments: Arguments) -> None:
    stop = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    settings = config(arguments)
    clients = TalosClientFactory(settings, credential(arguments))
    partition = topic_and_partition(arguments, arguments["topic"], arguments["partition"])
    producer = SimpleProducer(
        producerConfig=settings,
        topicAndPartition=partition,
        credential=credential(arguments),
        messageClient=clients.new_message_client(),
    )
    say(event="started")
    count = 0
    with open(arguments["history"], "w", buffering=1) as history:

        def note(kind: str, values: list[str], **more: str) -> None:
            line = {"type": kind, "values": values, "at": time.monotonic(), **more}
            history.write(json.dumps(line) + "\n")

        while not stop.is_set():
            values = [f"{arguments['prefix']}-{count + number}" for number in range(BATCH)]
            count += BATCH
            note("invoke", values)
            try:
                producer.put_message_list([Message(message=one.encode()) for one in values])
            except Exception as error:
                note(outcome(error), values, error=f"{type(error).__name__}: {error}"[:200])
                time.sleep(PAUSE_AFTER_FAILURE_S)
            else:
                note("ok", values)
    say(event="stopped", values=count)


if __name__ == "__main__":
    run(program)
