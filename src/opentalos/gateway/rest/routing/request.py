"""A request's query, headers and body, decoded and checked against its route."""

import json
import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.rest.routing.errors import UnsupportedMediaType
from opentalos.gateway.rest.routing.route import JSON, Body, Route, typed
from opentalos.gateway.rest.routing.schema import check
from opentalos.model.checks import shown_value
from opentalos.model.errors import BadRequest, RequestTooLarge

QUERY_PAIRS_MAX = 32
CONTAINERS_MAX = 100_000  # objects and arrays of a body; they dominate the time of decoding
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


def document_of(route: Route, exchange: Exchange) -> tuple[Any, bool]:
    """The decoded and checked body; None and True for a content type that is not decoded.

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
        raise RequestTooLarge(f"the body has {len(sent):,} bytes; the limit is {bytes_max:,}")
    if raw:
        return None, True
    containers = sent.count(b"[") + sent.count(b"{")
    if containers > CONTAINERS_MAX:
        raise RequestTooLarge(
            f"the body has {containers:,} opening brackets; the limit is {CONTAINERS_MAX:,}"
        )
    document = {} if body.optional and not sent else decoded(sent)
    return check(body.schema, document, "body"), False


def _is_raw(body: Body, content_type: bytes) -> bool:
    name = content_type.partition(b";")[0].strip().lower()
    if name == _JSON_TYPE:
        return False
    if name.decode("latin-1") in body.raw:
        return True
    raise UnsupportedMediaType(
        f"unsupported content type; send one of {', '.join((JSON, *body.raw))}"
    )


def decoded(text: bytes) -> Any:
    """A JSON text. Raises: BadRequest: also for text that cannot be encoded as UTF-8."""
    try:
        document = json.loads(text, parse_constant=_reject_constant, parse_float=_number)
        if b"\\u" in text:  # rejects half of a surrogate pair
            json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from error
    return document


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _reject_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _unquoted(part: bytes) -> str:
    try:
        return unquote_to_bytes(part.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        raise BadRequest("the query must be percent-encoded UTF-8") from error
