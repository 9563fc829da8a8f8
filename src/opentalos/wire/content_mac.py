"""A request's body under its signature by Poly1305: fifteen times as fast as its MD5.

Each request has a key of its own, so the one-time authenticator is used once.

Source: docs/protocol/signatures.md#large-bodies.
"""

import binascii
import hmac
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.poly1305 import Poly1305

_LABEL: Final = b"opentalos content "
_REQUEST_ID_BYTES_MIN: Final = 16  # shorter ones may repeat, and with them the key


def content_mac(secret: bytes, request_id: bytes, body: bytes) -> bytes:
    """The tag of a body, in hexadecimal. ``request_id``: unique; at least 16 bytes."""
    return binascii.hexlify(Poly1305.generate_tag(_key(secret, request_id), body))


def is_content_mac(secret: bytes, request_id: bytes | None, body: bytes, sent: bytes) -> bool:
    """Whether ``sent`` is the tag of this body, compared in constant time."""
    if request_id is None or len(request_id) < _REQUEST_ID_BYTES_MIN:
        return False
    try:
        Poly1305.verify_tag(_key(secret, request_id), body, binascii.unhexlify(sent))
    except (InvalidSignature, binascii.Error):
        return False
    return True


def _key(secret: bytes, request_id: bytes) -> bytes:
    return hmac.digest(secret, _LABEL + request_id, "sha256")
