"""Clients of Kafka at a server with rate quotas, and at one that encrypts what it stores."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from tests.e2e.kafka.clients import kafka_address
from tests.e2e.kafka.raw_kafka import RawKafka
from tests.e2e.kafka.test_figures import figure
from tests.e2e.kafka.test_history import settings_of
from tests.e2e.kafka.test_produce_fetch import batch, fetch_fields, put
from tests.e2e.kafka.test_records_both_ways import consumed
from tests.e2e.rest.client import rest
from tests.e2e.sdk.conftest import config_of
from tests.e2e.test_encryption import SECRET, files_with, key_file, section
from tests.server_process import ServerProcess
from tests.waiting import limit_s

from opentalos.sdk import SimpleConsumer, SimpleProducer
from opentalos.wire.kafka.apis import ApiKey
from opentalos.wire.kafka.errors import ErrorCode

RATE = 1_500_000  # bytes per second
LARGE = batch(b"x" * (RATE // 2))


def slow(rate: int) -> str:
    """Configuration of a server that grants so many bytes per second, and twice that for puts."""
    return f"[quota]\nuser_put_bytes_per_s = {2 * rate}\nuser_get_bytes_per_s = {rate}\n"


VALUE_BYTES = 20_000
COUNT = 500  # messages, more than seven seconds' worth: a client may be three ahead
REQUESTS_MAX = 500  # a client that does not pause sends thousands in that time


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path / "server")
    yield made
    made.kill()


def produced(settings: dict[str, Any], topic: str, values: list[bytes], **more: Any) -> None:
    """Each value once, and each acknowledged."""
    producer = confluent_kafka.Producer({**settings, "enable.idempotence": True, **more})
    errors: list[Any] = []
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(limit_s()) == 0
    assert errors == [None] * len(values)


def test_clients_over_their_rates_are_slowed_and_lose_nothing(server: ServerProcess) -> None:
    server.config = slow(RATE)
    server.start()
    assert rest(server, "POST", "topics", {"name": "slow", "partitions": 1}).status == 201
    settings = settings_of(server)
    values = [b"%06d" % number + b"x" * VALUE_BYTES for number in range(COUNT)]
    produced(settings, "slow", values, **{"batch.size": 3 * VALUE_BYTES, "linger.ms": 5})
    read = consumed(settings | {"fetch.message.max.bytes": 2 * VALUE_BYTES}, "slow", COUNT)
    assert [message.value() for message in read] == values
    assert figure(server, 'opentalos_quota_throttled_total{kind="put"}') > 0
    # librdkafka does not wait as it is asked to, so the server lets its next request wait.
    assert figure(server, 'opentalos_kafka_requests_total{request="fetch"}') < REQUESTS_MAX


async def test_answers_say_how_long_to_wait(server: ServerProcess) -> None:
    # Far below what one large put or fetch is, however slowly this machine makes them.
    server.config = slow(RATE // 20) + "throttle_max_s = 0.2\n"
    server.start()
    assert rest(server, "POST", "topics", {"name": "slow", "partitions": 1}).status == 201
    async with RawKafka(kafka_address(server)) as raw:
        codes = []
        while ErrorCode.NOT_ENOUGH_REPLICAS not in codes:  # not stored, and to be repeated
            codes.append((await put(raw, "slow", LARGE)).error_code)
            assert len(codes) < 100
        fields = {"topics": fetch_fields("slow", {0: 0})["topics"], "max_bytes": 1 << 20}
        waits: list[int] = []
        while not any(waits):
            found = await raw.call(ApiKey.FETCH, 11, max_wait_ms=0, min_bytes=1, **fields)
            waits.append(found.throttle_time_ms)
            assert len(waits) < 100


@pytest.mark.parametrize("journal", ["off", "on"])
def test_batches_are_encrypted_on_disk_and_read_as_they_were_sent(
    server: ServerProcess, tmp_path: Path, journal: str
) -> None:
    server.config = f'[log]\njournal = "{journal}"\n' + section(key_file=key_file(tmp_path, "key"))
    server.start()
    assert rest(server, "POST", "topics", {"name": "orders", "partitions": 1}).status == 201
    settings = settings_of(server)
    values = [SECRET + b" %d" % number for number in range(300)]
    # Compressed ones have no plaintext anyway; they show that every codec is stored and read.
    for codec, some in (("none", values[:100]), ("lz4", values[100:200])):
        produced(settings, "orders", some, **{"compression.type": codec})
    with SimpleProducer(config_of(server.url), "orders") as producer:
        producer.put(values[200:], partition=0)
    server.kill()
    assert files_with(server.data, SECRET) == []
    server.start()
    assert rest(server, "POST", "encryption/rotation", {}).status == 200
    produced(settings_of(server), "orders", [SECRET])
    read = consumed(settings_of(server), "orders", len(values) + 1)
    assert [message.value() for message in read] == [*values, SECRET]
    with SimpleConsumer(config_of(server.url), "orders") as consumer:
        found: list[bytes] = []
        while len(found) <= len(values):
            found += [record.data for record in consumer.fetch(0, len(found))]
    assert found == [*values, SECRET]
    server.kill()
    assert files_with(server.data, SECRET) == []
