"""What a connection and the listening server need of each other.

``HttpServer`` makes connections and so imports them; a connection knows its server as a
``ConnectionHost`` only.
"""

import asyncio
from typing import Protocol

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.fairness.body_budget import BodyBudget
from opentalos.gateway.http.fairness.turns import Turns
from opentalos.gateway.http.tls import TlsContext
from opentalos.gateway.http.traffic import Traffic
from opentalos.model.limits import HttpLimits


class HostedConnection(Protocol):
    """A connection as the server's sweep and drain use it."""

    deadline: float  # of the host's clock
    network: str  # what counts as one client address
    party: str  # whose turns it takes

    def expire(self) -> None:
        """The deadline passed: answer for a slow handler, or cut a slow client."""

    def drain(self) -> None:
        """Close at once if idle, else after the requests under way."""

    def abort(self) -> None:
        """Cut the connection without waiting."""


class ConnectionHost(Protocol):
    """The server as its connections use it: clock, limits, shared budgets and dispatch."""

    limits: HttpLimits
    answer_timeout_s: float
    now: float  # the loop's clock, refreshed by the sweep
    date: bytes
    head_end: bytes
    draining: bool
    body_bytes: int  # of requests in memory; connections charge it
    budget: BodyBudget
    cut: int
    tls: TlsContext | None
    traffic: Traffic
    turns: Turns

    def dispatch(self, exchange: Exchange, party: str) -> None:
        """Call the handler of the request's path, in the party's turn."""

    def admit(self, connection: HostedConnection) -> bool:
        """Count the connection; False if there are too many."""

    def forget(self, connection: HostedConnection) -> None:
        """The connection is gone."""

    def note_refusal(self, peer: str, status: int, reason: str) -> None:
        """A request was refused before it was complete."""

    def release(self, count: int) -> None:
        """Return bytes to the body budget."""

    def stalled(self, connection: HostedConnection, transport: asyncio.Transport | None) -> None:
        """The client does not read its replies."""

    def unstalled(self, connection: HostedConnection) -> None:
        """The client reads again, or is gone."""
