"""Fetches that wait for messages: each ends by itself, and with its client alone."""

import asyncio

from tests.e2e.kafka.clients import kafka_address
from tests.e2e.kafka.raw_kafka import RawKafka
from tests.e2e.kafka.test_figures import figure
from tests.e2e.rest.client import rest
from tests.server_process import ServerProcess
from tests.waiting import eventually_async

from opentalos.wire.kafka._generated.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from opentalos.wire.kafka.apis import ApiKey

LONG_MS = 120_000  # more than the test takes


async def until_waiting(server: ServerProcess, count: int) -> None:
    """Until the server says that so many calls wait for messages."""

    async def waiting() -> bool:
        return await asyncio.to_thread(figure, server, "opentalos_gets_waiting") == count

    await eventually_async(f"{count} calls wait", waiting)


async def test_a_wait_ends_with_its_client_and_with_no_other(kafka_server: ServerProcess) -> None:
    made = {"name": "waited-for", "partitions": 1}
    assert (await asyncio.to_thread(rest, kafka_server, "POST", "topics", made)).status == 201
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    wait = FetchRequest(
        max_wait_ms=LONG_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="waited-for", partitions=[part])],
    )
    address = kafka_address(kafka_server)
    async with RawKafka(address) as stays:
        await stays.begin(ApiKey.FETCH, 11, wait)
        await until_waiting(kafka_server, 1)
        async with RawKafka(address) as leaves:
            await leaves.begin(ApiKey.FETCH, 11, wait)
            await until_waiting(kafka_server, 2)
        await until_waiting(kafka_server, 1)
        put = {"messages": [{"text": "x"}]}
        path = "topics/waited-for/partitions/0/messages"
        assert (await asyncio.to_thread(rest, kafka_server, "POST", path, put)).status < 300
        fetched = await stays.receive(ApiKey.FETCH, 11)
        assert fetched.responses[0].partitions[0].high_watermark == 1
    await until_waiting(kafka_server, 0)
