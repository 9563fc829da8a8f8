"""AES-256-GCM under a tenant's data key."""

from collections.abc import Callable
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from opentalos.model.errors import CorruptLog
from opentalos.ports.key_ring import NONCE_BYTES

_COUNTER_BYTES: Final = 4
PREFIX_BYTES: Final = NONCE_BYTES - _COUNTER_BYTES
_COUNTS: Final = 1 << (8 * _COUNTER_BYTES)


class AesGcmDataKey:
    """See ports/key_ring.py.

    Random nonces of 96 bits would bound a key to 2^32 of them, which a busy tenant has stored
    within a day. So a nonce is a random prefix of 64 bits and a counter: each object, which is
    each server's start, draws a prefix of its own, and another one after 2^32 nonces. 2^20
    prefixes of one key have an equal pair with a probability of 2^-25.

    Shape: nonce: [prefix 8][counter u32be].
    """

    __slots__ = ("_cipher", "_count", "_encrypt", "_new_bytes", "_prefix", "id")

    def __init__(self, key_id: bytes, key: bytes, new_bytes: Callable[[int], bytes]) -> None:
        """Args: new_bytes: draws so many random bytes."""
        self.id = key_id
        self._cipher = AESGCM(key)
        self._encrypt = self._cipher.encrypt
        self._new_bytes = new_bytes
        self._prefix, self._count = b"", _COUNTS  # draws the first prefix when it is needed

    def encrypt(self, content: bytes | memoryview, bound: bytes) -> tuple[bytes, bytes]:
        """Encrypt; see the port."""
        count = self._count
        if count == _COUNTS:
            self._prefix, count = self._new_bytes(PREFIX_BYTES), 0
        self._count = count + 1
        nonce = self._prefix + count.to_bytes(_COUNTER_BYTES, "big")
        return nonce, self._encrypt(nonce, content, bound)

    def decrypt(self, nonce: bytes, ciphertext: bytes | memoryview, bound: bytes) -> bytes:
        """Decrypt; see the port."""
        try:
            return self._cipher.decrypt(nonce, ciphertext, bound)
        except InvalidTag as error:
            raise CorruptLog(
                f"the bytes do not belong here or are damaged (data key {self.id.hex()})"
            ) from error
