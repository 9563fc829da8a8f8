"""The OpenAPI 3.1 document of the route table."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

import opentalos
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.route import JSON, Route, RouteTable, names_of
from opentalos.gateway.rest.routing.schema import Schema, boolean, fields, integer, one_of, text

PROBLEM: Schema = fields(
    "Why the request was not done, or why its outcome is unknown (RFC 9457).",
    type=text(about="urn:opentalos:error:NAME"),
    title=text(about="Name of the error."),
    status=integer(400, 599),
    detail=text(),
    instance=text(about="urn:opentalos:request:ID, with the id of X-Request-Id."),
    outcome=one_of("not done", "unknown", about="unknown: the request may have been done."),
    retry_safe=boolean("Whether a retry is safe."),
)
_PROBLEMS = {
    400: "The request does not fit this description.",
    401: "Missing or unknown credentials.",
    403: "The caller lacks the permission.",
    404: "The resource does not exist, or is hidden from the caller.",
    409: "The request conflicts with the current state.",
    413: "The body is too large.",
    415: "The body's content type is not supported.",
    422: "The values are valid, but not together or not for this resource.",
    429: "A rate quota is exceeded.",
    500: "An internal error; the outcome is unknown.",
    503: "Not done: the server cannot serve the request now. Retry later.",
    504: "The outcome is unknown.",
}
_OF_EVERY_ROUTE = (400, 401, 403, 404, 429, 500, 503, 504)
_OF_PUBLIC_ROUTES = (400, 500, 503)
_OF_BODIES = (413, 415)
_STREAM_ABOUT = "Server-sent events."


async def get_document(call: Call) -> Answer:
    """This document."""
    return Answer(text=document_text(call.table))


@lru_cache(maxsize=1)
def document_text(table: RouteTable) -> bytes:
    """The document as JSON."""
    return msgspec.json.format(msgspec.json.encode(document(table)), indent=1) + b"\n"


def document(table: RouteTable) -> dict[str, Any]:
    """The document; dispatch checks requests against the same schemas."""
    paths: dict[str, dict[str, Any]] = {}
    for route in table.routes:
        operations = paths.setdefault(f"/{route.path}", {})
        operations[route.method.lower()] = _operation(table, route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "OpenTalos REST",
            "version": opentalos.__version__,
            "description": "Topics, messages, consumer groups and their administration.",
        },
        "servers": [{"url": "/rest/v1"}],
        "security": [{"basic": []}, {"bearer": []}],
        "tags": [{"name": name} for name in dict.fromkeys(route.tag for route in table.routes)],
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM},
            "securitySchemes": {
                "basic": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "Key id and secret.",
                },
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "base64url of KEY_ID:SECRET.",
                },
            },
        },
    }


def _operation(table: RouteTable, route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": _parameters(table, route),
        "responses": _responses(route),
    }
    if route.notes:
        operation["description"] = route.notes
    if route.public:
        operation["security"] = []
    if route.body is not None:
        content: dict[str, Any] = {JSON: {"schema": route.body.schema}}
        content |= {name: {"schema": {}} for name in route.body.raw}
        operation["requestBody"] = {"required": not route.body.optional, "content": content}
    return operation


def operation_id(route: Route) -> str:
    """The operation's name in generated clients."""
    parts = [part.strip("{}").replace(".", "_") for part in route.segments]
    return "_".join((route.method.lower(), *parts)).replace("-", "_")


def _parameters(table: RouteTable, route: Route) -> list[dict[str, Any]]:
    found = [
        _parameter("path", name, table.place(route, name), required=True)
        for name in names_of(route)
    ]
    found += [_parameter("query", name, schema) for name, schema in route.query.items()]
    found += [_parameter("header", name, schema) for name, schema in route.headers.items()]
    return found


def _parameter(place: str, name: str, schema: Schema, *, required: bool = False) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": name, "in": place, "schema": schema}
    if required:
        shown["required"] = True
    if "description" in schema:
        shown["description"] = schema["description"]
    if schema.get("type") == "array":
        shown |= {"style": "form", "explode": False}
    return shown


def _responses(route: Route) -> Mapping[str, Any]:
    done: dict[str, Any] = {"description": "Done." if route.reply is None else "The reply."}
    if route.reply is not None:
        done["content"] = {route.reply_type: {"schema": route.reply}}
    responses = {str(route.status): done}
    for status in statuses_of(route):
        responses[str(status)] = {
            "description": _PROBLEMS[status],
            "content": {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            },
        }
    return responses


def statuses_of(route: Route) -> list[int]:
    """Every status of a problem reply of the route."""
    usual = _OF_PUBLIC_ROUTES if route.public else _OF_EVERY_ROUTE
    bodies = _OF_BODIES if route.body is not None else ()
    return sorted({*usual, *bodies, *route.statuses})
