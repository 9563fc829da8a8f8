"""Loads TLS contexts from the files of [tls] and detects changes; reads off the loop.

A server without TLS imports no X.509 and reads no authorities: 4 MB, and a tenth of its start.
"""

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opentalos.model.errors import ConfigError
from opentalos.model.settings.security import TlsSettings

if TYPE_CHECKING:
    from cryptography import x509

FILE_BYTES_MAX = 4 << 20
_KEYS = ("cert_file", "key_file", "client_ca_file", "peer_ca_file")
_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

Stamp = Sequence[tuple[int, ...] | None]  # inode, change time and size by file; None: not there


@dataclass(frozen=True, slots=True)
class LoadedTls:
    """The contents of the files."""

    server: ssl.SSLContext | None  # None: the port is plain
    client: ssl.SSLContext | None  # for connections to other servers; None: ``system_client``
    expires_s: float  # Unix time at which this server's certificate ends; 0: none


def load_tls(settings: TlsSettings) -> LoadedTls:
    """Read and check the files. Raises: ConfigError that names key and file."""
    client = None
    if settings.peer_ca_file:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.minimum_version = _VERSIONS[settings.minimum_version]
        _trust(client, "peer_ca_file", settings.peer_ca_file)
    if not settings.enabled:
        return LoadedTls(None, client, 0.0)
    client = client or system_client(settings)
    own = _certificates("cert_file", settings.cert_file)[0]
    _check_key(settings.key_file)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.minimum_version = _VERSIONS[settings.minimum_version]
    server.options |= ssl.OP_NO_RENEGOTIATION
    server.set_alpn_protocols(["http/1.1"])
    for context in (server, client):  # a server shows the same certificate where it is the client
        _show(context, settings)
    if settings.client_ca_file:
        _trust(server, "client_ca_file", settings.client_ca_file)
        optional = settings.client_optional
        server.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
    return LoadedTls(server, client, own.not_valid_after_utc.timestamp())


def system_client(settings: TlsSettings) -> ssl.SSLContext:
    """A context that trusts the authorities of the system."""
    client = ssl.create_default_context()
    client.minimum_version = _VERSIONS[settings.minimum_version]
    return client


async def load_tls_aside(settings: TlsSettings) -> LoadedTls:
    """``load_tls`` on a thread, so that a slow disk does not hold up the loop."""
    return await asyncio.to_thread(load_tls, settings)


async def stamp_aside(settings: TlsSettings) -> Stamp:
    """``stamp`` on a thread."""
    return await asyncio.to_thread(stamp, settings)


def stamp(settings: TlsSettings) -> Stamp:
    """The identity of the files, which differs after a change, a rewrite or a new link."""
    found: list[tuple[int, ...] | None] = []
    for key in _KEYS:
        path = getattr(settings, key)
        try:
            status = Path(path).stat() if path else None
        except OSError:
            status = None
        found.append(status and (status.st_ino, status.st_mtime_ns, status.st_size))
    return found


def _read(key: str, path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"[tls] {key}: cannot read {path}: {error.strerror}") from error
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(f"[tls] {key}: {path} is larger than {FILE_BYTES_MAX:,} bytes")
    return content


def _certificates(key: str, path: str) -> "Sequence[x509.Certificate]":
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(_read(key, path))
    except ValueError as error:
        raise ConfigError(f"[tls] {key}: {path} has no valid PEM certificate: {error}") from error


def _check_key(path: str) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        load_pem_private_key(_read("key_file", path), None)
    except TypeError as error:
        raise ConfigError(f"[tls] key_file: {path} has a pass phrase; remove it") from error
    except ValueError as error:
        raise ConfigError(f"[tls] key_file: {path} has no valid PEM private key") from error


def _show(context: ssl.SSLContext, settings: TlsSettings) -> None:
    try:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"[tls] key_file {settings.key_file} is not the key of cert_file "
            f"{settings.cert_file}, or they cannot be used: {error}"
        ) from error


def _trust(context: ssl.SSLContext, key: str, path: str) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    found = _certificates(key, path)
    context.load_verify_locations(
        cadata=b"".join(cert.public_bytes(Encoding.DER) for cert in found)
    )
