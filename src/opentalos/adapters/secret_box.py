"""Secrets at rest: AES-256-GCM under the server's key."""

import hashlib
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from opentalos.model.errors import ConfigError, NewerFormat

KEY_BYTES = 32
_VERSION = 1
_NONCE_BYTES = 12  # the size GCM is defined for
_TAG_BYTES = 16
_MAC_PURPOSE = b"opentalos MAC of records 1"  # derives a key that is used for nothing else


class AesGcmSecretBox:
    """Seals small secrets; each is bound to a name (such as its key id) and opens under no other.

    Shape: sealed bytes: [version u8 = 1][nonce: 12 bytes][ciphertext and 16-byte tag].
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ConfigError(f"the server key has {len(key)} bytes; it must have {KEY_BYTES}")
        self._cipher = AESGCM(key)
        self._mac_key = hmac.digest(key, _MAC_PURPOSE, hashlib.sha256)

    def seal(self, secret: bytes, name: str) -> bytes:
        """Encrypt ``secret``; the result is safe to store."""
        nonce = os.urandom(_NONCE_BYTES)
        return bytes([_VERSION]) + nonce + self._cipher.encrypt(nonce, secret, name.encode())

    def open(self, sealed: bytes, name: str) -> bytes:
        """Return the secret.

        Raises: ConfigError: another server key, another name or damaged bytes; NewerFormat.
        """
        if not sealed or len(sealed) < 1 + _NONCE_BYTES + _TAG_BYTES:
            raise ConfigError(f"the stored secret of {name} is truncated; restore it from a backup")
        if sealed[0] != _VERSION:
            raise NewerFormat(f"the stored secret of {name} has format {sealed[0]}, not {_VERSION}")
        nonce, body = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, body, name.encode())
        except InvalidTag as error:
            raise ConfigError(
                f"cannot decrypt the stored secret of {name}: the server key is a different one, "
                "or "
                "the record is damaged; check DATA/server.key or [cluster] key_file"
            ) from error

    def mac(self, content: bytes) -> bytes:
        """HMAC-SHA-256 of the content, 32 bytes."""
        return hmac.digest(self._mac_key, content, hashlib.sha256)
