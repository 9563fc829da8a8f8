"""What is wrong with a TLS connection, in words that say what to do."""

import contextlib
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

_PROBE_S: Final = 2.0
_EXPIRED: Final = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_UNKNOWN_AUTHORITY: Final = (18, 19, 20, 21)  # self-signed, or no such issuer
_OTHER_NAME: Final = (62, 64)  # host name, address
_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
CERTIFICATE_WANTED: Final = (
    "the server wants a certificate of the client: --cert and --cert-key, TALOS_CERT and "
    "TALOS_CERT_KEY, or TlsSettings(cert_file=..., key_file=...)"
)


def tls_reason(error: ssl.SSLError) -> str:
    """The reason that an https connection failed, and the remedy."""
    code = getattr(error, "verify_code", 0)
    if code in _UNKNOWN_AUTHORITY:
        return (
            "no authority that this client trusts has signed the server's certificate "
            f"({getattr(error, 'verify_message', '')}); name the authority's file: --ca, TALOS_CA "
            "or TlsSettings(ca_file=...)"
        )
    if code == _EXPIRED:
        return "the server's certificate has expired"
    if code in _OTHER_NAME:
        named = getattr(error, "verify_message", "")
        return f"the server's certificate is for another name: {named}"
    reason = error.reason or ""
    if reason in _NO_TLS:
        return "the port does not speak TLS: use http://, or configure [tls] of the server"
    if "CERTIFICATE_REQUIRED" in reason:
        return CERTIFICATE_WANTED
    return getattr(error, "verify_message", "") or reason or str(error)


def speaks_tls(url: str) -> bool:
    """Whether a port that did not answer plain HTTP speaks TLS; False if that cannot be said.

    It sends no request, and trusts nobody: only whether a handshake begins counts.
    """
    parts = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(OSError, ValueError):
        place = (parts.hostname or "", parts.port or 80)
        with (
            socket.create_connection(place, _PROBE_S) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname),
        ):
            return True
    return False
