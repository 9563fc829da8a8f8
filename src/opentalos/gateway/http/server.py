"""The HTTP server: listens, limits connections, sweeps deadlines, dispatches, drains."""

import asyncio
import logging
import socket
import time
from collections.abc import Mapping, Sequence

from opentalos.gateway.http.connection import HttpConnection
from opentalos.gateway.http.connection_host import HostedConnection
from opentalos.gateway.http.exchange import Exchange, Handler
from opentalos.gateway.http.fairness.accepting import Acceptor, bound_sockets
from opentalos.gateway.http.fairness.body_budget import BodyBudget
from opentalos.gateway.http.fairness.turns import Turns
from opentalos.gateway.http.reply_format import date_line
from opentalos.gateway.http.tls import TlsContext
from opentalos.gateway.http.tls_connection import TlsConnection
from opentalos.gateway.http.traffic import Traffic
from opentalos.model.address import is_loopback
from opentalos.model.limits import HttpLimits

SWEEP_S = 0.25  # resolution of every time limit of the port
# Both bounds keep a turn of the loop below about 1 ms: 10,000 connections take 5 ms to look at. One
# that expires takes 0.1 ms and more to answer, with its log line; while the storage of a tenant
# hangs all its puts end so, and the requests of all others wait for such a turn.
SWEPT_MAX = 1_000  # connections looked at in one turn of the loop
EXPIRED_MAX = 8  # connections closed or answered in one turn
# Clients stop reading after 5 s. Source: docs/protocol/wire.md#retries-and-timeouts.
ANSWER_TIMEOUT_S = 4.5
UNSENT_BYTES_MAX = 256 << 20  # replies that clients do not read, whole server

_log = logging.getLogger("opentalos.http")


class HttpServer:
    """Accepts connections and passes complete requests to the handler of their path.

    Args: exact: handlers by path; prefixes: (path prefix, handler), the first match wins.
    """

    def __init__(
        self,
        limits: HttpLimits,
        exact: Mapping[bytes, Handler] | None = None,
        prefixes: Sequence[tuple[bytes, Handler]] = (),
    ) -> None:
        self.limits = limits
        self.answer_timeout_s = ANSWER_TIMEOUT_S
        self.now = 0.0  # the loop's clock, at most SWEEP_S old
        self.date = b""
        self.head_end = b""  # end of a plain reply's head
        self.draining = False
        self.body_bytes = 0  # of requests in memory
        self.budget = BodyBudget(limits)
        self.refused = 0
        self.cut = 0
        self.accepted = 0
        self.tls: TlsContext | None = None
        self.traffic = Traffic(limits.failure_lines_per_s_max)
        self.turns = Turns(time.perf_counter)
        self.serve(exact or {}, prefixes)
        self._connections: set[HostedConnection] = set()
        self._of_network: dict[str, int] = {}  # connections
        self._unswept: list[HostedConnection] = []  # of the sweep under way
        self._unsent: dict[HostedConnection, int] = {}
        self._acceptor: Acceptor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._emptied = asyncio.Event()

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._connections)

    def serve(
        self, exact: Mapping[bytes, Handler], prefixes: Sequence[tuple[bytes, Handler]]
    ) -> None:
        """Replace the handlers for all following requests."""
        self._exact, self._prefixes = dict(exact), tuple(prefixes)

    async def listen(self, host: str, port: int, tls: TlsContext | None = None) -> int:
        """Start to listen; returns the port, which the kernel chooses if ``port`` is 0."""
        self.tick()
        self.tls = tls
        sockets = await bound_sockets(host, port)
        self._acceptor = Acceptor(sockets, self._adopt)
        self._schedule()
        return int(sockets[0].getsockname()[1])

    async def _adopt(self, accepted: socket.socket) -> None:
        """Make a connection of an accepted socket; over TLS, after the handshake."""
        tls = self.tls
        connection = HttpConnection if tls is None else TlsConnection
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection(self),
                accepted,
                ssl=tls,
                ssl_handshake_timeout=tls.handshake_timeout_s if tls else None,
                ssl_shutdown_timeout=self.limits.write_stall_s if tls else None,
            )
        except OSError:  # it ended before, or its handshake failed, which ``tls`` counts
            accepted.close()

    def tick(self) -> None:
        """Refresh the coarse clock."""
        self.now = asyncio.get_running_loop().time()
        self.date = date_line(time.time())
        self.head_end = self.date + b"\r\n"
        self.traffic.refresh()

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Expire the connections whose deadline passed, a part of them in each turn."""
        self.tick()
        self._schedule()
        if not self._unswept:  # else the former sweep continues with the new time
            self._unswept = list(self._connections)
            self._sweep_some()

    def _sweep_some(self) -> None:
        unswept, now, expired = self._unswept, self.now, 0
        for _ in range(min(SWEPT_MAX, len(unswept))):
            connection = unswept.pop()
            if connection.deadline < now:
                self._expire(connection)
                expired += 1
                if expired == EXPIRED_MAX:
                    break
        if unswept:
            asyncio.get_running_loop().call_soon(self._sweep_some)

    def _expire(self, connection: HostedConnection) -> None:
        try:
            connection.expire()
        except Exception:  # the sweep must continue for the other connections
            _log.exception("could not expire a connection; aborting it")
            connection.abort()

    def dispatch(self, exchange: Exchange) -> None:
        """Call the handler; if it raises, the client gets a 500 without details."""
        turns = self.turns
        exchange.started_s = began_s = turns.clock()
        try:
            handler = self._exact.get(exchange.path) or self._find(exchange.path)
            if handler is None:
                exchange.reply_text(404, "nothing is served at this path")
            else:
                handler(exchange)
        except Exception:
            path = exchange.path[:80].decode("latin-1")
            _log.exception("handler failed with an internal error", extra={"path": path})
            exchange.reply_text(500, "internal error")
        if turns.shared:
            turns.spent(began_s)

    def _find(self, path: bytes) -> Handler | None:
        for prefix, handler in self._prefixes:
            if path.startswith(prefix):
                return handler
        return None

    # --- what connections report ---------------------------------------------------------------

    def admit(self, connection: HostedConnection) -> bool:
        """Count the connection; False if there are too many, in all or of its address.

        Clients on this machine, such as a proxy, have the bound of all connections only.
        """
        self._connections.add(connection)
        self.accepted += 1
        network, limits = connection.network, self.limits
        count = self._of_network[network] = self._of_network.get(network, 0) + 1
        self.turns.shared = len(self._of_network) > 1
        most = limits.connections_address_max
        if most and count > most and not is_loopback(network):
            return False
        return len(self._connections) <= limits.connections_max

    def forget(self, connection: HostedConnection) -> None:
        """The connection is gone."""
        if connection in self._connections:
            self._connections.discard(connection)
            left = self._of_network.pop(connection.network, 1) - 1
            if left:
                self._of_network[connection.network] = left
            self.turns.shared = len(self._of_network) > 1
        if not self._connections:
            self._emptied.set()

    def note_refusal(self, peer: str, status: int, reason: str) -> None:
        """A request was rejected before it was complete."""
        self.refused += 1
        self.traffic.refused(peer, status, reason)

    def release(self, count: int) -> None:
        """Return bytes to the body budget."""
        self.body_bytes -= count

    def stalled(self, connection: HostedConnection, transport: asyncio.Transport | None) -> None:
        """The client does not read; it has ``write_stall_s``, or less if memory is short."""
        if transport is None:
            return
        self._unsent[connection] = transport.get_write_buffer_size()
        connection.deadline = self.now + self.limits.write_stall_s
        if sum(self._unsent.values()) > UNSENT_BYTES_MAX:
            self.cut += 1
            asyncio.get_running_loop().call_soon(connection.abort)

    def unstalled(self, connection: HostedConnection) -> None:
        """The client reads again, or is gone."""
        self._unsent.pop(connection, None)
        connection.deadline = self.now + self.limits.idle_timeout_s

    # --- ending ------------------------------------------------------------------------------

    async def drain(self, timeout_s: float) -> bool:
        """Stop accepting and let requests under way finish; True if all did in time."""
        self.draining = True
        if self._acceptor is not None:
            await self._acceptor.close()
        for number, connection in enumerate(list(self._connections), 1):
            connection.drain()
            if number % EXPIRED_MAX == 0:
                await asyncio.sleep(0)
        finished = True
        if self._connections:
            self._emptied.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._emptied.wait()
            except TimeoutError:
                finished = False
        if self._acceptor is not None:
            self._acceptor.abandon()
        for connection in list(self._connections):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()
        return finished
