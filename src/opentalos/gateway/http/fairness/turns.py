"""Turns: how much of one pass of the event loop requests may take, and whose is next.

A pass reads every socket that has data. If each of them had its requests answered at once, a pass
would be as long as senders like, and everybody else would wait for its end. So a connection starts
few requests in a row, and once requests have kept the loop busy, what arrives waits for a turn.
Turns go to client addresses in rotation: an address with a thousand connections gets as much as
one with a single connection. Only the order changes; nothing is refused, and no time is wasted.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

TURN_S: Final = 0.001  # requests may take of one pass of the loop
STARTS_A_TURN: Final = 4  # requests of one connection, of those that are answered at once

_log = logging.getLogger("opentalos.http")


class Waiting(Protocol):
    """A connection as its turn uses it."""

    network: str  # what counts as one client address

    def take_turn(self) -> None:
        """Start the next requests."""

    def abort(self) -> None:
        """Cut the connection without waiting."""


class Turns:
    """The turns of one port.

    ``load_s`` is how long requests kept the loop busy, less the time in between: it grows beyond
    ``TURN_S`` only while there is little else.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.load_s = 0.0
        self.shared = False  # more than one address has connections; else nothing is measured
        self.deferred = 0  # since the start
        self._ended_s = 0.0
        # By address; a connection is in it once at most, so connections bound it.
        self._waiting: OrderedDict[str, deque[Waiting]] = OrderedDict()
        self._count = 0
        self._expected_s = 0.0

    @property
    def waiting(self) -> int:
        """Connections that wait for their turn."""
        return self._count

    def spent(self, began_s: float) -> None:
        """A request was started and has left the loop to others (hot path)."""
        ended_s = self.clock()
        left_s = self.load_s - (began_s - self._ended_s)
        load_s = (left_s if left_s > 0.0 else 0.0) + ended_s - began_s
        self.load_s = load_s if load_s < 2 * TURN_S else 2 * TURN_S
        self._ended_s = ended_s

    def is_full(self) -> bool:
        """Whether what arrives now must wait; ask it only if ``load_s`` is above ``TURN_S``."""
        return self.shared and self.load_s - (self.clock() - self._ended_s) > TURN_S

    def wait(self, connection: Waiting) -> None:
        """Call ``take_turn`` in a later pass of the loop. The connection must not wait already."""
        queue = self._waiting.get(connection.network)
        if queue is None:
            queue = self._waiting[connection.network] = deque()
        queue.append(connection)
        self._count += 1
        self.deferred += 1
        if self._count == 1:
            asyncio.get_running_loop().call_soon(self._run)

    def expect(self, seconds: float) -> None:
        """The connection whose turn it is will take so long later in this pass."""
        self._expected_s += seconds

    def _run(self) -> None:
        """One pass: each connection at most once, the addresses in rotation."""
        began_s = self.clock()
        self._expected_s = 0.0
        for _ in range(self._count):
            network, queue = self._waiting.popitem(last=False)
            connection = queue.popleft()
            if queue:
                self._waiting[network] = queue
            self._take(connection)
            self._count -= 1  # only now, so that this pass is not scheduled a second time
            if self.clock() - began_s + self._expected_s > TURN_S:
                break
        if self._count:
            asyncio.get_running_loop().call_soon(self._run)

    @staticmethod
    def _take(connection: Waiting) -> None:
        try:
            connection.take_turn()
        except Exception:  # the others must get their turn
            _log.exception("could not continue a connection; aborting it")
            connection.abort()
