"""One request and the only way to answer it."""

import re
import secrets
from collections.abc import Callable, Sequence
from typing import Protocol

from opentalos.gateway.http.reply_format import TEXT, head, head_saying
from opentalos.gateway.http.reply_stream import ReplyStream
from opentalos.model.errors import TalosError
from opentalos.model.histogram import Histogram

Handler = Callable[["Exchange"], None]

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_REQUEST_ID_BYTES = 8
_QUERY_PAIRS_MAX = 16
_ERRORS = 400  # and the statuses above it


class Replier(Protocol):
    """The side that writes an exchange's reply: the client's connection."""

    alive: bool
    secure: bool
    peer: str

    def answer(self, exchange: "Exchange", prefix: bytes, body: bytes, extra: bytes) -> None:
        """Write a reply with a body in one piece; never raises."""

    def answer_chunks(
        self, exchange: "Exchange", prefix: bytes, chunks: Sequence[bytes | memoryview]
    ) -> None:
        """Write a reply with a body in pieces; never raises."""

    def answer_stream(self, exchange: "Exchange", content_type: bytes, extra: bytes) -> ReplyStream:
        """Start a reply of unknown length."""

    def extend(self, seconds: float) -> None:
        """Give the request under way this much time from now."""


class Exchange:
    """A complete request; ``reply`` answers it once, later calls do nothing.

    A handler may answer at once or any time later, from the loop. A reply to a connection that
    is gone does nothing either, so nothing can raise in a completion path
    (docs/internals/hot-path.md#rule-1).
    """

    __slots__ = (
        "_connection",
        "body",
        "charged",
        "client",
        "close_after",
        "drained",
        "failure",
        "forwarder",
        "headers",
        "late",
        "method",
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
        self.body = b""
        self.charged = 0  # bytes held of the server's body budget
        self.close_after = False
        self.version_1_0 = False  # HTTP/1.0 with keep-alive wants a confirmation
        self.late: Callable[[TalosError], None] | None = None  # takes the error of a slow handler
        self.drained: Callable[[], None] | None = None  # told when the server is about to stop
        self.forwarder = ""  # the server that passed the request on; empty: it came directly
        self.client = ""  # with it: whose request it is
        self.started_s = 0.0  # time.perf_counter() when its handler was called
        self.timed: Histogram | None = None  # takes how long it took
        self.failure = ""  # name of the error that it is answered with

    @property
    def request_id(self) -> str:
        """The caller's own id: a header, or ``id`` in the URL of a Talos call; made if absent."""
        sent = self.headers.get(b"x-request-id", b"") or _query_value(self.query, b"id")
        if not _REQUEST_ID.fullmatch(sent):
            sent = secrets.token_hex(_REQUEST_ID_BYTES).encode()
            self.headers[b"x-request-id"] = sent
        return sent.decode()

    @property
    def answered(self) -> bool:
        """True once a reply was given; a held request has nobody to wait for any more."""
        return self._connection is None

    @property
    def connected(self) -> bool:
        """True while somebody can still read a reply."""
        return self._connection is not None and self._connection.alive

    @property
    def secure(self) -> bool:
        """True if nobody on the way can read the request."""
        return self._connection is not None and self._connection.secure

    @property
    def peer(self) -> str:
        """Address of the client, or "" when it is gone."""
        if self.client:
            return self.client
        return self._connection.peer if self._connection is not None else ""

    def reply(self, prefix: bytes, body: bytes, extra: bytes = b"") -> None:
        """Answer with a head made by ``reply_format.head`` and a body in one piece.

        Args: extra: whole header lines, each ended by CRLF.
        """
        connection = self._connection
        if connection is not None:
            # No cycle is left for the collector.
            self._connection = self.late = self.drained = None
            connection.answer(self, prefix, body, extra)

    def reply_chunks(self, prefix: bytes, chunks: Sequence[bytes | memoryview]) -> None:
        """Answer with a body in pieces, none of which is copied here."""
        connection = self._connection
        if connection is not None:
            self._connection = self.late = self.drained = None
            connection.answer_chunks(self, prefix, chunks)

    def extend(self, seconds: float) -> None:
        """Let the handler take so long from now, instead of what clients of Talos wait."""
        if self._connection is not None:
            self._connection.extend(seconds)

    def reply_stream(self, content_type: bytes, extra: bytes = b"") -> ReplyStream:
        """Answer with a body that is written bit by bit, without an end known before.

        ``late`` stays in force: it is called when the client is gone or too slow, ``drained``
        when the server is about to stop; the stream is then to be closed.
        """
        connection = self._connection
        assert connection is not None, "an exchange is answered once"
        return connection.answer_stream(self, content_type, extra)

    def ended(self) -> None:
        """The stream that answered it is closed."""
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


def _query_value(query: bytes, name: bytes) -> bytes:
    """A parameter of the query, without decoding; empty if it is absent."""
    for pair in query.split(b"&", _QUERY_PAIRS_MAX):
        key, _, value = pair.partition(b"=")
        if key == name:
            return value
    return b""
