"""One connection of a Kafka client: frames in, calls in order, responses in order.

Requests are handled one at a time, as clients expect; only those that say so (Produce) begin while
others of their kind are under way, so that one connection fills the log's groups. Everything that
waits is bounded: reading pauses beyond ``PIPELINE_MAX`` requests, and before a request that does
not fit into the memory of the port. While the loop is busy, tenants start requests in turn.
"""

import asyncio
import logging
import math
import struct
from collections import deque
from functools import partial
from typing import cast

from opentalos.gateway.http.fairness.pacing import PASS_BYTES, PacedWriter
from opentalos.gateway.http.fairness.pool import Hold
from opentalos.gateway.http.fairness.turns import STARTS_A_TURN, TURN_S
from opentalos.gateway.kafka.call import CallStart, KafkaCall, session_of
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.model.identity import Principal
from opentalos.model.settings.kafka import UNKNOWN_BYTES_MAX
from opentalos.wire.kafka.codec import KafkaFormatError

# Requests before reading pauses. After a stall of the loop hundreds of small ones wait in the
# socket, and the more of them begin together, the fewer commits they take.
PIPELINE_MAX = 32
_COPIED_BYTES = 64 << 10
# A request with at least so much to come is read to where it stays; what is smaller is copied.
_IN_PLACE_BYTES = 64 << 10
# Nor is a larger one: its memory would be cleared, which holds the loop, for a few bytes sent.
_IN_PLACE_BYTES_MAX = 4 << 20
_FEW_ITEMS = 256  # of a request, whose memory does not count
_ITEM_BYTES = 200  # that an item takes
_SIZE = struct.Struct(">i")

_log = logging.getLogger("opentalos.kafka")

Pieces = list[bytes | bytearray | memoryview]


class _Pending:
    """A request from its frame to its response. ``hold``: the memory that it takes; ``items``:
    that its items take, if they are many."""

    __slots__ = ("call", "hold", "items", "pieces")

    def __init__(self, hold: Hold) -> None:
        self.hold = hold
        self.items: Hold | None = None
        self.call: KafkaCall | None = None
        self.pieces: Pieces | None = None  # None: not answered yet


class KafkaConnection(PacedWriter, asyncio.BufferedProtocol):
    """The protocol object of one accepted connection."""

    # Of all connections: the loop reads into it and copies what came before it reads again.
    _shared = memoryview(bytearray(_COPIED_BYTES))

    def __init__(self, port: KafkaPort, gateway: CallStart) -> None:
        self._port, self._gateway = port, gateway
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self.deadline_s, self.network = math.inf, ""
        self._login_by_s = self._loop.time() + port.settings.request_timeout_s
        self._received: list[bytes | memoryview] = []  # of the frame under way, and behind it
        self._count = 0  # bytes of it
        self._large: memoryview | None = None  # the frame under way, if its rest is read in place
        self._reserved: _Pending | None = None  # memory for the frame under way
        self._waiting: deque[tuple[memoryview, _Pending]] = deque()
        self._under_way: deque[_Pending] = deque()
        self._alone = False  # beside the one under way none may begin
        self._needs_room = False  # the port resumes it
        self._left_unread = 0  # when the client was last seen to read
        self._stalled = self._paused = self._ending = self._starting = self._partial = False
        self._sends_soon = self._awaits_turn = self._cut_short = False
        self._decoding: asyncio.Task[KafkaCall] | None = None  # of the first request that waits
        self._counted: Principal | None = None  # for whose tenant it is counted

    @property
    def tenant(self) -> str:
        """Whose memory the requests take; a guest, and who is not known yet, counts by address."""
        return self.session.tenant

    @property
    def stranger(self) -> bool:
        """Whether the client has not authenticated."""
        return not self.session.authenticated

    # --- transport callbacks -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or cut it when there are too many."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.session = session_of(self._transport, tls=self._port.tls is not None)
        self.network = self.session.network
        self.party = self.tenant
        self._await_request()
        if not self._port.admit(self):
            self.abort()
            return
        self._gateway.admit(self.session, transport.get_extra_info("peercert"))
        self._look_who()

    def connection_lost(self, exc: Exception | None) -> None:
        """Those that only read are given up, others complete; their responses are discarded."""
        self._transport = None
        if self._paced is not None:
            self._paced.lost()
        self.deadline_s = math.inf
        self._drop_waiting()
        self._received.clear()
        self._large = None
        if self._decoding is not None:
            self._decoding.cancel()
        self._port.forget(self)
        self._give_up()
        self.session.close()

    def _look_who(self) -> None:
        """Count the connection for its tenant once the client has authenticated, or is a guest.

        A guest for whom there is no place has to authenticate: it may be an administrator.
        """
        session = self.session
        if not session.authenticated or session.ends or session.caller is self._counted:
            return
        if self._port.is_known(self, admin=session.caller.admin):
            self._counted = session.caller
            if self._needs_room:  # of its tenant's memory there may be some
                self.resume()
        elif session.caller.anonymous:
            session.authenticated = False
        else:
            session.ends = True
            self._drop_waiting()
            self._refuse("its tenant has too many connections")

    def eof_received(self) -> bool:
        """Nearly all clients that end their side are gone; an answer under way is sent."""
        if self._port.tls is None and self._paced is not None and self._unread():
            self._close()
            return True
        return False

    def _stall(self) -> None:
        """The client does not read: no request is started until it does."""
        self._stalled = True
        self._await_reading()
        if self._transport is not None:
            self._port.is_unread(self, self._unread())

    def _unstall(self) -> None:
        """The client caught up."""
        self._stalled = False
        self._port.is_read(self)
        self._set_deadline()
        self._pump()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._shared if self._large is None else self._large[self._count :]

    def buffer_updated(self, nbytes: int) -> None:
        """Cut frames out of the stream."""
        if self._ending:
            return
        self._count += nbytes
        if self._large is None:
            self._received.append(bytes(self._shared[:nbytes]))
        elif self._count < len(self._large):
            return
        else:
            self._received.append(self._large.toreadonly())
            self._large = None
        if not self._paused:
            self._cut()

    # --- frames ------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Queue every whole frame; reading pauses when enough of them wait."""
        while self._count >= _SIZE.size and self._large is None and not self._ending:
            if len(self._received[0]) < _SIZE.size:
                self._received[:] = [b"".join(self._received)]
            (size,) = _SIZE.unpack_from(self._received[0])
            most = self._port.settings.request_bytes_max
            if not self.session.authenticated:
                most = min(most, UNKNOWN_BYTES_MAX)
            if not 0 < size <= most:
                self._pump()
                self._refuse(f"a request of {size} bytes, need 1 to {most}")
                return
            # What waits is started all the same: nothing else would, and reading never go on.
            if len(self._waiting) + len(self._under_way) >= PIPELINE_MAX:
                self._pause()
                break
            if self._reserved is None and not self._reserve(size):
                break
            end = size + _SIZE.size
            if self._count < end:
                self._await_rest()
                if size <= _IN_PLACE_BYTES_MAX and end - self._count >= _IN_PLACE_BYTES:
                    self._read_in_place(end)
                break
            self._queue(end)
        if self._count < _COPIED_BYTES and self._received:
            rest = self._received[0]
            if type(rest) is memoryview:  # a copy, or a few bytes would keep all of a large request
                self._received[0] = bytes(rest)
        self._pump()

    def _reserve(self, size: int) -> bool:
        """Take memory before the bytes come; False: there is none now, and none is read."""
        hold = self._port.memory.take(self, size, only=not (self._waiting or self._under_way))
        if hold is not None:
            self._reserved = _Pending(hold)
            return True
        self._pause()
        self._needs_room = True
        self._port.memory.wait(self)
        self._set_deadline()
        return False

    def _read_in_place(self, end: int) -> None:
        """The rest of a large frame is not copied."""
        came = b"".join(self._received)
        self._large = memoryview(bytearray(end))
        self._large[: len(came)] = came
        self._received.clear()

    def _queue(self, end: int) -> None:
        pending, self._reserved = self._reserved, None
        assert pending is not None
        if len(self._received) > 1:
            self._received[:] = [b"".join(self._received)]
        whole = memoryview(self._received[0])
        frame, rest = whole[_SIZE.size : end], whole[end:]
        self._received[:] = [rest] if rest else []
        self._count -= end
        self._partial = False
        self._waiting.append((frame, pending))

    def _pause(self) -> None:
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Continue with what was received, then with reading."""
        if self._transport is None:
            return
        self._needs_room = self._partial = False
        if self._paused and not self._ending:
            self._paused = False
            self._transport.resume_reading()
        self._cut()

    # --- calls -------------------------------------------------------------------------------

    def _pump(self, *, in_turn: bool = False) -> None:
        """Start calls in order: one, or several that may overlap. In its turn one at least."""
        if self._starting or self._awaits_turn:
            return
        self._starting = True
        turns, started = self._port.turns, 0
        try:
            while self._waiting and not self._stalled and self._transport is not None:
                if not turns.shared:
                    if not self._start_next():
                        break
                    continue
                if self._alone:
                    break
                if (in_turn and started == STARTS_A_TURN and turns.turn_s == TURN_S) or (
                    turns.load_s > TURN_S and (started or not in_turn) and turns.is_full()
                ):
                    self._awaits_turn, self.deadline_s = True, math.inf  # not the client's turn
                    turns.wait(self)
                    break
                began_s, started = turns.clock(), started + 1
                has_started = self._start_next()
                turns.spent(began_s, self.party)
                if not has_started:
                    break
        finally:
            self._starting = False

    def take_turn(self) -> None:
        """Start what waited for it; at least one request."""
        self._awaits_turn = False
        self._pump(in_turn=True)

    def _start_next(self) -> bool:
        """False: it has to wait, or the connection ends."""
        if self.session.ends or self._decoding is not None:
            return False
        frame, pending = self._waiting[0]
        if pending.call is None:
            # The caller of a request is who it is once those before it are answered.
            if self._alone:
                return False
            try:
                pending.call = self._gateway.decode(frame, self.session, self)
            except KafkaFormatError as error:
                self._drop_waiting()
                self._refuse(str(error))
                return False
            if pending.call is None:
                self.deadline_s = math.inf  # it is not the client's turn
                decode = self._gateway.decode_long(frame, self.session, self)
                self._decoding = self._loop.create_task(decode)
                self._decoding.add_done_callback(partial(self._decoded, pending))
                return False
        if pending.call.items > _FEW_ITEMS and not self._hold_items(pending, pending.call.items):
            return False
        overlaps = self._gateway.overlaps(pending.call)
        if self._alone or (self._under_way and not overlaps):
            return False
        self._waiting.popleft()
        self._under_way.append(pending)
        self._alone = not overlaps
        self.deadline_s = math.inf
        self._gateway.start(pending.call)
        return True

    def _decoded(self, pending: _Pending, task: asyncio.Task[KafkaCall]) -> None:
        """The first request that waits was decoded, unless the connection dropped it meanwhile."""
        self._decoding = None
        error = None if task.cancelled() else task.exception()
        if not self._waiting or self._waiting[0][1] is not pending:
            self._release(pending)
        elif error is None:
            pending.call = task.result()
            self._pump()
        else:
            self._drop_waiting()
            self._refuse(str(error))

    def _hold_items(self, pending: _Pending, count: int) -> bool:
        """Take the memory of a request's items; False: there is none now."""
        if pending.items is None:
            pending.items = self._port.memory.take_items(self, count * _ITEM_BYTES)
            if pending.items is None and not self._needs_room:  # else it waits already
                self._needs_room = True
                self._port.memory.wait(self)
        return pending.items is not None

    def answered(self, call: KafkaCall, pieces: Pieces) -> None:
        """A call was answered. What a pass of the loop answers is sent at its end, in one write,
        and what may begin then begins together and shares commits."""
        for pending in self._under_way:
            if pending.call is call:
                pending.pieces = pieces
                break
        if not self._sends_soon:
            self._sends_soon = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        """Send what is next in order, then start what waited for that."""
        self._sends_soon = False
        under_way = self._under_way
        out: Pieces = []
        while under_way and under_way[0].pieces is not None:
            pending = under_way.popleft()
            self._alone = False  # if one was alone, it was this one
            if not self._cut_short:
                out += pending.pieces or []
                # Answers behind one that is left out would be taken for it.
                self._cut_short = self.session.ends and not pending.pieces
            self._release(pending)
        if self._transport is None:
            return
        if out:
            # While the loop's buffer is full, its end would be reported to nobody.
            if self._paced is None and not self._stalled and sum(map(len, out)) > PASS_BYTES:
                self._transport = self._pace(self._transport, self._port.turns)
            self._transport.writelines(out)
            if self._stalled:
                self._port.is_unread(self, self._unread())
        self._look_who()
        if self.session.ends and not self._ending:
            self._ending = True
            self._drop_waiting()
        if not under_way and not self._waiting and (self._ending or self._port.draining):
            self._close()
            return
        self._set_deadline()
        self._pump()
        if (
            self._paused
            and not self._needs_room
            and len(self._waiting) + len(under_way) < PIPELINE_MAX
        ):
            self.resume()

    # --- deadlines and ending ------------------------------------------------------------------

    def _set_deadline(self) -> None:
        """What the client has to do next, and by when."""
        if self._stalled:
            return  # it has to read
        if self._under_way or self._waiting or self._needs_room:
            self.deadline_s = math.inf  # it is not the client's turn
        elif self._count:
            self._partial = False
            self._await_rest()
        else:
            self._await_request()

    def _await_request(self) -> None:
        self.deadline_s = self._loop.time() + self._port.settings.idle_timeout_s
        if not self.session.authenticated:
            self.deadline_s = min(self.deadline_s, self._login_by_s)

    def _await_rest(self) -> None:
        """From the first bytes on: a client that sends one at a time gains nothing."""
        if not (self._partial or self._under_way or self._waiting or self._stalled):
            self.deadline_s = self._loop.time() + self._port.settings.request_timeout_s
            self._partial = True

    def _await_reading(self) -> None:
        self._left_unread = self._unread()
        self.deadline_s = self._loop.time() + self._port.settings.write_stall_s

    def _unread(self) -> int:
        """Bytes of answers that the client has not taken."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _refuse(self, reason: str) -> None:
        """The stream is broken: nothing more is read, what is under way is answered."""
        self._port.refused += 1
        _log.info("closing a connection: %s", reason, extra={"peer": self.session.peer})
        self.drain(refused=True)

    def expire(self) -> None:
        """The client is idle, too slow with a request, or does not read."""
        if self._stalled and self._unread() < self._left_unread:
            self._await_reading()  # slowly, but it reads
            return
        self._port.cut += 1
        self.abort()

    def look(self) -> None:
        """End, after the requests under way, once the client's key or principal is gone."""
        reason = self.session.look()
        if reason:
            self._drop_waiting()
            self._refuse(reason)

    def drain(self, *, refused: bool = False) -> None:
        """Close at once if idle, else after the requests under way; those that wait end early."""
        self._ending = self._ending or refused
        if not refused:
            self._give_up()
        if self._transport is not None and not (
            self._under_way or (self._waiting and (self._awaits_turn or self._decoding is not None))
        ):
            self._close()

    def _close(self) -> None:
        """Once the client has read what it is owed, within a time."""
        if self._transport is not None:
            self._ending = True
            self._await_reading()
            self._transport.close()

    def _give_up(self) -> None:
        """Nobody will read the answers of calls under way."""
        for pending in list(self._under_way):
            if pending.call is not None and pending.call.gone is not None:
                pending.call.gone()

    def _drop_waiting(self) -> None:
        """Return the memory of what will not be started."""
        waiting = [pending for _, pending in self._waiting]
        self._waiting.clear()
        if self._decoding is not None:
            del waiting[:1]  # whoever decodes it keeps its bytes until then
        if self._reserved is not None:
            waiting.append(self._reserved)
            self._reserved = None
        for pending in waiting:
            self._release(pending)

    def _release(self, pending: _Pending) -> None:
        self._port.memory.release(pending.hold)
        if pending.items is not None:
            self._port.memory.release(pending.items)

    def abort(self) -> None:
        """Cut the connection without waiting."""
        self._ending = True
        if self._transport is not None:
            self._transport.abort()
