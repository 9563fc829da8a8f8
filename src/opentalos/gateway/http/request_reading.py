"""Reading one request after the other from a connection, within bounds.

The base class of a connection. It feeds the parser and is called back by it: it bounds the head
while it arrives, refuses what cannot be read in one way only, and collects the body within the
budget. ``HttpConnection`` makes requests of this and answers them.
"""

import math
from abc import ABC, abstractmethod
from collections import deque

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from opentalos.gateway.http.connection_host import ConnectionHost
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.fairness.pool import Hold
from opentalos.gateway.http.request_target import reason_of

HEADERS_MAX = 100  # header lines of one request
_LINE_BYTES = 4  # of a header line beside name and value
_START_BYTES = 14  # of the request line beside the target, at least
# Bytes around chunks, for each byte of the body and beyond ``header_bytes_max``. A chunk has at
# least five: lines of a few bytes pass, but neither long extensions nor thousands of single bytes.
_FRAMING_MAX = 1
# Smaller pieces of a body are put together. Of a large one in chunks, so much is charged at once.
PIECE_BYTES_MIN = 4 << 10
GATHERED_BYTES_MAX = 64 << 10  # put together at most
_VERSIONS = ("1.0", "1.1")
RAW_BYTES_MIN = 16 << 10  # of a read inside of a body, that the parser does not see


class _Refused(Exception):
    """Ends the parser's current feed: nothing of the connection is read any more."""


class RequestReading(ABC):
    """The request that is being received, and the parser's callbacks."""

    def __init__(self, server: ConnectionHost) -> None:
        self._server = server
        self._parser = HttpRequestParser(self)
        self.deadline = math.inf
        self.peer = ""
        self.network = ""  # what counts as one client address
        self._last = False  # no further requests after the received ones
        self._in_message = False
        self._in_head = False
        self._owes_continue = False
        self._resuming = False  # the parser gets an artificial head to continue after an Upgrade
        self._moved = False  # the message made progress in this feed
        self._head_ended = False  # in this feed
        self._feeding = 0  # bytes of this feed
        self._head_bytes = 0  # of a head that needs several feeds, in the former ones
        self._silent_bytes = 0  # fed without progress: bounds trailers and chunk heads
        self._trailer_bytes = 0
        self._framing_bytes = 0  # of a chunked body, beside its content
        self._method = b""
        self._keep_alive = False
        self._version_1_0 = False
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._repeated = 0  # header lines whose name came before
        self._parts: list[bytes | bytearray] = []  # the first one is bytes
        self._pieces = 0  # small ones of bodies in chunks, since the last turn
        self._body_bytes = 0
        self._body_left = 0  # of a Content-Length body
        self._raw = False  # the parser has not seen all of the body so far, and is done with
        self._charged = 0
        self._hold: Hold | None = None  # of a large body
        self._plain = False  # a small body of a known length, whose bytes count in no share
        self._queue: deque[Exchange] = deque()  # read, not started
        self._current: Exchange | None = None

    @abstractmethod
    def _refuse(self, status: int, reason: str) -> None:
        """Answer with an error after the requests before it, then close."""

    @abstractmethod
    def _send_continue(self) -> None:
        """Ask for the body once the requests before it are answered."""

    @abstractmethod
    def on_message_complete(self) -> None:
        """Parser callback: the request is whole."""

    def _is_idle(self) -> bool:
        """No request is under way or waits."""
        return self._current is None and not self._queue

    # --- feeding -----------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        left = self._body_left
        if self._raw and len(data) > left:
            self._feed_body(data[:left])
            data = data[left:]
        elif self._raw or (RAW_BYTES_MIN <= len(data) <= left and self._is_plain_body()):
            self._feed_body(data)
            return
        self._moved = self._head_ended = False
        self._feeding = len(data)
        body_bytes = self._body_bytes
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._resume_after_upgrade(data[upgrade.args[0] :])
        except HttpParserError as error:
            self._refuse(400, f"malformed HTTP request: {reason_of(error)}")
        if not self._in_message:
            return
        most = self._server.limits.header_bytes_max
        if self._in_head:
            if self._moved:  # the head began in this feed
                self._head_bytes = self._counted_head()
            else:
                self._head_bytes += len(data)
            if self._head_bytes > most:
                self._refuse(431, "the request's header is too large")
            elif len(self._headers) + self._repeated > HEADERS_MAX:
                self._refuse(431, f"more than {HEADERS_MAX} headers")
            return
        if self._head_ended:
            return
        if self._moved:
            self._silent_bytes = 0
        else:
            self._silent_bytes += len(data)
            if self._silent_bytes > most:
                self._refuse(431, "the request's header is too large")
        if not self._body_left:  # it comes in chunks
            self._framing_bytes += len(data) - (self._body_bytes - body_bytes)
            if self._framing_bytes > most + _FRAMING_MAX * self._body_bytes:
                self._refuse(400, "the chunks of the body are too small or have long extensions")

    def _is_plain_body(self) -> bool:
        """The body is being read, and its length is the only thing that ends it."""
        inside = self._in_message and not self._in_head
        return inside and b"transfer-encoding" not in self._headers

    def _feed_body(self, data: bytes) -> None:
        """A piece of a body of a known length, without the copy that the parser would make.

        The parser still expects these bytes, so another one reads what follows the body.
        """
        self._raw = True
        self.on_body(data)
        if not self._body_left and not self._last:
            self._raw = False
            self._parser = HttpRequestParser(self)
            self.on_message_complete()

    def _counted_head(self) -> int:
        """Bytes of the head as far as the parser passed it on."""
        pairs = self._headers.items()
        lines = sum(len(name) + len(value) + _LINE_BYTES for name, value in pairs)
        return len(self._url) + _START_BYTES + lines

    def _resume_after_upgrade(self, rest: bytes) -> None:
        """Ignore ``Upgrade`` as RFC 9110 allows: the parser stops there, so use a new one."""
        if self._last:
            return
        self._parser = HttpRequestParser(self)
        if self._body_left:
            self._resuming = True
            self._parser.feed_data(
                b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % self._body_left
            )
            self._resuming = False
        if rest:
            self._feed(rest)

    # --- the parser's callbacks --------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Parser callback."""
        self._moved = True
        if self._resuming or self._last:
            return
        self._in_message = self._in_head = True
        self._owes_continue = False
        self._head_bytes = self._repeated = 0
        self._url = b""
        self._headers = {}
        if self._current is None and not self._queue:
            self.deadline = self._server.now + self._server.limits.request_timeout_s

    def on_url(self, url: bytes) -> None:
        """Parser callback; a long target comes in pieces."""
        if self._in_head:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser callback; trailers are ignored."""
        if self._in_head:
            name = name.lower()
            headers = self._headers
            if name in headers:
                self._repeated += 1
                if self._repeated > HEADERS_MAX:
                    self._refuse(431, f"more than {HEADERS_MAX} headers")
                    raise _Refused
                value = headers[name] + b"," + value
            headers[name] = value
        elif not self._resuming:
            self._trailer_bytes += len(name) + len(value) + _LINE_BYTES
            self._repeated += 1
            if (
                self._trailer_bytes > self._server.limits.header_bytes_max
                or len(self._headers) + self._repeated > HEADERS_MAX
            ):
                self._refuse(431, "the trailer of the request is too large")
                raise _Refused

    def on_headers_complete(self) -> None:
        """Parser callback: refuse what is too large before it is read."""
        if self._resuming:
            return
        self._in_head, self._head_ended = False, True
        # An Upgrade replaces the parser, so what it knows of the request is noted before.
        self._method = self._parser.get_method()
        self._keep_alive = keep_alive = self._parser.should_keep_alive()
        self._version_1_0 = False
        self._body_bytes = self._framing_bytes = self._trailer_bytes = self._silent_bytes = 0
        headers, limits = self._headers, self._server.limits
        if len(headers) + self._repeated > HEADERS_MAX:
            self._refuse(431, f"more than {HEADERS_MAX} headers")
            return
        if self._head_bytes + self._feeding > limits.header_bytes_max < self._counted_head():
            self._refuse(431, "the request's header is too large")
            return
        rare = b"connection" in headers or b"transfer-encoding" in headers or not keep_alive
        if (rare or self._method == b"CONNECT") and not self._is_readable():
            return
        self._body_left = left = int(headers.get(b"content-length", 0))
        if left > limits.body_bytes_max:
            self._refuse(413, f"the body has {left} bytes; the limit is {limits.body_bytes_max}")
            return
        server = self._server
        self._plain = plain = (
            left <= server.budget.unshared_bytes and self._current is None and not self._queue
        )
        if server.body_bytes + left > limits.bodies_bytes_total_max or (
            left and not plain and not self._begin_hold().fits(left)
        ):
            self._refuse(503, "too many request bytes in memory; retry later")
        elif b"expect" in headers and headers[b"expect"].lower() == b"100-continue":
            self._owes_continue = True
            self._send_continue()

    def _is_readable(self) -> bool:
        """Refuse a head that another reader could take for a request of another length."""
        headers, version = self._headers, self._parser.get_http_version()
        encoding = headers.get(b"transfer-encoding")
        self._version_1_0 = version == _VERSIONS[0]
        if version not in _VERSIONS:
            self._refuse(400, "only HTTP/1.0 and HTTP/1.1 are served")
        elif self._method == b"CONNECT":
            self._refuse(501, "CONNECT is not supported")
        elif encoding is None:
            return True
        elif self._version_1_0:
            self._refuse(400, "Transfer-Encoding needs HTTP/1.1")
        elif encoding.strip().lower() != b"chunked":
            self._refuse(501, "the only supported Transfer-Encoding is chunked")
        elif b"upgrade" in headers:
            self._refuse(400, "a chunked body with Upgrade is not supported")
        else:
            return True
        return False

    def _begin_hold(self) -> Hold:
        self._hold = self._server.budget.hold(self._headers, self.peer, self.network)
        return self._hold

    def on_body(self, data: bytes) -> None:
        """Parser callback: one piece of the body."""
        if self._last:
            raise _Refused
        count = len(data)
        self._moved = True
        self._body_bytes += count
        chunked = not self._body_left
        if not chunked:
            self._body_left -= count
            server = self._server
            if self._plain and server.body_bytes + count <= server.limits.bodies_bytes_total_max:
                server.body_bytes += count
                self._charged += count
                if self._parts:
                    self._gather(data)
                else:
                    self._parts.append(data)
                return
        limit = self._server.limits.body_bytes_max
        if self._body_bytes > limit:
            self._refuse(413, f"the body is larger than {limit} bytes")
            return
        missing = self._body_bytes - self._charged
        if missing > 0:
            if chunked and missing < PIECE_BYTES_MIN and self._hold is not None:
                missing = min(PIECE_BYTES_MIN, limit - self._charged)
            if not self._charge(missing):
                self._refuse(503, "too many request bytes in memory; retry later")
                return
        if count >= PIECE_BYTES_MIN:
            self._parts.append(data)
            return
        if chunked:
            self._pieces += 1
        self._gather(data)

    def _gather(self, data: bytes) -> None:
        """Keep a small piece of the body with others: the client decides how many come."""
        parts = self._parts
        if not parts:
            parts.append(data)
            return
        last = parts[-1]
        if isinstance(last, bytearray) and len(last) < GATHERED_BYTES_MAX:
            last += data
        else:
            parts.append(bytearray(data))

    def _charge(self, count: int) -> bool:
        """Count bytes of the body in the budget; False: there is no room."""
        server, hold = self._server, self._hold
        if server.body_bytes + count > server.limits.bodies_bytes_total_max:
            return False
        if hold is not None:
            if not hold.take(count):
                return False
        elif self._is_shared() and not self._begin_hold().take(self._body_bytes):
            return False
        server.body_bytes += count
        self._charged += count
        return True

    def _is_shared(self) -> bool:
        """Whether the body as far as it came counts in a share."""
        return self._body_bytes > self._server.budget.unshared_bytes or (
            not self._body_left and not self._is_idle()  # pipelined, and in chunks
        )

    def _drop_body(self) -> None:
        """Return what the body took of the budget."""
        self._parts = []
        self._server.release(self._charged)
        self._charged = 0
        if self._hold is not None:
            self._hold.end()
            self._hold = None
