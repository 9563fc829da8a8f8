"""What is read as a request: one meaning, a bounded head, and a body within the budget."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from tests.unit.gateway.http.support import LIMITS, Bench, request, statuses
from tests.unit.matrix import matrix

from opentalos.gateway.http.connection import AHEAD_BYTES, FEED_BYTES_MAX
from opentalos.gateway.http.fairness.body_budget import UNSHARED_BYTES, Claim
from opentalos.gateway.http.request_reading import HEADERS_MAX, RAW_BYTES_MIN

HEAD = replace(LIMITS, header_bytes_max=16 << 10)
BODY = 1 << 20
BODIES = replace(LIMITS, body_bytes_max=BODY, bodies_bytes_total_max=16 * BODY, connections_max=99)
STRANGER, KNOWN = "198.51.100.1", "203.0.113.1"
UPGRADE = "Connection: Upgrade\r\nUpgrade: h2c\r\n"
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST", "PUT"])
def test_an_upgrade_with_a_body_keeps_its_method(method: str) -> None:
    bench = Bench()
    connection, _ = bench.connect()
    head = f"{method} /keep/1 HTTP/1.1\r\nHost: a\r\n{UPGRADE}Content-Length: 5\r\n\r\n"
    connection.data_received(head.encode() + b"hello")
    (exchange,) = bench.seen
    assert (exchange.method, exchange.body) == (method.encode(), b"hello")


def test_an_upgrade_with_a_body_closes_if_the_client_said_so() -> None:
    bench = Bench()
    connection, transport = bench.connect()
    more = "Connection: close, Upgrade\r\nUpgrade: h2c\r\n"
    connection.data_received(request(body=b"hello", more=more))
    assert statuses(transport.written) == [200]
    assert b"Connection: close\r\n" in transport.written
    assert transport.closed


async def test_upgrades_one_after_the_other_are_requests_of_their_own() -> None:
    bench = Bench()
    connection, transport = bench.connect()
    connection.data_received(request(body=b"1", more=UPGRADE) * 50)
    await bench.all_turns()
    assert statuses(transport.written) == [200] * 50


@pytest.mark.parametrize("step", [1 << 10, FEED_BYTES_MAX, 40_000])
def test_a_head_beyond_the_bound_is_refused_however_it_comes(step: int) -> None:
    lines = {
        "one value": b"A: " + b"x" * 40_000,
        "lines": b"".join(b"A%d: %b\r\n" % (n, b"x" * 500) for n in range(78)),
        "names": b"".join(b"%b%d: x\r\n" % (b"n" * 500, n) for n in range(78)),
        "one name": b"A: x\r\n" * 7_000,
    }
    for what, text in lines.items():
        bench = Bench(HEAD)
        connection, transport = bench.connect()
        data = b"GET /keep/1 HTTP/1.1\r\nHost: a\r\n" + text + b"\r\n\r\n"
        for position in range(0, len(data), step):
            connection.data_received(data[position : position + step])
        assert statuses(transport.written) == [431], what
        assert bench.seen == [], what


@pytest.mark.parametrize("step", [1 << 10, FEED_BYTES_MAX, 40_000])
def test_a_target_beyond_the_bound_is_refused(step: int) -> None:
    bench = Bench(HEAD)
    connection, transport = bench.connect()
    data = b"GET /keep/" + b"x" * 40_000 + b" HTTP/1.1\r\n\r\n"
    for position in range(0, len(data), step):
        connection.data_received(data[position : position + step])
    assert statuses(transport.written) == [431]


@pytest.mark.parametrize("step", [100, 7_000, FEED_BYTES_MAX])
def test_a_head_within_the_bound_is_read_in_any_pieces(step: int) -> None:
    bench = Bench(HEAD)
    connection, _ = bench.connect()
    lines = "".join(f"A{n}: {'x' * 150}\r\n" for n in range(95))
    data = request("/keep/1", b"hello", more=lines) * 3
    for position in range(0, len(data), step):
        connection.data_received(data[position : position + step])
    assert len(bench.seen) == 1
    assert len(connection._queue) == 2


@pytest.mark.parametrize("seed", range(20))
async def test_large_bodies_are_the_same_in_any_pieces(seed: int) -> None:
    draw = Random(seed)
    bodies = [draw.randbytes(draw.choice([0, 5, 20_000, 60_000, 200_000])) for _ in range(12)]
    heads = [draw.choice(["", UPGRADE, "X-More: 1\r\n"]) for _ in bodies]
    sent = b"".join(
        f"POST /keep/{number} HTTP/1.1\r\nHost: a\r\n{more}"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
        for number, (body, more) in enumerate(zip(bodies, heads, strict=True))
    )
    bench = Bench(BODIES)
    connection, transport = bench.connect()
    at = 0
    while at < len(sent):
        step = draw.choice([1, 300, RAW_BYTES_MIN, 70_000, 256 << 10])
        connection.data_received(sent[at : at + step])
        at += step
        await bench.all_turns()
        while len(bench.seen) > len(statuses(transport.written)):
            bench.seen[-1].reply_text(200, "kept")
            await bench.all_turns()
    assert [exchange.body for exchange in bench.seen] == bodies
    assert statuses(transport.written) == [200] * len(bodies)
    assert bench.server.body_bytes == 0


def test_a_large_read_of_a_chunked_body_is_read_by_chunks() -> None:
    bench = Bench(BODIES)
    connection, transport = bench.connect()
    connection.data_received(CHUNKED.replace(b"/echo", b"/keep/1"))
    part = b"x" * (2 * RAW_BYTES_MIN)
    connection.data_received(b"%x\r\n%b\r\n" % (len(part), part))
    connection.data_received(b"%x\r\n%b\r\n0\r\n\r\n" % (len(part), part))
    (exchange,) = bench.seen
    assert exchange.body == part * 2
    assert not transport.closed


def test_repeated_lines_count_as_lines() -> None:
    bench = Bench(HEAD)
    connection, transport = bench.connect()
    connection.data_received(request(more="A: 1\r\n" * (HEADERS_MAX + 2)))
    assert statuses(transport.written) == [431]


@pytest.mark.parametrize("step", [1 << 10, FEED_BYTES_MAX, 60_000])
def test_a_trailer_beyond_the_bound_is_refused(step: int) -> None:
    bench = Bench(HEAD)
    connection, transport = bench.connect()
    lines = b"".join(b"A%d: %b\r\n" % (n, b"x" * 500) for n in range(100))
    data = CHUNKED + b"1\r\nx\r\n0\r\n" + lines + b"\r\n"
    for position in range(0, len(data), step):
        connection.data_received(data[position : position + step])
    assert statuses(transport.written) == [431]


def test_endless_extensions_of_chunks_are_refused() -> None:
    bench = Bench(HEAD)
    connection, transport = bench.connect()
    connection.data_received(CHUNKED)
    for _ in range(30):
        connection.data_received(b"1;a=%b\r\nx\r\n" % (b"y" * 1_000))
    assert statuses(transport.written) == [400]


@matrix(
    ("head", "status"),
    [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", 400),
        ("Content-Length: 5, 5\r\n", 400),
        ("Content-Length: +5\r\n", 400),
        ("Content-Length : 5\r\n", 400),
        ("Content-Length: 0x5\r\n", 400),
        ("Content-Length:\r\n", 400),
        ("Transfer-Encoding: identity\r\n", 501),
        ("Transfer-Encoding: gzip, chunked\r\n", 501),
        ("Transfer-Encoding: chunked, identity\r\n", 400),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding: xchunked\r\n", 501),
        ("Transfer-Encoding: \x0bchunked\r\n", 400),
        ("Transfer-Encoding : chunked\r\n", 400),
        ("A: b\r\n Content-Length: 5\r\n", 400),
        ("A: b\nContent-Length: 5\r\n", 400),
        ("A: b\rContent-Length: 5\r\n", 400),
        ("A: b\x00c\r\n", 400),
        ("A\x00: b\r\n", 400),
        ("A b: c\r\n", 400),
        (" A: b\r\n", 400),
        (": b\r\n", 400),
        (f"{UPGRADE}Transfer-Encoding: chunked\r\n", 400),
    ],
)
def test_a_head_with_two_meanings_is_refused_and_nothing_after_it_is_served(
    head: str, status: int
) -> None:
    bench = Bench()
    connection, transport = bench.connect()
    hidden = b"0\r\n\r\n" + request("/keep/hidden")
    connection.data_received(f"POST /keep/1 HTTP/1.1\r\n{head}\r\n".encode() + hidden)
    assert statuses(transport.written) == [status]
    assert bench.seen == []
    assert transport.eof


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /keep/1 HTTP/2.0", 400), ("GET /keep/1", 400), ("get /keep/1 HTTP/1.1", 400),
        ("GET /a\x00b HTTP/1.1", 400), ("CONNECT a:1 HTTP/1.1", 501), ("PRI * HTTP/2.0", 400),
    ],
)  # fmt: skip
def test_a_request_line_that_is_not_of_this_protocol_is_refused(line: str, status: int) -> None:
    bench = Bench()
    connection, transport = bench.connect()
    connection.data_received(f"{line}\r\nContent-Length: 3\r\n\r\n".encode() + b"abc")
    assert statuses(transport.written) == [status]
    assert bench.seen == []


def test_chunks_in_http_1_0_are_refused() -> None:
    bench = Bench()
    connection, transport = bench.connect()
    connection.data_received(CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"0\r\n\r\n")
    assert statuses(transport.written) == [400]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("http://evil/keep/1?a=b", b"/keep/1", b"a=b"),
        ("HTTP://a:80/keep/1", b"/keep/1", b""),
        ("/keep/1?a=http://b", b"/keep/1", b"a=http://b"),
    ],
)
def test_a_target_that_names_a_host_means_its_path(target: str, path: bytes, query: bytes) -> None:
    bench = Bench()
    connection, _ = bench.connect()
    connection.data_received(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    (exchange,) = bench.seen
    assert (exchange.path, exchange.query) == (path, query)


# --- the budget of bodies ------------------------------------------------------------------------


def identify(headers: Mapping[bytes, bytes], peer: str) -> Claim:
    """A key in the Authorization header; known addresses have proven it."""
    return Claim(headers.get(b"authorization", b"").decode(), peer == KNOWN)


def budget_bench() -> Bench:
    bench = Bench(BODIES)
    bench.server.budget.identify = identify
    return bench


def head(key: str = "", size: int = BODY) -> bytes:
    line = f"Authorization: {key}\r\n" if key else ""
    return f"POST /keep/1 HTTP/1.1\r\nHost: a\r\n{line}Content-Length: {size}\r\n\r\n".encode()


async def test_strangers_that_hold_bodies_leave_the_budget_to_callers_with_a_key() -> None:
    bench = budget_bench()
    refused = 0
    for number in range(17):
        connection, transport = bench.connect(f"198.51.100.{number % 4}")
        connection.data_received(head())
        connection.data_received(b"x" * (BODY - 1))
        refused += statuses(transport.written) == [503]
        if transport.written:
            assert b"Retry-After: 1\r\n" in transport.written
    assert refused == 15, "more than the strangers' eighth of the budget, or less"
    connection, transport = bench.connect(KNOWN)
    connection.data_received(head("alice") + b"x" * BODY)
    assert transport.written == b""
    assert len(bench.seen) == 1


async def test_one_address_of_strangers_leaves_room_to_another() -> None:
    bench = budget_bench()
    for _ in range(5):
        connection, _ = bench.connect(STRANGER)
        connection.data_received(head() + b"x" * (BODY - 1))
    connection, transport = bench.connect("198.51.100.2")
    connection.data_received(head() + b"x" * BODY)
    assert transport.written == b""
    assert len(bench.seen) == 1


async def test_who_knows_a_key_id_only_cannot_take_the_share_of_its_owner() -> None:
    bench = budget_bench()
    for _ in range(17):
        connection, _ = bench.connect(STRANGER)
        connection.data_received(head("alice") + b"x" * (BODY - 1))
    connection, transport = bench.connect(KNOWN)
    connection.data_received(head("alice") + b"x" * BODY)
    assert transport.written == b""
    assert len(bench.seen) == 1


def test_a_principal_with_a_key_leaves_a_share_to_every_other() -> None:
    bench = budget_bench()
    for name in ("alice", "bob", "carol"):
        served = 0
        for _ in range(17):
            connection, transport = bench.connect(KNOWN)
            connection.data_received(head(name) + b"x" * (BODY - 1))
            served += transport.written == b""
        assert served >= 1, name
    assert bench.server.body_bytes <= BODIES.bodies_bytes_total_max


async def test_without_principals_addresses_share_the_whole_budget() -> None:
    bench = Bench(BODIES)
    served: dict[str, int] = {}
    for number in range(34):
        peer = f"198.51.100.{number % 2}"
        connection, transport = bench.connect(peer)
        connection.data_received(head() + b"x" * (BODY - 1))
        served[peer] = served.get(peer, 0) + (transport.written == b"")
    assert sorted(served.values()) == [5, 5]


def test_a_chunked_body_counts_in_the_share_once_it_is_large() -> None:
    bench = budget_bench()
    served = 0
    for _ in range(4):
        connection, transport = bench.connect(STRANGER)
        connection.data_received(CHUNKED)
        connection.data_received(b"%x\r\n" % (BODY - 1) + b"x" * (BODY - 1) + b"\r\n")
        served += transport.written == b""
    assert served == 1


def test_small_bodies_of_strangers_are_read_while_their_share_is_full() -> None:
    bench = budget_bench()
    for _ in range(3):
        connection, _ = bench.connect(STRANGER)
        connection.data_received(head() + b"x" * (BODY - 1))
    connection, _ = bench.connect(STRANGER)
    connection.data_received(head(size=UNSHARED_BYTES) + b"x" * UNSHARED_BYTES)
    assert len(bench.seen) == 1


async def test_small_bodies_that_strangers_send_ahead_count_in_their_share() -> None:
    bench = budget_bench()
    small = head(size=UNSHARED_BYTES) + b"x" * UNSHARED_BYTES
    for number in range(40):
        connection, _ = bench.connect(f"198.51.100.{number % 4}")
        connection.pause_writing()  # it does not read, so its requests wait
        for _ in range(10):
            connection.data_received(small)
    first_ones = 40 * UNSHARED_BYTES
    strangers = BODIES.bodies_bytes_total_max // 8
    assert bench.server.body_bytes <= first_ones + strangers + 40 * 10 * AHEAD_BYTES
    connection, _ = bench.connect(KNOWN)
    connection.data_received(head("alice") + b"x" * BODY)
    assert len(bench.seen) == 1


def test_a_small_budget_is_not_filled_by_one_small_body_for_each_connection() -> None:
    limits = replace(BODIES, body_bytes_max=1 << 10, bodies_bytes_total_max=64 << 10)
    bench = Bench(replace(limits, connections_max=100))
    bench.server.budget.identify = identify
    for _ in range(99):
        connection, _ = bench.connect(STRANGER)
        connection.data_received(head(size=1 << 10) + b"x" * 1000)
    connection, transport = bench.connect(KNOWN)
    connection.data_received(head("alice", 1 << 10) + b"x" * (1 << 10))
    assert transport.written == b""
    assert len(bench.seen) == 1


def test_a_body_too_large_by_itself_is_still_413() -> None:
    bench = budget_bench()
    connection, transport = bench.connect(STRANGER)
    connection.data_received(head(size=BODY + 1))
    assert statuses(transport.written) == [413]


@pytest.mark.parametrize("end", ["answer", "chunks", "stream", "lost", "late", "refused"])
def test_the_share_returns_however_a_request_ends(end: str) -> None:
    bench = budget_bench()
    connection, _ = bench.connect(STRANGER)
    connection.data_received(head() + b"x" * BODY if end != "refused" else head() + b"x" * 20_000)
    if end == "lost":
        connection.connection_lost(None)
    elif end == "refused":
        connection.expire()
    elif end == "late":
        connection.expire()
    elif end == "chunks":
        bench.seen[0].reply_chunks(b"HTTP/1.1 200 OK\r\nContent-Length: ", [b"x"])
    elif end == "stream":
        bench.seen[0].reply_stream(b"text/plain")
    else:
        bench.seen[0].reply_text(200, "done")
    if end == "lost":
        bench.seen[0].reply_text(200, "to nobody")
    assert bench.server.body_bytes == 0
    pools = (bench.server.budget._strangers, bench.server.budget._claimed)
    assert [(pool.used, pool.held) for pool in pools] == [(0, {}), (0, {})]
