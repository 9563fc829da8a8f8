"""One HTTP request and its reply."""

import re
import secrets
from collections.abc import Callable, Sequence
from typing import Protocol

from opentalos.gateway.http.fairness.pool import Hold
from opentalos.gateway.http.reply_format import TEXT, head, head_saying
from opentalos.gateway.http.reply_stream import ReplyStream
from opentalos.model.address import network_of
from opentalos.model.errors import TalosError
from opentalos.model.histogram import Histogram
from opentalos.model.identity import PeerCertificate

Handler = Callable[["Exchange"], None]

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_REQUEST_ID_BYTES = 8
_QUERY_PAIRS_MAX = 16
_ERRORS = 400  # and the statuses above it
_ABANDONED = head(503, TEXT)  # nobody reads it


class Replier(Protocol):
    """The side that writes an exchange's reply: the client's connection."""

    alive: bool
    secure: bool
    private: bool  # nobody else can read it
    certificate: PeerCertificate | None
    peer: str
    network: str

    def answer(self, exchange: "Exchange", prefix: bytes, body: bytes, extra: bytes) -> None:
        """Write a reply with a body in one piece; never raises."""

    def answer_chunks(
        self, exchange: "Exchange", prefix: bytes, chunks: Sequence[bytes | memoryview]
    ) -> None:
        """Write a reply with a body in pieces; never raises."""

    def answer_stream(self, exchange: "Exchange", content_type: bytes, extra: bytes) -> ReplyStream:
        """Start a reply of unknown length."""

    def extend(self, seconds: float, *, waits: bool = False) -> None:
        """Give the request under way this much time from now."""

    def waits(self) -> None:
        """The request under way waits for an event; its time stays as it is."""


class Exchange:
    """A complete request. The first reply answers it; later replies do nothing.

    A handler may reply at once or any time later, on the loop. A reply to a closed connection does
    nothing, so nothing raises in a completion path (docs/internals/hot-path.md#rule-1).
    """

    __slots__ = (
        "_body",
        "_connection",
        "_parts",
        "body_md5",
        "charged",
        "client",
        "close_after",
        "drained",
        "failure",
        "forwarder",
        "headers",
        "hold",
        "late",
        "method",
        "named",
        "path",
        "query",
        "started_s",
        "timed",
        "version_1_0",
    )

    def __init__(
        self, connection: Replier, method: bytes, url: bytes, headers: dict[bytes, bytes]
    ) -> None:
        self._connection: Replier | None = connection
        self.method = method
        self.path, _, self.query = url.partition(b"?")
        self.headers = headers  # lower-case names; repeated values joined by ","
        self._body = b""
        self._parts: Sequence[bytes | bytearray] = ()  # of a body that nobody needed so far
        self.body_md5 = b""  # in hexadecimal, if it was calculated before
        self.charged = 0  # bytes of the server's body budget
        self.hold: Hold | None = None  # of a large body's share
        self.close_after = False
        self.version_1_0 = False  # HTTP/1.0 with keep-alive expects a confirmation
        self.late: Callable[[TalosError], None] | None = (
            None  # called with an error if the handler is too slow
        )
        self.drained: Callable[[], None] | None = None  # called when the server shuts down
        self.forwarder = ""  # the server that forwarded the request; empty: a client sent it
        self.named = ""  # the principal of the client's certificate, once it is known
        self.client = ""  # address of the client of a forwarded request
        self.started_s = 0.0  # time.perf_counter() when its handler was called
        self.timed: Histogram | None = None  # observes the latency
        self.failure = ""  # name of the error in the reply

    @property
    def body(self) -> bytes:
        """The whole body. The first use joins its parts, so ask for ``body_bytes`` before."""
        if self._parts:
            self._body, self._parts = b"".join(self._parts), ()
        return self._body

    @body.setter
    def body(self, body: bytes) -> None:
        self._body, self._parts = body, ()

    @property
    def body_bytes(self) -> int:
        """Size of the body."""
        return sum(map(len, self._parts)) if self._parts else len(self._body)

    def received(self, parts: Sequence[bytes | bytearray]) -> None:
        """Set the body as it came: one or more parts, of which the first is bytes."""
        if len(parts) == 1:
            self._body = bytes(parts[0])  # no copy
        else:
            self._parts = parts

    @property
    def request_id(self) -> str:
        """The client's id from the header, or ``id`` in the URL of a Talos call, else a new one."""
        sent = self.headers.get(b"x-request-id", b"") or _query_value(self.query, b"id")
        if not _REQUEST_ID.fullmatch(sent):
            sent = secrets.token_hex(_REQUEST_ID_BYTES).encode()
            self.headers[b"x-request-id"] = sent
        return sent.decode()

    @property
    def answered(self) -> bool:
        """True once there is a reply."""
        return self._connection is None

    @property
    def connected(self) -> bool:
        """True while a reply can still reach the client."""
        return self._connection is not None and self._connection.alive

    @property
    def secure(self) -> bool:
        """True if the connection is encrypted."""
        return self._connection is not None and self._connection.secure

    @property
    def certificate(self) -> PeerCertificate | None:
        """The client's verified certificate; that of a forwarding server is not the client's."""
        if self.forwarder or self._connection is None:
            return None
        return self._connection.certificate

    @property
    def peer(self) -> str:
        """Address of the client, or "" after it disconnected."""
        if self.client:
            return self.client
        return self._connection.peer if self._connection is not None else ""

    @property
    def source(self) -> str:
        """Address of the other side of the connection, also of a forwarding server."""
        return self._connection.peer if self._connection is not None else ""

    @property
    def network(self) -> str:
        """What counts as one client address; "" after it disconnected."""
        if self.client:
            return network_of(self.client)
        return self._connection.network if self._connection is not None else ""

    @property
    def private(self) -> bool:
        """True if nobody else could read the request; a forwarding server has checked that."""
        if self.forwarder:
            return True
        return self._connection is not None and self._connection.private

    def reply(self, prefix: bytes, body: bytes, extra: bytes = b"") -> None:
        """Answer with a head made by ``reply_format.head`` and a body in one piece.

        Args: extra: whole header lines, each ended by CRLF.
        """
        connection = self._connection
        if connection is not None:
            # Break the reference cycle, so that the garbage collector has no work.
            self._connection = self.late = self.drained = None
            connection.answer(self, prefix, body, extra)

    def reply_chunks(self, prefix: bytes, chunks: Sequence[bytes | memoryview]) -> None:
        """Answer with a body in pieces, none of which is copied here."""
        connection = self._connection
        if connection is not None:
            self._connection = self.late = self.drained = None
            connection.answer_chunks(self, prefix, chunks)

    def extend(self, seconds: float, *, waits: bool = False) -> None:
        """Give the handler this much time from now, instead of the Talos clients' timeout.

        Args: waits: the handler waits for an event, and is given up when the client ends its side.
        """
        connection = self._connection
        if connection is not None and waits:
            connection.extend(seconds, waits=True)
        elif connection is not None:
            connection.extend(seconds)

    def waits(self) -> None:
        """The handler waits for an event: it is given up when the client ends its side."""
        connection = self._connection
        if connection is not None:
            connection.waits()

    def reply_stream(self, content_type: bytes, extra: bytes = b"") -> ReplyStream:
        """Answer with a body of unknown length that is written in parts.

        ``late`` is called if the client is gone or too slow, ``drained`` when the server shuts
        down; the handler must then close the stream.
        """
        connection = self._connection
        assert connection is not None, "an exchange is answered once"
        return connection.answer_stream(self, content_type, extra)

    def ended(self) -> None:
        """The reply's stream is closed."""
        self._connection = self.late = self.drained = None

    def reply_text(
        self, status: int, reason: str, extra: bytes = b"", *, in_status: bool = False
    ) -> None:
        """Answer with a plain text reason.

        Args: in_status: also instead of the status's own words, for clients that show no body.
        """
        if status >= _ERRORS:
            self.failure = self.failure or f"http_{status}"
        prefix = head_saying(status, TEXT, reason) if in_status else head(status, TEXT)
        self.reply(prefix, reason.encode("utf-8", "replace") + b"\n", extra)


def abandoned(exchange: Exchange) -> bool:
    """Whether the client of a read is gone; then the exchange is over, and counts as no error.

    For what ``late`` calls: nobody waits any more, and nothing was to be changed.
    """
    if exchange.connected:
        return False
    exchange.reply(_ABANDONED, b"")
    return True


def _query_value(query: bytes, name: bytes) -> bytes:
    """A parameter of the query, without decoding; empty if it is absent."""
    for pair in query.split(b"&", _QUERY_PAIRS_MAX):
        key, _, value = pair.partition(b"=")
        if key == name:
            return value
    return b""
