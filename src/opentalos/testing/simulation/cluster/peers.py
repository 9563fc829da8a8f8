"""SimulatedPeers: calls between the servers of a simulated cluster."""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from opentalos.broker.broker import Broker
from opentalos.model.errors import NotSupported, StoreUnavailable
from opentalos.ports.peers import CallRequest, Forwarded, Reply
from opentalos.testing.simulation.cluster.network import Link, SimulatedNetwork, Way

T = TypeVar("T")
Make = Callable[[Broker], Coroutine[Any, Any, T]]

CONNECT_S = 0.0005  # mean of a connection on one network
CONNECT_TIMEOUT_S = 1.0  # the connection is neither accepted nor refused
ASK_TIMEOUT_S = 3.0


class Listener(Protocol):
    """A server as its peers see it."""

    listening: bool  # False: its address refuses connections

    async def ask(self, what: str, make: Make[T], *, timeout_s: float | None) -> T:
        """A call that only this server can answer."""
        ...

    async def serve_transferred(self, make: Make[T], hops: int) -> T:
        """Answer a call that another server forwarded."""
        ...


class Directory:
    """The server that listens at each address; a paused process still listens."""

    def __init__(self, network: SimulatedNetwork) -> None:
        self.network = network
        self._servers: dict[str, Listener] = {}

    def add(self, address: str, server: Listener) -> None:
        """The server listens from now on."""
        self._servers[address] = server

    def listening(self, address: str) -> Listener | None:
        """The server at the address; None: connections are refused."""
        server = self._servers.get(address)
        return server if server is not None and server.listening else None

    def link(self, host: str, address: str) -> Link:
        """The connection of a server to an address."""
        return Link(self.network, Way(host, place_of(address)))


class SimulatedPeers:
    """The Peers port of one server."""

    def __init__(self, directory: Directory, host: str) -> None:
        self._directory, self._host = directory, host
        self._disk = directory.network.disk

    async def refuses(self, address: str) -> bool:
        """True only if the process at the address is gone; see the port."""
        link = self._directory.link(self._host, address)
        if not link.up():
            await self._disk.after(CONNECT_TIMEOUT_S, lambda: None)
            return False
        delay_s = CONNECT_S * (0.2 + 1.6 * self._disk.rng.random())
        return await self._disk.after(delay_s, lambda: self._directory.listening(address) is None)

    async def ask(self, address: str, request: CallRequest) -> bytes:
        """A call to the other broker; see the port."""
        server = await self.reach(address)

        async def asked() -> bytes:
            return await server.ask(
                request.call,
                lambda broker: broker.peer_calls.answer(request),
                timeout_s=ASK_TIMEOUT_S,
            )

        return await self._directory.link(self._host, address).call(asked, write=True)

    async def reach(self, address: str) -> Listener:
        """The server that listens there. Raises: StoreUnavailable: nothing was sent."""
        link = self._directory.link(self._host, address)
        if not link.up():
            await self._disk.after(CONNECT_TIMEOUT_S, lambda: None)
            raise StoreUnavailable(f"{address} does not answer")
        server = self._directory.listening(address)
        if server is None:
            raise StoreUnavailable(f"{address} refuses connections")
        return server

    async def forward(self, address: str, request: Forwarded) -> Reply:
        """Not used: simulated clients call brokers, so ``ClusterServer`` forwards for them."""
        raise NotSupported("simulated servers forward calls, not HTTP requests")

    async def close(self) -> None:
        """No connection is kept open."""


def place_of(address: str) -> str:
    """The stable name of the server at an address that ``address_of`` made."""
    return address.split(".", 1)[0]


def address_of(host: str) -> str:
    """The address of a server."""
    return f"{host}.test:80"
