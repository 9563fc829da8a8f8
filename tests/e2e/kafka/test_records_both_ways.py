"""Messages between clients of Kafka and of Talos, through one log."""

import asyncio
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.waiting import limit_s

from opentalos.sdk import ClientConfig, Message, Record, aio

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MANY = 3_000
PARTITIONS = 3


async def made_topic(config: ClientConfig, name: str, partitions: int = PARTITIONS) -> None:
    async with aio.Client(config) as client:
        await aio.TalosAdmin(client).topics.create(name, partitions=partitions)


async def read_by_sdk(config: ClientConfig, topic: str) -> dict[int, list[Record]]:
    """All records by partition."""
    found: dict[int, list[Record]] = {}
    async with aio.Client(config) as client:
        consumer = aio.SimpleConsumer(client, topic)
        for partition, offsets in (await consumer.offsets()).items():
            records = found.setdefault(partition, [])
            while len(records) < offsets.next:
                records += await consumer.fetch(partition, len(records))
    return found


def produced(
    settings: dict[str, Any], topic: str, codec: str, *, idempotent: bool
) -> dict[bytes, Any]:
    """Produce MANY records; where each value was stored."""
    producer = confluent_kafka.Producer(
        {**settings, "compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 5}
    )
    stored: dict[bytes, Any] = {}

    def done(error: Any, message: Any) -> None:
        assert error is None, error
        assert message.value() not in stored
        stored[message.value()] = (message.partition(), message.offset())

    for number in range(MANY):
        producer.produce(
            topic,
            value=b"value %d of the record %b" % (number, codec.encode()),
            key=b"key-%d" % (number % 97),
            headers=[("colour", b"blue"), ("none", None)],
            on_delivery=done,
        )
        producer.poll(0)
    assert producer.flush(limit_s()) == 0
    assert len(stored) == MANY
    return stored


def consumed(settings: dict[str, Any], topic: str, count: int) -> list[confluent_kafka.Message]:
    """So many records, each partition's from its first offset on, without gaps."""
    consumer = confluent_kafka.Consumer({**settings, "group.id": "unused", "check.crcs": True})
    partitions = consumer.list_topics(topic, limit_s()).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[confluent_kafka.Message] = []
    expected = dict.fromkeys(partitions, 0)
    while len(found) < count:
        batch = consumer.consume(count - len(found), limit_s())
        assert batch, f"{len(found)} of {count} came"
        for message in batch:
            assert message.error() is None, message.error()
            assert message.offset() == expected[message.partition()]
            expected[message.partition()] += 1
            found.append(message)
    consumer.close()
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True])
async def test_records_of_every_codec_reach_both_kinds_of_consumers(
    sdk_config: ClientConfig, librdkafka: dict[str, Any], codec: str, idempotent: bool
) -> None:
    topic = f"codec-{codec}-{idempotent}".lower()
    await made_topic(sdk_config, topic)
    stored = produced(librdkafka, topic, codec, idempotent=idempotent)
    found = consumed(librdkafka, topic, MANY)
    assert {m.value(): (m.partition(), m.offset()) for m in found} == stored
    assert {m.key() for m in found} == {b"key-%d" % number for number in range(97)}
    assert all(m.headers() == [("colour", b"blue"), ("none", None)] for m in found)
    by_sdk = await read_by_sdk(sdk_config, topic)
    times = {(m.partition(), m.offset()): m.timestamp()[1] for m in found}
    for partition, records in by_sdk.items():
        for offset, record in enumerate(records):
            assert stored[record.data] == (partition, offset) == (partition, record.offset)
            assert record.create_ms == times[partition, offset]
    keys = {record.partition_key for records in by_sdk.values() for record in records}
    assert keys == {f"key-{number}" for number in range(97)}


async def test_messages_of_the_sdk_reach_consumers_of_kafka(
    sdk_config: ClientConfig, librdkafka: dict[str, Any], in_python: dict[str, Any]
) -> None:
    topic, trace = "from-the-sdk", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    await made_topic(sdk_config, topic, 1)
    async with aio.Client(sdk_config) as client:
        producer = aio.SimpleProducer(client, topic)
        for first in range(0, 1_200, 400):
            await producer.put(
                [
                    Message(
                        b"message %d" % number,
                        partition_key=f"schl\u00fcssel {number}",
                        sequence_number=str(number),
                        create_ms=1_700_000_000_000 + number,
                        traceparent=trace,
                    )
                    for number in range(first, first + 400)
                ]
            )
    found = consumed(librdkafka, topic, 1_200)
    for number, message in enumerate(found):
        assert message.offset() == number
        assert message.value() == b"message %d" % number
        assert message.key() == f"schl\u00fcssel {number}".encode()
        assert message.timestamp()[1] == 1_700_000_000_000 + number
        assert message.headers() == [
            ("talos-sequence-number", str(number).encode()),
            ("traceparent", trace.encode()),
        ]
    consumer = kafka.KafkaConsumer(**in_python, auto_offset_reset="earliest")
    place = kafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 777)  # within a block
    records = consumer.poll(int(limit_s() * 1_000), max_records=5)[place]
    assert [record.offset for record in records] == [777, 778, 779, 780, 781]
    assert consumer.end_offsets([place]) == {place: 1_200}
    assert consumer.beginning_offsets([place]) == {place: 0}
    consumer.close()


async def test_what_a_message_cannot_express_stops_no_consumer(
    sdk_config: ClientConfig, librdkafka: dict[str, Any]
) -> None:
    topic = "odd-records"
    await made_topic(sdk_config, topic, 1)
    producer = confluent_kafka.Producer({**librdkafka, "compression.type": "zstd"})
    for key, value in ((b"\xff\x00k", b"binary key"), (b"gone", None), (None, b""), (b"", b"x")):
        producer.produce(topic, value=value, key=key, partition=0)
    assert producer.flush(limit_s()) == 0
    records = (await read_by_sdk(sdk_config, topic))[0]
    assert [(record.partition_key, record.data) for record in records] == [
        ("\\xff\x00k", b"binary key"),
        ("gone", b""),
        (None, b""),
        ("", b"x"),
    ]
    async with aio.Client(sdk_config) as client:
        shown = await aio.TalosAdmin(client).preview(topic, 0)
        assert len(shown) == len(records)
    found = consumed(librdkafka, topic, 4)
    assert [message.value() for message in found] == [b"binary key", None, b"", b"x"]


async def test_a_key_lands_in_the_same_partition_whoever_puts_it(
    sdk_config: ClientConfig, librdkafka: dict[str, Any], in_python: dict[str, Any]
) -> None:
    """librdkafka's murmur2_random, and aiokafka's and kafka-python's port of Java's default."""
    topic, keys = "one-place-per-key", [f"key {number}" for number in range(300)]
    await made_topic(sdk_config, topic, 16)
    async with aio.Client(sdk_config) as client:
        async with aio.TalosProducer(client, topic) as producer:
            for key in keys:
                await producer.put(Message(b"sdk", partition_key=key))
    settings = {**librdkafka, "partitioner": "murmur2_random"}
    by_librdkafka = confluent_kafka.Producer(settings)
    for key in keys:
        by_librdkafka.produce(topic, value=b"librdkafka", key=key.encode())
    assert by_librdkafka.flush(limit_s()) == 0
    async with aiokafka.AIOKafkaProducer(**in_python) as by_aiokafka:
        for key in keys:
            await by_aiokafka.send(topic, value=b"aiokafka", key=key.encode())
    by_python = kafka.KafkaProducer(**in_python)
    for key in keys:
        by_python.send(topic, value=b"kafka-python", key=key.encode())
    by_python.close()
    places: dict[Any, set[int]] = {}
    count = 0
    for partition, records in (await read_by_sdk(sdk_config, topic)).items():
        for record in records:
            places.setdefault(record.partition_key, set()).add(partition)
            count += 1
    assert count == 4 * len(keys)
    assert set(places) == set(keys)
    assert all(len(where) == 1 for where in places.values())


@pytest.mark.parametrize("idempotent", [False, True])
async def test_aiokafka_produces_and_consumes(
    sdk_config: ClientConfig, in_python: dict[str, Any], idempotent: bool
) -> None:
    topic = f"aiokafka-{idempotent}".lower()
    await made_topic(sdk_config, topic)
    async with aiokafka.AIOKafkaProducer(
        **in_python, enable_idempotence=idempotent, compression_type="gzip"
    ) as producer:
        sent = [
            await producer.send(topic, b"%d" % number, key=b"%d" % (number % 7))
            for number in range(MANY)
        ]
        for each in sent:
            await each
    consumer = aiokafka.AIOKafkaConsumer(**in_python)
    await consumer.start()
    consumer.assign([aiokafka.TopicPartition(topic, number) for number in range(PARTITIONS)])
    await consumer.seek_to_beginning()
    values: set[bytes] = set()
    while len(values) < MANY:
        values |= {record.value for record in [await consumer.getone()]}
    await consumer.stop()
    assert values == {b"%d" % number for number in range(MANY)}


async def test_kafka_python_produces_and_finds_offsets_by_time(
    sdk_config: ClientConfig, in_python: dict[str, Any]
) -> None:
    topic = "kafka-python"
    await made_topic(sdk_config, topic, 1)
    producer = kafka.KafkaProducer(**in_python, acks="all", linger_ms=5, compression_type="gzip")
    sent = [producer.send(topic, b"%d" % number) for number in range(MANY)]
    producer.flush(limit_s())
    stored = [each.get(limit_s()) for each in sent]
    producer.close()
    assert [each.offset for each in stored] == list(range(MANY))
    consumer = kafka.KafkaConsumer(**in_python)
    place = kafka.TopicPartition(topic, 0)
    (middle,) = consumer.offsets_for_times({place: stored[MANY // 2].timestamp}).values()
    assert 0 <= middle.offset <= MANY // 2
    (none,) = consumer.offsets_for_times({place: stored[-1].timestamp + 3_600_000}).values()
    assert none is None
    consumer.close()


@pytest.mark.parametrize("topic", ["shop.orders-v2", "_schemas", "dots.and.120-" + "x" * 107])
async def test_topics_with_names_of_kafka_are_read_by_all(
    librdkafka: dict[str, Any], sdk_config: ClientConfig, topic: str
) -> None:
    admin = AdminClient(librdkafka)
    made = admin.create_topics([NewTopic(topic, num_partitions=1)])
    await asyncio.to_thread(made[topic].result, limit_s())
    producer = confluent_kafka.Producer(librdkafka)
    producer.produce(topic, value=b"here")
    assert producer.flush(limit_s()) == 0
    found = await read_by_sdk(sdk_config, topic)
    assert [record.data for record in found[0]] == [b"here"]
    consumer = confluent_kafka.Consumer({**librdkafka, "group.id": "com.example.readers"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(limit_s())
    assert message is not None
    assert message.value() == b"here"
    consumer.close()
