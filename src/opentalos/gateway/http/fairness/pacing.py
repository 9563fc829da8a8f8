"""PacedTransport: passes a large answer to the socket in pieces, which take turns.

One call of the system would copy all that the socket takes: 10 MB to a client on the same machine
are 15 ms of the loop. So a pass has ``PASS_BYTES`` of one connection while others have some, too.
A loop's TLS transport also passes all data on as soon as the socket accepts anything, and then
reports nothing as unsent, so a client that does not read would go unnoticed. Here what was not
passed on counts as unsent.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from opentalos.gateway.http.fairness.turns import Turns

PIECE_BYTES = 128 << 10  # passed to the loop at once; bounds what it may hold unnoticed
PASS_BYTES = 4 * PIECE_BYTES  # of a connection in one pass of the loop: 0.3 to 0.8 ms


class _Around(asyncio.Transport):
    """Everything but writing is the transport's own."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport

    def write_eof(self) -> None:
        """Of the transport."""
        self._transport.write_eof()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the transport."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Of the transport."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Of the transport."""
        self._transport.resume_reading()


class PacedTransport(_Around):
    """Writes to ``transport`` while it has room, and keeps the rest.

    ``paused`` and ``resumed`` are called like the protocol's ``pause_writing`` and
    ``resume_writing``.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        turns: Turns,
        party: str,
        paused: Callable[[], None],
        resumed: Callable[[], None],
    ) -> None:
        super().__init__(transport)
        self._paused, self._resumed = paused, resumed
        self._turns, self.party = turns, party
        transport.set_write_buffer_limits(high=PIECE_BYTES // 2)
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._full = False  # the loop's buffer is full
        self._reported = False  # ``paused`` was called
        self._ending = self._awaits_turn = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send at once if there is room and nothing is queued."""
        if not self._unsent and not self._full and len(data) <= PIECE_BYTES:
            self._transport.write(data)
            return
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """One after the other."""
        small: list[bytes | bytearray | memoryview] = []  # which are copied together
        count = 0
        for data in list_of_data:
            if count + len(data) > PIECE_BYTES:
                self._queue(small, count)
                count = 0
            small.append(data)
            count += len(data)
        self._queue(small, count)
        self._send()

    def _queue(self, parts: "list[bytes | bytearray | memoryview]", count: int) -> None:
        """Queue these parts, which are small or a single one, and empty the list."""
        if count:
            view = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
            for position in range(0, count, PIECE_BYTES):
                self._unsent.append(view[position : position + PIECE_BYTES])
            self._unsent_bytes += count
        parts.clear()

    def loop_full(self, full: bool) -> None:
        """The loop's buffer is full, or has room again."""
        self._full = full
        if full:
            self._report()  # within a write: nothing else may happen now
        elif self._unsent and self._turns.shared:
            self._await_turn()
        else:
            self._send()

    def take_turn(self) -> None:
        """Pass on what waited for it."""
        self._awaits_turn = False
        if self._unsent:  # else the connection was lost
            self._send()

    def _await_turn(self) -> None:
        if not self._awaits_turn:
            self._awaits_turn = True
            self._turns.wait(self)

    def lost(self) -> None:
        """Nothing can be sent any more."""
        self._unsent.clear()
        self._unsent_bytes = 0

    def _send(self) -> None:
        left = 0 if self._awaits_turn else PASS_BYTES
        while self._unsent and not self._full:
            if left <= 0 and (self._awaits_turn or self._turns.shared):
                self._await_turn()
                break
            piece = self._unsent.popleft()
            self._unsent_bytes -= len(piece)
            left -= len(piece)
            self._transport.write(piece)
        self._report()
        if self._ending and not self._unsent:
            self._transport.close()

    def _report(self) -> None:
        full = self._full or bool(self._unsent)
        if full != self._reported:
            self._reported = full
            (self._paused if full else self._resumed)()

    def get_write_buffer_size(self) -> int:
        """Unsent bytes, as far as known."""
        return self._unsent_bytes + self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Close once all is sent."""
        self._ending = True
        if not self._unsent:
            self._transport.close()

    def abort(self) -> None:
        """Cut at once."""
        self.lost()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether no more may be written."""
        return self._ending or self._transport.is_closing()

    def can_write_eof(self) -> bool:
        """Whether the sending side may end now; over TLS never."""
        return not self._unsent and self._transport.can_write_eof()


class PacedWriter(ABC):
    """A connection whose large answers leave through a PacedTransport."""

    _paced: PacedTransport | None = None  # from the first large answer on
    party: str  # whose turns it takes

    def pause_writing(self) -> None:
        """The loop's buffer is full."""
        if self._paced is None:
            self._stall()
        else:
            self._paced.loop_full(True)

    def resume_writing(self) -> None:
        """The loop's buffer has room again."""
        if self._paced is None:
            self._unstall()
        else:
            self._paced.loop_full(False)

    @abstractmethod
    def _stall(self) -> None:
        """The client does not read."""

    @abstractmethod
    def _unstall(self) -> None:
        """It reads again."""

    def _pace(self, transport: asyncio.Transport, turns: Turns) -> PacedTransport:
        """What everything is written to from now on."""
        self._paced = PacedTransport(transport, turns, self.party, self._stall, self._unstall)
        return self._paced
