"""Client-side addressing in a cluster: to the owner, after moves, after ends."""

import asyncio
from pathlib import Path

from tests.e2e.memory_cluster import MemoryServer, memory_cluster, settled
from tests.e2e.sdk.conftest import config_of, read_all
from tests.tls_files import TlsFolder
from tests.waiting import eventually_async

from opentalos.model.settings.security import TlsSettings as ServerTlsSettings
from opentalos.sdk import ClientConfig, TlsSettings, aio
from opentalos.sdk.core.values import TopicRef

PARTITIONS = 12


async def topic_of(client: aio.Client, servers: list[MemoryServer]) -> TopicRef:
    topic = await aio.TalosAdmin(client).topics.create("spread", partitions=PARTITIONS)
    await settled(servers, topic.resource.rsplit("#", 1)[1], PARTITIONS)
    return topic


def forwarded(servers: list[MemoryServer]) -> int:
    return sum(server.counters()["requests"] for server in servers)


async def put_everywhere(client: aio.Client, data: bytes) -> None:
    producer = aio.SimpleProducer(client, "spread")
    await asyncio.gather(*(producer.put([data], partition=n) for n in range(PARTITIONS)))


async def test_puts_and_gets_go_to_the_owner() -> None:
    async with memory_cluster() as servers, aio.Client(config_of(url(servers[0]))) as client:
        await topic_of(client, servers)
        count = 0

        async def put_directly() -> bool:
            nonlocal count
            count, before = count + 1, forwarded(servers)
            await put_everywhere(client, b"%d" % count)
            return forwarded(servers) == before

        # The first map may have been asked for too early.
        await eventually_async("the client knows every owner", put_directly)
        before = forwarded(servers)
        await put_everywhere(client, b"last")
        consumer = aio.SimpleConsumer(client, "spread")
        expected = [*(b"%d" % number for number in range(1, count + 1)), b"last"]
        for partition in range(PARTITIONS):
            records = await consumer.fetch(partition, 0)
            assert [record.data for record in records] == expected
        assert forwarded(servers) == before


async def test_without_direct_the_endpoint_forwards() -> None:
    async with memory_cluster() as servers:
        async with aio.Client(config_of(url(servers[0]), direct=False)) as client:
            await topic_of(client, servers)
            before = forwarded(servers)
            await put_everywhere(client, b"x")
            assert forwarded(servers) > before


async def test_partitions_that_move_are_followed() -> None:
    async with memory_cluster() as servers:
        async with aio.Client(config_of(url(servers[0]))) as client:
            await topic_of(client, servers)
            await put_everywhere(client, b"before")
            await servers[2].stop()
            await put_everywhere(client, b"after")
            for partition in range(PARTITIONS):
                assert await read_all(client, "spread", partition) == [b"before", b"after"]
        await servers[2].start()


async def test_a_client_outlives_its_endpoint() -> None:
    async with memory_cluster() as servers:
        async with aio.Client(config_of(url(servers[0]))) as client:
            await topic_of(client, servers)
            await put_everywhere(client, b"before")
            await servers[0].stop()
            await put_everywhere(client, b"after")
            assert (await aio.TalosAdmin(client).topics.describe("spread")).messages > 0
        await servers[0].start()


async def test_under_tls_everything_goes_to_the_endpoint(tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path)
    tls = ServerTlsSettings(
        cert_file=str(folder.cert), key_file=str(folder.key), peer_ca_file=str(folder.ca)
    )
    async with memory_cluster(tls=tls, trust=folder.trust()) as servers:
        plain = config_of(f"https://127.0.0.1:{servers[0].port}")
        config = ClientConfig(
            endpoints=plain.endpoints, key_id=plain.key_id, secret=plain.secret,
            tls=TlsSettings(ca_file=str(folder.ca)),
        )  # fmt: skip
        async with aio.Client(config) as client:
            await topic_of(client, servers)
            before = forwarded(servers)
            await put_everywhere(client, b"x")
            assert forwarded(servers) > before


def url(server: MemoryServer) -> str:
    return f"http://127.0.0.1:{server.port}"
