"""SecretBox: seals secrets for storage; the cipher is injected, so the core stays pure."""

from typing import Protocol


class SecretBox(Protocol):
    """Authenticated encryption under the server key, bound to a name such as a key id.

    ``open`` raises ConfigError for another server key, another name or damaged bytes,
    NewerFormat for bytes that a newer version sealed. ``mac`` authenticates content that is not
    secret, under a key of its own that is derived from the server key.
    """

    def seal(self, secret: bytes, name: str) -> bytes: ...
    def open(self, sealed: bytes, name: str) -> bytes: ...
    def mac(self, content: bytes) -> bytes: ...
