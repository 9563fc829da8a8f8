"""A worker of a consumer group with the official Talos SDK, unmodified.

usage: official_reader.py URL KEY_ID:SECRET TOPIC GROUP

Writes {"read": MESSAGES, "last_s": TIME} as JSON lines, TIME on the monotonic clock. When its input
ends it commits, gives up its partitions and leaves. ``talos demo`` runs it beside a worker with
OpenTalos's own SDK: both share one group.
"""

import json
import logging
import os
import sys
import threading
import time

from talos.client.TalosClientConfig import TalosClientConfig
from talos.consumer.MessageProcessor import MessageProcessor
from talos.consumer.MessageProcessorFactory import MessageProcessorFactory
from talos.consumer.TalosConsumer import TalosConsumer
from talos.thrift.auth.ttypes import Credential, UserType

TELL_S = 0.2
END_S = 15.0  # to leave the group; without a server the SDK would try for minutes


class Tally:
    """Counts what all processors get."""

    def __init__(self):
        self.lock = threading.Lock()
        self.read, self.last_s = 0, time.monotonic()

    def add(self, number):
        with self.lock:
            self.last_s = time.monotonic()
            self.read += number

    def report(self):
        sys.stdout.write(json.dumps({"read": self.read, "last_s": self.last_s}) + "\n")
        sys.stdout.flush()


class Count(MessageProcessor):
    """What the consumer hands each batch to."""

    def __init__(self, tally):
        self.tally = tally

    def process(self, messages=None, messageCheckPointer=None):
        self.tally.add(len(messages))


class Counters(MessageProcessorFactory):
    def __init__(self, tally):
        self.tally = tally

    def create_processor(self):
        return Count(self.tally)


def main():
    url, key, topic, group = sys.argv[1:5]
    logging.disable(logging.CRITICAL)
    config = TalosClientConfig(
        {
            "galaxy.talos.service.endpoint": url,
            "galaxy.talos.client.is.open.dns.resolver": False,
            "galaxy.talos.client.falcon.monitor.switch": False,
            # Seconds; a demo should not wait for the usual ones.
            "galaxy.talos.consumer.check.worker.info.interval": 1.0,
            "galaxy.talos.consumer.renew.interval": 1.0,
        }
    )
    tally = Tally()
    consumer = TalosConsumer(
        consumerGroup=group,
        consumerConfig=config,
        credential=Credential(UserType.DEV_XIAOMI, *key.split(":", 1)),
        topicName=topic,
        messageProcessorFactory=Counters(tally),
        clientPrefix="official",
    )
    ended = threading.Event()

    def end():
        sys.stdin.read()
        ended.set()
        time.sleep(END_S)
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
    while not ended.wait(TELL_S):
        tally.report()
    consumer.shut_down_fetcher()  # commits and releases every partition
    tally.report()


if __name__ == "__main__":
    status = 1
    try:
        main()
        status = 0
    except Exception as error:
        sys.stderr.write(f"official_reader: {type(error).__name__}: {error}\n")
    sys.stdout.flush()
    os._exit(status)  # the SDK leaves timer threads behind
