"""A proxy before a real Kafka that keeps requests and answers, and can hide its later versions."""

import contextlib
import socket
import threading
from collections import deque
from dataclasses import dataclass

from opentalos.wire.kafka.apis import SIZE, ApiKey, api_of, read_header, read_response
from opentalos.wire.kafka.apis import write_response as write
from opentalos.wire.kafka.codec import Cursor

HOST = "127.0.0.1"
FRAME_BYTES_MAX = 1 << 24
PENDING_MAX = 1_000  # requests of a connection without an answer
KEPT_BYTES_MAX = 6_000  # longer exchanges show nothing more
NO_ANSWER_ACKS = b"\x00\x00"


@dataclass(frozen=True)
class Exchange:
    """A request and its answer, each without its size."""

    key: ApiKey
    version: int
    client: str
    request: bytes
    response: bytes


class Recorder:
    """What was heard, and how the proxies behave."""

    def __init__(self) -> None:
        self.client = ""  # who connects now
        self.above_first: int | None = None  # versions shown after the first of a key; None: all
        self.exchanges: list[Exchange] = []
        self._lock = threading.Lock()

    def keep(self, exchange: Exchange) -> None:
        """Add one, unless it is long."""
        if len(exchange.request) + len(exchange.response) <= KEPT_BYTES_MAX:
            with self._lock:
                self.exchanges.append(exchange)

    def shown(self, exchange: Exchange) -> bytes:
        """The answer for the client: of ApiVersions with fewer versions, if so set."""
        if exchange.key is not ApiKey.API_VERSIONS or self.above_first is None:
            return exchange.response
        api = api_of(exchange.key)
        number, answer = read_response(api, exchange.version, Cursor(exchange.response))
        for entry in answer.api_keys:
            entry.max_version = min(entry.max_version, entry.min_version + self.above_first)
        return bytes(write(api, exchange.version, number, answer)[SIZE.size :])


class Link:
    """One connection of a client and ours behind it."""

    def __init__(self, recorder: Recorder, client: socket.socket, server: socket.socket) -> None:
        self._recorder, self._client, self._server = recorder, client, server
        self._name = recorder.client
        self._pending: deque[tuple[int, int, bytes]] = deque(maxlen=PENDING_MAX)
        self._raw = 0  # frames that have no header: a mechanism's own
        for source in (self._requests, self._responses):
            threading.Thread(target=self._run, args=(source,), daemon=True).start()

    def _run(self, pump: object) -> None:
        with contextlib.suppress(OSError, EOFError):
            assert callable(pump)
            pump()
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _requests(self) -> None:
        while True:
            frame = read_frame(self._client)
            if self._raw:
                self._raw -= 1
            else:
                header = read_header(Cursor(frame))
                if not (header.api_key == ApiKey.PRODUCE and acks_none(frame)):
                    self._pending.append((header.api_key, header.version, frame))
                if (header.api_key, header.version) == (ApiKey.SASL_HANDSHAKE, 0):
                    self._raw = 1
            self._server.sendall(SIZE.pack(len(frame)) + frame)

    def _responses(self) -> None:
        while True:
            frame = read_frame(self._server)
            if self._pending:
                key, version, request = self._pending[0]
                if request[4:8] == frame[:4]:
                    self._pending.popleft()
                    with contextlib.suppress(ValueError):
                        known = ApiKey(key)
                        exchange = Exchange(known, version, self._name, request, frame)
                        self._recorder.keep(exchange)
                        frame = self._recorder.shown(exchange)
            self._client.sendall(SIZE.pack(len(frame)) + frame)


def acks_none(frame: bytes) -> bool:
    """Whether a Produce request asks for no answer. Its transactional id is null then."""
    cursor = Cursor(frame)
    read_header(cursor)
    at = cursor.position + 2  # a null of two bytes; from version 9 on no tags and a null of one
    return frame[at : at + 2] == NO_ANSWER_ACKS


def read_frame(source: socket.socket) -> bytes:
    """One frame. Raises: EOFError, OSError."""
    (size,) = SIZE.unpack(read_exactly(source, SIZE.size))
    if not 0 <= size <= FRAME_BYTES_MAX:
        raise EOFError
    return read_exactly(source, size)


def read_exactly(source: socket.socket, count: int) -> bytes:
    """So many bytes. Raises: EOFError."""
    out = bytearray()
    while len(out) < count:
        part = source.recv(count - len(out))
        if not part:
            raise EOFError
        out += part
    return bytes(out)


class Proxy:
    """Listens at ``port`` and leads to ``target``."""

    def __init__(self, recorder: Recorder, port: int) -> None:
        self._recorder, self.port, self.target = recorder, port, 0
        self._listener = socket.create_server((HOST, port))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """HOST:PORT for clients."""
        return f"{HOST}:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((HOST, self.target))
            except OSError:
                client.close()
                continue
            Link(self._recorder, client, server)

    def close(self) -> None:
        """Take no more connections."""
        self._listener.close()
