"""Turns: a pass of the loop has a bounded amount of requests, and addresses get them in turn."""

import asyncio
from collections.abc import Callable

import pytest
from tests.unit.gateway.http.support import Bench, FakeTransport, request, statuses

from opentalos.gateway.http.connection import (
    FEED_BYTES_MAX,
    LARGE_READ_BYTES,
    PIPELINE_MAX,
    HttpConnection,
)
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.fairness.turns import (
    ALONE_S,
    ALONE_TURN_S,
    STARTS_A_TURN,
    TURN_S,
    Turns,
)
from opentalos.gateway.http.reply_format import TEXT, head
from opentalos.model.limits import HttpLimits

ATTACKER, VICTIM = "203.0.113.1", "198.51.100.1"
COST_S = TURN_S / 4  # of a request


class CostlyBench(Bench):
    """Each request to /echo takes a while of the loop."""

    def __init__(self) -> None:
        super().__init__(HttpLimits())
        self.order: list[str] = []
        self.server.serve({b"/echo": self.costly}, ())

    def costly(self, exchange: Exchange) -> None:
        self.order.append(exchange.peer)
        self.now_s += COST_S
        exchange.reply(head(200, TEXT), exchange.body)


async def test_a_connection_starts_few_requests_in_a_row() -> None:
    bench = Bench()
    connection, transport = bench.connect()
    connection.data_received(request() * PIPELINE_MAX)
    assert len(statuses(transport.written)) == STARTS_A_TURN
    await asyncio.sleep(0)
    assert len(statuses(transport.written)) == 2 * STARTS_A_TURN
    await bench.all_turns()
    assert statuses(transport.written) == [200] * PIPELINE_MAX


async def test_thousands_of_requests_in_one_read_are_answered_over_many_passes() -> None:
    bench = Bench()
    connection, transport = bench.connect()
    count = 40 * FEED_BYTES_MAX // len(request())
    connection.data_received(request() * count)
    assert await bench.all_turns() >= count // STARTS_A_TURN - 1
    assert statuses(transport.written) == [200] * count
    assert transport.reading


async def test_a_read_of_short_requests_is_not_parsed_at_once() -> None:
    bench = Bench()
    connection, _ = bench.connect()
    short = b"GET /keep/1 HTTP/1.1\r\nHost: a\r\n\r\n"
    connection.data_received(short * (FEED_BYTES_MAX * 3 // len(short)))
    assert len(connection._queue) <= FEED_BYTES_MAX // len(short) + 1


def _send(connections: list[tuple[HttpConnection, FakeTransport]]) -> Callable[[], int]:
    for connection, _ in connections:
        connection.data_received(request())
    return lambda: sum(len(statuses(transport.written)) for _, transport in connections)


async def test_what_arrives_after_the_others_took_the_pass_waits_and_comes_first_then() -> None:
    bench = CostlyBench()
    many = [bench.connect(ATTACKER) for _ in range(200)]
    victim, received = bench.connect(VICTIM)
    answered = _send(many)
    assert answered() <= TURN_S / COST_S + 1
    victim.data_received(request())
    assert not received.written
    await asyncio.sleep(0)
    assert statuses(received.written) == [200], "the address with one connection is next"
    await bench.all_turns()
    assert answered() == 200


async def test_each_address_gets_as_many_requests_while_all_wait() -> None:
    bench = CostlyBench()
    connections = [bench.connect(ATTACKER) for _ in range(100)]
    connections += [bench.connect(VICTIM) for _ in range(30)]
    _send(connections)
    bench.order.clear()
    for _ in range(5):
        await asyncio.sleep(0)
    counts = {peer: bench.order.count(peer) for peer in (ATTACKER, VICTIM)}
    assert abs(counts[ATTACKER] - counts[VICTIM]) <= 5
    await bench.all_turns()


async def test_the_only_address_never_waits() -> None:
    bench = CostlyBench()
    many = [bench.connect(ATTACKER) for _ in range(50)]
    assert _send(many)() == 50
    assert not bench.server.turns.deferred


async def test_nobody_waits_on_a_loop_that_has_time() -> None:
    bench = CostlyBench()
    connections = [bench.connect(peer) for peer in (ATTACKER, VICTIM) for _ in range(50)]
    for connection, transport in connections:
        connection.data_received(request())
        assert transport.written
        bench.now_s += COST_S  # as long without a request as with one
    assert not bench.server.turns.deferred


async def _full() -> tuple[CostlyBench, HttpConnection, FakeTransport]:
    """A pass that has no room for the connection's requests."""
    bench = CostlyBench()
    connection, transport = bench.connect(VICTIM)
    _send([bench.connect(ATTACKER) for _ in range(10)])
    return bench, connection, transport


async def test_a_client_that_ends_its_side_while_its_request_waits_gets_the_answer() -> None:
    bench, connection, transport = await _full()
    connection.data_received(request())
    assert connection.eof_received()
    await bench.all_turns()
    assert statuses(transport.written) == [200]
    assert transport.closed


async def test_a_request_that_waits_is_answered_before_the_drain_closes_its_connection() -> None:
    bench, connection, transport = await _full()
    connection.data_received(request())
    bench.server.draining = True
    connection.drain()
    assert not transport.closed
    await bench.all_turns()
    assert statuses(transport.written) == [200]
    assert transport.closed


async def test_a_connection_that_ends_while_it_waits_takes_nothing_of_the_turn() -> None:
    bench, connection, transport = await _full()
    connection.data_received(request())
    connection.connection_lost(None)
    await bench.all_turns()
    assert not transport.written


async def test_more_data_while_a_connection_waits_is_bounded_and_answered() -> None:
    bench, connection, transport = await _full()
    for _ in range(3):
        connection.data_received(request())
    assert not transport.reading
    await bench.all_turns()
    assert statuses(transport.written) == [200] * 3
    assert transport.reading


async def test_a_body_under_way_is_read_even_if_the_pass_is_full() -> None:
    bench, connection, _ = await _full()
    bench.now_s += 10.0  # the loop had time
    text = request(body=b"x" * 100)
    connection.data_received(text[:-50])
    _send([bench.connect(ATTACKER) for _ in range(10)])
    connection.data_received(text[-50:])
    assert not connection._in_message, "received, and its request waits"
    await bench.all_turns()


async def _uploads(peers: list[str]) -> tuple[Bench, list[FakeTransport]]:
    """Connections that have each received a large part of a body."""
    bench = Bench(HttpLimits())
    pairs = [bench.connect(peer) for peer in peers]
    for connection, _ in pairs:
        connection.data_received(request(body=b"x" * LARGE_READ_BYTES * 2)[:LARGE_READ_BYTES])
    return bench, [transport for _, transport in pairs]


async def test_of_large_bodies_few_are_read_in_a_pass_and_all_in_turn() -> None:
    bench, transports = await _uploads([ATTACKER] * 20 + [VICTIM])
    assert not any(transport.reading for transport in transports)
    passes = 0
    while not all(transport.reading for transport in transports):
        before = sum(transport.reading for transport in transports)
        await asyncio.sleep(0)
        passes += 1
        assert sum(transport.reading for transport in transports) - before <= 4
        others = sum(transport.reading for transport in transports[:-1])
        assert transports[-1].reading or others <= 1, "the other address is among the first"
    assert passes >= 5
    assert not bench.server.turns.waiting


async def test_large_bodies_of_the_only_address_are_read_at_once() -> None:
    _, transports = await _uploads([ATTACKER] * 3)
    assert all(transport.reading for transport in transports)


async def test_a_large_body_is_answered_when_its_last_part_was_large() -> None:
    bench = Bench(HttpLimits())
    bench.connect(VICTIM)
    connection, transport = bench.connect(ATTACKER)
    text = request(body=b"x" * 3 * LARGE_READ_BYTES)
    for start in range(0, len(text), LARGE_READ_BYTES + 100):
        connection.data_received(text[start : start + LARGE_READ_BYTES + 100])
        await bench.all_turns()
        assert transport.reading
    assert statuses(transport.written) == [200]


class Broken:
    party = ATTACKER
    aborted = 0

    def take_turn(self) -> None:
        raise ValueError("broken")

    def abort(self) -> None:
        self.aborted += 1


@pytest.mark.usefixtures("caplog")
async def test_a_connection_that_fails_is_aborted_and_the_others_get_their_turn() -> None:
    bench = CostlyBench()
    turns, broken = bench.server.turns, Broken()
    turns.wait(broken)
    connection, transport = bench.connect(VICTIM)
    connection._awaits_turn = True
    turns.wait(connection)
    connection._backlog += request()
    await bench.all_turns()
    assert broken.aborted == 1
    assert statuses(transport.written) == [200]


def test_a_party_alone_has_longer_passes_until_another_one_sends() -> None:
    now_s = 0.0
    turns = Turns(lambda: now_s)
    turns.shared = True

    def full_after(party: str) -> float:
        """How long its requests take of a pass."""
        nonlocal now_s
        now_s += 2 * ALONE_TURN_S
        began_s = now_s
        while not turns.is_full():
            now_s += TURN_S / 4
            turns.spent(now_s - TURN_S / 4, party)
        return now_s - began_s

    assert full_after("a") == pytest.approx(TURN_S, abs=TURN_S / 2)
    now_s += ALONE_S
    turns.spent(now_s, "a")
    assert full_after("a") == pytest.approx(ALONE_TURN_S, abs=TURN_S / 2)
    turns.spent(now_s, "b")
    assert full_after("a") == pytest.approx(TURN_S, abs=TURN_S / 2)


def test_the_load_falls_by_the_time_between_requests() -> None:
    now_s = 0.0
    turns = Turns(lambda: now_s)
    turns.shared = True
    for _ in range(10):
        began_s = now_s
        now_s += TURN_S
        turns.spent(began_s, "a")
    assert turns.is_full()
    assert turns.load_s <= 2 * TURN_S, "it does not remember more than the last pass"
    now_s += 2 * TURN_S
    assert not turns.is_full()
