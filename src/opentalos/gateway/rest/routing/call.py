"""One REST call as a handler sees it, and its answer."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

from opentalos.broker.broker import Broker
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.peer.forwarding import Forwarding
from opentalos.gateway.rest.routing.errors import UnsupportedMediaType
from opentalos.gateway.rest.routing.route import JSON, Body, Route, typed
from opentalos.gateway.rest.routing.schema import check
from opentalos.model.errors import BadRequest, RequestTooLarge, StoreUnavailable
from opentalos.model.identity import Principal

QUERY_PAIRS_MAX = 32
CONTAINERS_MAX = 100_000  # objects and arrays of a body: they are what decoding takes long for
MARGIN_S = 4.0  # of an answer beyond what the call itself waits for
_JSON_TYPE = JSON.encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler gives back: a document, or JSON text that is ready already."""

    document: Any = None
    status: int | None = None  # None: the route's own
    text: bytes = b""
    headers: Sequence[tuple[str, str]] = ()


@dataclass(slots=True, kw_only=True)
class Call:
    """A request that fits its route: path, query and document were checked against it."""

    broker: Broker
    forwarding: Forwarding | None
    caller: Principal
    exchange: Exchange
    places: Mapping[str, str]
    query: Mapping[str, Any]
    headers: Mapping[str, Any]
    document: Any = None
    again: Callable[[], object] = lambda: None  # Raises InvalidCredential: no caller any more
    raw: bool = False  # the body is of a content type that is not decoded
    table: Any = None  # of routes, for the document that describes them

    def wait(self, seconds: float) -> None:
        """The answer may take so long; it is given up when the server is about to stop."""
        exchange = self.exchange
        exchange.extend(seconds + MARGIN_S)
        if exchange.late is not None:
            exchange.drained = partial(exchange.late, StoreUnavailable("the server stops"))


def query_of(route: Route, sent: bytes) -> dict[str, Any]:
    """Parameters by name. Raises: BadRequest: unknown, repeated or out of range."""
    found: dict[str, Any] = {}
    for pair in filter(None, sent.split(b"&", QUERY_PAIRS_MAX)):
        key, _, text = (_unquoted(part) for part in pair.partition(b"="))
        schema = route.query.get(key)
        if schema is None:
            raise BadRequest(f"unknown parameter {key[:40]!r}")
        if key in found:
            raise BadRequest(f"parameter {key} is given twice")
        found[key] = check(schema, typed(schema, text), key)
    return found


def headers_of(route: Route, sent: Mapping[bytes, bytes]) -> dict[str, Any]:
    """The route's own headers by name. Raises: BadRequest."""
    found: dict[str, Any] = {}
    for name, schema in route.headers.items():
        value = sent.get(name.lower().encode())
        if value is not None:
            found[name] = check(schema, value.decode("latin-1"), name)
    return found


def document_of(route: Route, exchange: Exchange) -> tuple[Any, bool]:
    """The decoded and checked body, or nothing and True for one that is taken as it is.

    Raises: BadRequest, RequestTooLarge, UnsupportedMediaType.
    """
    body, sent = route.body, exchange.body
    if body is None:
        if sent:
            raise BadRequest("this operation takes no body")
        return None, False
    raw = _is_raw(body, exchange.headers.get(b"content-type", _JSON_TYPE))
    bytes_max = body.raw_bytes_max if raw else body.bytes_max
    if len(sent) > bytes_max:
        raise RequestTooLarge(f"a body of {len(sent)} bytes is above {bytes_max}")
    if raw:
        return None, True
    containers = sent.count(b"[") + sent.count(b"{")
    if containers > CONTAINERS_MAX:
        raise RequestTooLarge(f"a body of {containers} brackets is above {CONTAINERS_MAX}")
    document = {} if body.optional and not sent else decoded(sent)
    return check(body.schema, document, "body"), False


def _is_raw(body: Body, content_type: bytes) -> bool:
    name = content_type.partition(b";")[0].strip().lower()
    if name == _JSON_TYPE:
        return False
    if name.decode("latin-1") in body.raw:
        return True
    raise UnsupportedMediaType(f"send one of {', '.join((JSON, *body.raw))}")


def decoded(text: bytes) -> Any:
    """A JSON text of the network. Raises: BadRequest: also for what UTF-8 cannot carry."""
    try:
        document = json.loads(text, parse_constant=_no_number, parse_float=_number)
        if b"\\u" in text:  # half of a surrogate pair is no text
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    return document


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def _unquoted(part: bytes) -> str:
    try:
        return unquote_to_bytes(part.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        raise BadRequest("the query is not percent-encoded UTF-8") from error
