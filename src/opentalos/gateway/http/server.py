"""The HTTP server: listens, limits connections, sweeps deadlines, dispatches, drains."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

from opentalos.gateway.http.connection import HttpConnection
from opentalos.gateway.http.connection_host import HostedConnection
from opentalos.gateway.http.exchange import Exchange, Handler
from opentalos.gateway.http.fairness.body_budget import BodyBudget
from opentalos.gateway.http.fairness.connections import ConnectionRoom, OpenConnections
from opentalos.gateway.http.fairness.turns import Turns
from opentalos.gateway.http.reply_format import date_line
from opentalos.gateway.http.tls import TlsContext
from opentalos.gateway.http.tls_connection import TlsConnection
from opentalos.gateway.http.traffic import Traffic
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

    Args: exact: handlers by path; prefixes: (path prefix, handler), the first match wins; room:
    for the connections of all ports.
    """

    def __init__(
        self,
        limits: HttpLimits,
        exact: Mapping[bytes, Handler] | None = None,
        prefixes: Sequence[tuple[bytes, Handler]] = (),
        room: ConnectionRoom | None = None,
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
        self.tls: TlsContext | None = None
        self.traffic = Traffic(limits.failure_lines_per_s_max)
        self.turns = Turns(time.perf_counter)
        self.serve(exact or {}, prefixes)
        self._open: OpenConnections[HostedConnection] = OpenConnections(
            limits, self._connection, room
        )
        self._unswept: list[HostedConnection] = []  # of the sweep under way
        self._unsent: dict[HostedConnection, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._open)

    @property
    def accepted(self) -> int:
        """Connections since the start."""
        return self._open.accepted

    def serve(
        self, exact: Mapping[bytes, Handler], prefixes: Sequence[tuple[bytes, Handler]]
    ) -> None:
        """Replace the handlers for all following requests."""
        self._exact, self._prefixes = dict(exact), tuple(prefixes)

    async def listen(self, host: str, port: int, tls: TlsContext | None = None) -> int:
        """Start to listen; returns the port, which the kernel chooses if ``port`` is 0."""
        self.tick()
        self.tls = tls
        chosen = await self._open.listen(host, port, tls)
        self._schedule()
        return chosen

    def _connection(self, tls: TlsContext | None) -> asyncio.Protocol:
        return HttpConnection(self) if tls is None else TlsConnection(self)

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
            self._unswept = list(self._open)
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

    def dispatch(self, exchange: Exchange, party: str) -> None:
        """Call the handler; if it raises, the client gets a 500 without details.

        Args: party: whose turn the request takes.
        """
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
            turns.spent(began_s, party)

    def _find(self, path: bytes) -> Handler | None:
        for prefix, handler in self._prefixes:
            if path.startswith(prefix):
                return handler
        return None

    # --- what connections report ---------------------------------------------------------------

    def admit(self, connection: HostedConnection) -> bool:
        """Count the connection; False if there are too many, in all or of its address."""
        self.turns.enter(connection.party)
        return self._open.admit(connection)

    def forget(self, connection: HostedConnection) -> None:
        """The connection is gone."""
        self._open.forget(connection)
        self.turns.leave(connection.party)

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
        finished = await self._open.drain(timeout_s)
        if self._timer is not None:
            self._timer.cancel()
        return finished
