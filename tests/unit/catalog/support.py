"""Test doubles: a fixed clock, a loop whose time can be moved, a box that does not encrypt."""

import asyncio
import hashlib

from opentalos.model.errors import ConfigError
from opentalos.model.identity import Principal


class CountingClock:
    """Wall time that the test sets; tokens that count up."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms
        self._tokens = 0

    def wall_ms(self) -> int:
        return self.now_ms

    def token(self, bytes_count: int) -> bytes:
        self._tokens += 1
        return self._tokens.to_bytes(bytes_count, "big")


class PlainBox:
    """A SecretBox for tests: binds to the name and to a key, hides nothing."""

    def __init__(self, key: bytes = b"k") -> None:
        self._key = key

    def seal(self, secret: bytes, name: str) -> bytes:
        return self._key + name.encode() + b"\0" + secret[::-1]

    def open(self, sealed: bytes, name: str) -> bytes:
        start = self._key + name.encode() + b"\0"
        if not sealed.startswith(start):
            raise ConfigError(f"the secret of {name} does not open")
        return sealed[len(start) :][::-1]

    def mac(self, content: bytes) -> bytes:
        return hashlib.sha256(self._key + content).digest()


class MovableTime:
    """Moves the running loop's clock forward without waiting."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ahead_s = 0.0
        real_time = loop.time
        loop.time = lambda: real_time() + self._ahead_s  # type: ignore[method-assign]

    def advance(self, seconds: float) -> None:
        self._ahead_s += seconds


ALICE = Principal(id="alice", number=2)
BOB = Principal(id="bob", number=3, team="CIblue")
CAROL = Principal(id="carol", number=4, organisation="CLacme", team="CIred")
DAVE = Principal(id="dave", number=5, organisation="CLacme")
ROOT = Principal(id="root", number=1, admin=True)
