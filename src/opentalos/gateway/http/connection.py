"""One client connection: parses requests, dispatches them in order, writes replies in order.

Requests of one connection are handled one at a time; pipelined requests wait in a bounded queue.
All time limits are one ``deadline`` that the server's sweep checks, so a request needs no timer.
"""

import asyncio
import math
from collections import deque
from collections.abc import Sequence
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from opentalos.gateway.http.connection_host import ConnectionHost
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import CONTINUE, TEXT, head, stream_head
from opentalos.gateway.http.reply_stream import ReplyStream
from opentalos.gateway.http.request_target import origin_form, reason_of
from opentalos.model.errors import OutcomeUnknown

PIPELINE_MAX = 16  # pipelined requests before reading pauses
FEED_BYTES_MAX = 16 << 10  # parsed at once, so that one read cannot hold thousands of requests
HEADERS_MAX = 100  # header lines of one request
AHEAD_BYTES = 2 << 10  # charged to the body budget for the head of a pipelined request
LINGER_S = 2.0  # after a rejection, for the client to read it before the connection closes
TLS_CLOSE_S = 2.0  # for the other side's close notification, which may never arrive
JOIN_BYTES_MAX = 64 << 10  # larger replies go out in pieces instead of one copy


class HttpConnection(asyncio.Protocol):
    """The protocol object of one accepted connection."""

    def __init__(self, server: ConnectionHost) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._parser = HttpRequestParser(self)
        self.deadline = math.inf
        self.peer = ""
        self.alive = False
        self.secure = server.tls is not None
        self._queue: deque[Exchange] = deque()
        self._current: Exchange | None = None
        self._stream: ReplyStream | None = None  # how the current one is being answered
        self._backlog = bytearray()  # received, not parsed: the queue is full
        self._reading_paused = False
        self._last = False  # no further requests after the received ones
        self._refusal: tuple[int, str] | None = None  # answered when its turn comes
        self._lingering = False
        self._parting = False  # everything is sent; TLS waits for the other side
        self._write_stalled = False
        self._pumping = False
        self._in_message = False
        self._in_head = False
        self._owes_continue = False
        self._resuming = False  # the parser gets an artificial head to continue after an Upgrade
        self._moved = False  # the message made progress in this feed
        self._silent_bytes = 0  # fed without progress: bounds heads, trailers, chunk heads
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._body_bytes = 0
        self._body_left = 0  # of a Content-Length body
        self._charged = 0

    # --- transport callbacks -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or refuse it when there are too many."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.alive = True
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if isinstance(name, tuple) and name else ""
        self.deadline = self._server.now + self._server.limits.request_timeout_s
        if not self._server.admit(self):
            self._refuse(503, "too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop waiting requests; a put under way completes, and its reply is discarded."""
        self.alive = False
        self._transport = None
        self.deadline = math.inf
        for exchange in self._queue:
            self._server.release(exchange.charged)
        self._queue.clear()
        self._backlog.clear()
        self._server.release(self._charged)
        self._charged = 0
        self._parts = []
        if self._write_stalled:
            self.resume_writing()
        self._server.forget(self)
        if self._stream is not None:
            self._stream.broken()
        if self._current is not None and self._current.late is not None:
            # The sweep no longer covers this connection, so notify the handler now: it cancels a
            # hanging read and returns the body's bytes to the budget.
            self._current.late(OutcomeUnknown("the client disconnected"))

    def eof_received(self) -> bool:
        """Keep the half-open connection only for requests that still want an answer."""
        self._last = True
        if self._server.tls is not None:
            return False  # TLS knows no half-open connection
        return self._current is not None or bool(self._queue)

    def pause_writing(self) -> None:
        """The client does not read: no further request is started until it does."""
        self._write_stalled = True
        self._server.stalled(self, self._transport)
        if self._stream is not None:
            self._stream.stalled(True)

    def resume_writing(self) -> None:
        """The client caught up."""
        self._write_stalled = False
        self._server.unstalled(self)
        if self._stream is not None:
            self.deadline = math.inf
            self._stream.stalled(False)
        if self.alive:
            self._pump()

    def data_received(self, data: bytes) -> None:
        """Parse, then start the next request if none is under way."""
        if self._last or self._lingering:
            return
        if self._backlog or len(self._queue) >= PIPELINE_MAX:
            self._keep(data)
            return
        if len(data) <= FEED_BYTES_MAX:
            self._feed(data)
        else:
            self._feed_slices(data)
        if self._queue or self._refusal is not None:
            self._pump()

    # --- parsing -----------------------------------------------------------------------------

    def _feed_slices(self, data: bytes) -> None:
        if self._body_left >= len(data):
            self._feed(data)  # all of it belongs to one body
            return
        view, position = memoryview(data), 0
        while position < len(view) and not self._last:
            if len(self._queue) >= PIPELINE_MAX:
                self._keep(view[position:])
                return
            step = max(self._body_left, FEED_BYTES_MAX)
            self._feed(bytes(view[position : position + step]))
            position += step

    def _keep(self, data: bytes | memoryview) -> None:
        """Parse it later: too many requests wait. At most one more read comes after the pause."""
        self._backlog += data
        if self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def _feed(self, data: bytes) -> None:
        self._moved = False
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._resume_after_upgrade(data[upgrade.args[0] :])
        except HttpParserError as error:
            self._refuse(400, f"malformed HTTP request: {reason_of(error)}")
        if not self._in_message:
            return
        if self._moved:
            self._silent_bytes = 0
        else:
            self._silent_bytes += len(data)
            if self._silent_bytes > self._server.limits.header_bytes_max:
                self._refuse(431, "the request's header is too large")

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

    def on_message_begin(self) -> None:
        """Parser callback."""
        self._moved = True
        if self._resuming:
            return
        self._in_message = self._in_head = True
        self._owes_continue = False
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
                value = headers[name] + b"," + value
            headers[name] = value

    def on_headers_complete(self) -> None:
        """Parser callback: refuse what is too large before it is read."""
        if self._resuming:
            return
        self._in_head = False
        headers = self._headers
        if len(headers) > HEADERS_MAX:
            self._refuse(431, f"more than {HEADERS_MAX} headers")
            return
        self._body_bytes = 0
        self._body_left = left = int(headers.get(b"content-length", 0))
        limits = self._server.limits
        if left > limits.body_bytes_max:
            self._refuse(413, f"the body has {left} bytes; the limit is {limits.body_bytes_max}")
        elif self._server.body_bytes + left > limits.bodies_bytes_total_max:
            self._refuse(413, "too many request bytes in memory; retry later")
        elif b"upgrade" in headers and b"transfer-encoding" in headers:
            self._refuse(400, "a chunked body with Upgrade is not supported")
        elif b"expect" in headers and headers[b"expect"].lower() == b"100-continue":
            self._owes_continue = True
            self._send_continue()

    def _send_continue(self) -> None:
        """Ask for the body once the requests before it are answered."""
        idle = self._current is None and not self._queue
        if idle and self._in_message and self._transport is not None and not self._last:
            self._transport.write(CONTINUE)
            self._owes_continue = False

    def on_body(self, data: bytes) -> None:
        """Parser callback: one piece of the body."""
        if self._last:
            return
        count = len(data)
        self._moved = True
        self._body_bytes += count
        if self._body_left:
            self._body_left -= count
        server, limits = self._server, self._server.limits
        if self._body_bytes > limits.body_bytes_max:
            self._refuse(413, f"the body is larger than {limits.body_bytes_max} bytes")
        elif server.body_bytes + count > limits.bodies_bytes_total_max:
            self._refuse(413, "too many request bytes in memory; retry later")
        else:
            server.body_bytes += count
            self._charged += count
            self._parts.append(data)

    def on_message_complete(self) -> None:
        """Parser callback: the request is whole."""
        if self._last or (self._body_left and b"upgrade" in self._headers):
            return
        self._in_message = False
        self._moved = True
        url = self._url
        if not url.startswith(b"/"):
            url = origin_form(url)
        headers = self._headers
        exchange = Exchange(self, self._parser.get_method(), url, headers)
        parts = self._parts
        if parts:
            exchange.body = parts[0] if len(parts) == 1 else b"".join(parts)
            self._parts = []
            exchange.charged = self._charged
            self._charged = 0
        if self._queue or self._current is not None:
            exchange.charged += AHEAD_BYTES
            self._server.body_bytes += AHEAD_BYTES
        if b"connection" in headers:
            exchange.version_1_0 = self._parser.get_http_version() == "1.0"
        if not self._parser.should_keep_alive() or self._server.draining:
            exchange.close_after = self._last = True
        self._queue.append(exchange)

    # --- answering ---------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start requests in order as long as each is answered at once."""
        if self._pumping:
            return
        self._pumping = True
        while self._current is None and self.alive and not self._write_stalled:
            if self._queue:
                exchange = self._current = self._queue.popleft()
                self.deadline = self._server.now + self._server.answer_timeout_s
                self._server.dispatch(exchange)
            elif self._backlog and not self._last:
                data = bytes(self._backlog)
                self._backlog.clear()
                self._resume_reading()
                self._feed_slices(data)
            else:
                break
        self._pumping = False
        if self._refusal is not None and self._current is None and not self._queue:
            self._send_refusal()

    def answer(self, exchange: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
        """Write one reply and continue with the next request; never raises."""
        server = self._server
        server.body_bytes -= exchange.charged
        server.traffic.ended(exchange, prefix, self.peer)
        self._current = None
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        size = b"%d" % len(body)
        if exchange.close_after or exchange.version_1_0 or extra or exchange.method == b"HEAD":
            end, body = self._slow_end(exchange, body, extra)
        else:
            end = server.head_end
        if len(body) <= JOIN_BYTES_MAX:
            transport.write(b"".join((prefix, size, end, body)))
        else:
            transport.writelines((prefix + size + end, body))
        self._answered(exchange)

    def answer_chunks(
        self, exchange: Exchange, prefix: bytes, chunks: Sequence[bytes | memoryview]
    ) -> None:
        """Write one reply in pieces; never raises."""
        server = self._server
        server.release(exchange.charged)
        server.traffic.ended(exchange, prefix, self.peer)
        self._current = None
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        size = sum(map(len, chunks))
        end, _ = self._slow_end(exchange, b"", b"")
        if size <= JOIN_BYTES_MAX:
            transport.write(b"".join((prefix, b"%d" % size, end, *chunks)))
        else:
            transport.writelines((prefix + b"%d" % size + end, *chunks))
        self._answered(exchange)

    def answer_stream(self, exchange: Exchange, content_type: bytes, extra: bytes) -> ReplyStream:
        """Start a reply of unknown length; only a client that reads slowly has a time limit."""
        server = self._server
        server.release(exchange.charged)
        server.traffic.ended(exchange, b"HTTP/1.1 200", self.peer)
        exchange.charged, exchange.body = 0, b""
        transport = self._transport
        assert transport is not None, "a reply to a connection that is gone"
        # A client that cannot read chunks, or reads nothing afterwards, gets a body up to the end.
        exchange.close_after = exchange.close_after or exchange.version_1_0
        chunked = not exchange.close_after
        end, _ = self._slow_end(exchange, b"", extra)
        transport.write(stream_head(content_type, chunked) + end)
        self.deadline = math.inf
        self._stream = ReplyStream(transport, chunked, self._end_stream)
        if self._write_stalled:
            self._stream.stalled(True)
        return self._stream

    def _end_stream(self) -> None:
        exchange, self._current, self._stream = self._current, None, None
        if exchange is not None:
            exchange.ended()
            self._answered(exchange)

    def extend(self, seconds: float) -> None:
        """Give the request under way so long from now."""
        self.deadline = self._server.now + seconds

    def _slow_end(self, exchange: Exchange, body: bytes, extra: bytes) -> tuple[bytes, bytes]:
        end = self._server.date + extra
        if exchange.close_after:
            end += b"Connection: close\r\n"
        elif exchange.version_1_0:
            end += b"Connection: keep-alive\r\n"
        return end + b"\r\n", b"" if exchange.method == b"HEAD" else body

    def _answered(self, exchange: Exchange) -> None:
        if exchange.close_after:
            self.deadline = self._server.now + LINGER_S + self._server.limits.write_stall_s
            self._close()
            return
        if not self._write_stalled:
            limits = self._server.limits
            self.deadline = self._server.now + (
                limits.request_timeout_s if self._in_message else limits.idle_timeout_s
            )
        if self._queue or self._backlog or self._refusal is not None:
            self._pump()
        elif self._last or (self._server.draining and not self._in_message):
            self._close()
        elif self._owes_continue:
            self._send_continue()

    # --- ending ------------------------------------------------------------------------------

    def _refuse(self, status: int, reason: str) -> None:
        """Answer with an error after the requests before it, then close."""
        if not self._last:
            self._last = True
            self._in_message = False
            self._parts = []
            self._server.release(self._charged)
            self._charged = 0
            self._backlog.clear()
            self._refusal = (status, reason)
            self._server.note_refusal(self.peer, status, reason)
            if self._transport is None or self._transport.is_closing():
                return
            if not self._queue and self._current is None:
                self._send_refusal()

    def _send_refusal(self) -> None:
        assert self._refusal is not None
        status, reason = self._refusal
        self._refusal = None
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        body = reason.encode("utf-8", "replace") + b"\n"
        transport.write(
            head(status, TEXT)
            + b"%d" % len(body)
            + self._server.date
            + b"Connection: close\r\n\r\n"
            + body
        )
        # Closing now, with bytes of the request unread, would reset the connection and could
        # take the reason away from the client. So what still comes is read and dropped a while.
        self._lingering = True
        self._resume_reading()
        self.deadline = self._server.now + LINGER_S
        if transport.can_write_eof():
            transport.write_eof()

    def _close(self, *, idle: bool = False) -> None:
        transport, server = self._transport, self._server
        if transport is None:
            return
        if server.tls is not None and not transport.get_write_buffer_size():
            self._parting = True
            self.deadline = server.now + (0.0 if idle and server.draining else TLS_CLOSE_S)
        transport.close()

    def expire(self) -> None:
        """The deadline passed: answer for a slow handler, cut a slow client."""
        if self._parting:
            self.abort()
        elif self._current is not None and not self._write_stalled:
            late, unknown = (
                self._current.late,
                OutcomeUnknown("timeout: outcome unknown"),
            )
            if late is not None:
                late(unknown)
            else:
                self._current.reply_text(503, str(unknown))
        elif self._in_message and not self._write_stalled:
            self._refuse(408, "the request did not arrive in time")
        elif self._write_stalled or self._last:
            self._server.cut += 1
            self.abort()
        else:
            self._close()  # idle

    def drain(self) -> None:
        """Close at once when idle, after the requests under way else."""
        if self._current is None and not self._queue and not self._in_message:
            self._close(idle=True)
        elif self._current is not None and self._current.drained is not None:
            self._current.drained()

    def abort(self) -> None:
        """Cut the connection without waiting for anything."""
        if self._transport is not None:
            self._transport.abort()
