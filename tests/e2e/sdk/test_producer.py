"""TalosProducer at a real server: order, callbacks, tables, topics that change under it."""

import asyncio
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.e2e.sdk.conftest import config_of, read_all
from tests.server_process import ServerProcess
from tests.waiting import eventually, limit_s

from opentalos.sdk import (
    BufferFull,
    ClientConfig,
    DeliveryFailed,
    Message,
    Outcome,
    ProducerSettings,
    SimpleConsumer,
    TalosAdmin,
    TalosProducer,
    Undelivered,
    aio,
)
from opentalos.sdk.core.producer.partitioner import murmur2_partition_of
from opentalos.sdk.core.values import Compression
from opentalos.sdk.errors import ClientClosed, TalosError, TopicNotExist


class Callbacks:
    """What callbacks said."""

    def __init__(self) -> None:
        self.stored: list[tuple[Any, int, int | None]] = []
        self.failed: list[tuple[Any, TalosError, Outcome]] = []

    def good(self, sent: Any, partition: int, offset: int | None) -> None:
        self.stored.append((sent, partition, offset))

    def bad(self, sent: Any, error: TalosError, outcome: Outcome) -> None:
        self.failed.append((sent, error, outcome))

    @property
    def both(self) -> dict[str, Any]:
        return {"on_success": self.good, "on_error": self.bad}


async def test_every_message_is_stored_in_order_where_its_callback_says(
    sdk_config: ClientConfig,
) -> None:
    callbacks = Callbacks()
    settings = ProducerSettings(batch_messages_max=7, linger_s=0.01)
    async with aio.Client(sdk_config) as client:
        await aio.TalosAdmin(client).topics.create("produced", partitions=3)
        async with aio.TalosProducer(client, "produced", settings) as producer:
            for number in range(50):
                key = f"user-{number % 5}"
                await producer.put(Message(b"%d" % number, key), **callbacks.both)
            await producer.put_many([b"many %d" % number for number in range(50)], **callbacks.both)
            await producer.flush()
            assert (len(callbacks.stored), callbacks.failed, producer.buffered_bytes) == (
                100,
                [],
                0,
            )
        with pytest.raises(ClientClosed):
            await producer.put(b"late")
        held = {partition: await read_all(client, "produced", partition) for partition in range(3)}
    for sent, partition, offset in callbacks.stored:
        assert offset is not None
        assert held[partition][offset] == sent.data
        if sent.partition_key is not None:
            assert partition == murmur2_partition_of(sent.partition_key, 3)
    keyed = [sent for sent, _, _ in callbacks.stored if sent.partition_key == "user-4"]
    assert [item.data for item in keyed] == [b"%d" % number for number in range(4, 50, 5)]
    assert sum(map(len, held.values())) == 100
    assert all(held.values()), "messages without a key go round"


@pytest.mark.parametrize("compression", Compression, ids=lambda case: case.name)
def test_rows_of_a_table_are_stored_with_their_keys(
    sdk_config: ClientConfig, compression: Compression
) -> None:
    name, callbacks = f"rows-{compression.name}", Callbacks()
    keys = [None if number % 10 == 0 else f"user-{number % 40}" for number in range(1_000)]
    data = [b"%d" % number for number in range(1_000)]
    settings = ProducerSettings(compression=compression, batch_messages_max=100)
    with TalosAdmin(sdk_config) as admin:
        admin.topics.create(name, partitions=4)
    with TalosProducer(sdk_config, name, settings) as producer:
        producer.put_arrow(pa.table({"data": data, "partition_key": keys}), **callbacks.both)
        producer.put_arrow(pa.record_batch({"data": [b"alone"]}))
    assert callbacks.failed == []
    found: dict[int, dict[int, bytes]] = defaultdict(dict)
    with SimpleConsumer(sdk_config, name) as consumer:
        for partition, held in consumer.offsets().items():
            while len(found[partition]) < held.next:
                for record in consumer.fetch(partition, len(found[partition])):
                    found[partition][record.offset] = record.data
    rows: list[int] = []
    for numbers, partition, offset in callbacks.stored:
        assert offset is not None
        rows += numbers
        for index, row in enumerate(numbers):
            assert found[partition][offset + index] == data[row]
            key = keys[row]
            assert key is None or murmur2_partition_of(key, 4) == partition
    assert sorted(rows) == list(range(1_000))
    assert sum(map(len, found.values())) == 1_001


def test_numbered_keys_are_spread_over_the_partitions_of_a_new_topic(
    sdk_config: ClientConfig,
) -> None:
    with TalosAdmin(sdk_config) as admin:
        admin.topics.create("spread", partitions=16)
        admin.topics.create("by-interval", partitions=16, attributes={"partitioner": "official"})
    assert fullest_share(sdk_config, "spread") <= 1.3
    assert fullest_share(sdk_config, "by-interval") > 10


def fullest_share(config: ClientConfig, topic: str) -> float:
    """Messages of the fullest partition, relative to the mean, after 10,000 keys."""
    with TalosProducer(config, topic) as producer:
        producer.put_many([Message(b"", f"user-{number}") for number in range(10_000)])
    with SimpleConsumer(config, topic) as consumer:
        held = [offsets.next for offsets in consumer.offsets().values()]
    assert sum(held) == 10_000
    return max(held) / (10_000 / 16)


def test_threads_that_wait_for_their_message_share_batches(sdk_config: ClientConfig) -> None:
    with TalosAdmin(sdk_config) as admin:
        admin.topics.create("waited-for", partitions=1)
    settings = ProducerSettings(linger_s=600.0)  # nobody waits for that
    with TalosProducer(sdk_config, "waited-for", settings) as producer:
        with ThreadPoolExecutor(8) as threads:
            texts = [b"%d" % number for number in range(40)]
            places = list(threads.map(producer.send_and_wait, texts))
    with SimpleConsumer(sdk_config, "waited-for") as consumer:
        found = [record.data for record in consumer.fetch(0, 0)]
    assert [found[place.offset or 0] for place in places] == texts
    assert sorted(place.offset or 0 for place in places) == list(range(40))


def test_a_failure_without_on_error_is_raised(sdk_config: ClientConfig) -> None:
    with TalosAdmin(sdk_config) as admin:
        admin.topics.create("gone", partitions=1)
        producer = TalosProducer(sdk_config, "gone")
        producer.put(b"stored")
        producer.flush()
        admin.topics.delete("gone")
        producer.put_many([b"1", b"2"])
        with pytest.raises(DeliveryFailed, match=r"2 of the messages .* TopicNotExist") as raised:
            producer.flush()
        assert (raised.value.not_stored, raised.value.unknown) == (2, 0)
        with pytest.raises(TopicNotExist):
            producer.send_and_wait(b"3")
        producer.put(b"4")
        with pytest.raises(DeliveryFailed):
            producer.close()
        assert producer.close() == Undelivered()


def put_until_full(producer: TalosProducer, callbacks: Callbacks) -> int:
    """How many messages were taken."""
    for taken in range(1_000):
        try:
            producer.put(b"x" * 1_000, **callbacks.both)
        except BufferFull:
            return taken
    raise AssertionError("the buffer has no bound")


@pytest.mark.parametrize("when_full", ["block", "raise"])
def test_memory_stays_within_its_bound_while_the_server_is_dead(
    tmp_path: Path, when_full: Any
) -> None:
    server, callbacks = ServerProcess(tmp_path).start(), Callbacks()
    config = config_of(server.url, backoff_s=0.01, backoff_s_max=0.05)
    settings = ProducerSettings(
        buffer_bytes_max=300_000, when_full=when_full, block_s_max=0.3, linger_s=0.0
    )
    with TalosAdmin(config) as admin:
        admin.topics.create("dead", partitions=2)
    producer = TalosProducer(config, "dead", settings)
    producer.put(b"before", **callbacks.both)
    producer.flush()
    server.kill()
    taken = put_until_full(producer, callbacks)
    assert 60 < taken < 80
    assert 98_000 < producer.buffered_bytes <= 100_000
    with pytest.raises(BufferFull):
        producer.put_many([b"x" * 1_000] * 3)
    server.start()
    producer.close()
    server.stop()
    assert (len(callbacks.stored), callbacks.failed) == (taken + 1, [])


def test_close_with_a_deadline_reports_what_is_left(tmp_path: Path) -> None:
    server, callbacks = ServerProcess(tmp_path).start(), Callbacks()
    config = config_of(server.url)
    settings = ProducerSettings(batch_messages_max=1, linger_s=0.0)
    with TalosAdmin(config) as admin:
        admin.topics.create("left", partitions=1)
    producer = TalosProducer(config, "left", settings)
    producer.put(b"stored", **callbacks.both)
    producer.flush()
    server.kill()
    for text in (b"on its way", b"waits", b"waits too"):
        producer.put(text, **callbacks.both)
    with pytest.raises(TimeoutError):
        producer.flush(timeout_s=1.0)
    assert producer.close(timeout_s=0.1) == Undelivered(not_stored=2, unknown=1)
    outcomes = [(sent.data, outcome) for sent, _, outcome in callbacks.failed]
    assert outcomes == [
        (b"on its way", Outcome.UNKNOWN),
        (b"waits", Outcome.NOT_DONE),
        (b"waits too", Outcome.NOT_DONE),
    ]
    assert [sent.data for sent, _, _ in callbacks.stored] == [b"stored"]
    with pytest.raises(ClientClosed):
        producer.put(b"closed")


def test_a_callback_that_raises_or_blocks_holds_up_no_message(sdk_config: ClientConfig) -> None:
    callbacks, entered, leave = Callbacks(), threading.Event(), threading.Event()
    refusals: list[Exception] = []

    def raising(*_: Any) -> None:
        raise ValueError("a bug of the user")

    def blocking(*_: Any) -> None:
        entered.set()
        leave.wait(limit_s())
        for forbidden in (producer.flush, producer.close):
            try:
                forbidden()
            except RuntimeError as error:
                refusals.append(error)
        producer.put(b"from the callback")

    with TalosAdmin(sdk_config) as admin:
        admin.topics.create("rude", partitions=1)
    settings = ProducerSettings(batch_messages_max=1, linger_s=0.0)
    with TalosProducer(sdk_config, "rude", settings) as producer:
        producer.put(b"0", on_success=raising)
        producer.put(b"1", on_success=blocking)
        eventually("the callback is called", entered.is_set)
        producer.put(b"2", **callbacks.both)
        with SimpleConsumer(sdk_config, "rude") as consumer:
            # Though the callback of the one before has not returned.
            eventually("all are stored", lambda: len(consumer.fetch(0, 0)) == 3)
            stored = consumer.fetch(0, 0)
        assert callbacks.stored == []
        leave.set()
        producer.flush()
        assert [sent.data for sent, _, _ in callbacks.stored] == [b"2"]
    assert [record.data for record in stored] == [b"0", b"1", b"2"]
    assert len(refusals) == 2


async def test_a_deleted_topic_fails_its_messages_and_a_recreated_one_gets_them(
    sdk_config: ClientConfig,
) -> None:
    callbacks = Callbacks()
    async with aio.Client(sdk_config) as client:
        admin = aio.TalosAdmin(client)
        with pytest.raises(TopicNotExist):
            await aio.TalosProducer(client, "phoenix").put(b"too early")
        await admin.topics.create("phoenix", partitions=2)
        async with aio.TalosProducer(client, "phoenix") as producer:
            for text in (b"0", b"1"):
                await producer.put(text, **callbacks.both)
                await producer.flush()
            await admin.topics.delete("phoenix")
            await producer.put(b"2", **callbacks.both)
            await producer.flush()
            await admin.topics.create("phoenix", partitions=1)
            for text in (b"3", b"4"):
                await producer.put(text, **callbacks.both)
                await producer.flush()
        assert await read_all(client, "phoenix", 0) == [b"3", b"4"]
    assert [sent.data for sent, _, _ in callbacks.stored] == [b"0", b"1", b"3", b"4"]
    ((sent, error, outcome),) = callbacks.failed
    assert (sent.data, type(error), outcome) == (b"2", TopicNotExist, Outcome.NOT_DONE)


async def test_messages_of_a_partition_that_goes_are_stored_in_another(tmp_path: Path) -> None:
    callbacks = Callbacks()
    server = ServerProcess(tmp_path).start()
    async with aio.Client(config_of(server.url)) as client:
        admin = aio.TalosAdmin(client)
        await admin.topics.create("shrunk", partitions=8)
        async with aio.TalosProducer(client, "shrunk") as producer:
            await producer.put(Message(b"0", "user-42"), **callbacks.both)
            await producer.flush()
            await admin.topics.change("shrunk", partitions=2)
            await producer.put(Message(b"1", "user-42"), **callbacks.both)
            await producer.flush()
        assert await read_all(client, "shrunk", 0) == [b"1"]
    server.stop()
    assert [(partition, offset) for _, partition, offset in callbacks.stored] == [(4, 0), (0, 0)]
    assert callbacks.failed == []


async def test_tasks_share_a_producer_that_is_full(sdk_config: ClientConfig) -> None:
    async with aio.Client(sdk_config) as client:
        await aio.TalosAdmin(client).topics.create("tasks", partitions=2)
        settings = ProducerSettings(buffer_bytes_max=60_000)
        async with aio.TalosProducer(client, "tasks", settings) as producer:

            async def put(who: int) -> None:
                for number in range(50):
                    await producer.put(b"%d %d" % (who, number) + b"x" * 500)
                    assert producer.buffered_bytes <= 20_000

            await asyncio.gather(*[put(who) for who in range(5)])
        held = [await read_all(client, "tasks", partition) for partition in range(2)]
    assert len(held[0]) + len(held[1]) == 250
