"""A connection over TLS, which writes everything through a PacedTransport."""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, cast

from opentalos.gateway.http.connection import HttpConnection
from opentalos.model.identity import PeerCertificate

_KINDS = {"DNS": "dns", "email": "email", "URI": "uri"}  # of subjectAltName, as ssl names them


class TlsConnection(HttpConnection):
    """An HttpConnection that knows its client's certificate."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over."""
        plain = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.certificate = certificate_of(plain.get_extra_info("peercert"))
        super().connection_made(plain)


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
