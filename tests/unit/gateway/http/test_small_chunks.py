"""Bodies in small chunks: what they keep, what a step of the loop has of them, what is refused."""

import asyncio
import sys
from dataclasses import replace
from random import Random

import pytest
from tests.loop_steps import CALLS_MAX, LoopSteps
from tests.unit.gateway.http.support import LIMITS, Bench, FakeTransport, statuses

from opentalos.gateway.http.connection import PIECES_MAX, HttpConnection
from opentalos.gateway.http.request_reading import HEADERS_MAX, PIECE_BYTES_MIN
from opentalos.model.limits import HttpLimits

READ_BYTES = 256 << 10  # of one call of the system
HEAD = b"POST /keep/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
ECHO = HEAD.replace(b"/keep/1", b"/echo")
END = b"0\r\n\r\n"


def chunks(body: bytes, size: int) -> bytes:
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


async def send(
    bench: Bench, connection: HttpConnection, transport: FakeTransport, data: bytes
) -> None:
    """Each read is a step of the loop, and there is none while reading is paused."""
    for at in range(0, len(data), READ_BYTES):
        asyncio.get_running_loop().call_soon(connection.data_received, data[at : at + READ_BYTES])
        await asyncio.sleep(0)
        await bench.all_turns()
        assert transport.reading, "all turns are over, and it still waits"


@pytest.mark.parametrize(
    ("size", "count"),
    [(1, 3_000), (2, 5_000), (10, 5_000), (1 << 10, 400), (5_000, 200), (70_000, 20)],
)
async def test_a_body_is_the_same_in_chunks_of_any_size(size: int, count: int) -> None:
    bench = Bench(HttpLimits())
    connection, transport = bench.connect()
    body = Random(size).randbytes(size * count)
    await send(bench, connection, transport, (ECHO + chunks(body, size) + END) * 2)
    assert statuses(transport.written) == [200, 200]
    assert transport.written.count(body) == 2
    assert bench.server.body_bytes == 0


@pytest.mark.parametrize("size", [5, 10, 100, 1 << 10, 4095])
async def test_a_body_in_small_chunks_takes_the_memory_that_is_counted(size: int) -> None:
    bench = Bench(HttpLimits())
    connection, transport = bench.connect()
    body = bytes(1 << 20)
    await send(bench, connection, transport, HEAD + chunks(body, size))
    parts = connection._parts
    assert sum(map(len, parts)) == len(body)
    assert len(parts) <= 2 * len(body) // (64 << 10)
    assert sum(map(sys.getsizeof, parts)) <= 1.2 * len(body)
    assert len(body) <= bench.server.body_bytes < len(body) + PIECE_BYTES_MIN
    connection.connection_lost(None)
    assert bench.server.body_bytes == 0
    assert connection._parts == []


def test_a_body_in_small_reads_takes_the_memory_that_is_counted() -> None:
    for size in (10_000, 100_000):
        bench = Bench(HttpLimits())
        connection, _ = bench.connect()
        connection.data_received(b"POST /keep/1 HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size - 1):
            connection.data_received(b"x")
        assert len(connection._parts) <= 3
        connection.data_received(b"y")
        assert bench.seen[0].body == b"x" * (size - 1) + b"y"


@pytest.mark.parametrize("size", [1, 2])
async def test_a_body_of_a_megabyte_in_tiny_chunks_is_refused(size: int) -> None:
    bench = Bench(HttpLimits())
    connection, transport = bench.connect()
    await send(bench, connection, transport, HEAD + chunks(bytes(1 << 20), size) + END)
    assert statuses(transport.written) == [400]
    assert b"chunks of the body are too small" in transport.written
    assert (bench.seen, bench.server.body_bytes) == ([], 0)


LINES = b"".join(b"%x:\r\n" % number for number in range(50_000))


@pytest.mark.parametrize(
    "data",
    [
        HEAD + chunks(bytes(1 << 20), 1),
        HEAD + chunks(bytes(1 << 20), 5),
        HEAD + chunks(bytes(1 << 20), 100),
        (ECHO + chunks(bytes(2_000), 1) + END) * 20,
        b"GET /keep/1 HTTP/1.1\r\n" + LINES,
        b"GET /keep/1 HTTP/1.1\r\n" + b"a:\r\n" * 50_000,
        HEAD + b"1\r\nx\r\n0\r\n" + LINES,
    ],
    ids=["single bytes", "five bytes", "lines", "messages", "head", "same name", "trailer"],
)
async def test_a_step_has_a_bounded_part_of_a_read(data: bytes) -> None:
    bench = Bench(HttpLimits())
    connection, transport = bench.connect()
    bench.connect("203.0.113.7")  # so that turns are shared
    with LoopSteps() as steps:
        await send(bench, connection, transport, data[:READ_BYTES])
    assert steps.largest.calls <= CALLS_MAX, str(steps.largest)


async def test_small_reads_of_small_chunks_wait_while_others_have_the_pass() -> None:
    bench = Bench(HttpLimits())
    connections = [bench.connect(f"198.51.100.{number}") for number in range(4)]
    for connection, _ in connections:
        connection.data_received(HEAD)
    for connection, _ in connections:
        connection.data_received(chunks(bytes(600), 1))
    waiting = [connection for connection, _ in connections if connection._backlog]
    assert len(waiting) >= 2, "each connection had a turn of its own in one pass"
    await bench.all_turns()
    assert [connection._body_bytes for connection, _ in connections] == [600] * 4


async def test_the_end_of_the_stream_waits_for_the_rest_of_the_body() -> None:
    bench = Bench(HttpLimits())
    connection, transport = bench.connect()
    body = bytes(20 * PIECES_MAX)
    connection.data_received(HEAD + chunks(body, 5) * 3 + END)
    assert connection._backlog
    assert connection.eof_received(), "the connection would be closed without an answer"
    await bench.all_turns()
    (exchange,) = bench.seen
    assert exchange.body == body * 3
    exchange.reply_text(200, "read")
    assert statuses(transport.written) == [200]
    assert transport.closed


async def test_the_end_of_the_stream_inside_a_body_closes() -> None:
    bench = Bench(HttpLimits())
    connection, transport = bench.connect()
    connection.data_received(HEAD + chunks(bytes(10_000), 5))
    assert connection.eof_received()
    await bench.all_turns()
    assert bench.seen == []
    assert transport.closed


def test_lines_of_head_and_trailer_are_counted_together() -> None:
    for more, status in ((90, 200), (HEADERS_MAX, 431)):
        bench = Bench(replace(LIMITS, header_bytes_max=16 << 10))
        connection, transport = bench.connect()
        trailer = b"".join(b"t%d: x\r\n" % number for number in range(more))
        connection.data_received(ECHO + b"1\r\nx\r\n0\r\n" + trailer + b"\r\n")
        assert statuses(transport.written) == [status]


def test_a_large_body_is_joined_only_when_it_is_used() -> None:
    bench = Bench(HttpLimits())
    connection, _ = bench.connect()
    body = Random(1).randbytes(300_000)
    connection.data_received(b"POST /keep/1 HTTP/1.1\r\nContent-Length: 300000\r\n\r\n")
    for at in range(0, len(body), 100_000):
        connection.data_received(body[at : at + 100_000])
    (exchange,) = bench.seen
    assert exchange.body_bytes == len(body)
    assert len(exchange._parts) == 3, "its size was asked, and it was copied"
    assert exchange.body == body
    assert exchange.body is exchange.body
    assert (exchange.body_bytes, exchange._parts) == (len(body), ())
