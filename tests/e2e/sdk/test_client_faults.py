"""A network that loses answers, cuts connections and falls silent between client and server."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.e2e.sdk.conftest import config_of, read_all
from tests.server_process import ServerProcess
from tests.tcp_proxy import TcpProxy
from tests.waiting import elapse_async, eventually_async

from opentalos.sdk import Compression, Message, aio
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.core.blocks import encode_records
from opentalos.sdk.core.values import ProducerStamp
from opentalos.sdk.errors import ConnectFailed, OutcomeUnknown

REQUEST_S = 0.3  # for one attempt of a request


@pytest.fixture
def proxy(sdk_server: ServerProcess) -> Iterator[TcpProxy]:
    made = TcpProxy(sdk_server.port)
    yield made
    made.close()


def client_of(proxy: TcpProxy, **settings: float) -> Client:
    """A client that knows the proxy only."""
    return Client(config_of(f"http://{proxy.address}", direct=False, **settings))


def is_put(chunk: bytes) -> bool:
    return b"type=putMessage" in chunk


async def test_a_put_whose_answer_is_lost_is_repeated_and_stored_once(proxy: TcpProxy) -> None:
    async with client_of(proxy) as client:
        await aio.TalosAdmin(client).topics.create("repeated", partitions=1)
        producer = aio.SimpleProducer(client, "repeated")
        for number in range(5):
            proxy.lose_answer(is_put)
            assert (await producer.put([b"%d" % number])).base_offset == number
        assert await read_all(client, "repeated", 0) == [b"0", b"1", b"2", b"3", b"4"]


async def test_without_idempotence_a_lost_answer_is_unknown(proxy: TcpProxy) -> None:
    async with client_of(proxy) as client:
        await aio.TalosAdmin(client).topics.create("lost-answer", partitions=1)
        producer = aio.SimpleProducer(client, "lost-answer", idempotent=False)
        proxy.lose_answer(is_put)
        with pytest.raises(OutcomeUnknown):
            await producer.put([b"maybe"])
        await producer.put([b"sure"])
        assert await read_all(client, "lost-answer", 0) == [b"maybe", b"sure"]


async def test_an_idempotent_put_whose_answers_are_lost_is_stored_once(proxy: TcpProxy) -> None:
    async with client_of(proxy) as client:
        ref = await aio.TalosAdmin(client).topics.create("idempotent", partitions=1)
        for number in range(5):
            proxy.lose_answer(is_put)
            block = encode_records([Message(b"%d" % number)], Compression.NONE)
            stamp = ProducerStamp(producer_id=7, epoch=0, sequence=number)
            assert (await client.put(ref, 0, block, stamp=stamp)).base_offset == number
        assert await read_all(client, "idempotent", 0) == [b"0", b"1", b"2", b"3", b"4"]


async def test_connections_cut_while_idle_harm_nobody(proxy: TcpProxy) -> None:
    async with client_of(proxy) as client:
        await aio.TalosAdmin(client).topics.create("idle-cut", partitions=1)
        producer = aio.SimpleProducer(client, "idle-cut")
        for number in range(10):
            await producer.put([b"%d" % number])
            proxy.drop()
            await eventually_async("the connections are cut", lambda: not proxy.connections)
        assert len(await read_all(client, "idle-cut", 0)) == 10


async def test_while_nobody_listens_nothing_is_done(proxy: TcpProxy) -> None:
    async with client_of(proxy) as client:
        ref = await aio.TalosAdmin(client).topics.create("cut-off", partitions=1)
        producer = aio.SimpleProducer(client, "cut-off")
        await producer.put([b"before"])
        proxy.cut()
        block = encode_records([Message(b"never")], Compression.NONE)
        stamp = ProducerStamp(producer_id=7, epoch=0, sequence=0)
        with pytest.raises(ConnectFailed):
            await client.put(ref, 0, block, stamp=stamp, deadline_s=0.5)
        proxy.restore()
        await producer.put([b"after"])
        assert await read_all(client, "cut-off", 0) == [b"before", b"after"]


async def test_silence_is_unknown_for_a_put_and_waited_out_by_a_read(proxy: TcpProxy) -> None:
    async with client_of(proxy) as client:
        await aio.TalosAdmin(client).topics.create("silent", partitions=1)
    async with client_of(proxy, request_timeout_s=REQUEST_S) as client:
        await aio.SimpleProducer(client, "silent").put([b"x"])  # however long it takes
        producer = aio.SimpleProducer(client, "silent", idempotent=False)
        proxy.silence()
        with pytest.raises(OutcomeUnknown):
            await producer.put([b"y"])
        reading = asyncio.create_task(read_all(client, "silent", 0))
        await elapse_async("a request of the read passes its time limit", 2 * REQUEST_S)
        proxy.restore()
        assert (await reading)[0] == b"x"
