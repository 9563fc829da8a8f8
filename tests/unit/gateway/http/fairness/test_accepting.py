"""Acceptor: new connections take a bounded part of a pass."""

import asyncio
import errno
import socket
from collections import Counter

import pytest
from tests.waiting import within_limit

from opentalos.gateway.http.fairness import accepting
from opentalos.gateway.http.fairness.accepting import ACCEPTS_A_TURN, Acceptor, bound_sockets
from opentalos.gateway.http.fairness.connections import SPARE_DESCRIPTORS, ConnectionRoom

pytestmark = pytest.mark.real_time
MANY = 50


class Adopted:
    """Counts the accepted sockets by pass of the loop."""

    def __init__(self) -> None:
        self.passes = 0
        self.sockets: list[socket.socket] = []
        self.by_pass: Counter[int] = Counter()

    async def adopt(self, accepted: socket.socket) -> None:
        self.sockets.append(accepted)
        self.by_pass[self.passes] += 1

    async def until(self, count: int) -> None:
        async with within_limit(f"{count} connections are accepted"):
            while len(self.sockets) < count:
                await asyncio.sleep(0)
                self.passes += 1

    def close(self) -> None:
        for accepted in self.sockets:
            accepted.close()


async def test_a_flood_is_accepted_in_many_passes_and_completely() -> None:
    listening, adopted = await bound_sockets("127.0.0.1", 0), Adopted()
    address = listening[0].getsockname()
    clients = [socket.create_connection(address) for _ in range(MANY)]
    acceptor = Acceptor(listening, adopted.adopt)
    await adopted.until(MANY)
    assert max(adopted.by_pass.values()) <= ACCEPTS_A_TURN
    nodelay = adopted.sockets[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert nodelay
    await acceptor.close()
    adopted.close()
    for client in clients:
        client.close()


async def test_without_descriptors_it_pauses_and_goes_on_later() -> None:
    (listening,), adopted = await bound_sockets("127.0.0.1", 0), Adopted()

    class Full(socket.socket):
        failures = 1

        def accept(self) -> tuple[socket.socket, object]:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "too many open files")
            return super().accept()

    full = Full(fileno=listening.detach())
    acceptor = Acceptor([full], adopted.adopt)
    with socket.create_connection(full.getsockname()):
        await adopted.until(1)
    assert not full.failures
    await acceptor.close()
    adopted.close()


async def test_the_last_descriptors_are_left_to_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (listening,), adopted = await bound_sockets("127.0.0.1", 0), Adopted()
    limit = SPARE_DESCRIPTORS + listening.fileno() + 1  # the client has the next one
    monkeypatch.setattr(accepting, "_PAUSE_S", 0.0)
    address = listening.getsockname()
    acceptor = Acceptor([listening], adopted.adopt, ConnectionRoom(9, lambda: limit).lacks)
    for _ in range(2):
        with socket.create_connection(address) as client:
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            async with within_limit("it is closed"):
                assert await loop.sock_recv(client, 1) == b""
    (line,) = caplog.messages
    assert "nearly all descriptors are in use" in line
    limit += 100
    with socket.create_connection(address):
        await adopted.until(1)
    await acceptor.close()
    adopted.close()


async def test_a_port_in_use_is_refused_with_its_address() -> None:
    (listening,) = await bound_sockets("127.0.0.1", 0)
    port = listening.getsockname()[1]
    with pytest.raises(OSError, match=rf"cannot listen at 127\.0\.0\.1:{port}: ") as raised:
        await bound_sockets("127.0.0.1", port)
    assert raised.value.errno == errno.EADDRINUSE
    listening.close()


async def test_a_machine_without_ipv6_listens_at_the_other_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class NoIpv6(socket.socket):
        def __init__(self, family: int = -1, *args: int, **others: int) -> None:
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "address family not supported")
            super().__init__(family, *args, **others)

    monkeypatch.setattr(socket, "socket", NoIpv6)
    sockets = await bound_sockets("", 0)
    assert [sock.family for sock in sockets] == [socket.AF_INET]
    for sock in sockets:
        sock.close()


async def test_all_addresses_of_a_host_get_the_same_free_port() -> None:
    sockets = await bound_sockets("", 0)
    assert len({sock.getsockname()[1] for sock in sockets}) == 1
    for sock in sockets:
        sock.close()
