"""HTTP/1.1 by blocking sockets, each request in flight in a thread of its own.

A reply goes from the socket into the memory that it stays in; asyncio's transports and a parser
copy it twice, and need the interpreter for each piece of 256 KiB. So a process that reads replies
of megabytes, such as a task of Spark, takes half as much processor time for them. For small replies
threads cost more than they save: a put of 1 MiB takes 1.4 ms of processor time instead of 1.0 ms.
Source: docs/internals/spark-source.md#compared-with-kafkas-connector.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from select import POLLIN, poll
from socket import SHUT_RDWR
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

from opentalos.model.errors import ConfigError
from opentalos.sdk.aio.connection.transport import IDLE_S_MAX, load_context, reason_of, server_of
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.operation import Reply
from opentalos.sdk.errors import ConnectFailed, NoReply

_LAST_BYTES: Final = 256 << 10  # of a body; before they are written no server acts on it


class _Idle(NamedTuple):
    place: tuple[str, str]  # scheme; host and port
    used_s: float
    connection: HTTPConnection


class ThreadedTransport:
    """As ``Transport``: sends the requests of one client. Belongs to the loop of its first request.

    At most ``connections_max`` requests are in flight; further ones wait, at most their time.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._threads = ThreadPoolExecutor(config.connections_max, "talos-http")
        self._room = asyncio.Semaphore(config.connections_max)
        self._idle: deque[_Idle] = deque()  # by their last use
        self._busy: set[HTTPConnection] = set()
        self._context: ssl.SSLContext | None = None
        self._closed = False

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> Reply:
        """Send one request once, and wait for the complete reply. Raises: as ``Transport.post``."""
        if self._config.secure and self._context is None:
            self._context = await asyncio.to_thread(load_context, self._config)
        exchange = _Exchange(url, headers, body, self._config, timeout_s)
        try:
            async with asyncio.timeout(timeout_s), self._room:
                return await self._run(exchange)
        except TimeoutError as error:
            if exchange.sent:
                text = f"no reply from {server_of(url)} within {timeout_s:.3g} s"
                raise NoReply(text) from error
            text = f"no connection to {server_of(url)} within {timeout_s:.3g} s"
            raise ConnectFailed(text) from error

    async def _run(self, exchange: "_Exchange") -> Reply:
        if self._closed:
            raise ConnectFailed("the client is closed")
        connection = self._connection(exchange.place)
        try:
            done = self._threads.submit(exchange.run, connection)
        except RuntimeError as error:  # the interpreter shuts down
            connection.close()
            raise ConnectFailed("the process ends") from error
        self._busy.add(connection)
        try:
            return await asyncio.wrap_future(done)
        finally:
            self._busy.discard(connection)
            if exchange.complete and self._can_serve(connection):
                self._idle.append(_Idle(exchange.place, time.monotonic(), connection))
            else:
                exchange.abandoned = (
                    True  # first: a thread that still connects has no socket to end
                )
                _abort(connection)
                done.add_done_callback(lambda _: connection.close())

    def _can_serve(self, connection: HTTPConnection) -> bool:
        """Whether it is kept for another request; the server may have closed it."""
        sock: object = connection.sock
        return not self._closed and sock is not None

    def _connection(self, place: tuple[str, str]) -> HTTPConnection:
        """The last one that was used, else a new one. Closes those that the server has closed, and
        the oldest one where there are too many."""
        for idle in [idle for idle in reversed(self._idle) if idle.place == place]:
            self._idle.remove(idle)
            if time.monotonic() - idle.used_s < IDLE_S_MAX and not _is_readable(idle.connection):
                return idle.connection
            idle.connection.close()
        while self._idle and len(self._idle) + len(self._busy) >= self._config.connections_max:
            self._idle.popleft().connection.close()
        scheme, address = place
        timeout_s = self._config.connect_timeout_s
        if scheme == "https":
            return HTTPSConnection(address, timeout=timeout_s, context=self._context)
        return HTTPConnection(address, timeout=timeout_s)

    async def close(self) -> None:
        """Close all connections; the outcome of requests in flight is unknown."""
        self._closed = True
        while self._idle:
            self._idle.popleft().connection.close()
        for connection in self._busy:
            _abort(connection)
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Exchange:
    """One request and its reply. ``sent`` is true once the server may have all of the request; a
    server never processes a partial one. ``complete``: the connection can serve another one.
    ``abandoned``: nobody waits for it any more, so it must not be sent."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        config: ClientConfig,
        timeout_s: float,
    ) -> None:
        self._url, self._headers, self._body = url, headers, body
        self._parts = urlsplit(url)
        self._bytes_max, self._timeout_s = config.reply_bytes_max, timeout_s
        self.sent = self.complete = self.abandoned = False

    @property
    def place(self) -> tuple[str, str]:
        """Scheme; host and port."""
        return self._parts.scheme, self._parts.netloc

    def run(self, connection: HTTPConnection) -> Reply:
        """Raises: as ``Transport.post``; times out with each step, the caller with all of them."""
        self._connect(connection)
        if self.abandoned:
            raise ConnectFailed(f"the request to {server_of(self._url)} was given up")
        try:
            self._send(connection)
            with connection.getresponse() as response:
                return self._read(response)
        except (HTTPException, OSError, ValueError) as error:
            text = f"the connection to {server_of(self._url)} was lost: {reason_of(error)}"
            raise (NoReply if self.sent else ConnectFailed)(text) from error

    def _connect(self, connection: HTTPConnection) -> None:
        where = server_of(self._url)
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(self._timeout_s)
        except ssl.SSLCertVerificationError as error:
            text = f"the certificate of {where} cannot be trusted: {reason_of(error)}; "
            raise ConfigError(f"{text}check tls.ca_file") from error
        except (OSError, ValueError, AttributeError) as error:  # the last one: it was aborted
            raise ConnectFailed(f"cannot connect to {where}: {reason_of(error)}") from error

    def _send(self, connection: HTTPConnection) -> None:
        body, parts = memoryview(self._body), self._parts
        query = f"?{parts.query}" if parts.query else ""
        target = f"{parts.path or '/'}{query}"
        connection.putrequest("POST", target, skip_accept_encoding=True)
        for name, value in self._headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders()
        rest = max(0, len(body) - _LAST_BYTES)
        if rest:
            connection.send(body[:rest])
        self.sent = True
        connection.send(body[rest:])

    def _read(self, response: HTTPResponse) -> Reply:
        limit, length = self._bytes_max, response.length
        if length is None and not response.chunked:  # also a head that was cut off
            raise NoReply(f"the reply from {server_of(self._url)} has no length")
        if length is None:
            data = response.read(limit + 1)
        else:
            data = response.read() if length <= limit else b""
        if max(len(data), length or 0) > limit:
            where = server_of(self._url)
            raise NoReply(f"the reply from {where} is larger than reply_bytes_max ({limit} bytes)")
        self.complete = True
        return Reply(response.status, cast(Mapping[str, str], response.headers), data)


def _is_readable(connection: HTTPConnection) -> bool:
    """Whether an idle connection has ended: nothing else can come from the server."""
    watched = poll()
    watched.register(connection.sock, POLLIN)
    return bool(watched.poll(0))


def _abort(connection: HTTPConnection) -> None:
    """End the thread that uses the connection, wherever it waits."""
    sock = connection.sock
    if sock is not None:
        try:
            sock.shutdown(SHUT_RDWR)
        except OSError:  # it has ended
            return
