"""The memory for requests of Kafka's clients: who gets it, and who waits for it in which order.

Memory is taken before the bytes of a request come, for as long as the client may take to send them.
So nobody may take what the others need, by the rules of the port for HTTP: a small request counts
in the whole only, one of each connection; what strangers send counts in a small pool, which their
addresses share; what others send in the whole, which tenants share (``fairness/pool.py``).
"""

import asyncio
import sys
from collections import OrderedDict, deque
from typing import Final, Protocol

from opentalos.gateway.http.fairness.body_budget import UNSHARED_BYTES
from opentalos.gateway.http.fairness.pool import Hold, Pool
from opentalos.model.settings.kafka import UNKNOWN_BYTES_MAX, KafkaSettings

_STRANGERS: Final = 8  # part of the memory that clients get before they have authenticated
_UNSHARED: Final = 2  # part that all connections fill with small requests at most


class Sender(Protocol):
    """A connection as it takes memory."""

    @property
    def tenant(self) -> str:
        """Whose memory its requests take."""

    @property
    def stranger(self) -> bool:
        """Whether the client has not authenticated."""

    def resume(self) -> None:
        """There may be memory for its next request."""


class RequestMemory:
    """What the requests of all connections hold."""

    def __init__(self, settings: KafkaSettings) -> None:
        most = settings.requests_bytes_total_max
        self._strangers = Pool(max(UNKNOWN_BYTES_MAX, most // _STRANGERS))
        self._tenants, self._unshared = Pool(most), Pool(sys.maxsize)
        self._unshared_bytes = min(UNSHARED_BYTES, most // (_UNSHARED * settings.connections_max))
        # Connections that wait for memory: by tenant, which take turns, and in order.
        self._short: OrderedDict[str, deque[Sender]] = OrderedDict()
        self._lent: dict[str, Hold] = {}  # by tenant; for items of one request

    @property
    def bytes(self) -> int:
        """Of requests in memory, those to come included."""
        return self._strangers.used + self._tenants.used + self._unshared.used

    def take(self, sender: Sender, count: int, *, only: bool) -> Hold | None:
        """Count the bytes of a request; None: there is no room now.

        Args: only: it is the only request of its connection.
        """
        pool = self._strangers if sender.stranger else self._tenants
        if only and count <= self._unshared_bytes:
            pool = self._unshared
        hold = Hold(pool, sender.tenant)
        return hold if hold.take(count) else None

    def take_items(self, sender: Sender, count: int) -> Hold | None:
        """Count the items of a request that is in memory; None: there is no room now.

        A tenant whose requests wait for each other gets room for one beyond its share.
        """
        hold = Hold(self._strangers if sender.stranger else self._tenants, sender.tenant)
        if hold.take(count):
            return hold
        if sender.tenant in self._lent:
            return None
        hold = self._lent[sender.tenant] = Hold(self._unshared, sender.tenant)
        hold.take(count)
        return hold

    def wait(self, sender: Sender) -> None:
        """``resume`` is called once there may be room."""
        self._short.setdefault(sender.tenant, deque()).append(sender)

    def release(self, hold: Hold) -> None:
        """Return the bytes of a request."""
        if self._lent and self._lent.get(hold.owner) is hold:
            del self._lent[hold.owner]
        hold.end()
        if self._short:
            asyncio.get_running_loop().call_soon(self._resume_some)

    def _resume_some(self) -> None:
        """The first of each tenant in turn, until all of these have to wait again."""
        refused = 0
        while refused < len(self._short):
            tenant, waiting = self._short.popitem(last=False)
            sender = waiting.popleft()
            if waiting:
                self._short[tenant] = waiting
            sender.resume()
            again = self._short.get(tenant)
            if again and again[-1] is sender:
                again.rotate(1)  # it keeps its place
                refused += 1
