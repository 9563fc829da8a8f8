"""A small REST client for tests, and one that follows a stream of events."""

import base64
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, Self

from tests.raw_client import connection_to
from tests.server_process import ROOT_KEY, Key


class Listening(Protocol):
    """A server on a port of this machine."""

    port: int


class Replied(NamedTuple):
    """A reply with its document, if it has one."""

    status: int
    document: Any
    headers: Mapping[str, str]


def authorization(key: Key = ROOT_KEY) -> dict[str, str]:
    """The header of HTTP basic."""
    pair = f"{key.key_id}:{key.secret}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def rest(
    server: Listening,
    method: str,
    path: str,
    document: Any = None,
    headers: Mapping[str, str] | None = None,
    trust: ssl.SSLContext | None = None,
) -> Replied:
    """One call as root, below /rest/v1; ``trust``: the port has TLS."""
    connection = connection_to(server.port, trust)
    sent = {**authorization(), **(headers or {})}
    body = None
    if document is not None:
        body = json.dumps(document)
        sent["Content-Type"] = "application/json"
    try:
        connection.request(method, f"/rest/v1/{path}", body, sent)
        reply = connection.getresponse()
        text = reply.read()
        return Replied(reply.status, json.loads(text) if text else None, dict(reply.headers))
    finally:
        connection.close()


def figure(server: Listening, name: str, trust: ssl.SSLContext | None = None) -> float:
    """What /metrics shows of a figure that has one series; ``name`` is without the prefix."""
    connection = connection_to(server.port, trust)
    try:
        connection.request("GET", "/metrics", headers=authorization())
        page = connection.getresponse().read().decode()
    finally:
        connection.close()
    (value,) = [
        line.rpartition(" ")[2]
        for line in page.splitlines()
        if line.startswith(f"opentalos_{name} ")
    ]
    return float(value)


class Event(NamedTuple):
    """A server-sent event."""

    id: str
    kind: str
    data: Any


class EventStream:
    """An open stream; iterating ends when the server ends it."""

    def __init__(
        self,
        server: Listening,
        path: str,
        headers: Mapping[str, str] | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self._connection = connection_to(server.port, trust)
        sent = {**authorization(), **(headers or {})}
        self._connection.request("GET", f"/rest/v1/{path}", headers=sent)
        self.reply = self._connection.getresponse()

    def __iter__(self) -> Iterator[Event]:
        fields: dict[str, str] = {}
        while line := self.reply.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name in ("id", "event", "data"):
                fields[name] = fields[name] + value if name in fields else value
            elif not line.strip() and "data" in fields:
                data = json.loads(fields["data"])
                yield Event(fields.get("id", ""), fields.get("event", "message"), data)
                fields = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self.reply.close()
        self._connection.close()
