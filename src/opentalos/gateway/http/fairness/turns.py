"""Turns: how much of one pass of the event loop requests may take, and whose is next.

A pass reads every socket that has data. If each of them had its requests answered at once, a pass
would be as long as senders like, and everybody else would wait for its end. So a connection starts
few requests in a row, and once requests have kept the loop busy, what arrives waits for a turn.
Turns go to parties in rotation: one with a thousand connections gets as much as one with a single
connection. A party is a client address where requests say one by one who sends them (HTTP), and the
tenant where a connection has authenticated (Kafka). Only the order changes; nothing is refused, and
no time is wasted. While one party alone sends requests, passes may be longer: the requests of one
share commits, and another party waits for the end of a pass once.

The ports of a process share one object: they share the loop, so a pass is as long as what all of
them take of it. With one for each, a tenant that is alone on its port would not be limited there at
all, and who uses the other port would wait for it.
"""

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

TURN_S: Final = 0.0002  # requests may take of one pass of the loop; a reply needs six to nine
ALONE_TURN_S: Final = 0.004  # those of one party, if no other has sent any for ALONE_S
ALONE_S: Final = 0.2
STARTS_A_TURN: Final = 4  # requests of one connection, of those that are answered at once

_log = logging.getLogger("opentalos.http")


class Waiting(Protocol):
    """A connection as its turn uses it."""

    party: str  # whose turns it takes: a tenant, or /ADDRESS of whoever is not known

    def take_turn(self) -> None:
        """Start the next requests."""

    def abort(self) -> None:
        """Cut the connection without waiting."""


class Turns:
    """The turns of all ports of a process.

    ``load_s`` is how long requests kept the loop busy, less the time in between: it grows beyond
    ``TURN_S`` only while there is little else. ``turn_s``: what they may take now.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.load_s, self.turn_s = 0.0, TURN_S
        self._latest, self._alone_from_s = "", 0.0  # who sent the latest request
        self.shared = False  # more than one party has connections; else nothing is measured
        self.deferred = 0  # since the start
        self._ended_s = 0.0
        self._parties: Counter[str] = Counter()  # their connections
        # By party; a connection is in it once at most, so connections bound it.
        self._waiting: OrderedDict[str, deque[Waiting]] = OrderedDict()
        self._count = 0
        self._expected_s = 0.0

    @property
    def waiting(self) -> int:
        """Connections that wait for their turn."""
        return self._count

    def enter(self, party: str) -> None:
        """Count a connection of the party."""
        self._parties[party] += 1
        self.shared = len(self._parties) > 1

    def leave(self, party: str) -> None:
        """Such a connection is gone, or counts for another one from now on."""
        left = self._parties.pop(party, 1) - 1
        if left:
            self._parties[party] = left
        self.shared = len(self._parties) > 1

    def spent(self, began_s: float, whose: str) -> None:
        """A request was started and has left the loop to others (hot path)."""
        ended_s = self.clock()
        left_s = self.load_s - (began_s - self._ended_s)
        load_s = (left_s if left_s > 0.0 else 0.0) + ended_s - began_s
        if whose != self._latest:
            self._latest, self._alone_from_s = whose, ended_s + ALONE_S
        self.turn_s = turn_s = TURN_S if ended_s < self._alone_from_s else ALONE_TURN_S
        self.load_s = load_s if load_s < 2 * turn_s else 2 * turn_s
        self._ended_s = ended_s

    def is_full(self) -> bool:
        """Whether what arrives now must wait; ask it only if ``load_s`` is above ``TURN_S``."""
        return self.shared and self.load_s - (self.clock() - self._ended_s) > self.turn_s

    def wait(self, connection: Waiting) -> None:
        """Call ``take_turn`` in a later pass of the loop. The connection must not wait already."""
        queue = self._waiting.get(connection.party)
        if queue is None:
            queue = self._waiting[connection.party] = deque()
        queue.append(connection)
        self._count += 1
        self.deferred += 1
        if self._count == 1:
            asyncio.get_running_loop().call_soon(self._run)

    def expect(self, seconds: float) -> None:
        """What was started will take so long later in this pass, or in the next one."""
        self._expected_s += seconds
        self.load_s = min(self.load_s + seconds, 2 * self.turn_s)

    def _run(self) -> None:
        """One pass: each connection at most once, the parties in rotation."""
        began_s = self.clock()
        self._expected_s = 0.0
        for _ in range(self._count):
            party, queue = self._waiting.popitem(last=False)
            connection = queue.popleft()
            if queue:
                self._waiting[party] = queue
            self._take(connection)
            self._count -= 1  # only now, so that this pass is not scheduled a second time
            if self.clock() - began_s + self._expected_s > self.turn_s:
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
