"""OpenConnections: what the ports of all protocols share: accept, count, limit and drain."""

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from opentalos.gateway.http.fairness.accepting import Acceptor, bound_sockets
from opentalos.gateway.http.tls import TlsContext
from opentalos.model.address import is_loopback

DRAINED_A_TURN: Final = 8  # connections that are closed or answered in one turn of the loop
# That connections leave to open files and to recovery, whoever else takes descriptors: those that
# idle files give back would otherwise be the next client's.
SPARE_DESCRIPTORS: Final = 8


class Limits(Protocol):
    """Settings of a port. ``connections_address_max``: of one client address; 0: none."""

    @property
    def connections_max(self) -> int: ...
    @property
    def connections_address_max(self) -> int: ...
    @property
    def write_stall_s(self) -> float: ...


class ConnectionRoom:
    """How many connections the ports of a process may have together, whatever each of them may.

    Args: limit: how many descriptors the process may have now.
    """

    def __init__(self, most: int, limit: Callable[[], int] = lambda: sys.maxsize) -> None:
        self.most, self._limit = most, limit
        self.taken = 0

    def lacks(self, fd: int) -> bool:
        """Whether hardly any descriptor is left beside this one, the smallest that was free."""
        return fd >= self._limit() - SPARE_DESCRIPTORS


class Connection(Protocol):
    """A connection as its port ends it."""

    network: str  # what counts as one client address

    def drain(self) -> None:
        """Close at once if idle, else after the requests under way."""

    def abort(self) -> None:
        """Cut the connection without waiting."""


C = TypeVar("C", bound=Connection)


class OpenConnections(Generic[C]):
    """The connections of one port, from the socket to the end of the last one.

    Args: make: the protocol object of an accepted connection; over TLS if ``tls`` is not None.
    room: shared with other ports; None: there is enough.
    """

    def __init__(
        self,
        limits: Limits,
        make: Callable[[TlsContext | None], asyncio.BaseProtocol],
        room: ConnectionRoom | None = None,
    ) -> None:
        self._limits, self._make = limits, make
        self._room = ConnectionRoom(sys.maxsize) if room is None else room
        self._tls: TlsContext | None = None
        self.accepted = 0
        self._open: set[C] = set()
        self._of_network: dict[str, int] = {}
        self._acceptor: Acceptor | None = None
        self._emptied = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[C]:
        """Those that are open now, whatever happens meanwhile."""
        return iter(list(self._open))

    async def listen(self, host: str, port: int, tls: TlsContext | None) -> int:
        """Start to accept; returns the port, which the kernel chooses if ``port`` is 0.

        Raises: OSError.
        """
        self._tls = tls
        sockets = await bound_sockets(host, port)
        self._acceptor = Acceptor(sockets, self._adopt, self._room.lacks)
        return int(sockets[0].getsockname()[1])

    async def _adopt(self, accepted: socket.socket) -> None:
        """Make a connection of an accepted socket; over TLS, after the handshake."""
        tls = self._tls
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make(tls),
                accepted,
                ssl=tls,
                ssl_handshake_timeout=tls.handshake_timeout_s if tls else None,
                ssl_shutdown_timeout=self._limits.write_stall_s if tls else None,
            )
        except OSError:  # it ended before, or its handshake failed, which ``tls`` counts
            accepted.close()

    def admit(self, connection: C, make_room: Callable[[], bool] = lambda: False) -> bool:
        """Count the connection; False if there are too many, in all or of its address.

        Clients on this machine, such as a proxy, have the bound of all connections only.
        Args: make_room: ends another one, if one may give way.
        """
        self._open.add(connection)
        self._room.taken += 1
        self.accepted += 1
        network, most = connection.network, self._limits.connections_address_max
        count = self._of_network[network] = self._of_network.get(network, 0) + 1
        if most and count > most and not is_loopback(network):
            return False
        crowded = self._room.taken > self._room.most
        if crowded or len(self._open) > self._limits.connections_max:
            return make_room()
        return True

    def forget(self, connection: C) -> None:
        """The connection is gone."""
        if connection in self._open:
            self._open.discard(connection)
            self._room.taken -= 1
            left = self._of_network.pop(connection.network, 1) - 1
            if left:
                self._of_network[connection.network] = left
        if not self._open:
            self._emptied.set()

    async def drain(self, timeout_s: float) -> bool:
        """Stop accepting and let requests under way finish; True if all did in time."""
        if self._acceptor is not None:
            await self._acceptor.close()
        for number, connection in enumerate(self, 1):
            connection.drain()
            if number % DRAINED_A_TURN == 0:
                await asyncio.sleep(0)
        finished = True
        if self._open:
            self._emptied.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._emptied.wait()
            except TimeoutError:
                finished = False
        if self._acceptor is not None:
            self._acceptor.abandon()
        for connection in self:
            connection.abort()
        return finished
