"""How one server of a cluster proves itself to another: a header signed with the cluster's key.

    v1 SERVER TIME_MS NONCE SIGNATURE

SIGNATURE is the HMAC-SHA256, in hex, of the four parts before it and of what the request is: its
kind, method, target, the client's address and the SHA-256 of its body.
"""

import hashlib
import hmac
from typing import Final, NamedTuple

TRANSFER: Final = b"x-opentalos-transfer"  # on a client's request that another server passes on
CLIENT: Final = b"x-opentalos-client"  # with it: address, and principal of a certificate
CALL: Final = b"x-opentalos-call"  # on a call of its own
VERSION: Final = b"x-opentalos-peer-version"  # with it: of the peer protocol, a number
CALL_PREFIX: Final = b"/internal/v1/"
NONCE_BYTES: Final = 12
_VERSION: Final = b"v1"
_PURPOSE: Final = b"opentalos calls between servers 1"
_PARTS: Final = 5
_PROOF_BYTES_MAX: Final = 512


class Subject(NamedTuple):
    """What a proof is about. ``kind`` is the header that carries it."""

    kind: bytes
    method: bytes
    target: bytes  # path and query
    client: bytes  # as in CLIENT; empty for a server's own call
    body: bytes

    def digest(self) -> bytes:
        """Unambiguous bytes of all of it."""
        parts = (self.kind, self.method, self.target, self.client)
        text = b"".join(b"%d:%b," % (len(part), part) for part in parts)
        return text + hashlib.sha256(self.body).digest()


class Proof(NamedTuple):
    """A proof whose signature was right. Its age and its nonce are the reader's to judge."""

    server: str
    time_ms: int
    nonce: bytes


class PeerKey:
    """Signs and checks with a key that is derived from the cluster's."""

    def __init__(self, cluster_key: bytes) -> None:
        self._key = hmac.new(cluster_key, _PURPOSE, hashlib.sha256).digest()

    def sign(self, server: str, time_ms: int, nonce: bytes, subject: Subject) -> bytes:
        """The header's value."""
        head = b"%b %b %d %b" % (_VERSION, server.encode(), time_ms, nonce.hex().encode())
        return head + b" " + self._signature(head, subject)

    def check(self, value: bytes, subject: Subject) -> Proof | None:
        """The proof, or None if it is not one of this cluster about this request."""
        parts = value.split(b" ")
        if len(value) > _PROOF_BYTES_MAX or len(parts) != _PARTS or parts[0] != _VERSION:
            return None
        head, _, signature = value.rpartition(b" ")
        if not hmac.compare_digest(self._signature(head, subject), signature):
            return None
        return Proof(parts[1].decode("utf-8", "replace"), int(parts[2]), parts[3])

    def _signature(self, head: bytes, subject: Subject) -> bytes:
        text = b"%d:%b," % (len(head), head) + subject.digest()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest().encode()
