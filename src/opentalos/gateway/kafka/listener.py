"""The Kafka port: listens, limits connections and memory, sweeps deadlines, drains.

What speaks the protocol is imported with the first connection, so a server without clients of
Kafka does not load it.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from opentalos.gateway.http.fairness.connections import ConnectionRoom, OpenConnections
from opentalos.gateway.http.fairness.turns import Turns
from opentalos.gateway.http.tls import TlsContext
from opentalos.gateway.kafka.memory import RequestMemory
from opentalos.model.settings.kafka import KafkaSettings

SWEEP_S = 1.0  # resolution of every time limit of the port
SWEPT_MAX = 1_000  # connections looked at in one turn of the loop

_KEPT = 50  # part of the connections that only administrators take
LINES_PER_S_MAX = 20  # log lines of failed requests; the next line counts those left out

_access = logging.getLogger("opentalos.access")


class KafkaConnection(Protocol):
    """A connection as the port uses it."""

    deadline_s: float  # loop time
    network: str  # what counts as one client address
    party: str  # whose turns it takes

    @property
    def tenant(self) -> str:
        """Whose connection it is."""

    def expire(self) -> None:
        """The deadline passed."""

    def look(self) -> None:
        """Once a second: end if its client's key or token does not hold any more."""

    def drain(self) -> None:
        """Close at once if idle, else after the requests under way."""

    def abort(self) -> None:
        """Cut the connection without waiting."""


class KafkaPort:
    """Accepts connections of Kafka's clients.

    Args: protocol: makes the protocol object of a connection to this port; room: for the
    connections of all ports; turns: of all ports.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        protocol: Callable[["KafkaPort"], asyncio.BaseProtocol],
        room: ConnectionRoom | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.settings = settings
        self.turns = Turns(time.perf_counter) if turns is None else turns
        self.tls: TlsContext | None = None
        self.refused = self.cut = 0
        self.requests_by_api: Counter[str] = Counter()
        self.failures_by_error: Counter[str] = Counter()  # of our classes, so they are few
        self._lines = self._left_out = 0  # of the log, in this second
        self.unread_bytes = 0  # of answers that clients do not read
        self.draining = False
        self._open: OpenConnections[KafkaConnection] = OpenConnections(
            settings, lambda tls: protocol(self), room
        )
        self.memory = RequestMemory(settings)
        self._strangers: dict[KafkaConnection, None] = {}  # oldest first
        self._tenant_of: dict[KafkaConnection, str] = {}  # of the others
        self._held: Counter[str] = Counter()  # connections by tenant
        self._unread: dict[KafkaConnection, int] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._open)

    @property
    def accepted(self) -> int:
        """Connections since the start."""
        return self._open.accepted

    async def listen(self, host: str, port: int, tls: TlsContext | None = None) -> int:
        """Start to listen; returns the port, which the kernel chooses if ``port`` is 0."""
        self.tls = tls
        chosen = await self._open.listen(host, port, tls)
        self._schedule()
        return chosen

    # --- what connections report ---------------------------------------------------------------

    def admit(self, connection: KafkaConnection) -> bool:
        """Count the connection of a stranger; False if there are too many, in all or of its
        address. The one that has been a stranger for longest gives way."""
        self.turns.enter(connection.party)
        admitted = self._open.admit(connection, self._cut_stranger)
        if admitted:
            self._strangers[connection] = None
        self.refused += not admitted
        return admitted

    def _cut_stranger(self) -> bool:
        if not self._strangers:
            return False
        oldest = next(iter(self._strangers))
        del self._strangers[oldest]
        self.cut += 1
        oldest.abort()
        return True

    def is_known(self, connection: KafkaConnection, *, admin: bool) -> bool:
        """The client has authenticated, or is a guest, whose tenant is its address and who may
        authenticate later; False if the tenant has too many connections, and nothing changes.

        A tenant may have as many as stay free for others. Some places are left to administrators.
        """
        tenant, before = connection.tenant, self._tenant_of.get(connection)
        if tenant == before:
            return True
        held, most = self._held[tenant], self.settings.connections_max
        taken = len(self._tenant_of) - (before is not None)
        if not admin and held >= most - most // _KEPT - taken:
            return False
        self._strangers.pop(connection, None)
        self._uncount(connection)
        self._tenant_of[connection] = tenant
        self._held[tenant] = held + 1
        self.turns.leave(connection.party)
        connection.party = tenant
        self.turns.enter(tenant)
        return True

    def _uncount(self, connection: KafkaConnection) -> None:
        """It is not its tenant's any more."""
        tenant = self._tenant_of.pop(connection, None)
        if tenant is not None:
            self._held[tenant] -= 1
            if not self._held[tenant]:
                del self._held[tenant]

    def forget(self, connection: KafkaConnection) -> None:
        """The connection is gone."""
        self.is_read(connection)
        self._open.forget(connection)
        self.turns.leave(connection.party)
        self._strangers.pop(connection, None)
        self._uncount(connection)

    def failed(self, peer: str, request: str, error: Exception) -> None:
        """Count and log a failed request; so many lines a second."""
        self.failures_by_error[type(error).__name__] += 1
        self._lines += 1
        if self._lines > LINES_PER_S_MAX:
            self._left_out += 1
            return
        fields: dict[str, object] = {"peer": peer, "request": request, "error": str(error)}
        if self._left_out:
            fields["left_out"], self._left_out = self._left_out, 0
        _access.info("request failed", extra=fields)

    def is_unread(self, connection: KafkaConnection, count: int) -> None:
        """A client does not read its answers. Of too many bytes, the most are dropped."""
        self.is_read(connection)
        self._unread[connection] = count
        self.unread_bytes += count
        if self.unread_bytes > self.settings.answers_bytes_total_max:
            worst = max(self._unread, key=self._unread.__getitem__)
            self.cut += 1
            asyncio.get_running_loop().call_soon(worst.abort)

    def is_read(self, connection: KafkaConnection) -> None:
        """The client caught up, or is gone."""
        self.unread_bytes -= self._unread.pop(connection, 0)

    # --- deadlines and ending ------------------------------------------------------------------

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._schedule()
        self._lines = 0
        self._sweep_some(list(self._open))

    def _sweep_some(self, unswept: list[KafkaConnection]) -> None:
        now_s = asyncio.get_running_loop().time()
        for _ in range(min(SWEPT_MAX, len(unswept))):
            connection = unswept.pop()
            if connection.deadline_s < now_s:
                connection.expire()
            else:
                connection.look()
        if unswept:
            asyncio.get_running_loop().call_soon(self._sweep_some, unswept)

    async def drain(self, timeout_s: float) -> bool:
        """Stop accepting and let requests under way finish; True if all did in time."""
        self.draining = True
        finished = await self._open.drain(timeout_s)
        if self._timer is not None:
            self._timer.cancel()
        return finished
