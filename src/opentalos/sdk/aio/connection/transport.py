"""HTTP/1.1 over pooled connections; each error states whether the request was written.

aiohttp is imported with the first request, so that importing the SDK stays fast.
"""

import asyncio
import importlib
import os
import socket
import ssl
import weakref
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from opentalos.model.errors import ConfigError
from opentalos.sdk.core.config import ClientConfig, TlsSettings
from opentalos.sdk.core.operation import Reply
from opentalos.sdk.errors import ConnectFailed, NoReply
from opentalos.sdk.tls_reason import tls_reason

if TYPE_CHECKING:
    import aiohttp

IDLE_S_MAX: Final = 60.0  # below the server's idle_timeout_s, so that the client closes first
_READ_BUFFER_BYTES: Final = 1 << 20  # of a reply, before reading pauses
_SMALL_BYTES: Final = 32 << 10  # with headers below aiohttp's 64 KiB buffer, so written at once
_PIECE_BYTES: Final = 256 << 10  # of a larger body, per write


class Transport:
    """Sends the requests of one client. Belongs to the loop of its first request.

    A forked child must not use or finalise inherited connections: the parent uses them.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        _alive.add(self)

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> Reply:
        """Send one request once, and wait for the complete reply.

        Raises: ConnectFailed, ConfigError (a certificate): not done, the request was not written
        completely. NoReply: written, but no complete reply within ``timeout_s`` or
        ``reply_bytes_max``.
        """
        session = self._session or await self._open()
        import aiohttp

        request = _Body(body)
        headers = {**headers, "Content-Length": str(len(body))}
        # One pass of the loop, to notice connections that the server closed meanwhile.
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(timeout_s):
                async with session.post(
                    url, data=request.pieces(), headers=headers, allow_redirects=False
                ) as reply:
                    return Reply(reply.status, reply.headers, await self._read(url, reply))
        except aiohttp.ClientConnectorCertificateError as error:
            reason = reason_of(error.certificate_error)
            where = server_of(url)
            text = f"the certificate of {where} cannot be trusted: {reason}; check tls.ca_file"
            raise ConfigError(text) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ConnectFailed(
                f"cannot connect to {server_of(url)}: {reason_of(error)}"
            ) from error
        except TimeoutError as error:
            if request.sent:
                raise NoReply(f"no reply from {server_of(url)} within {timeout_s:.3g} s") from error
            text = f"no connection to {server_of(url)} within {timeout_s:.3g} s"
            raise ConnectFailed(text) from error
        except (aiohttp.ClientError, OSError) as error:
            text = f"the connection to {server_of(url)} was lost: {reason_of(error)}"
            raise (NoReply if request.sent else ConnectFailed)(text) from error

    async def _read(self, url: str, reply: "aiohttp.ClientResponse") -> bytes:
        limit = self._config.reply_bytes_max
        if (reply.content_length or 0) <= limit:
            parts, total = [], 0
            async for part in reply.content.iter_any():
                total += len(part)
                if total > limit:
                    break
                parts.append(part)
            else:
                return parts[0] if len(parts) == 1 else b"".join(parts)
        reply.close()
        raise NoReply(
            f"the reply from {server_of(url)} is larger than reply_bytes_max ({limit} bytes)"
        )

    async def _open(self) -> "aiohttp.ClientSession":
        # Imports and certificates take half a second: load in a thread, off the user's loop.
        try:
            context = await asyncio.to_thread(load_context, self._config)
        except RuntimeError:  # no new threads at interpreter shutdown
            context = load_context(self._config)
        if self._closed:
            raise ConnectFailed("the client is closed")
        if self._session is None:
            self._session = _session(self._config, context)
        return self._session

    async def close(self) -> None:
        """Close all connections; the outcome of requests in flight is unknown."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def abandon(self) -> None:
        """In a forked child: drop the connections without touching the parent's sockets."""
        session, self._session = self._session, None
        if session is None:
            return
        connector = session.connector
        session.detach()
        # Finalising a connector removes the sockets from the epoll set shared with the parent and
        # sends close_notify on its TLS connections. So it is kept, and marked as closed.
        connector._closed = True  # type: ignore[union-attr]
        _inherited.append(connector)


class _Body:
    """A request body. ``sent`` is true once the server may have all of it; a server never processes
    a partial request."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self.sent = False

    async def pieces(self) -> AsyncIterator[memoryview]:
        """The pieces to write. The writer requests the next piece once it has written one, and
        stops if the connection is closed."""
        length = len(self._data)
        if length <= _SMALL_BYTES:
            yield self._data
            self.sent = True
            return
        piece = min(_PIECE_BYTES, (length + 1) // 2)
        for start in range(0, length, piece):
            self.sent = start + piece >= length
            yield self._data[start : start + piece]


_alive: "weakref.WeakSet[Transport]" = weakref.WeakSet()
_inherited: list[Any] = []  # connectors of the parent, in a forked child


def _abandon_all() -> None:
    for transport in list(_alive):
        transport.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)


def load_context(config: ClientConfig) -> ssl.SSLContext | None:
    """The slow part of opening a session: imports and TLS files. Raises: ConfigError."""
    importlib.import_module("aiohttp")
    return _ssl_context(config.tls or TlsSettings()) if config.secure else None


def _session(config: ClientConfig, context: ssl.SSLContext | None) -> "aiohttp.ClientSession":
    import aiohttp

    connector = aiohttp.TCPConnector(
        limit=config.connections_max,
        keepalive_timeout=IDLE_S_MAX,
        resolver=_resolver(),
        ssl=context or True,
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=config.connect_timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding"),
        read_bufsize=_READ_BUFFER_BYTES,
    )


def _resolver() -> "aiohttp.abc.AbstractResolver":
    from aiohttp import ThreadedResolver
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Resolver(AbstractResolver):
        """Resolves names in a thread, or without one at interpreter shutdown."""

        def __init__(self) -> None:
            self._threaded = ThreadedResolver()

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            try:
                return await self._threaded.resolve(host, port, family)
            except RuntimeError:
                found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
                flags = socket.AI_NUMERICHOST
                return [
                    ResolveResult(
                        hostname=host, host=str(place[0]), port=port, family=kind, proto=proto,
                        flags=flags,
                    )
                    for kind, _, proto, _, place in found
                ]  # fmt: skip

        async def close(self) -> None:
            pass

    return Resolver()


def _ssl_context(settings: TlsSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file)
        context.check_hostname = settings.verify_host
        if settings.cert_file is not None:
            context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot use the TLS settings {settings}: {error}") from error
    return context


def server_of(url: str) -> str:
    """Scheme, host and port of a URL."""
    return "/".join(url.split("/", 3)[:3])


def reason_of(error: BaseException) -> str:
    """The reason in the words of the operating system, not of the libraries in between."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, ssl.SSLError):
        return tls_reason(cause)
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
