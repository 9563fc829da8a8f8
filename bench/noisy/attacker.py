"""What every attacking behaviour has: a deadline, connections and a count of the replies."""

import base64
import contextlib
import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bench.client import BenchTopic, Client, Key, signed_request
from bench.server import ServerProcess
from opentalos.wire.thrift import ThriftProtocol

ADDRESS = "127.0.0.2"  # attackers have another address than the victim
CALL_S = 30.0
SHORT_S = 0.2  # of a reply that may not come
GRACE_S = 5.0  # for replies after the deadline; later ones are not counted
HEAD_BYTES = 12  # HTTP/1.1 200
CLOSED = 0  # counted where a connection ends without a reply
TOPIC, BOMBS, TABLE = "noise", "bombs", "noise_rows"


class Ports(NamedTuple):
    """Where an attacker sends: to a server, or to a listener that answers nothing.

    ``server``: the server's port for HTTP, for what the attacker has to know before.
    """

    http: int
    kafka: int
    server: int


def ports_of(server: ServerProcess) -> Ports:
    """To attack a server."""
    return Ports(server.port, server.kafka_port, server.port)


@dataclass
class Attacker:
    """One tenant, or a stranger, that sends until the deadline.

    Behaviours count what they see in ``seen`` by status; 0 is a connection without a reply.
    """

    ports: Ports
    key: Key
    until_s: float  # time.monotonic()
    seen: Counter[int] = field(default_factory=Counter)

    @property
    def running(self) -> bool:
        """Whether the deadline is ahead."""
        return time.monotonic() < self.until_s

    def wait(self) -> None:
        """Hold what is held until the deadline."""
        time.sleep(max(0.0, self.until_s - time.monotonic()))

    def connect(self, timeout_s: float = CALL_S, *, kafka: bool = False) -> socket.socket:
        """A connection from the attacker's address, to the port for HTTP or for Kafka."""
        port = self.ports.kafka if kafka else self.ports.http
        return socket.create_connection(("127.0.0.1", port), timeout_s, (ADDRESS, 0))

    def topic(self, name: str) -> BenchTopic:
        """A topic of the tenant."""
        with contextlib.closing(Client(self.ports.server, self.key)) as client:
            return client.describe_topic(name)

    @property
    def authorization(self) -> dict[str, str]:
        """HTTP basic with the tenant's key."""
        pair = f"{self.key.id}:{self.key.secret}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}

    def head(self, method: str, path: str, *more: str) -> bytes:
        """The start of a REST request of the tenant, without the empty line."""
        name, value = next(iter(self.authorization.items()))
        lines = (f"{method} /rest/v1/{path} HTTP/1.1", "Host: x", f"{name}: {value}", *more)
        return "".join(f"{line}\r\n" for line in lines).encode()

    def status(self, connection: socket.socket) -> int:
        """Count the status of the next reply; what follows it stays unread."""
        text = b""
        with contextlib.suppress(OSError):
            while len(text) < HEAD_BYTES and (piece := connection.recv(HEAD_BYTES - len(text))):
                text += piece
        status = int(text[9:12]) if len(text) == HEAD_BYTES and text[9:12].isdigit() else CLOSED
        self.seen[status] += 1
        return status

    def once(self, *parts: bytes) -> None:
        """Send these bytes over a connection of their own and count the reply."""
        with contextlib.suppress(OSError), self.connect() as connection:
            with contextlib.suppress(OSError):
                for part in parts:
                    connection.sendall(part)
            self.status(connection)

    def call(
        self, connection: http.client.HTTPConnection, method: str, path: str, document: Any = None
    ) -> tuple[int, bytes]:
        """One REST call of the tenant, counted."""
        body = None if document is None else json.dumps(document)
        headers = self.authorization | ({"Content-Type": "application/json"} if body else {})
        return self.raw_call(connection, method, f"/rest/v1/{path}", body, headers)

    def raw_call(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:  # fmt: skip
        """One request over a kept connection, counted."""
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            text = reply.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            self.seen[CLOSED] += 1
            return CLOSED, b""
        self.seen[reply.status] += 1
        return reply.status, text

    def kept(self) -> http.client.HTTPConnection:
        """A connection for many calls."""
        return http.client.HTTPConnection(
            "127.0.0.1", self.ports.http, timeout=CALL_S, source_address=(ADDRESS, 0)
        )

    def thrift(self, path: str, body: bytes) -> bytes:
        """A signed Thrift call."""
        return signed_request(path, body, protocol=ThriftProtocol.COMPACT, key=self.key)

    def together(self, count: int, work: Callable[[], None]) -> None:
        """Run the work in threads, again and again until the deadline."""

        def repeat() -> None:
            while self.running:
                work()

        threads = [threading.Thread(target=repeat, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, self.until_s + GRACE_S - time.monotonic()))
