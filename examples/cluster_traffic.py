"""Steady traffic on a cluster with the official Talos SDK, reported as JSON lines.

usage: cluster_traffic.py KEY_ID:SECRET PARTITIONS URL...

Puts small batches round-robin into every partition until its stdin is closed. About four times a
second it reports how much was acknowledged, how long the slowest partition has been waiting, and
which server owns each partition. The URLs are endpoints: after a failure it uses the next one.
"""

import json
import logging
import os
import sys
import threading
import time

from talos.admin.TalosAdmin import TalosAdmin
from talos.client.TalosClientConfig import TalosClientConfig
from talos.client.TalosClientFactory import TalosClientFactory
from talos.producer.SimpleProducer import SimpleProducer
from talos.thrift.auth.ttypes import Credential, UserType
from talos.thrift.message.ttypes import GetScheduleInfoRequest, Message
from talos.thrift.topic.ttypes import CreateTopicRequest, TopicAndPartition, TopicAttribute

BATCH = 10
ROUND_S = 0.05
REPORT_EVERY_S = 0.25
PAYLOAD = b"x" * 512


class Traffic:
    """One producer per partition; they share the SDK's cache of addresses."""

    def __init__(self, key, partitions, urls):
        credential = Credential(UserType.DEV_XIAOMI, *key.split(":", 1))
        self.entrances = []
        for url in urls:
            settings = {
                "galaxy.talos.service.endpoint": url,
                "galaxy.talos.client.is.open.dns.resolver": False,
                "galaxy.talos.client.falcon.monitor.switch": False,
            }
            config = TalosClientConfig(settings)
            self.entrances.append((config, TalosClientFactory(config, credential)))
        config, clients = self.entrances[0]
        topic = f"demo-{int(time.time())}"
        request = CreateTopicRequest(topic, TopicAttribute(partitionNumber=partitions))
        self.resource = TalosAdmin(clients).create_topic(request).topicInfo.topicTalosResourceName
        self.messages = [each.new_message_client() for _, each in self.entrances]
        self.entrance = 0
        self.producers = [
            SimpleProducer(
                producerConfig=config,
                topicAndPartition=TopicAndPartition(topic, self.resource, partition),
                messageClient=self.messages[0],
                talosClientFactory=clients,
            )
            for partition in range(partitions)
        ]
        self.acked = self.failed = 0
        self.acked_at = [time.monotonic()] * partitions

    def put_round(self):
        """One batch into every partition."""
        for partition, producer in enumerate(self.producers):
            try:
                producer.put_message_list([Message(message=PAYLOAD) for _ in range(BATCH)])
            except Exception:
                self.failed += BATCH
                self.use_next_entrance()
            else:
                self.acked += BATCH
                self.acked_at[partition] = time.monotonic()

    def use_next_entrance(self):
        """Ask another server from now on, also for the addresses of partitions."""
        self.entrance = (self.entrance + 1) % len(self.messages)
        cache = self.producers[0].scheduleInfoCache
        cache.set_message_client(self.messages[self.entrance])
        try:
            cache.get_schedule_info(self.resource)
        except Exception:
            return  # no reply from this one either; the next failure switches again

    def owners(self):
        """The address of the owner by partition, as clients see it."""
        request = GetScheduleInfoRequest(self.resource)
        try:
            schedule = self.messages[self.entrance].get_schedule_info(request)
        except Exception:
            self.use_next_entrance()
            return {}
        return {place.partitionId: host for place, host in schedule.items()}

    def report(self):
        line = {
            "acked": self.acked,
            "failed": self.failed,
            "silent_s": round(time.monotonic() - min(self.acked_at), 3),
            "owners": self.owners(),
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def main():
    logging.disable(logging.CRITICAL)
    traffic = Traffic(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    reported_at = 0.0
    while not ended.is_set():
        traffic.put_round()
        if time.monotonic() - reported_at > REPORT_EVERY_S:
            reported_at = time.monotonic()
            traffic.report()
        ended.wait(ROUND_S)


if __name__ == "__main__":
    status = 1
    try:
        main()
        status = 0
    except Exception as error:
        sys.stderr.write(f"cluster_traffic: {type(error).__name__}: {error}\n")
    sys.stdout.flush()
    os._exit(status)  # the SDK leaves timer threads behind
