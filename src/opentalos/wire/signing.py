"""Request signing: the string to sign, the Authorization header and the signature.

Source: docs/protocol/signatures.md.
"""

import binascii
import hashlib
import hmac
from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from opentalos.model.errors import InvalidCredential

_SIGNED_PREFIX: Final = b"x-xiaomi-"
_DATE: Final = b"x-xiaomi-date"
_SUB_RESOURCES: Final = frozenset(
    (
        b"acl",
        b"quota",
        b"uploads",
        b"partNumber",
        b"uploadId",
        b"storageAccessToken",
        b"metadata",
    )
)
_MD5_DIGITS: Final = 32
CONTENT_MAC: Final = "x-xiaomi-content-poly1305"  # in place of the MD5, see ``content_mac``
MAC_OFFER: Final = "X-OpenTalos-Content-MAC"  # of replies: the server accepts CONTENT_MAC
MAC_BODY_BYTES_MIN: Final = 16 << 10  # below this the MD5 costs less than the key of a tag
_SHA1_BLOCK_BYTES: Final = 64
_INNER_PAD: Final = bytes(byte ^ 0x36 for byte in range(256))  # RFC 2104
_OUTER_PAD: Final = bytes(byte ^ 0x5C for byte in range(256))


class Scheme(Enum):
    """Authorization schemes."""

    GALAXY_V2 = "Galaxy-V2"
    GALAXY_V3 = "Galaxy-V3"
    OAUTH = "OAuth"
    SSO = "SSO"
    GUEST = "Guest"


_SCHEMES: Final = {scheme.value.encode(): scheme for scheme in Scheme}


class Authorization(NamedTuple):
    """A parsed Authorization header; ``signature`` is empty for unsigned schemes."""

    scheme: Scheme
    key_id: str
    signature: bytes = b""  # base64, as sent
    secret: str = ""  # SSO only: the secret itself travels
    sid: str = ""  # SSO only

    @property
    def signed(self) -> bool:
        """Whether the scheme carries a signature."""
        return self.scheme is not Scheme.SSO and self.scheme is not Scheme.GUEST


class HmacState:
    """HMAC-SHA1 of one secret, its inner and outer states computed once.

    Source: docs/internals/hot-path.md#per-call-costs.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: bytes) -> None:
        if len(secret) > _SHA1_BLOCK_BYTES:
            secret = hashlib.sha1(secret, usedforsecurity=False).digest()
        key = secret.ljust(_SHA1_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha1(key.translate(_INNER_PAD), usedforsecurity=False)
        self._outer = hashlib.sha1(key.translate(_OUTER_PAD), usedforsecurity=False)

    def signature(self, text: bytes) -> bytes:
        """Base64 of the HMAC, as the header carries it."""
        inner = self._inner.copy()
        inner.update(text)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return binascii.b2a_base64(outer.digest(), newline=False)

    def matches(self, text: bytes, signature: bytes) -> bool:
        """Whether ``signature`` is that of ``text``, compared in constant time."""
        return hmac.compare_digest(self.signature(text), signature)


def md5_of(body: bytes) -> bytes:
    """The digest of a body that requests are signed with, in hexadecimal."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest().encode()


def is_digest(sent: bytes, digest: bytes) -> bool:
    """Whether ``sent``, the value of X-Xiaomi-Content-MD5, is this result of ``md5_of``.

    The Java clients write it as a number, so without leading zeros: one request in sixteen is
    shorter than 32 digits. Filled up with zeros it must be the digest; so a sign, a blank, a
    separator or too many digits never match.
    """
    if sent == digest:
        return True
    return bool(sent) and sent.rjust(_MD5_DIGITS, b"0").lower() == digest


def parse_authorization(value: bytes) -> Authorization:
    """Parse an Authorization header.

    Raises: InvalidCredential: unknown scheme, or a part is missing or not UTF-8.
    """
    name, _, rest = value.partition(b" ")
    scheme = _SCHEMES.get(name)
    if scheme is None:
        raise InvalidCredential("the Authorization header has no known scheme")
    try:
        if scheme is Scheme.GUEST:
            parsed = Authorization(scheme, rest.decode())
        elif scheme is Scheme.SSO:
            sid, secret, key_id = rest.decode().split(":")
            parsed = Authorization(scheme, key_id, secret=secret, sid=sid)
        else:
            key, _, signature = rest.rpartition(b":")
            parsed = Authorization(scheme, key.decode(), signature)
            if not signature:
                raise ValueError
    except ValueError:
        parsed = Authorization(scheme, "")
    if not parsed.key_id:
        raise InvalidCredential(f"malformed Authorization header of scheme {scheme.value}")
    return parsed


def string_to_sign(
    method: bytes, path: bytes, query: bytes, headers: Mapping[bytes, bytes]
) -> bytes:
    """The bytes a signature covers.

    Args:    path and query as on the request line; headers by lower-case name, the values of a
             repeated one joined by ``,``.
    """
    signed = [name for name in headers if name.startswith(_SIGNED_PREFIX)]
    signed.sort()
    parameters, expires = _parameters(query)
    if expires is not None:
        date = expires
    elif _DATE in headers:
        date = b""
    else:
        date = headers.get(b"date", b"")
    lines = [
        method,
        headers.get(b"content-md5", b""),
        headers.get(b"content-type", b""),
        date,
        *[b"%b:%b" % (name, headers[name]) for name in signed],
        path + parameters,
    ]
    return b"\n".join(lines)


def _parameters(query: bytes) -> tuple[bytes, bytes | None]:
    """The signed query parameters with their question mark, and the value of Expires."""
    expires = None
    found = []
    for part in query.split(b"&"):
        name, _, value = part.partition(b"=")
        if name in _SUB_RESOURCES:
            found.append((name, value))
        elif name == b"Expires":
            expires = value
    if not found:
        return b"", expires
    found.sort()
    return b"?" + b"&".join(b"%b=%b" % item if item[1] else item[0] for item in found), expires
