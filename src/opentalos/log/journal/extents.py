"""Bytes of a segment that its file does not hold yet, or may not hold durably. Pure.

Readers see the file with these bytes laid over it, so nobody else need know where a byte is.
"""

from bisect import bisect_right
from operator import itemgetter

_POSITION = itemgetter(0)


class Extents:
    """Pieces of one segment in the order of their positions; they do not overlap."""

    __slots__ = ("_pieces", "bytes")

    def __init__(self) -> None:
        self._pieces: list[tuple[int, bytes]] = []
        self.bytes = 0

    @property
    def start(self) -> int | None:
        """Position of the first byte; None: there is none."""
        return self._pieces[0][0] if self._pieces else None

    @property
    def end(self) -> int:
        """Position after the last byte; 0: there is none."""
        if not self._pieces:
            return 0
        position, data = self._pieces[-1]
        return position + len(data)

    def add(self, position: int, data: bytes) -> None:
        """Append bytes. Raises: ValueError: they do not lie behind what is here."""
        if position < self.end:
            raise ValueError(f"bytes at {position}, but {self.end} is reached")
        if data:
            self._pieces.append((position, data))
            self.bytes += len(data)

    def drop_below(self, position: int) -> None:
        """Forget the pieces that end at or before the position."""
        count = 0
        for start, data in self._pieces:
            if start + len(data) > position:
                break
            count += 1
            self.bytes -= len(data)
        if count:
            self._pieces = self._pieces[count:]  # another list: see ``as_now``

    def as_now(self) -> "Extents":
        """What is here at this moment, for a reader that waits for the file meanwhile.

        What is appended later may be in it too; what is dropped later stays in it.
        """
        now = Extents()
        now._pieces, now.bytes = self._pieces, self.bytes
        return now

    def copied(self) -> "Extents":
        """The same, to which others may be added."""
        copy = self.as_now()
        copy._pieces = list(self._pieces)
        return copy

    def joined(self) -> bytes:
        """All bytes, where they follow each other without a gap."""
        return b"".join([data for _, data in self._pieces])

    def first_gap(self, length: int) -> int | None:
        """Where bytes are missing, if a file of ``length`` bytes lies below; None: nowhere."""
        reached = length
        for position, data in self._pieces:
            if position > reached:
                return reached
            reached = max(reached, position + len(data))
        return None

    def laid_over(self, raw: bytes, position: int, bytes_max: int) -> bytes:
        """``raw``, read at ``position`` from the file, with these bytes over and behind it."""
        stop = position + bytes_max
        at = max(bisect_right(self._pieces, position, key=_POSITION) - 1, 0)
        whole = bytearray(raw)
        for start, data in self._pieces[at:]:
            if start >= stop or start > position + len(whole):
                break
            begin = max(start, position)
            taken = data[begin - start : stop - start]
            whole[begin - position : begin - position + len(taken)] = taken
        return bytes(whole)
