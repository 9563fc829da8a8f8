"""The protocol class against a fake transport: no socket, no waiting."""

import asyncio
import logging
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.gateway.http.support import LIMITS, TIGHT, Bench, request, statuses

from opentalos.gateway.http.connection import (
    AHEAD_BYTES,
    FEED_BYTES_MAX,
    JOIN_BYTES_MAX,
    PIPELINE_MAX,
    HttpConnection,
)
from opentalos.gateway.http.reply_format import TEXT, head
from opentalos.model.errors import TalosError


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    for connection in list(bench.server._open):
        assert isinstance(connection, HttpConnection)
        connection.connection_lost(None)
    for exchange in bench.seen:
        exchange.reply_text(200, "late")
    assert bench.server.body_bytes == 0, "the body budget leaks"


def test_a_reply_has_canonical_names_and_goes_out_in_one_write(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request(body=b"hello"))
    assert transport.written == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\n"
        b"Date: x\r\n\r\nhello"
    )
    assert transport.writes == 1
    assert not transport.closed


def test_two_host_headers_are_served_and_repeated_headers_joined(bench: Bench) -> None:
    connection, _ = bench.connect()
    connection.data_received(request("/keep/a?id=1&type=x", more="Host: b\r\nX-Y: 1\r\nx-y: 2\r\n"))
    (exchange,) = bench.seen
    assert exchange.headers[b"host"] == b"a,b"
    assert exchange.headers[b"x-y"] == b"1,2"
    assert (exchange.path, exchange.query) == (b"/keep/a", b"id=1&type=x")
    assert exchange.peer == "127.0.0.9"


def test_a_request_in_single_bytes_is_the_same_request(bench: Bench) -> None:
    connection, transport = bench.connect()
    for byte in request(body=b"hello"):
        connection.data_received(bytes([byte]))
    assert statuses(transport.written) == [200]
    assert transport.written.endswith(b"\r\n\r\nhello")


def test_pipelined_requests_are_answered_in_order_one_at_a_time(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1") + request("/keep/2") + request(body=b"3"))
    assert [e.path for e in bench.seen] == [b"/keep/1"]
    bench.seen[0].reply_text(200, "one")
    assert [e.path for e in bench.seen] == [b"/keep/1", b"/keep/2"]
    bench.seen[1].reply_text(200, "two")
    assert re.findall(rb"\r\n\r\n(\w+)", transport.written) == [b"one", b"two", b"3"]


def test_requests_sent_ahead_are_bounded_and_all_answered(bench: Bench) -> None:
    connection, transport = bench.connect()
    count = 3 * FEED_BYTES_MAX // len(request("/keep/1"))
    connection.data_received(request("/keep/1") * count)
    assert not transport.reading
    assert len(connection._queue) < FEED_BYTES_MAX // len(request("/keep/1")) + PIPELINE_MAX
    for index in range(count):
        bench.seen[index].reply_text(200, "ok")
    assert statuses(transport.written) == [200] * count
    assert transport.reading


def test_requests_that_keep_coming_in_small_reads_are_bounded_as_well(bench: Bench) -> None:
    connection, transport = bench.connect()
    for _ in range(100):
        connection.data_received(request("/keep/1"))
    assert not transport.reading
    assert len(connection._queue) == PIPELINE_MAX
    for index in range(100):
        bench.seen[index].reply_text(200, "ok")
    assert statuses(transport.written) == [200] * 100
    assert transport.reading


def test_a_handler_is_notified_that_its_client_is_gone(bench: Bench) -> None:
    connection, _ = bench.connect()
    connection.data_received(request("/keep/1", b"x" * 10))
    errors: list[TalosError] = []

    def late(error: TalosError) -> None:
        errors.append(error)
        bench.seen[0].reply_text(200, "to a closed connection")

    bench.seen[0].late = late
    connection.connection_lost(None)
    assert len(errors) == 1
    assert bench.server.body_bytes == 0


def test_a_second_answer_does_nothing(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1"))
    bench.seen[0].reply_text(200, "one")
    bench.seen[0].reply_text(500, "two")
    assert statuses(transport.written) == [200]


def test_an_answer_to_a_lost_connection_does_nothing(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1", b"x" * 10))
    transport.close()
    connection.connection_lost(None)
    assert not bench.seen[0].connected
    bench.seen[0].reply_text(200, "late")
    bench.seen[0].reply_chunks(head(200, TEXT), [b"late"])
    assert transport.written == b""
    assert bench.server.body_bytes == 0


def test_a_handler_that_raises_costs_a_500_without_details(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/boom") + request(body=b"next"))
    assert statuses(transport.written) == [500, 200]
    assert b"secret" not in transport.written
    failures = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(failures) == 1


def test_an_unknown_path_is_404(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/nowhere"))
    assert statuses(transport.written) == [404]


def test_http_1_0_closes_unless_it_asks_to_stay(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request(version="1.0", more="Connection: keep-alive\r\n"))
    assert b"Connection: keep-alive\r\n" in transport.written
    assert not transport.closed
    connection.data_received(request(version="1.0"))
    assert b"Connection: close\r\n" in transport.written
    assert transport.closed


def test_connection_close_is_honoured_and_later_bytes_ignored(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request(more="Connection: close\r\n") + request())
    assert statuses(transport.written) == [200]
    assert transport.closed


def test_expect_100_continue_is_answered_before_the_body(bench: Bench) -> None:
    connection, transport = bench.connect()
    whole = request(body=b"hello", more="Expect: 100-continue\r\n")
    connection.data_received(whole[:-5])
    assert transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.data_received(whole[-5:])
    assert statuses(transport.written) == [100, 200]


def test_expect_100_continue_waits_for_the_requests_before_it(bench: Bench) -> None:
    connection, transport = bench.connect()
    whole = request(body=b"hello", more="Expect: 100-continue\r\n")
    connection.data_received(request("/keep/1") + whole[:-5])
    assert transport.written == b""
    bench.seen[0].reply_text(200, "one")
    assert statuses(transport.written) == [200, 100]
    connection.data_received(whole[-5:])
    assert statuses(transport.written) == [200, 100, 200]


def test_a_large_body_is_refused_before_it_is_read(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request(body=b"x" * 1001)[:-1001])
    assert statuses(transport.written) == [413]
    assert transport.eof
    written = transport.written
    connection.data_received(b"x" * 1001)
    assert transport.written == written


def test_a_chunked_body_is_refused_when_it_grows_too_large(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(3):
        connection.data_received(b"190\r\n" + b"x" * 400 + b"\r\n")
    assert statuses(transport.written) == [413]
    assert bench.server.body_bytes == 0


def test_a_chunked_body_within_the_limit_is_served(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1\r\n!\r\n0\r\n"
        b"Trailer: ignored\r\n\r\n" + request(body=b"next")
    )
    assert statuses(transport.written) == [200, 200]
    assert b"hi!" in transport.written


def test_bodies_of_all_connections_share_one_budget() -> None:
    bench = Bench(TIGHT)
    first, _ = bench.connect()
    second, transport = bench.connect()
    first.data_received(request("/keep/1", b"x" * 900))
    second.data_received(request("/echo", b"x" * 700)[:-700])
    assert statuses(transport.written) == [503]
    bench.seen[0].reply_text(200, "done")
    assert bench.server.body_bytes == 0


def test_requests_sent_ahead_count_in_the_budget() -> None:
    bench = Bench(TIGHT)
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1") * 5)
    bench.seen[0].reply_text(200, "one")
    bench.seen[1].reply_text(200, "two")
    assert statuses(transport.written) == [200, 200, 503]
    assert bench.server.body_bytes == 0


def test_an_endless_header_is_refused(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(b"POST /echo HTTP/1.1\r\nA: ")
    for _ in range(100):
        connection.data_received(b"x" * 100)
    assert statuses(transport.written) == [431]


def test_an_endless_trailer_is_refused(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(
        b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: "
    )
    for _ in range(100):
        connection.data_received(b"x" * 100)
    assert statuses(transport.written) == [431]


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"hello\r\n\r\n",
     b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
     b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
     b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n"],
)  # fmt: skip
def test_malformed_bytes_get_a_400_with_a_reason_and_a_close(bench: Bench, garbage: bytes) -> None:
    connection, transport = bench.connect()
    connection.data_received(garbage)
    assert statuses(transport.written) == [400]
    assert b"Connection: close" in transport.written
    assert transport.eof


def test_malformed_bytes_after_good_requests_are_answered_in_order(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1") + b"\x00\x01garbage")
    assert transport.written == b""
    bench.seen[0].reply_text(200, "one")
    assert statuses(transport.written) == [200, 400]


def test_an_upgrade_is_ignored_with_and_without_a_body(bench: Bench) -> None:
    connection, transport = bench.connect()
    offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    whole = request(body=b"hello", more=offer)
    connection.data_received(whole[:-2])
    connection.data_received(whole[-2:] + request(more=offer) + request(body=b"last"))
    assert statuses(transport.written) == [200, 200, 200]
    assert transport.written.count(b"hello") == 1
    assert transport.written.endswith(b"last")


def test_one_connection_too_many_is_refused_with_a_reason(bench: Bench) -> None:
    bench.connect()
    bench.connect()
    _, transport = bench.connect()
    assert statuses(transport.written) == [503]


def test_connections_of_one_address_are_bounded_and_counted_down() -> None:
    bench = Bench(replace(LIMITS, connections_max=10, connections_address_max=2))
    first, _ = bench.connect("198.51.100.1")
    bench.connect("198.51.100.1")
    refused, transport = bench.connect("198.51.100.1")
    assert statuses(transport.written) == [503]
    assert b"Retry-After: 1\r\n" in transport.written
    _, other = bench.connect("198.51.100.2")
    assert other.written == b""
    refused.connection_lost(None)
    first.connection_lost(None)
    _, third = bench.connect("198.51.100.1")
    assert third.written == b""


def test_connections_from_this_machine_have_the_bound_of_all_only() -> None:
    bench = Bench(replace(LIMITS, connections_max=3, connections_address_max=1))
    transports = [bench.connect("127.0.0.1")[1] for _ in range(4)]
    assert [statuses(transport.written) for transport in transports] == [[], [], [], [503]]


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    bench = Bench(replace(LIMITS, connections_max=10, connections_address_max=1))
    bench.connect("2001:db8::1")
    _, same = bench.connect("2001:db8::2")
    _, other = bench.connect("2001:db8:0:1::1")
    assert (statuses(same.written), statuses(other.written)) == ([503], [])


def test_a_client_that_does_not_read_gets_no_further_request_started(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1"))
    connection.pause_writing()
    bench.seen[0].reply_text(200, "one")
    connection.data_received(request("/keep/2"))
    assert len(bench.seen) == 1
    connection.resume_writing()
    assert len(bench.seen) == 2
    connection.pause_writing()
    bench.seen[1].reply_text(200, "two")
    connection.expire()
    assert transport.aborted


def test_a_half_closed_client_still_gets_its_reply(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1"))
    assert connection.eof_received()
    bench.seen[0].reply_text(200, "one")
    assert statuses(transport.written) == [200]
    assert transport.closed


def test_a_half_closed_client_that_waits_for_an_event_is_given_up_at_once(bench: Bench) -> None:
    connection, _ = bench.connect()
    connection.data_received(request("/keep/1"))
    bench.seen[0].extend(30.0, waits=True)
    assert not connection.eof_received(), "the transport stays open"


def test_a_client_that_ended_its_side_before_it_was_to_wait_is_given_up(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1"))
    assert connection.eof_received()
    bench.seen[0].extend(30.0, waits=True)
    assert transport.closed


def test_a_stream_to_a_client_that_ended_its_side_ends(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1"))
    connection.eof_received()
    bench.seen[0].reply_stream(b"text/event-stream")
    assert transport.closed


def test_the_request_after_one_that_waited_is_answered_after_a_half_close(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1"))
    bench.seen[0].extend(30.0, waits=True)
    bench.seen[0].reply_text(200, "one")
    connection.data_received(request("/keep/2"))
    assert connection.eof_received()
    bench.seen[1].reply_text(200, "two")
    assert statuses(transport.written) == [200, 200]


@pytest.mark.parametrize("sent", [0, 10, 60])
def test_a_slow_sender_is_cut(bench: Bench, sent: int) -> None:
    connection, transport = bench.connect()
    connection.data_received(request(body=b"x" * 20)[:sent])
    assert connection.deadline == LIMITS.request_timeout_s
    connection.expire()
    connection.expire()
    assert transport.closed
    assert statuses(transport.written) == ([408] if sent else [])


def test_a_slow_handler_is_answered_for(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1") + request("/keep/2"))
    connection.expire()
    assert statuses(transport.written) == [503]
    bench.seen[1].late = lambda error: bench.seen[1].reply_text(200, "own words")
    connection.expire()
    assert statuses(transport.written) == [503, 200]


def test_a_large_reply_is_not_copied_together(bench: Bench) -> None:
    connection, transport = bench.connect()
    connection.data_received(request("/keep/1") + request("/keep/2"))
    bench.seen[0].reply(head(200, TEXT), b"x" * (JOIN_BYTES_MAX + 1))
    bench.seen[1].reply_chunks(head(200, TEXT), [b"y" * JOIN_BYTES_MAX, memoryview(b"z")])
    assert transport.written.endswith(b"yz")
    assert b"Content-Length: %d\r\n" % (JOIN_BYTES_MAX + 1) in transport.written


async def test_drain_waits_for_requests_under_way_and_closes_the_rest(bench: Bench) -> None:
    idle, idle_transport = bench.connect()
    busy, busy_transport = bench.connect()
    busy.data_received(request("/keep/1"))
    draining = asyncio.ensure_future(bench.server.drain(5))
    await asyncio.sleep(0)
    assert idle_transport.closing_called()
    assert not busy_transport.closing_called()
    idle.connection_lost(None)
    bench.seen[0].reply_text(200, "one")
    assert busy_transport.closing_called()
    busy.connection_lost(None)
    assert await draining


async def test_drain_is_bounded_by_its_timeout(bench: Bench) -> None:
    busy, transport = bench.connect()
    busy.data_received(request("/keep/1"))
    assert not await bench.server.drain(0)
    assert transport.aborted


PIECES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(
        [request(body=b"abc"), request("/boom"), b"POST /echo HTTP/1.1\r\n", b"\r\n", b"0\r\n\r\n",
         b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Upgrade: h2c\r\n",
         b"Connection: upgrade\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n\r\n",
         b"5\r\nhello\r\n", b"x" * 2000, b"GET http://h/echo?a HTTP/1.1\r\n\r\n"]
    ),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=12))
def test_any_bytes_give_replies_or_a_clean_close_with_bounded_memory(pieces: list[bytes]) -> None:
    bench = Bench(TIGHT)
    connection, transport = bench.connect()
    for piece in pieces:
        if transport.closing_called():
            break
        connection.data_received(piece)
        held = sum(map(len, connection._parts)) + len(connection._backlog)
        assert held <= LIMITS.body_bytes_max + FEED_BYTES_MAX
        assert bench.server.body_bytes <= TIGHT.bodies_bytes_total_max + 2 * AHEAD_BYTES
    for _ in range(2):
        connection.expire()
    assert transport.closing_called(), "a connection outlives its deadlines"
    connection.connection_lost(None)
    assert bench.server.body_bytes == 0
    assert set(statuses(transport.written)) <= {100, 200, 400, 404, 408, 413, 431, 500, 501, 503}
