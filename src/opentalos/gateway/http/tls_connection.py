"""A connection over TLS that knows its unsent bytes.

A loop's TLS transport passes all its data to the socket's transport as soon as that accepts
anything, and then reports nothing as unsent. So a client that does not read a large reply would
go unnoticed. Here a reply is passed on in pieces, and the rest counts as unsent.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from opentalos.gateway.http.connection import HttpConnection
from opentalos.model.identity import PeerCertificate

PIECE_BYTES = 128 << 10  # passed to the loop at once; bounds what it may hold unnoticed
_KINDS = {"DNS": "dns", "email": "email", "URI": "uri"}  # of subjectAltName, as ssl names them


class PacedTransport(asyncio.Transport):
    """Writes to ``transport`` while it has room, and keeps the rest.

    ``paused`` and ``resumed`` are called like the protocol's ``pause_writing`` and
    ``resume_writing``.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        paused: Callable[[], None],
        resumed: Callable[[], None],
    ) -> None:
        super().__init__()
        self._transport, self._paused, self._resumed = transport, paused, resumed
        transport.set_write_buffer_limits(high=PIECE_BYTES // 2)
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._full = False  # the loop's buffer is full
        self._reported = False  # ``paused`` was called
        self._ending = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send at once if there is room and nothing is queued."""
        if not self._unsent and not self._full and len(data) <= PIECE_BYTES:
            self._transport.write(data)
            return
        view = memoryview(data)
        for position in range(0, len(view), PIECE_BYTES):
            self._unsent.append(view[position : position + PIECE_BYTES])
        self._unsent_bytes += len(view)
        self._send()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """One after the other."""
        for data in list_of_data:
            self.write(data)

    def loop_full(self, full: bool) -> None:
        """The loop's buffer is full, or has room again."""
        self._full = full
        if full:
            self._report()  # within a write: nothing else may happen now
        else:
            self._send()

    def lost(self) -> None:
        """Nothing can be sent any more."""
        self._unsent.clear()
        self._unsent_bytes = 0

    def _send(self) -> None:
        while self._unsent and not self._full:
            piece = self._unsent.popleft()
            self._unsent_bytes -= len(piece)
            self._transport.write(piece)
        self._report()
        if self._ending and not self._unsent:
            self._transport.close()

    def _report(self) -> None:
        full = self._full or bool(self._unsent)
        if full != self._reported:
            self._reported = full
            (self._paused if full else self._resumed)()

    def get_write_buffer_size(self) -> int:
        """Unsent bytes, as far as known."""
        return self._unsent_bytes + self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close once all is sent."""
        self._ending = True
        if not self._unsent:
            self._transport.close()

    def abort(self) -> None:
        """Cut at once."""
        self.lost()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether no more may be written."""
        return self._ending or self._transport.is_closing()

    def can_write_eof(self) -> bool:
        """Never: TLS knows no half-open connection."""
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the transport."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Of the transport."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Of the transport."""
        self._transport.resume_reading()


class TlsConnection(HttpConnection):
    """An HttpConnection that writes through a PacedTransport."""

    _paced: PacedTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over."""
        plain = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.certificate = certificate_of(plain.get_extra_info("peercert"))
        self._paced = PacedTransport(plain, super().pause_writing, super().resume_writing)
        super().connection_made(self._paced)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop unsent data."""
        self._paced.lost()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The loop's buffer changed."""
        self._paced.loop_full(True)

    def resume_writing(self) -> None:
        """The loop's buffer changed."""
        self._paced.loop_full(False)


def certificate_of(found: Mapping[str, Any] | None) -> PeerCertificate | None:
    """The client's certificate; ``found``: as ``SSLObject.getpeercert``, empty: not verified."""
    if not found:
        return None
    names = [
        (_KINDS[kind], value) for kind, value in found.get("subjectAltName", ()) if kind in _KINDS
    ]
    for part in found.get("subject", ()):
        names += [("cn", value) for kind, value in part if kind == "commonName"]
    return PeerCertificate(tuple(names), ssl.cert_time_to_seconds(found["notAfter"]))
