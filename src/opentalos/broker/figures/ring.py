"""Series in memory: amounts by interval at several resolutions, within a fixed number of bytes.

A ring has chunks of ``CHUNK`` numbers, made when the first amount other than 0 is written, so
that a series that is rarely active costs little. ``docs/adr/0066-series-in-memory.md`` says why.
"""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from enum import Enum
from math import isnan
from typing import Final, Generic, NamedTuple, TypeVar

CHUNK: Final = 120  # numbers of 4 bytes
# What a chunk and a ring take in memory, with their entries in dicts; a test measures both.
CHUNK_BYTES: Final = 4 * CHUNK + 220
RING_BYTES: Final = 700
IDLE_SAMPLES: Final = 60  # a series that was active more recently does not make room for another
SWEEP_SAMPLES: Final = 120  # between removals of chunks that are too old


class Level(NamedTuple):
    """A resolution: how many samples an interval has, and how many intervals are kept."""

    samples: int
    points: int


# With a sample every 10 s: an hour, a day, a week.
LEVELS: Final = (Level(1, 360), Level(6, 1_440), Level(60, 1_008))
_LEVELS_MAX: Final = 4  # a key of a chunk is its number times this, plus the level


class Write(Enum):
    """What becomes of an amount that its interval has."""

    ADD = "add"
    LARGEST = "largest"
    SET = "set"


class Ring:
    """One series. An interval is numbered by its start, divided by its length."""

    __slots__ = ("_chunks", "last", "since")

    def __init__(self, since: int) -> None:
        """``since``: number of the first sample, at the finest level."""
        self.since, self.last = since, since
        self._chunks: dict[int, array[float]] = {}

    def __len__(self) -> int:
        return len(self._chunks)

    def missing(self, slots: Sequence[int]) -> int:
        """How many chunks a write at these intervals, one for each level, would make."""
        chunks = self._chunks
        return sum(
            slot // CHUNK * _LEVELS_MAX + level not in chunks for level, slot in enumerate(slots)
        )

    def write(self, slots: Sequence[int], amounts: Sequence[float], how: Write) -> None:
        """Write an amount for each level into the intervals of one sample.

        NaN stays there, whatever else the interval has: the amount is not known.
        """
        self.last = slots[0]
        for level, (slot, amount) in enumerate(zip(slots, amounts, strict=True)):
            number, place = divmod(slot, CHUNK)
            key = number * _LEVELS_MAX + level
            chunk = self._chunks.get(key)
            if chunk is None:
                chunk = self._chunks[key] = array("f", bytes(4 * CHUNK))
            if how is Write.ADD:
                chunk[place] += amount
            elif how is Write.SET or amount > chunk[place] or isnan(amount):
                chunk[place] = amount

    def read(self, level: int, first: int, count: int) -> Sequence[float]:
        """Amounts of ``count`` intervals from ``first`` on; 0 where nothing was written."""
        found: list[float] = []
        slot, end = first, first + count
        while slot < end:
            number, place = divmod(slot, CHUNK)
            taken = min(CHUNK - place, end - slot)
            chunk = self._chunks.get(number * _LEVELS_MAX + level)
            found += [0.0] * taken if chunk is None else chunk[place : place + taken]
            slot += taken
        return found

    def expire(self, oldest: Sequence[int]) -> int:
        """Remove chunks that end before these intervals, one for each level; how many."""
        old = [
            key
            for key in self._chunks
            if (key // _LEVELS_MAX + 1) * CHUNK <= oldest[key % _LEVELS_MAX]
        ]
        for key in old:
            del self._chunks[key]
        return len(old)


KeyT = TypeVar("KeyT")


class Pool(Generic[KeyT]):
    """Rings by key within ``bytes_max``.

    A ring without room takes it from the series that was active longest ago. A new one gets no
    room from series that were active within ``IDLE_SAMPLES``: they would take turns, and no series
    would be whole.
    """

    def __init__(self, bytes_max: int, levels: Sequence[Level]) -> None:
        self.levels, self._bytes_max = levels, bytes_max
        self.rings: OrderedDict[KeyT, Ring] = OrderedDict()  # least recently active first
        self.bytes = 0
        self.dropped = 0  # ever, to make room for others
        self.left_out = 0  # of the last sample, for want of room
        self.lost = False  # whether either ever happened
        self._swept = 0

    def write(self, key: KeyT, slots: Sequence[int], amounts: Sequence[float], how: Write) -> bool:
        """False: there is no room for the series, and nothing is written."""
        slots = slots[: len(self.levels)]
        ring = self.rings.get(key)
        needed = CHUNK_BYTES * (len(slots) if ring is None else ring.missing(slots))
        if ring is None:
            needed += RING_BYTES
        if needed and not self._make_room(key, needed, slots[0], new=ring is None):
            self.leave_out(1)
            return False
        if ring is None:
            ring = self.rings[key] = Ring(slots[0])
        self.bytes += needed
        ring.write(slots, amounts[: len(slots)], how)
        self.rings.move_to_end(key)
        return True

    def begin(self, slots: Sequence[int]) -> None:
        """A sample begins. Now and then, what is older than each level keeps is removed."""
        self.left_out = 0
        if 0 <= slots[0] - self._swept < SWEEP_SAMPLES:
            return
        self._swept = slots[0]
        oldest = [slot - level.points for slot, level in zip(slots, self.levels, strict=False)]
        for key in list(self.rings):
            ring = self.rings[key]
            self.bytes -= CHUNK_BYTES * ring.expire(oldest)
            if not len(ring):
                del self.rings[key]
                self.bytes -= RING_BYTES

    def leave_out(self, count: int) -> None:
        """So many series of this sample got no room."""
        if count:
            self.left_out += count
            self.lost = True

    def _make_room(self, key: KeyT, needed: int, now: int, *, new: bool) -> bool:
        while self.bytes + needed > self._bytes_max:
            victim = next((other for other in self.rings if other != key), None)
            if victim is None or (new and now - self.rings[victim].last < IDLE_SAMPLES):
                return False
            ring = self.rings.pop(victim)
            self.bytes -= RING_BYTES + CHUNK_BYTES * len(ring)
            self.dropped += 1
            self.lost = True
        return True
