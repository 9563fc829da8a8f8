"""Offsets by the times that producers set, of unmodified clients: as Kafka finds them."""

import importlib
import os
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess
from tests.waiting import limit_s

rd: Any = importlib.import_module("confluent_kafka.admin")  # it exports nothing to type checkers
NOW_MS = int(time.time()) * 1_000
PADDING = os.urandom(100_000)


def written(settings: dict[str, Any], topic: str, *ages_s: float, value: bytes = b"v") -> None:
    """Records of these ages, each in a batch of its own."""
    producer = Producer(settings)
    for age_s in ages_s:
        when = NOW_MS - int(age_s * 1_000)
        producer.produce(topic, value, partition=0, timestamp=when)
        assert producer.flush(limit_s()) == 0


def offset_at(settings: dict[str, Any], topic: str, age_s: float) -> int:
    """What the server says; -1: no record is as new."""
    consumer = Consumer({**settings, "group.id": "times"})
    try:
        asked = TopicPartition(topic, 0, NOW_MS - int(age_s * 1_000))
        (found,) = consumer.offsets_for_times([asked], timeout=limit_s())
        return -1 if found.offset < 0 else int(found.offset)
    finally:
        consumer.close()


def made(server: ServerProcess, name: str, *texts: str) -> None:
    """A topic with these messages of ours."""
    assert rest(server, "POST", "topics", {"name": name, "partitions": 1}).status == 201
    for text in texts:
        path, put = f"topics/{name}/partitions/0/messages", {"messages": [{"text": text}]}
        assert rest(server, "POST", path, put).status == 200


def test_the_first_record_of_that_time_or_later_is_found(
    librdkafka: dict[str, Any], kafka_server: ServerProcess
) -> None:
    made(kafka_server, "aged")
    written(librdkafka, "aged", 30, 20, 25, 10)
    for age_s, expected in ((40, 0), (30, 0), (29, 1), (20, 1), (15, 3), (10, 3), (5, -1)):
        assert offset_at(librdkafka, "aged", age_s) == expected
    asked = {TopicPartition("aged", 0): rd.OffsetSpec.max_timestamp()}
    admin = rd.AdminClient(librdkafka)  # kept, as its answers end with it
    (found,) = admin.list_offsets(asked).values()
    result = found.result(limit_s())
    assert (result.offset, result.timestamp) == (3, NOW_MS - 10_000)


def test_far_from_the_time_of_storing_no_record_is_skipped(
    librdkafka: dict[str, Any], kafka_server: ServerProcess
) -> None:
    """Beyond what is searched the answer is early rather than late."""
    made(kafka_server, "aged-much")
    written(librdkafka, "aged-much", *[30] * 15, value=PADDING)
    written(librdkafka, "aged-much", 10)
    assert offset_at(librdkafka, "aged-much", 20) == 0


def test_messages_of_talos_have_times_too(
    librdkafka: dict[str, Any], kafka_server: ServerProcess
) -> None:
    made(kafka_server, "aged-talos", "a", "b")
    assert offset_at(librdkafka, "aged-talos", 3_600) == 0
    assert offset_at(librdkafka, "aged-talos", -3_600) == -1
