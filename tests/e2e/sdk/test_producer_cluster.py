"""TalosProducer in a cluster: partitions move under it, and its puts are forwarded."""

import asyncio

import pytest
from tests.e2e.memory_cluster import memory_cluster, settled
from tests.e2e.sdk.conftest import config_of, read_all
from tests.waiting import elapse_async, within_limit

from opentalos.sdk import ProducerSettings, aio

PARTITIONS = 12  # so that every server has some
COUNT_MIN = 400  # messages; more as long as the server takes to leave


@pytest.mark.parametrize("direct", [True, False])
async def test_every_message_is_stored_once_while_partitions_move(direct: bool) -> None:
    settings = ProducerSettings(batch_messages_max=5, linger_s=0.01, idempotent=True)
    async with memory_cluster() as servers:
        url = f"http://127.0.0.1:{servers[0].port}"
        async with aio.Client(config_of(url, direct=direct)) as client:
            topic = await aio.TalosAdmin(client).topics.create("moved", partitions=PARTITIONS)
            await settled(servers, topic.resource.rsplit("#", 1)[1], PARTITIONS)
            async with aio.TalosProducer(client, "moved", settings) as producer:
                count, leaving = 0, None
                async with within_limit("the server leaves"):
                    while count < COUNT_MIN or leaving is None or not leaving.done():
                        await producer.put(b"%d" % count)
                        await elapse_async("the pace of the load", 0.002)
                        count += 1
                        if count == COUNT_MIN // 4:
                            leaving = asyncio.create_task(servers[2].stop())
                    await leaving
            held = [await read_all(client, "moved", number) for number in range(PARTITIONS)]
        await servers[2].start()
    assert sorted(int(data) for item in held for data in item) == list(range(count))
    for item in held:
        assert item == sorted(item, key=int), "the order of the puts"
