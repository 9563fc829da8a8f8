"""Put small batches with SimpleProducer until stdin ends, and write down what became of each.

Every message is sent by one call only. The SDK itself repeats a call once, and only when the
connection was refused, so when nothing was done.
"""

import time

from load_history import History, stop_at_end_of_input
from sdk import Arguments, config, credential, reason, run, say, topic_and_partition
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


def is_not_done(error: Exception) -> bool:
    if isinstance(error, GalaxyTalosException):
        return error.errorCode in NOT_DONE
    if isinstance(error, TalosTransportError):
        return error.HttpStatusCode in (401, 412, 413)
    return isinstance(error, ConnectionRefusedError)


def program(arguments: Arguments) -> None:
    stop = stop_at_end_of_input()
    topic, partition, prefix = (arguments[name] for name in ("topic", "partition", "prefix"))
    settings = config(arguments)
    clients = TalosClientFactory(settings, credential(arguments))
    producer = SimpleProducer(
        producerConfig=settings,
        topicAndPartition=topic_and_partition(arguments, topic, partition),
        credential=credential(arguments),
        messageClient=clients.new_message_client(),
    )
    history = History(arguments["history"], prefix)
    say(event="started")
    count = 0
    while not stop.is_set():
        ids = [f"{prefix}-{count + number}" for number in range(BATCH)]
        count += BATCH
        put = history.invoke("put", topic=topic, partition=partition, ids=ids)
        try:
            producer.put_message_list([Message(message=item.encode()) for item in ids])
        except Exception as error:
            end = history.fail if is_not_done(error) else history.unknown
            end(put, reason(error))
            time.sleep(PAUSE_AFTER_FAILURE_S)
        else:
            history.ok(put)
            time.sleep(arguments.get("pause_s", 0))
    say(event="stopped", messages=count)


if __name__ == "__main__":
    run(program)
