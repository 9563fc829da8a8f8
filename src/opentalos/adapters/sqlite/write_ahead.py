"""SQLite's write-ahead log, read before SQLite reads it.

SQLite ignores everything from the first frame that is wrong, and says nothing: the transaction that
a power loss tore and a flipped bit with a hundred transactions behind it look the same to it. But
each transaction is synced before the next one is written (``synchronous = FULL``), and a log's
header before its first frame. So a crash leaves bad frames in the last transaction only. What
continues the frame that ends a transaction belongs to a later one: behind a bad frame that is rot.

Shape: bytes: [header 32][frame]...; header: [magic][version][page size][checkpoints][salt x 2]
    [checksum x 2]; frame: [page number][pages of the database if it ends a transaction, else 0]
    [salt x 2][checksum x 2][page]; all u32be. The salts are the header's. A checksum covers the
    two first fields and the page, and continues the stored one of the frame before, at first the
    header's; so each frame can be checked on its own. Behind the end may be frames of earlier use,
    with other salts.
Source: docs/internals/local-disk.md#sqlite.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Final, Literal, NamedTuple

from opentalos.model.errors import CorruptLog

_HEADER: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_MAGIC: Final = 0x377F0682  # its last bit says that checksums take words as big-endian
_PAGE_BYTES: Final = tuple(1 << bit for bit in range(9, 17))
_SECTOR_BYTES: Final = 512  # disks write no less; see log/segment/damage.py
_PAGES_AT: Final = 4  # in a frame: what says whether it ends a transaction
_SUMMED_BYTES: Final = 24  # of the header
_MASK: Final = 0xFFFFFFFF
_STEP_BYTES: Final = 32  # of a checksum between two masks
_READ_BYTES: Final = 1 << 20
_READS_MAX: Final = 5  # of a log that seems to be rotten: another process may be writing it

RESTORE: Final = (
    "stop the server and restore all files of the data directory from one backup "
    "(docs/operating/single-server.md#damaged-databases)"
)

_Order = Literal["little", "big"]
_Pair = tuple[int, int]
Frames = Callable[[int], Iterable[bytes]]  # frames of so many bytes; the last may be shorter


class Cut(NamedTuple):
    """What SQLite leaves out and a crash may have left: a transaction that was not complete."""

    position: int
    frames: int


class Rot(NamedTuple):
    """What no crash leaves. ``transactions``: complete ones that SQLite would ignore, give or take
    one; 0: unknown."""

    position: int
    transactions: int


def check_log(database: Path) -> Cut | None:
    """What SQLite will leave out of the database's log; None: nothing, or there is no log.

    It must run before a connection that may be the last to close: that one deletes the log.

    Raises: CorruptLog: the log is rotten; nothing was changed. OSError.
    """
    log = database.with_name(f"{database.name}-wal")
    former: Rot | None = None
    for _ in range(_READS_MAX):
        verdict = _read(log)
        if not isinstance(verdict, Rot):
            return verdict
        if verdict == former:
            raise CorruptLog(_text(log, verdict))
        former = verdict
    return None  # it changes all the time, so it is in use, and was checked when it was opened


def judged(header: bytes, frames: Frames) -> Cut | Rot | None:
    """Judge a log by its header and its frames."""
    magic, _, page_bytes, _, salt1, salt2, sum1, sum2 = _HEADER.unpack(header)
    order: _Order = "big" if magic & 1 else "little"
    sound = magic & ~1 == _MAGIC and page_bytes in _PAGE_BYTES
    if sound and _checksum((0, 0), header[:_SUMMED_BYTES], order) == (sum1, sum2):
        chain = _Chain(order, _FRAME.size + page_bytes, (sum1, sum2), (salt1, salt2))
        return _followed(chain, frames).verdict()
    return _headless(header, frames)


def _headless(header: bytes, frames: Frames) -> Rot | None:
    """The header is wrong. It was synced before the first frame, so frames behind it prove rot;
    they are read in all ways to say what would be lost."""
    if not any(len(frame) == _FRAME.size for frame in frames(_FRAME.size)):
        return None
    orders: tuple[_Order, ...] = ("little", "big")
    stored = _HEADER.unpack(header)[6:]
    lost = 0
    for order, page_bytes in product(orders, _PAGE_BYTES):
        for seal in (stored, _checksum((0, 0), header[:_SUMMED_BYTES], order)):
            chain = _Chain(order, _FRAME.size + page_bytes, seal, None)
            lost = max(lost, _followed(chain, frames).transactions)
    return Rot(0, lost)


def _followed(chain: "_Chain", frames: Frames) -> "_Chain":
    for frame in frames(chain.frame_bytes):
        chain.take(frame)
    return chain


class _Chain:
    """Follows the checksums from frame to frame, also past a bad one.

    Without the header's ``salts`` a frame must have those of the frame before.
    """

    def __init__(self, order: _Order, frame_bytes: int, seal: _Pair, salts: _Pair | None) -> None:
        self.frame_bytes = frame_bytes
        self._order, self._salts = order, salts
        self._former_salts = salts
        self._stored = seal  # of the frame before
        self._seals = {seal}  # what the checksum of the next frame may continue
        self._position = _HEADER.size
        self._complete = _HEADER.size  # up to here SQLite uses the log
        self._left_out = 0  # frames behind it with the header's salts
        self._bad: int | None = None if salts else 0
        self._end = b""  # the frame before, if it surely ends a transaction
        self._later = 0  # transactions that begin behind an end at or behind the bad frame
        self._ended = False  # so does the last of them end

    def take(self, frame: bytes) -> None:
        """The next frame; the last one of a file may be cut short."""
        position, self._position = self._position, self._position + len(frame)
        if len(frame) < self.frame_bytes:
            if len(frame) >= _FRAME.size:
                self._left_out += _FRAME.unpack_from(frame)[2:4] == self._salts
            return
        page, pages, *fields = _FRAME.unpack_from(frame)
        salts, stored = (fields[0], fields[1]), (fields[2], fields[3])
        whole = page > 0 and salts == (self._former_salts or salts) and self._continues(frame)
        seals, sure = {stored}, whole
        if whole and self._bad is not None and self._begins(frame):
            self._later, self._ended = self._later + 1, False
        if not whole:
            # Bytes of one sector were written together: if the next frame continues from its
            # checksum, a frame that says so there ends a transaction, whatever its page is.
            first, last = position + _PAGES_AT, position + _FRAME.size - 1
            sure = first // _SECTOR_BYTES == last // _SECTOR_BYTES
            if self._bad is None:
                self._bad = position
                flip = _one_flip(frame, self._stored, self._salts or salts, self._order)
                if flip is not None:
                    whole = sure = True
                    pages, seals = pages or flip.pages, {stored, flip.seal}
        if pages and whole and self._bad is None:
            self._complete, self._left_out = self._position, 0
        else:
            self._left_out += salts == self._salts
        self._ended |= pages > 0 and whole and self._bad is not None
        self._end = frame if pages and sure else b""
        self._stored, self._seals = stored, seals
        self._former_salts = self._salts or salts

    def _continues(self, frame: bytes) -> bool:
        stored = _FRAME.unpack_from(frame)[4:]
        return any(_checksum_of(frame, seal, self._order) == stored for seal in self._seals)

    def _begins(self, frame: bytes) -> bool:
        """Whether the frame before ended another transaction. Where a disk may damage neighbours of
        what it writes, SQLite repeats the last frame up to the sector's end."""
        end = self._end
        return bool(end) and (end[:8], end[_FRAME.size :]) != (frame[:8], frame[_FRAME.size :])

    @property
    def transactions(self) -> int:
        """Complete ones that end at or behind the first bad frame."""
        return self._later + self._ended

    def verdict(self) -> Cut | Rot | None:
        """What a log with a sound header is."""
        if self._later and self._bad is not None:
            return Rot(self._bad, self.transactions)
        return Cut(self._complete, self._left_out) if self._left_out else None


class _Flip(NamedTuple):
    """What a frame says with one flipped bit put right, if that bit is in these fields."""

    pages: int
    seal: _Pair


def _one_flip(frame: bytes, seal: _Pair, salts: _Pair, order: _Order) -> _Flip | None:
    """A frame that is whole but for one flipped bit, which a torn one is hardly ever.

    A bit in the n-th word from the end changes the two sums by the n-th and the following Fibonacci
    number, times the bit. High bits of several words change them alike, so which bit it was is not
    known.
    """
    _, pages, *fields = _FRAME.unpack_from(frame)
    stored, found = (fields[2], fields[3]), _checksum_of(frame, seal, order)
    wrong_salts = (fields[0] ^ salts[0]).bit_count() + (fields[1] ^ salts[1]).bit_count()
    if found == stored or wrong_salts:
        return _Flip(pages, stored) if found == stored and wrong_salts == 1 else None
    wrong_sums = (found[0] ^ stored[0]).bit_count() + (found[1] ^ stored[1]).bit_count()
    flip = _Flip(pages, found) if wrong_sums == 1 else None
    off = (stored[0] - found[0]) & _MASK, (stored[1] - found[1]) & _MASK
    words = _words(frame[:8] + frame[_FRAME.size :], order)
    weights = 0, 1
    for index in range(len(words) - 1, -1, -1):
        for bit in range(32):
            change = -(1 << bit) if words[index] >> bit & 1 else 1 << bit
            if (change * weights[0] & _MASK, change * weights[1] & _MASK) == off:
                flip = flip or _Flip(pages, stored)
                if index == 1:
                    right = (words[index] ^ 1 << bit).to_bytes(4, order)
                    flip = flip._replace(pages=int.from_bytes(right, "big"))
        weights = weights[1], (weights[0] + weights[1]) & _MASK
    return flip


def _checksum_of(frame: bytes, seal: _Pair, order: _Order) -> _Pair:
    return _checksum(_checksum(seal, frame[:8], order), frame[_FRAME.size :], order)


def _checksum(seal: _Pair, content: bytes, order: _Order) -> _Pair:
    sum1, sum2 = seal
    words = iter(_words(content, order))
    for _ in range(len(content) % _STEP_BYTES // 8):
        sum1 += next(words) + sum2
        sum2 += next(words) + sum1
    for a, b, c, d, e, f, g, h in zip(*[words] * 8, strict=True):  # a mask costs as much as a sum
        sum1 += a + sum2
        sum2 += b + sum1
        sum1 += c + sum2
        sum2 += d + sum1
        sum1 += e + sum2
        sum2 += f + sum1
        sum1 = (sum1 + g + sum2) & _MASK
        sum2 = (sum2 + h + sum1) & _MASK
    return sum1 & _MASK, sum2 & _MASK


def _words(content: bytes, order: _Order) -> tuple[int, ...]:
    return struct.unpack(f"{'<' if order == 'little' else '>'}{len(content) // 4}I", content)


def _read(log: Path) -> Cut | Rot | None:
    try:
        with log.open("rb", buffering=_READ_BYTES) as file:
            header = file.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return None

            def frames(frame_bytes: int) -> Iterator[bytes]:
                file.seek(_HEADER.size)
                return iter(lambda: file.read(frame_bytes), b"")

            return judged(header, frames)
    except FileNotFoundError:
        return None


def _text(log: Path, rot: Rot) -> str:
    lost = f"about {rot.transactions}" if rot.transactions else "an unknown number of"
    return (
        f"{log} is damaged at position {rot.position}: SQLite would ignore everything from there "
        f"on, {lost} committed transactions; {RESTORE}"
    )
