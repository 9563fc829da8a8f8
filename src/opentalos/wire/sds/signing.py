"""The signature of older SDS clients: a struct in Thrift JSON in the Authorization header.

Source: docs/protocol/sds.md#authentication.
"""

import hmac
import struct
from collections.abc import Mapping
from typing import Final

from opentalos.model.errors import InvalidCredential
from opentalos.wire._generated.sds import HttpAuthorizationHeader, MacAlgorithm
from opentalos.wire.thrift.error import ThriftError
from opentalos.wire.thrift.json_format import JsonCodec
from opentalos.wire.thrift.reader import Cursor

HEADER_START: Final = b"{"  # no other scheme begins so
NEEDED: Final = ("host", "x-xiaomi-timestamp", "x-xiaomi-content-md5")  # what must be signed
_VERSION: Final = "SDS-V1"
_VALUES_MAX: Final = 64  # fields and items of the header
_HASHES: Final[dict[int, str]] = {
    MacAlgorithm.HmacMD5: "md5",
    MacAlgorithm.HmacSHA1: "sha1",
    MacAlgorithm.HmacSHA256: "sha256",
}


def parse_header(value: bytes) -> HttpAuthorizationHeader:
    """Read the header's value. Raises: InvalidCredential."""
    cursor = Cursor(value, _VALUES_MAX)
    codec = JsonCodec()
    try:
        header: HttpAuthorizationHeader = codec.read_struct(cursor, HttpAuthorizationHeader.SPEC)
    except (ThriftError, IndexError, struct.error):
        raise InvalidCredential("the Authorization header is not a readable struct") from None
    if cursor.position != len(value):
        raise InvalidCredential("the Authorization header has more than one struct")
    if header.version != _VERSION:
        raise InvalidCredential(f"the Authorization header is not of version {_VERSION}")
    return header


def signed_text(header: HttpAuthorizationHeader, headers: Mapping[bytes, bytes]) -> bytes:
    """What the signature covers: the values of the listed headers, one per line.

    Args:   headers: by lower-case name, the values of a repeated one joined by ``,``.
    Raises: InvalidCredential: a header that must be signed is not listed, or a listed one is
            missing.
    """
    names = [name.lower() for name in header.signedHeaders or ()]
    left_out = [name for name in NEEDED if name not in names]
    if left_out:
        raise InvalidCredential(f"not signed, and must be: {', '.join(left_out)}")
    missing = [name for name in names if name.encode() not in headers]
    if missing:
        raise InvalidCredential(f"signed but not sent: {', '.join(missing)}")
    return b"\n".join(
        _host(headers[b"host"]) if name == "host" else headers[name.encode()] for name in names
    )


def _host(values: bytes) -> bytes:
    """The host as signed: without port, and the last one of several."""
    host = values.rpartition(b",")[2].strip()
    if host.startswith(b"["):
        return host[1:].partition(b"]")[0]
    name, _, port = host.rpartition(b":")
    return name if port.isdigit() and b":" not in name else host


def matches(header: HttpAuthorizationHeader, text: bytes, secret: bytes) -> bool:
    """Whether the signature is that of ``text``, compared in constant time.

    Raises: InvalidCredential: no or an unknown algorithm.
    """
    algorithm = _HASHES.get(header.algorithm or 0)
    if algorithm is None:
        raise InvalidCredential("the signature has no known algorithm")
    made = hmac.new(secret, text, algorithm).hexdigest()
    return hmac.compare_digest(made.encode(), (header.signature or "").encode())
