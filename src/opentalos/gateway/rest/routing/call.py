"""One REST call as a handler sees it, and its answer.

The gateway makes a ``Call`` after it checked path, query, headers and body against the route.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from opentalos.broker.broker import Broker
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.peer.forwarding import Forwarding
from opentalos.model.errors import StoreUnavailable
from opentalos.model.identity import Principal

MARGIN_S = 4.0  # time to answer beyond what the call itself waits for


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler returns: a document, or JSON text, as a whole or in pieces."""

    document: Any = None
    status: int | None = None  # None: the route's own
    text: bytes = b""
    chunks: Sequence[bytes] = ()
    headers: Sequence[tuple[str, str]] = ()


@dataclass(slots=True, kw_only=True)
class Call:
    """A request that fits its route."""

    broker: Broker
    forwarding: Forwarding | None
    caller: Principal
    exchange: Exchange
    places: Mapping[str, str]
    query: Mapping[str, Any]
    headers: Mapping[str, Any]
    document: Any = None
    again: Callable[[], object] = lambda: None  # raises InvalidCredential if the key is gone
    callers: Any = None  # Callers, for routes that log in and out
    raw: bool = False  # the body is of a content type that is not decoded
    table: Any = None  # the RouteTable, which the OpenAPI document describes

    def wait(self, seconds: float) -> None:
        """Allow the answer this much time; the call fails at once when the server stops."""
        exchange = self.exchange
        exchange.extend(seconds + MARGIN_S, waits=seconds > 0)
        if exchange.late is not None:
            exchange.drained = partial(exchange.late, StoreUnavailable("the server stops"))
