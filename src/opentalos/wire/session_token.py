"""Tokens of sessions: what a browser's cookie holds, and the proof against forged requests.

    v1.PAYLOAD.SIGNATURE

PAYLOAD is base64url of a JSON list, the fields of ``SessionToken`` in their order. SIGNATURE is the
HMAC-SHA256 of all before it, in base64url, under a key derived from that of the server or cluster.
"""

import base64
import binascii
import hashlib
import hmac
import json
from typing import Final, NamedTuple

from opentalos.model.errors import InvalidCredential

TOKEN_BYTES_MAX: Final = 1_024
_VERSION: Final = b"v1"
_PURPOSE: Final = b"opentalos sessions of browsers 1"
_FORGERY: Final = b"request "
_SECRET: Final = b"secret "
_BINDING_BYTES: Final = 16
_INVALID: Final = "not a session of this server; log in again"


class SessionToken(NamedTuple):
    """What a token says; all times are Unix milliseconds."""

    id: str
    kind: str  # what the session was opened with
    principal: str
    key_id: str  # empty: not with a key
    binding: str  # of the key's secret; see SessionKey.binding
    opened_ms: int
    ends_ms: int
    idle_ends_ms: int  # unless it is renewed before


class SessionKey:
    """Signs and checks tokens with a key that is derived from the server's."""

    def __init__(self, server_key: bytes) -> None:
        self._key = hmac.new(server_key, _PURPOSE, hashlib.sha256).digest()

    def sign(self, token: SessionToken) -> str:
        """The token's text."""
        payload = json.dumps(token, separators=(",", ":")).encode()
        head = b"%b.%b" % (_VERSION, base64.urlsafe_b64encode(payload).rstrip(b"="))
        return (head + b"." + self._signature(head)).decode()

    def read(self, text: str) -> SessionToken:
        """The token of a text that ``sign`` made with this key. Raises: InvalidCredential."""
        sent = text.encode("utf-8", "replace")
        head, _, signature = sent.rpartition(b".")
        version, _, payload = head.partition(b".")
        if len(sent) > TOKEN_BYTES_MAX or version != _VERSION:
            raise InvalidCredential(_INVALID)
        if not hmac.compare_digest(self._signature(head), signature):
            raise InvalidCredential(_INVALID)
        try:
            padded = payload + b"=" * (-len(payload) % 4)
            return SessionToken(*json.loads(base64.urlsafe_b64decode(padded)))
        except (TypeError, ValueError, binascii.Error) as error:
            raise InvalidCredential(_INVALID) from error

    def binding(self, secret: bytes) -> str:
        """Differs once the secret does; reveals nothing of it."""
        return hmac.new(self._key, _SECRET + secret, hashlib.sha256).hexdigest()[
            : 2 * _BINDING_BYTES
        ]

    def forgery_proof(self, session_id: str) -> str:
        """What a page of this server sends with a change, and another site's page cannot know."""
        return hmac.new(self._key, _FORGERY + session_id.encode(), hashlib.sha256).hexdigest()

    def _signature(self, head: bytes) -> bytes:
        digest = hmac.new(self._key, b"token " + head, hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=")
