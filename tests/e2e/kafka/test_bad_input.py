"""Clients that lie, stall or flood: their connections end, memory is bounded, others are served."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.e2e.kafka.clients import kafka_address
from tests.e2e.kafka.test_figures import figure
from tests.e2e.rest.client import rest
from tests.kafka_wire import KafkaWire
from tests.server_process import ServerProcess
from tests.tls_files import TlsFolder
from tests.waiting import elapse_async, eventually_async

from opentalos.wire.kafka._generated.metadata_request import MetadataRequest
from opentalos.wire.kafka._generated.metadata_request import MetadataRequestTopic as Wanted
from opentalos.wire.kafka.apis import ApiKey, api_of, write_request

REQUEST_S = 1.0
CONFIG = f"""[kafka]
request_bytes_max = 4_194_304
requests_bytes_total_max = 16_777_216
answers_bytes_total_max = 16_777_216
connections_max = 150
request_timeout_s = {REQUEST_S}
write_stall_s = 1.0
"""
GROWTH_MAX = 96 << 20  # bytes of the process under attack; the limits above are 32 MiB together
TOPICS, PARTITIONS = 8, 256
HEAD = struct.pack(">hhih", ApiKey.METADATA, 9, 7, -1) + b"\0"  # with no tags


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path_factory.mktemp("server"), CONFIG).start()
    for number in range(TOPICS):
        topic = {"name": f"t{number}", "partitions": PARTITIONS}
        assert rest(running, "POST", "topics", topic).status == 201
    yield running
    running.stop()


@pytest.fixture
async def good(server: ServerProcess) -> "KafkaWire":
    """A client whose connection must survive what others do."""
    return await (await KafkaWire(kafka_address(server)).__aenter__()).plain()


async def served(good: KafkaWire) -> bool:
    found = await good.call(ApiKey.METADATA, 9, topics=[Wanted(name="t0")])
    await good.__aexit__(None, None, None)
    return len(found.topics[0].partitions) == PARTITIONS


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


LIES = {
    "negative size": struct.pack(">i", -1),
    "no size": struct.pack(">i", 0),
    "huge size": struct.pack(">i", 2**31 - 1),
    "over the limit": struct.pack(">i", (4 << 20) + 1),
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls": bytes.fromhex("16030100") + bytes(512),
    "unknown request": framed(struct.pack(">hhih", 999, 0, 1, -1)),
    "negative request": framed(struct.pack(">hhih", -1, 0, 1, -1)),
    "not ours": framed(struct.pack(">hhih", 4, 0, 1, -1)),
    "too new": framed(struct.pack(">hhih", ApiKey.METADATA, 99, 1, -1)),
    "negative version": framed(struct.pack(">hhih", ApiKey.METADATA, -1, 1, -1)),
    "a header cut off": framed(b"\0\3\0"),
    "a client id beyond the end": framed(struct.pack(">hhih", ApiKey.METADATA, 9, 1, 500)),
    "a client id that is no text": framed(struct.pack(">hhih", 3, 0, 1, 2) + b"\xff\xfe"),
    "too many tags": framed(HEAD[:-1] + b"\xff\xff\xff\xff\x07"),
    "a number without end": framed(HEAD + b"\xff" * 12),
    "too many topics": framed(HEAD + b"\xff\xff\xff\xff\x07" + bytes(64)),
    "a name beyond the end": framed(HEAD + b"\x02\xff\x7f"),
    "a tag beyond the end": framed(HEAD + b"\x01\0\0\0\x01\x09\xff\x7f"),
    "items that cost nothing to send": framed(HEAD + b"\xc1\x9a\x0c" + b"\x01\0" * 200_001),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
async def test_a_lie_ends_the_connection(
    server: ServerProcess, good: KafkaWire, lie: str, known: bool
) -> None:
    async with KafkaWire(kafka_address(server)) as wire:
        if known:
            await wire.plain()
        await wire.send(LIES[lie])
        assert await wire.ended()
    assert await served(good)


async def test_requests_before_a_lie_are_answered(server: ServerProcess) -> None:
    request = write_request(
        api_of(ApiKey.DESCRIBE_CLUSTER), 0, api_of(ApiKey.DESCRIBE_CLUSTER).request(), 5
    )
    async with KafkaWire(kafka_address(server)) as wire:
        await wire.plain()
        await wire.send(bytes(request) + LIES["huge size"])
        assert (await wire.frame())[:4] == struct.pack(">i", 5)
        assert await wire.ended()


async def test_every_byte_cut_off_or_turned(server: ServerProcess, good: KafkaWire) -> None:
    """Whatever it becomes is answered, or ends that connection alone."""
    request = MetadataRequest(topics=[Wanted(name="t1"), Wanted(name="t2")])
    body = bytes(write_request(api_of(ApiKey.METADATA), 9, request, 1, "client"))[4:]
    broken = [framed(body[:end]) for end in range(1, len(body))]
    broken += [
        framed(body[:at] + bytes((value,)) + body[at + 1 :])
        for at in range(len(body))
        for value in (0, 0x7F, 0x80, 0xFF)
    ]
    for message in broken:
        async with KafkaWire(kafka_address(server)) as wire:
            await wire.plain()
            await wire.send(message)
            try:
                await wire.frame()
            except (EOFError, ConnectionError):
                pass
    assert await served(good)


async def test_a_version_too_new_of_the_first_request_is_told(server: ServerProcess) -> None:
    async with KafkaWire(kafka_address(server)) as wire:
        await wire.send(framed(struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 3, -1)))
        answer = await wire.frame()
        assert answer[:6] == struct.pack(">ih", 3, 35)
        await wire.plain()


async def test_large_requests_need_authentication(server: ServerProcess) -> None:
    topics = [Wanted(name="x" * 80) for _ in range(1_000)]
    request = write_request(api_of(ApiKey.METADATA), 9, MetadataRequest(topics=topics), 1)
    async with KafkaWire(kafka_address(server)) as wire:
        await wire.send(request)
        assert await wire.ended()
    async with KafkaWire(kafka_address(server)) as wire:
        await wire.plain()
        await wire.send(request)
        assert await wire.frame()


async def test_slow_senders_lose_their_connections(server: ServerProcess, good: KafkaWire) -> None:
    """One byte now and then gains nothing, before and after authentication."""
    for known in (False, True):
        async with KafkaWire(kafka_address(server)) as wire:
            if known:
                await wire.plain()
            await wire.send(struct.pack(">i", 60_000))

            async def drip(to: KafkaWire = wire) -> None:
                while True:
                    await to.send(b"\0")
                    await elapse_async("a sender is slow", REQUEST_S / 5)

            dripping = asyncio.create_task(drip())
            assert await wire.ended()
            dripping.cancel()
            await asyncio.gather(dripping, return_exceptions=True)
    assert await served(good)


async def test_clients_that_never_authenticate_are_cut(server: ServerProcess) -> None:
    async with KafkaWire(kafka_address(server)) as wire:
        assert await wire.ended()


async def test_slow_readers_do_not_fill_memory(server: ServerProcess, good: KafkaWire) -> None:
    """Some ask for long answers many times, and read nothing: at most one answer each is made."""
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    topics = [Wanted(name=f"{number:030000}") for number in range(100)]
    request = bytes(write_request(api_of(ApiKey.METADATA), 9, MetadataRequest(topics=topics), 1))
    wires = [await slow_reader(server) for _ in range(10)]
    for wire in wires:
        for _ in range(8):
            wire.writer.write(request)

    async def all_cut() -> bool:
        assert process.memory_info().rss - before < GROWTH_MAX
        return await asyncio.to_thread(figure, server, "opentalos_kafka_connections") == 1.0

    await eventually_async("the server cuts those that read nothing, and no other", all_cut)
    assert await served(good)
    wires[0].writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert await wires[0].ended(), "the first one stalled first, and was cut"
    for wire in wires:
        await wire.__aexit__(None, None, None)


async def slow_reader(server: ServerProcess) -> KafkaWire:
    wire = KafkaWire(kafka_address(server))
    await wire.__aenter__()
    await wire.plain()
    small = wire.writer.transport.get_extra_info("socket")
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
    return wire


async def test_announced_requests_do_not_fill_memory(server: ServerProcess) -> None:
    """Sixty clients announce 4 MiB each and send almost all of it; few are read at a time."""
    process = psutil.Process(server.pid)
    before = process.memory_info().rss
    part = struct.pack(">i", 4 << 20) + bytes((4 << 20) - 1)
    wires = []
    for _ in range(60):
        wire = await KafkaWire(kafka_address(server)).__aenter__()
        wires.append(await wire.plain())
    for wire in wires:
        wire.writer.write(part)
    assert await wires[0].ended()
    assert process.memory_info().rss - before < GROWTH_MAX
    for wire in wires:
        await wire.__aexit__(None, None, None)


async def test_a_flood_of_connections_leaves_room(server: ServerProcess, good: KafkaWire) -> None:
    """Those beyond the limit are cut at once; later there is room again."""
    wires = [await KafkaWire(kafka_address(server)).__aenter__() for _ in range(200)]
    assert await served(good)
    for wire in wires:
        assert await wire.ended()
        await wire.__aexit__(None, None, None)
    async with KafkaWire(kafka_address(server)) as wire:
        await wire.plain()


async def test_thousands_of_requests_at_once_are_answered_in_order(server: ServerProcess) -> None:
    cluster = api_of(ApiKey.DESCRIBE_CLUSTER)
    numbers = range(1, 3_001)
    async with KafkaWire(kafka_address(server)) as wire:
        await wire.plain()
        sent = b"".join(bytes(write_request(cluster, 0, cluster.request(), it)) for it in numbers)
        sending = asyncio.create_task(wire.send(sent))
        for number in numbers:
            assert (await wire.frame())[:4] == struct.pack(">i", number)
        await sending


async def test_half_open_and_reset_connections(server: ServerProcess, good: KafkaWire) -> None:
    for _ in range(20):
        wire = await KafkaWire(kafka_address(server)).__aenter__()
        await wire.plain()
        await wire.send(write_request(api_of(ApiKey.METADATA), 9, MetadataRequest(topics=None), 1))
        wire.writer.write_eof()
        assert await wire.ended()
        await wire.__aexit__(None, None, None)
        reset = await KafkaWire(kafka_address(server)).__aenter__()
        linger = struct.pack("ii", 1, 0)
        reset.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, linger
        )
        await reset.__aexit__(None, None, None)
    assert await served(good)


async def test_plain_clients_on_a_port_with_tls(tmp_path: Path) -> None:
    folder = TlsFolder(tmp_path / "tls")
    server = ServerProcess(tmp_path, folder.section()).start()
    try:
        async with KafkaWire(kafka_address(server)) as wire:
            await wire.send(LIES["not ours"])
            assert await wire.ended()
        async with KafkaWire(kafka_address(server), folder.trust()) as wire:
            await wire.plain()
        with pytest.raises(ssl.SSLError):
            await KafkaWire(kafka_address(server), ssl.create_default_context()).__aenter__()
    finally:
        server.stop()
