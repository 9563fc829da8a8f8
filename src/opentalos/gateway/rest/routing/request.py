"""A request's query, headers and body, decoded and checked against its route."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

from opentalos.broker.long_work import SHORT_BYTES, SHORT_ITEMS, Turn
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.rest.routing import json_text
from opentalos.gateway.rest.routing.errors import UnsupportedMediaType
from opentalos.gateway.rest.routing.route import JSON, Body, Route, typed
from opentalos.gateway.rest.routing.schema import check, check_in_pieces
from opentalos.model.checks import shown_value
from opentalos.model.errors import BadRequest, RequestTooLarge

QUERY_PAIRS_MAX = 32
CONTAINERS_MAX = 100_000  # objects and arrays of a body; they dominate the time of decoding
_COUNTED_BYTES = 256 << 10  # in one piece, at most 0.3 ms
_JSON_TYPE = JSON.encode()


def query_of(route: Route, sent: bytes) -> dict[str, Any]:
    """Parameters by name. Raises: BadRequest: unknown, repeated or out of range."""
    found: dict[str, Any] = {}
    for pair in filter(None, sent.split(b"&", QUERY_PAIRS_MAX)):
        key, _, text = (_unquoted(part) for part in pair.partition(b"="))
        schema = route.query.get(key)
        if schema is None:
            raise BadRequest(
                f"unknown parameter {shown_value(key)}; known: {', '.join(route.query) or 'none'}"
            )
        if key in found:
            raise BadRequest(f"parameter {key} is repeated; send it once")
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


def is_long(exchange: Exchange) -> bool:
    """Whether decoding the body takes so long that it needs a turn."""
    return exchange.body_bytes > SHORT_BYTES or exchange.body.count(b",") > SHORT_ITEMS


def document_of(route: Route, exchange: Exchange) -> tuple[Any, bool]:
    """The decoded and checked body; None and True for a content type that is not decoded.

    Raises: BadRequest, RequestTooLarge, UnsupportedMediaType.
    """
    body = route.body
    if _is_undecoded(route, exchange):
        return None, body is not None
    assert body is not None, "what is decoded has a schema"
    sent = exchange.body
    for _ in _counted_containers(sent):
        pass
    document = {} if body.optional and not sent else json_text.decoded(sent)
    return check(body.schema, document, "body"), False


async def long_document_of(turn: Turn, route: Route, exchange: Exchange) -> tuple[Any, bool]:
    """Like ``document_of``, in pieces."""
    if _is_undecoded(route, exchange):
        return None, route.body is not None
    assert route.body is not None, "what is decoded has a schema"
    for _ in _counted_containers(exchange.body):
        await turn.pause()
    pieces = json_text.parse(exchange.body)
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            document = end.value
            break
        await turn.pause()
    schema = route.body.schema
    return await turn.in_pieces(partial(check_in_pieces, schema, document, "body")), False


def _is_undecoded(route: Route, exchange: Exchange) -> bool:
    """Whether there is no JSON to decode: there is no body, or its content type is another one.

    Raises: BadRequest, RequestTooLarge, UnsupportedMediaType.
    """
    body, sent = route.body, exchange.body_bytes
    if body is None:
        if sent:
            raise BadRequest("this operation takes no body")
        return True
    # Required with a body: a page of another site can send one without asking the server first
    # (CORS) only as text, as a form or without a type.
    missing = b"" if sent else _JSON_TYPE
    raw = _is_raw(body, exchange.headers.get(b"content-type", missing))
    bytes_max = body.raw_bytes_max if raw else body.bytes_max
    if sent > bytes_max:
        raise RequestTooLarge(f"the body has {sent:,} bytes; the limit is {bytes_max:,}")
    if raw:
        return True
    return False


def _counted_containers(sent: bytes) -> Iterator[None]:
    """Count in pieces, and no further than to the limit. Raises: RequestTooLarge."""
    containers = 0
    for start in range(0, len(sent), _COUNTED_BYTES):
        end = start + _COUNTED_BYTES
        containers += sent.count(b"[", start, end) + sent.count(b"{", start, end)
        if containers > CONTAINERS_MAX:
            raise RequestTooLarge(f"the body has more than {CONTAINERS_MAX:,} opening brackets")
        yield


def _is_raw(body: Body, content_type: bytes) -> bool:
    name = content_type.partition(b";")[0].strip().lower()
    if name == _JSON_TYPE:
        return False
    if name.decode("latin-1") in body.raw:
        return True
    raise UnsupportedMediaType(
        f"unsupported content type; send one of {', '.join((JSON, *body.raw))}"
    )


def _unquoted(part: bytes) -> str:
    try:
        return unquote_to_bytes(part.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        raise BadRequest("the query must be percent-encoded UTF-8") from error
