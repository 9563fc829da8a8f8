"""KeyRing: the data keys that encrypt what tenants store; the cipher is in an adapter."""

from typing import Protocol

KEY_ID_BYTES = 8
NONCE_BYTES = 12
TAG_BYTES = 16


class DataKey(Protocol):
    """One version of a tenant's key, AES-256-GCM. Used by one thread.

    ``encrypt`` returns a nonce that this key never had before, and ciphertext with the tag.
    ``decrypt`` raises CorruptLog: another key, other ``bound`` bytes, or damage.
    """

    @property
    def id(self) -> bytes: ...  # KEY_ID_BYTES, unique among all keys of a service
    def encrypt(self, content: bytes | memoryview, bound: bytes) -> tuple[bytes, bytes]: ...
    def decrypt(self, nonce: bytes, ciphertext: bytes | memoryview, bound: bytes) -> bytes: ...


class KeyRing(Protocol):
    """All data keys, in memory.

    ``current`` is the key for what a tenant stores from now on; None: it is not encrypted.
    Raises PartitionNotServing: the tenant's key is not known yet; not done. ``find`` returns a key
    by its id, also a former one; None: not known. ``refresh`` reads a tenant's keys again.
    """

    def current(self, tenant: str) -> DataKey | None: ...
    def find(self, key_id: bytes) -> DataKey | None: ...
    async def refresh(self, tenant: str) -> None: ...
