"""The table of routes; dispatch and the OpenAPI document are made from it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import MethodNotAllowed, NotServed
from opentalos.gateway.rest.routing.schema import Schema, check
from opentalos.model.errors import BadRequest

JSON = "application/json"
BODY_BYTES_MAX = 1 << 20

Handler = Callable[[Call], Awaitable[Answer | None]]  # None: the handler replied itself


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request. ``raw``: other content types, which are not decoded."""

    schema: Schema
    bytes_max: int = BODY_BYTES_MAX
    raw: Sequence[str] = ()
    raw_bytes_max: int = 0
    optional: bool = False  # an empty body means {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One operation. ``path`` is a template below /rest/v1 without the first slash."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    reply: Schema | None = None  # None: no body
    status: int = 200  # of success
    body: Body | None = None
    query: Mapping[str, Schema] = field(default_factory=dict)
    headers: Mapping[str, Schema] = field(default_factory=dict)
    statuses: Sequence[int] = ()  # of problems, besides those of every route
    places: Mapping[str, Schema] = field(
        default_factory=dict
    )  # of the path, instead of the table's
    public: bool = False  # answers without authentication
    reply_type: str = JSON
    streams: bool = False  # the reply is an endless stream
    notes: str = ""

    @property
    def reads(self) -> bool:
        """Whether it changes nothing, so that it may be cancelled when the client is gone."""
        return self.method == "GET"

    @property
    def segments(self) -> list[str]:
        """Parts of the path."""
        return self.path.split("/")


@dataclass(frozen=True, slots=True)
class Match:
    """A route and the values of its path."""

    route: Route
    places: Mapping[str, str]


class RouteTable:
    """All routes; finds the route of a request."""

    def __init__(self, routes: Sequence[Route], places: Mapping[str, Schema]) -> None:
        self.routes = tuple(routes)
        self._places = places
        self._by_length: dict[int, list[tuple[list[str], Route]]] = {}
        for route in routes:
            segments = route.segments
            self._by_length.setdefault(len(segments), []).append((segments, route))
            for name in names_of(route):
                self.place(route, name)  # every part of a path has a schema

    def place(self, route: Route, name: str) -> Schema:
        """The schema of a variable part of the path."""
        return route.places[name] if name in route.places else self._places[name]

    def find(self, method: str, path: bytes) -> Match:
        """The route of a request. Raises: NotServed; MethodNotAllowed, with the methods."""
        try:
            parts = [unquote(part, errors="strict") for part in path.decode("ascii").split("/")]
        except UnicodeDecodeError as error:
            raise NotServed("the path must be percent-encoded UTF-8") from error
        allowed: list[str] = []
        for segments, route in self._by_length.get(len(parts), ()):
            places = _matched(segments, parts)
            if places is None:
                continue
            if route.method == method or (method == "HEAD" and route.method == "GET"):
                self._check_places(route, places)
                return Match(route, places)
            allowed.append(route.method)
        if not allowed:
            raise NotServed("nothing is served at this path")
        methods = ", ".join(with_implied(allowed))
        raise MethodNotAllowed(f"method {method} is not allowed here; use {methods}", allowed)

    def _check_places(self, route: Route, places: Mapping[str, str]) -> None:
        for name, value in places.items():
            schema = self.place(route, name)
            try:
                check(schema, typed(schema, value), name)
            except BadRequest as error:
                raise NotServed(f"nothing is served at this path: {error}") from error


def with_implied(methods: Sequence[str]) -> Sequence[str]:
    """The methods, with those that need no route."""
    head = ["HEAD"] if "GET" in methods else []
    return [*dict.fromkeys([*methods, *head, "OPTIONS"])]


def names_of(route: Route) -> list[str]:
    """Names of the variable parts of the path, in order."""
    return [part[1:-1] for part in route.segments if part.startswith("{")]


def typed(schema: Schema, value: str) -> Any:
    """A string of the path or query as its schema's type; unchanged where it does not fit."""
    match schema.get("type"):
        case "integer":
            digits = value.removeprefix("-")
            return (
                int(value) if digits.isascii() and digits.isdigit() and len(value) < 21 else value
            )
        case "boolean":
            return {"true": True, "false": False}.get(value, value)
        case "array":
            return [typed(schema["items"], item) for item in value.split(",")]
    return value


def _matched(segments: Sequence[str], parts: Sequence[str]) -> dict[str, str] | None:
    places: dict[str, str] = {}
    for segment, part in zip(segments, parts, strict=True):
        if segment.startswith("{"):
            places[segment[1:-1]] = part
        elif segment != part:
            return None
    return places
