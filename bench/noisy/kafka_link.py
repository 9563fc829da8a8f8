"""A connection of an attacker to the Kafka port, which waits for answers only for a while.

A listener that answers nothing thus gets the same bytes as a server, only later.
"""

import contextlib
import socket
from types import TracebackType
from typing import Any, Self

from bench.noisy.attacker import CLOSED, Attacker
from opentalos.wire.kafka.apis import SIZE, ApiKey, api_of, read_response, write_request
from opentalos.wire.kafka.codec import Cursor
from opentalos.wire.kafka.spec import KafkaStruct

CODES = 1_000  # what is counted for an answer is this and its error code
UNREAD = 3_000  # counted for an answer that nobody decodes
ANSWER_S = 0.5  # waited for an answer
_DECODED_BYTES = 4_096  # longer answers would keep the attacker busy, but for a link's first
_READ_BYTES = 1 << 16

for _key in ApiKey:
    api_of(_key)  # which imports it; threads that import the same module at once may fail


class Request:
    """A request in bytes, which are built once. Args: fields: of the request."""

    def __init__(self, key: ApiKey, version: int, /, **fields: Any) -> None:
        self.api, self.version = api_of(key), version
        self.frame = bytes(write_request(self.api, version, self.api.request(**fields), 1, "x"))


class KafkaLink:
    """A context manager. Args: known: authenticate with the tenant's key."""

    def __init__(self, attacker: Attacker, *, known: bool = True) -> None:
        self._attacker = attacker
        self._received = bytearray()
        self._decoded = False  # an answer to a request that is counted
        self.open = True
        self.socket: socket.socket = attacker.connect(ANSWER_S, kafka=True)
        if known:
            pair = f"\0{attacker.key.id}\0{attacker.key.secret}".encode()
            for request in (
                Request(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN"),
                Request(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=pair),
            ):
                self.send(request.frame)
                self.frame()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send all of it, or what the other side takes in time."""
        try:
            self.socket.sendall(data)
        except OSError:
            self.open = False  # what follows a part of a frame would be read as its rest

    def ask(self, request: Request, count: int = 1) -> int | None:
        """Send the request so often at once and count the answers; what the last one was counted
        as, None: it did not come in time."""
        self.send(request.frame * count)
        last = None
        for _ in range(count):
            frame = self.frame()
            if frame is None:
                break
            unread = self._decoded and len(frame) > _DECODED_BYTES
            last = UNREAD if unread else CODES + _code_of(request, frame)
            self._decoded = True
            self._attacker.seen[last] += 1
        return last

    def frame(self) -> bytes | None:
        """The next answer; None: it did not come in time, or the connection has ended."""
        if not self._has(SIZE.size):
            return None
        end = SIZE.size + int.from_bytes(self._received[: SIZE.size], "big")
        if not self._has(end):
            return None
        frame = bytes(self._received[SIZE.size : end])
        del self._received[:end]
        return frame

    def _has(self, count: int) -> bool:
        while self.open and len(self._received) < count:
            try:
                piece = self.socket.recv(_READ_BYTES)
            except TimeoutError:
                return False
            except OSError:
                piece = b""
            self._received += piece
            if not piece:
                self.open = False
                self._attacker.seen[CLOSED] += 1
        return len(self._received) >= count


def repeat(attacker: Attacker, request: Request, count: int = 1) -> None:
    """Ask over one connection, again and again, until the deadline or its end."""
    with contextlib.suppress(OSError), KafkaLink(attacker) as link:
        while attacker.running and link.open:
            link.ask(request, count)


def _code_of(request: Request, frame: bytes) -> int:
    _, response = read_response(request.api, request.version, Cursor(frame))
    return _first_code(response) or 0


def _first_code(value: Any) -> int | None:
    if isinstance(value, list):
        return _first_code(value[0]) if value else None
    if not isinstance(value, KafkaStruct):
        return None
    code = getattr(value, "error_code", None)
    if code:
        return int(code)
    for name in value.__struct_fields__:
        if (found := _first_code(getattr(value, name))) is not None:
            return found
    return None if code is None else int(code)
