"""The sweep over all connections: complete, and a bounded part of them in one turn of the loop."""

import asyncio

import pytest

from opentalos.gateway.http.server import EXPIRED_MAX, SWEPT_MAX, HttpServer
from opentalos.model.limits import HttpLimits

MANY = 10_000


class Client:
    """A connection as the sweep sees it; notes in which turn of the loop it was used."""

    network = "127.0.0.1"
    party = "/127.0.0.1"
    turn = 0
    looked: dict[int, int]
    ended: dict[int, int]

    def __init__(self, server: HttpServer, deadline_s: float) -> None:
        self._server, self._deadline_s = server, deadline_s
        self.expired = self.aborted = 0
        server.admit(self)

    @property
    def deadline(self) -> float:
        Client.looked[Client.turn] = Client.looked.get(Client.turn, 0) + 1
        return self._deadline_s

    @deadline.setter
    def deadline(self, value: float) -> None:
        self._deadline_s = value

    def _end(self) -> None:
        Client.ended[Client.turn] = Client.ended.get(Client.turn, 0) + 1
        self._server.forget(self)

    def expire(self) -> None:
        self.expired += 1
        self._end()

    def drain(self) -> None:
        self._end()

    def abort(self) -> None:
        self.aborted += 1
        self._end()


@pytest.fixture(autouse=True)
def _turns() -> None:
    Client.turn, Client.looked, Client.ended = 0, {}, {}


async def _next_turn() -> None:
    Client.turn += 1
    await asyncio.sleep(0)


async def _swept(server: HttpServer) -> None:
    """One whole sweep."""
    server._sweep()
    while server._unswept:
        await _next_turn()
    assert server._timer is not None
    server._timer.cancel()


async def test_a_turn_of_the_sweep_looks_at_a_bounded_number_of_connections() -> None:
    server = HttpServer(HttpLimits())
    clients = [Client(server, deadline_s=1e9) for _ in range(MANY)]
    await _swept(server)
    assert sum(Client.looked.values()) == MANY, "a connection was left out"
    assert max(Client.looked.values()) <= SWEPT_MAX
    assert not any(client.expired for client in clients)


async def test_connections_that_expire_together_are_closed_in_many_turns() -> None:
    server = HttpServer(HttpLimits())
    clients = [Client(server, deadline_s=-1.0) for _ in range(1_000)]
    await _swept(server)
    assert all(client.expired == 1 for client in clients)
    assert max(Client.ended.values()) <= EXPIRED_MAX <= 10, "each takes 0.1 ms and more to answer"


async def test_a_connection_that_fails_to_expire_is_aborted_and_the_sweep_goes_on() -> None:
    server = HttpServer(HttpLimits())
    clients = [Client(server, deadline_s=-1.0) for _ in range(3)]

    def fail() -> None:
        raise ValueError("broken")

    clients[1].expire = fail  # type: ignore[method-assign]
    await _swept(server)
    assert [client.aborted for client in clients] == [0, 1, 0]
    assert [client.expired for client in clients] == [1, 0, 1]


async def test_a_drain_closes_connections_in_many_turns() -> None:
    server = HttpServer(HttpLimits())
    for _ in range(1_000):
        Client(server, deadline_s=1e9)
    draining = asyncio.get_running_loop().create_task(server.drain(1.0))
    while not draining.done():
        await _next_turn()
    assert draining.result()
    assert server.connections == 0
    assert max(Client.ended.values()) <= EXPIRED_MAX
