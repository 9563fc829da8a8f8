"""PeerConnection: a kept-alive HTTP/1.1 connection to another server, one request at a time."""

import asyncio
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpResponseParser

from opentalos.model.errors import OutcomeUnknown, StoreUnavailable
from opentalos.ports.peers import Reply

HEADER_BYTES_MAX = 64 << 10
REPLY_BYTES_MAX = 64 << 20  # above the largest getMessage reply


class PeerConnection(asyncio.Protocol):
    """Sends a request and waits for its reply.

    A request that was written and not answered may have been processed, so it is never written
    again. A connection that the other side closed is detected before the next request.
    """

    def __init__(self, address: str, closed: Callable[["PeerConnection"], None]) -> None:
        self.address = address
        self.idle_since_s = 0.0
        self._closed = closed
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Reply] | None = None
        self._parser = HttpResponseParser(self)
        self._ended = False
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._header_bytes = self._body_bytes = 0

    @property
    def usable(self) -> bool:
        """Whether another request may be written."""
        transport = self._transport
        return not self._ended and transport is not None and not transport.is_closing()

    async def request(self, head: bytes, body: bytes) -> Reply:
        """Write and wait; the caller bounds the time. A cancelled wait ends the connection.

        Raises: StoreUnavailable: nothing was written. OutcomeUnknown: no whole reply came.
        """
        if not self.usable:
            raise StoreUnavailable(f"{self.address} closed the connection")
        assert self._transport is not None
        waiter: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        self._transport.writelines((head, body))
        try:
            return await waiter
        except asyncio.CancelledError:
            self.abort()  # a reply that comes later must not be taken for the next request's
            raise
        finally:
            self._waiter = None

    def abort(self) -> None:
        """Cut the connection."""
        self._ended = True
        if self._transport is not None:
            self._transport.abort()

    # --- transport and parser callbacks --------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for requests."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more comes."""
        self._ended = True
        self._fail(f"{self.address} closed the connection without a reply")
        self._closed(self)

    def eof_received(self) -> bool:
        """The other side sends no more: close."""
        self._ended = True
        return False

    def data_received(self, data: bytes) -> None:
        """Parse a part of a reply."""
        if self._waiter is None or self._waiter.done():
            self.abort()  # a reply without a request
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(f"invalid HTTP reply of {self.address}: {error}")
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Parser callback."""
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > HEADER_BYTES_MAX:
            self._too_large()
        else:
            self._headers.append((name, value))

    def on_body(self, data: bytes) -> None:
        """Parser callback."""
        self._body_bytes += len(data)
        if self._body_bytes > REPLY_BYTES_MAX:
            self._too_large()
        else:
            self._parts.append(data)

    def on_message_complete(self) -> None:
        """Parser callback: the reply is whole."""
        reply = Reply(self._parser.get_status_code(), tuple(self._headers), b"".join(self._parts))
        self._headers, self._parts = [], []
        self._header_bytes = self._body_bytes = 0
        if not self._parser.should_keep_alive():
            self._ended = True
            if self._transport is not None:
                self._transport.close()
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(reply)

    def _too_large(self) -> None:
        self._fail(f"the reply of {self.address} is too large")
        self.abort()

    def _fail(self, text: str) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(OutcomeUnknown(text))
