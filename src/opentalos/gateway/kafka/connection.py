"""One connection of a Kafka client: frames in, calls in order, responses in order.

Requests are handled one at a time, as clients expect; only those that say so (Produce) begin while
others of their kind are under way, so that one connection fills the log's groups. Everything that
waits is bounded: reading pauses beyond ``PIPELINE_MAX`` requests, and before a request that does
not fit into the memory of the port.
"""

import asyncio
import logging
import math
import struct
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol, cast

from opentalos.gateway.kafka.call import ClientSession, KafkaCall
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.model.address import is_local, network_of
from opentalos.model.errors import InvalidCredential
from opentalos.wire.kafka.codec import KafkaFormatError

PIPELINE_MAX = 16  # requests before reading pauses
UNKNOWN_BYTES_MAX = 64 << 10  # of a request before the client has authenticated
_SIZE = struct.Struct(">i")

_log = logging.getLogger("opentalos.kafka")

Pieces = list[bytes | bytearray | memoryview]


class CallStart(Protocol):
    """Decodes and starts calls; ``gateway.py`` does."""

    def decode(
        self, frame: memoryview, session: ClientSession, connection: "KafkaConnection"
    ) -> KafkaCall:
        """The call of a frame. Raises: KafkaFormatError."""

    def admit(self, session: ClientSession, found: Mapping[str, Any] | None) -> None:
        """Say who a client with this certificate is, before it authenticates."""

    def overlaps(self, call: KafkaCall) -> bool:
        """Whether it may begin while calls of its kind are under way."""

    def start(self, call: KafkaCall) -> None:
        """Begin it; it answers itself."""


class _Pending:
    """A request from its frame to its response."""

    __slots__ = ("bytes", "call", "pieces")

    def __init__(self, count: int) -> None:
        self.bytes = count
        self.call: KafkaCall | None = None
        self.pieces: Pieces | None = None  # None: not answered yet


class KafkaConnection(asyncio.Protocol):
    """The protocol object of one accepted connection."""

    def __init__(self, port: KafkaPort, gateway: CallStart) -> None:
        self._port, self._gateway = port, gateway
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.deadline_s, self.network = math.inf, ""
        self._received: list[bytes | memoryview] = []  # of the frame under way, and behind it
        self._count = 0  # bytes of it
        self._waiting: deque[tuple[memoryview, _Pending]] = deque()
        self._under_way: deque[_Pending] = deque()
        self._stalled = self._paused = self._ending = self._starting = self._partial = False

    # --- transport callbacks -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or cut it when there are too many."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        name = transport.get_extra_info("peername")
        peer = str(name[0]) if isinstance(name, tuple) and name else ""
        self.network = network_of(peer)
        local = is_local(peer, transport.get_extra_info("sockname"))
        private = self._port.tls is not None or local
        self.session = ClientSession(peer=peer, network=self.network, private=private)
        self._await_request()
        if not self._port.admit(self):
            self.abort()
            return
        self._gateway.admit(self.session, transport.get_extra_info("peercert"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Requests under way complete; their responses are discarded."""
        self._transport = None
        self.deadline_s = math.inf
        for _, pending in self._waiting:
            self._port.release(pending.bytes)
        self._waiting.clear()
        self._received.clear()
        self._port.forget(self)

    def eof_received(self) -> bool:
        """A client that has ended its side wants no responses."""
        return False

    def pause_writing(self) -> None:
        """The client does not read: no request is started until it does."""
        self._stalled = True
        self._await_reading()

    def resume_writing(self) -> None:
        """The client caught up."""
        self._stalled = False
        self._pump()

    def data_received(self, data: bytes) -> None:
        """Cut frames out of the stream."""
        if self._ending:
            return
        if not self._count:
            self._partial = False
        self._received.append(data)
        self._count += len(data)
        self._cut()

    # --- frames ------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Queue every whole frame; reading pauses when enough of them wait."""
        while self._count >= _SIZE.size and not self._ending:
            if len(self._received[0]) < _SIZE.size:
                self._received[:] = [b"".join(self._received)]
            (size,) = _SIZE.unpack_from(self._received[0])
            most = self._port.settings.request_bytes_max
            if not self.session.authenticated:
                most = min(most, UNKNOWN_BYTES_MAX)
            if not 0 < size <= most:
                self._refuse(f"a request of {size} bytes, need 1 to {most}")
                return
            end = size + _SIZE.size
            if self._count < end:
                self._await_rest()
                break
            # What waits is started all the same: nothing else would, and reading never go on.
            if len(self._waiting) + len(self._under_way) >= PIPELINE_MAX:
                self._pause()
                break
            if not self._port.take(size):
                self._pause()
                self._port.wait_for_room(self)
                break
            self._queue(end)
        self._pump()

    def _queue(self, end: int) -> None:
        if len(self._received) > 1:
            self._received[:] = [b"".join(self._received)]
        whole = memoryview(self._received[0])
        frame, rest = whole[_SIZE.size : end], whole[end:]
        self._received[:] = [rest] if rest else []
        self._count -= end
        self._partial = False
        self._waiting.append((frame, _Pending(end - _SIZE.size)))

    def _pause(self) -> None:
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Continue with what was received, then with reading."""
        if self._transport is None or self._ending:
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._cut()

    # --- calls -------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start calls in order: one, or several that may overlap."""
        if self._starting:
            return
        self._starting = True
        while self._waiting and not self._stalled and self._transport is not None:
            frame, pending = self._waiting[0]
            try:
                pending.call = pending.call or self._gateway.decode(frame, self.session, self)
            except KafkaFormatError as error:
                self._refuse(str(error))
                break
            if self._under_way and not self._may_overlap(pending.call):
                break
            self._waiting.popleft()
            self._under_way.append(pending)
            self.deadline_s = math.inf
            self._gateway.start(pending.call)
        self._starting = False

    def _may_overlap(self, call: KafkaCall) -> bool:
        overlaps = self._gateway.overlaps
        others = (pending.call for pending in self._under_way)
        return overlaps(call) and all(other and overlaps(other) for other in others)

    def answered(self, call: KafkaCall, pieces: Pieces) -> None:
        """A call was answered; send what is next in order."""
        under_way = self._under_way
        for pending in under_way:
            if pending.call is call:
                pending.pieces = pieces
                break
        out: Pieces = []
        while under_way and under_way[0].pieces is not None:
            pending = under_way.popleft()
            out += pending.pieces or []
            self._port.release(pending.bytes)
        if self._transport is None:
            return
        if out:
            self._transport.writelines(out)
        if not under_way and not self._waiting:
            if self._ending or self.session.ends or self._port.draining:
                self._transport.close()
                return
            self._await_request()
        self._pump()
        if self._paused and len(self._waiting) + len(under_way) < PIPELINE_MAX:
            self.resume()

    # --- deadlines and ending ------------------------------------------------------------------

    def _await_request(self) -> None:
        self.deadline_s = self._loop.time() + self._port.settings.idle_timeout_s

    def _await_rest(self) -> None:
        """From the first bytes on: a client that sends one at a time gains nothing."""
        if not (self._partial or self._under_way or self._waiting):
            self.deadline_s = self._loop.time() + self._port.settings.request_timeout_s
            self._partial = True

    def _await_reading(self) -> None:
        self.deadline_s = self._loop.time() + self._port.settings.write_stall_s

    def _refuse(self, reason: str) -> None:
        """The stream is broken: nothing more is read, what is under way is answered."""
        self._port.refused += 1
        _log.info("closing a connection: %s", reason, extra={"peer": self.session.peer})
        self.drain(refused=True)

    def expire(self) -> None:
        """The client is idle, too slow with a request, or does not read."""
        self._port.cut += 1
        self.abort()

    def look(self) -> None:
        """End, after the requests under way, once the client's key or principal is gone.

        One that has expired may still be followed by another, which clients send before their next
        request; ``check_session`` refuses any other.
        """
        session = self.session
        expired = 0.0 < session.ends_s <= time.time()
        if session.check is None or session.ends or expired:
            return
        try:
            session.caller = session.check()
        except InvalidCredential as error:
            session.ends = True
            self._refuse(str(error))

    def drain(self, *, refused: bool = False) -> None:
        """Close at once if idle, else after the requests under way."""
        self._ending = self._ending or refused
        if self._transport is not None and not self._under_way:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection without waiting."""
        self._ending = True
        if self._transport is not None:
            self._transport.abort()
