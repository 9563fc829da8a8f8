"""Large replies leave in pieces: a pass of the loop has a bounded part of one connection."""

import asyncio

from tests.unit.gateway.http.support import Bench, FakeTransport, request, statuses

from opentalos.gateway.http.connection import HttpConnection
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.fairness.pacing import PASS_BYTES, PIECE_BYTES, PacedTransport
from opentalos.gateway.http.fairness.turns import Turns
from opentalos.gateway.http.reply_format import TEXT, head
from opentalos.model.limits import HttpLimits

ATTACKER, VICTIM = "203.0.113.1", "198.51.100.1"
BODY = bytes(range(256)) * (10 * PASS_BYTES // 256)


class LargeBench(Bench):
    """A server of large replies; each piece that is passed on takes a while of the loop."""

    def __init__(self) -> None:
        super().__init__(HttpLimits())
        self.server.serve({b"/echo": self.echo, b"/large": self.large, b"/chunks": self.chunks}, ())

    @staticmethod
    def large(exchange: Exchange) -> None:
        exchange.reply(head(200, TEXT), BODY)

    @staticmethod
    def chunks(exchange: Exchange) -> None:
        exchange.reply_chunks(head(200, TEXT), [BODY[:100], memoryview(BODY)[100:]])

    def ask(self, path: str, peer: str = ATTACKER) -> tuple[HttpConnection, FakeTransport]:
        connection, transport = self.connect(peer)
        connection.data_received(request(path))
        return connection, transport


def body_of(transport: FakeTransport) -> bytes:
    return transport.written.partition(b"\r\n\r\n")[2]


async def test_a_pass_has_a_part_of_a_large_reply_and_all_of_it_leaves() -> None:
    for path in ("/large", "/chunks"):
        bench = LargeBench()
        bench.connect(VICTIM)
        _, transport = bench.ask(path)
        sizes = [len(transport.written)]
        while bench.server.turns.waiting:
            await asyncio.sleep(0)
            sizes.append(len(transport.written))
        most = max(after - before for before, after in zip([0, *sizes], sizes, strict=False))
        assert most <= PASS_BYTES + PIECE_BYTES
        assert body_of(transport) == BODY


async def test_many_small_parts_are_passed_on_together() -> None:
    passed: list[bytes] = []

    class Counted(FakeTransport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            passed.append(bytes(data))

    def nothing() -> None: ...

    paced = PacedTransport(Counted(), Turns(lambda: 0.0), "a", nothing, nothing)
    parts = [bytes([number % 251]) * 100 for number in range(10_000)]
    paced.writelines(parts)
    assert b"".join(passed) == b"".join(parts)
    assert len(passed) <= 2 + 1_000_000 // PIECE_BYTES


async def test_another_request_is_answered_between_the_parts() -> None:
    bench = LargeBench()
    bench.connect(VICTIM)
    _, large = bench.ask("/large")
    _, small = bench.ask("/echo", VICTIM)
    assert statuses(small.written) == [200]
    assert len(large.written) < len(BODY)
    await bench.all_turns()
    assert body_of(large) == BODY


async def test_a_large_reply_to_the_only_address_leaves_at_once() -> None:
    bench = LargeBench()
    _, transport = bench.ask("/large")
    assert body_of(transport) == BODY
    assert not bench.server.turns.deferred


async def test_the_next_reply_follows_the_whole_of_a_large_one() -> None:
    bench = LargeBench()
    bench.connect(VICTIM)
    connection, transport = bench.ask("/large")
    connection.data_received(request("/echo"))
    assert len(transport.written) < len(BODY)
    await bench.all_turns()
    assert body_of(transport).startswith(BODY)
    assert statuses(body_of(transport)[len(BODY) :]) == [200]


async def test_a_client_that_ends_its_side_gets_the_whole_reply() -> None:
    bench = LargeBench()
    bench.connect(VICTIM)
    connection, transport = bench.ask("/large")
    assert connection.eof_received(), "the loop must not close the socket"
    assert not transport.closed
    await bench.all_turns()
    assert body_of(transport) == BODY
    assert transport.closed


async def test_a_connection_that_is_lost_takes_no_further_turn() -> None:
    bench = LargeBench()
    bench.connect(VICTIM)
    connection, transport = bench.ask("/large")
    written = len(transport.written)
    connection.connection_lost(None)
    await bench.all_turns()
    assert len(transport.written) == written
    assert connection not in bench.server._unsent


async def test_what_waits_for_a_turn_counts_as_unsent() -> None:
    bench = LargeBench()
    bench.connect(VICTIM)
    connection, _ = bench.ask("/large")
    assert bench.server._unsent[connection] >= len(BODY) - PASS_BYTES - PIECE_BYTES
    await bench.all_turns()
    assert not bench.server._unsent
