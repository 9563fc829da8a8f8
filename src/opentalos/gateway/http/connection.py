"""One client connection: parses requests, dispatches them in order, writes replies in order.

Requests of one connection are handled one at a time; pipelined requests wait in a bounded queue.
All time limits are one ``deadline`` that the server's sweep checks, so a request needs no timer.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import cast

from opentalos.gateway.http.connection_host import ConnectionHost
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.fairness.pacing import PASS_BYTES, PacedWriter
from opentalos.gateway.http.fairness.turns import STARTS_A_TURN, TURN_S
from opentalos.gateway.http.reply_format import CONTINUE, RETRY_AFTER, TEXT, head, stream_head
from opentalos.gateway.http.reply_stream import ReplyStream
from opentalos.gateway.http.request_reading import RequestReading
from opentalos.gateway.http.request_target import origin_form
from opentalos.model.address import is_local, network_of
from opentalos.model.errors import OutcomeUnknown
from opentalos.model.identity import PeerCertificate

PIPELINE_MAX = 16  # pipelined requests before reading pauses
FEED_BYTES_MAX = 4 << 10  # parsed at once where many requests may be: 110 of the shortest, 1 ms
# A read so large means that more is there, and the loop (libuv) would read on: 8 MB in one pass.
LARGE_READ_BYTES = 128 << 10
LARGE_READ_S = 0.0003  # what one takes of a later pass: a call of the system, and fresh memory
PIECES_MAX = 256  # small ones of bodies in chunks, after which a connection waits for its turn
PIECE_S = 0.000_001  # what one takes
AHEAD_BYTES = 2 << 10  # charged to the body budget for the head of a pipelined request
LINGER_S = 2.0  # after a rejection, for the client to read it before the connection closes
TLS_CLOSE_S = 2.0  # for the other side's close notification, which may never arrive
_BUSY = 503  # may be repeated
JOIN_BYTES_MAX = 64 << 10  # larger replies go out in pieces instead of one copy


class HttpConnection(RequestReading, PacedWriter, asyncio.Protocol):
    """The protocol object of one accepted connection."""

    certificate: PeerCertificate | None = None  # of the client, verified

    def __init__(self, server: ConnectionHost) -> None:
        super().__init__(server)
        self._transport: asyncio.Transport | None = None
        self.alive = False
        self.secure = self.private = server.tls is not None
        self._stream: ReplyStream | None = None  # how the current one is being answered
        self._backlog = bytearray()  # received, not parsed: the queue is full
        self._reading_paused = False
        self._half_closed = False  # the client sends nothing more
        self._waiting = False  # the current request waits for an event
        self._refusal: tuple[int, str] | None = None  # answered when its turn comes
        self._lingering = False
        self._parting = False  # everything is sent; TLS waits for the other side
        self._write_stalled = False
        self._pumping = False
        self._awaits_turn = False
        self._ended = False  # the client sends no more, and what it sent waits for its turn

    # --- transport callbacks -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or refuse it when there are too many."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.alive = True
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if isinstance(name, tuple) and name else ""
        self.network = network_of(self.peer)
        self.party = f"/{self.network}"
        if self._server.tls is not None:
            self._transport = self._pace(self._transport, self._server.turns)
        self.private = self.secure or is_local(self.peer, transport.get_extra_info("sockname"))
        self.deadline = self._server.now + self._server.limits.request_timeout_s
        if not self._server.admit(self):
            self._refuse(503, "too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop waiting requests; a put under way completes, and its reply is discarded."""
        self.alive = False
        self._transport = None
        self.deadline = math.inf
        for exchange in self._queue:
            self._return_body(exchange)
        self._queue.clear()
        self._backlog.clear()
        self._drop_body()
        if self._paced is not None:
            self._paced.lost()
        if self._write_stalled:
            self._unstall()
        self._server.forget(self)
        if self._stream is not None:
            self._stream.broken()
        if self._current is not None and self._current.late is not None:
            # The sweep no longer covers this connection, so notify the handler now: it cancels a
            # hanging read and returns the body's bytes to the budget.
            self._current.late(OutcomeUnknown("the client disconnected"))

    def eof_received(self) -> bool:
        """Keep the half-open connection only for requests that still want an answer soon.

        Nearly all clients that end their side are gone. One that waits for an event is not served
        until then: its request would take the place of another.
        """
        if self._awaits_turn:
            self._parse_backlog()  # so that it counts as a request
            if self._backlog and len(self._queue) < PIPELINE_MAX and self._server.tls is None:
                self._ended = True
                return True
        self._last = self._half_closed = True
        self._backlog.clear()  # what it has is not begun any more
        if self._server.tls is not None:
            return False  # TLS knows no half-open connection
        if self._paced is not None and self._is_idle() and self._paced.get_write_buffer_size():
            self._close()  # once all of it is sent
            return True
        return not self._waiting and not self._is_idle()

    def _stall(self) -> None:
        """The client does not read: no further request is started until it does."""
        self._write_stalled = True
        self._server.stalled(self, self._transport)
        if self._stream is not None:
            self._stream.stalled(True)

    def _unstall(self) -> None:
        """The client caught up."""
        self._write_stalled = False
        self._server.unstalled(self)
        if self._stream is not None:
            self.deadline = math.inf
            self._stream.stalled(False)
        if self.alive:
            self._pump()

    def _for_reply(self, transport: asyncio.Transport, size: int) -> asyncio.Transport:
        """What a reply of that size is written to."""
        if size > PASS_BYTES and self._paced is None:
            self._transport = transport = self._pace(transport, self._server.turns)
        return transport

    def data_received(self, data: bytes) -> None:
        """Parse, then start the next request if none is under way."""
        if self._last or self._lingering:
            return
        if self._backlog or len(self._queue) >= PIPELINE_MAX:
            self._keep(data)
            return
        turns = self._server.turns
        if turns.load_s > TURN_S and not self._body_left and turns.is_full():
            self._backlog += data
            self._await_turn()
            return
        if len(data) <= FEED_BYTES_MAX:
            self._feed(data)
        else:
            self._feed_slices(data)
        if self._pieces > PIECES_MAX:
            self._count_pieces()
        if len(data) >= LARGE_READ_BYTES and turns.shared and self._in_message:
            self._pause_reading()
            self._await_turn()
        elif self._queue or self._refusal is not None:
            self._pump()

    def take_turn(self) -> None:
        """Continue with what waited; at least one request is started."""
        self._awaits_turn = False
        if not self.alive:
            return
        self._pump(in_turn=True)
        if self._ended and not self._awaits_turn and self._transport is not None:
            self._ended = False
            if not self.eof_received():
                self._close()
        elif self._reading_paused and not self._backlog:
            self._server.turns.expect(LARGE_READ_S)
            self._resume_reading()

    def _await_turn(self) -> None:
        if not self._awaits_turn:
            self._awaits_turn = True
            self._server.turns.wait(self)

    # --- parsing -----------------------------------------------------------------------------

    def _count_pieces(self) -> None:
        """A body in small chunks had a part of the pass: others come before the next part."""
        turns = self._server.turns
        if turns.shared:
            turns.spent(turns.clock() - self._pieces * PIECE_S, self.party)
        self._pieces = 0

    def _feed_slices(self, data: bytes) -> None:
        if self._body_left >= len(data):
            self._feed(data)  # all of it belongs to one body
            return
        view, position = memoryview(data), 0
        while position < len(view) and not self._last:
            if len(self._queue) >= PIPELINE_MAX:
                self._keep(view[position:])
                return
            if self._pieces > PIECES_MAX:
                self._keep(view[position:])
                self._await_turn()
                return
            step = max(self._body_left, FEED_BYTES_MAX)
            self._feed(bytes(view[position : position + step]))
            position += step

    def _keep(self, data: bytes | memoryview) -> None:
        """Parse it later: too many requests wait. At most one more read comes after the pause."""
        self._backlog += data
        self._pause_reading()

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and self._reading_paused:
            self._reading_paused = False
            self._transport.resume_reading()

    def _send_continue(self) -> None:
        if self._is_idle() and self._in_message and self._transport is not None and not self._last:
            self._transport.write(CONTINUE)
            self._owes_continue = False

    def on_message_complete(self) -> None:
        """Parser callback: the request is whole."""
        if self._last or (self._body_left and b"upgrade" in self._headers):
            return
        self._in_message = False
        self._moved = True
        url = self._url
        if not url.startswith(b"/"):
            url = origin_form(url)
        exchange = Exchange(self, self._method, url, self._headers)
        if self._parts:
            exchange.received(self._parts)
            self._parts = []
            exchange.charged, exchange.hold = self._charged, self._hold
            self._charged, self._hold = 0, None
        if self._queue or self._current is not None:
            exchange.charged += AHEAD_BYTES
            self._server.body_bytes += AHEAD_BYTES
        exchange.version_1_0 = self._version_1_0
        if not self._keep_alive or self._server.draining:
            exchange.close_after = self._last = True
        self._queue.append(exchange)

    # --- answering ---------------------------------------------------------------------------

    def _pump(self, *, in_turn: bool = False) -> None:
        """Start requests in order as long as each is answered at once; the rest waits its turn."""
        if self._pumping or self._awaits_turn:
            return
        self._pumping = True
        turns, started = self._server.turns, 0
        while self._current is None and self.alive and not self._write_stalled:
            if self._queue:
                if started == STARTS_A_TURN or (
                    turns.load_s > TURN_S and not in_turn and turns.is_full()
                ):
                    self._await_turn()
                    break
                started += 1
                exchange = self._current = self._queue.popleft()
                self._waiting = False
                self.deadline = self._server.now + self._server.answer_timeout_s
                self._server.dispatch(exchange, self.party)
            elif self._backlog and not self._last and not self._awaits_turn:
                self._parse_backlog()
            else:
                break
        self._pumping = False
        if self._refusal is not None and self._current is None and not self._queue:
            self._send_refusal()

    def _parse_backlog(self) -> None:
        """Parse what was received, up to the number of requests that may wait."""
        backlog = self._backlog
        while backlog and len(self._queue) < PIPELINE_MAX and not self._last:
            step = max(self._body_left, FEED_BYTES_MAX)
            piece = bytes(memoryview(backlog)[:step])
            del backlog[:step]
            self._feed(piece)
            if self._pieces > PIECES_MAX:
                self._count_pieces()
                if backlog:
                    self._await_turn()
                    return
        if not backlog:
            self._resume_reading()

    def answer(self, exchange: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
        """Write one reply and continue with the next request; never raises."""
        server = self._server
        server.body_bytes -= exchange.charged
        if exchange.hold is not None:
            exchange.hold.end()
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
            self._for_reply(transport, len(body)).writelines((prefix + size + end, body))
        self._answered(exchange)

    def answer_chunks(
        self, exchange: Exchange, prefix: bytes, chunks: Sequence[bytes | memoryview]
    ) -> None:
        """Write one reply in pieces; never raises."""
        server = self._server
        self._return_body(exchange)
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
            transport = self._for_reply(transport, size)
            transport.writelines((prefix + b"%d" % size + end, *chunks))
        self._answered(exchange)

    def answer_stream(self, exchange: Exchange, content_type: bytes, extra: bytes) -> ReplyStream:
        """Start a reply of unknown length; only a client that reads slowly has a time limit."""
        server = self._server
        self._return_body(exchange)
        server.traffic.ended(exchange, b"HTTP/1.1 200", self.peer)
        exchange.body = b""
        transport = self._transport
        assert transport is not None, "a reply to a connection that is gone"
        # A client that cannot read chunks, or reads nothing afterwards, gets a body up to the end.
        exchange.close_after = exchange.close_after or exchange.version_1_0
        chunked = not exchange.close_after
        end, _ = self._slow_end(exchange, b"", extra)
        transport.write(stream_head(content_type, chunked) + end)
        self.deadline, self._waiting = math.inf, True
        if self._half_closed:
            transport.close()
        self._stream = ReplyStream(transport, chunked, self._end_stream)
        if self._write_stalled:
            self._stream.stalled(True)
        return self._stream

    def _end_stream(self) -> None:
        exchange, self._current, self._stream = self._current, None, None
        if exchange is not None:
            exchange.ended()
            self._answered(exchange)

    def _return_body(self, exchange: Exchange) -> None:
        """Return what the body of a request took of the budget."""
        self._server.release(exchange.charged)
        exchange.charged = 0
        if exchange.hold is not None:
            exchange.hold.end()
            exchange.hold = None

    def extend(self, seconds: float, *, waits: bool = False) -> None:
        """Give the request under way so long from now."""
        self.deadline = self._server.now + seconds
        self._waiting = False
        if waits:
            self.waits()

    def waits(self) -> None:
        """The request under way waits for an event, and a client that is gone is given up."""
        self._waiting = True
        if self._half_closed and self._transport is not None:
            self._transport.close()

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
            self._drop_body()
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
            + (RETRY_AFTER if status == _BUSY else b"")
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
        elif self._in_message and not (self._write_stalled or self._last):
            self._refuse(408, "the request did not arrive in time")
        elif self._write_stalled or self._last:
            self._server.cut += 1
            self.abort()
        else:
            self._close()  # idle

    def drain(self) -> None:
        """Close at once when idle, after the requests under way else."""
        if self._is_idle() and not self._in_message and not self._awaits_turn:
            self._close(idle=True)
        elif self._current is not None and self._current.drained is not None:
            self._current.drained()

    def abort(self) -> None:
        """Cut the connection without waiting for anything."""
        if self._transport is not None:
            self._transport.abort()
