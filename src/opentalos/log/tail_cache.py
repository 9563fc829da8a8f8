"""Recent durable blocks in memory, so that tailing consumers never touch storage."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from opentalos.log.segment.format import BLOCK_HEADER_BYTES
from opentalos.model.message import StoredBlock

# What a block takes in memory besides its bytes: the tuple, its numbers, two list places. Measured
# with tracemalloc on CPython 3.11.
CACHED_BLOCK_BYTES = 240
_COMPACT_MIN = 256  # evicted list heads are cut off from this length on

# The fields of a StoredBlock. Kept as a plain tuple because the garbage collector stops tracking
# one that holds only numbers and bytes, but visits every NamedTuple at each full collection:
# with 100,000 cached blocks that is a stall of the loop.
CachedBlock = tuple[int, int, int, int, int, int, bytes | memoryview, bytes]
_Make = Callable[[CachedBlock], StoredBlock]
_stored_block = cast(_Make, partial(tuple.__new__, StoredBlock))  # skips a Python function


class CachedTail:
    """Contiguous newest blocks of one partition, oldest first."""

    __slots__ = ("_bases", "_blocks", "_cache", "_head", "_next_offset", "bytes")

    def __init__(self, cache: "TailCache") -> None:
        self._cache = cache
        self._blocks: list[CachedBlock] = []
        self._bases: list[int] = []
        self._head = 0  # the blocks preceding it are evicted
        self._next_offset = 0  # after the newest block
        self.bytes = 0

    def add(self, blocks: Sequence[CachedBlock], count_bytes: int) -> None:
        """Append durable blocks that follow the cached ones; a gap empties the cache first."""
        if not blocks:
            return
        if self._blocks and self._next_offset != blocks[0][0]:
            self.clear()
        self._blocks += blocks
        self._bases += [block[0] for block in blocks]
        self._next_offset = blocks[-1][0] + blocks[-1][1]
        self.bytes += count_bytes
        self._cache.grown(self, count_bytes)

    def read(self, offset: int, messages_max: int, bytes_max: int) -> list[StoredBlock] | None:
        """Blocks from the one that contains ``offset``; None if it is not here."""
        at = bisect_right(self._bases, offset, self._head) - 1
        if at < self._head or offset >= self._next_offset:
            return None
        found: list[StoredBlock] = []
        messages = taken_bytes = 0
        for index in range(at, len(self._blocks)):  # a slice would copy all that lies behind
            block = self._blocks[index]
            messages += block[1]
            taken_bytes += len(block[6])
            if found and (messages > messages_max or taken_bytes > bytes_max):
                break
            found.append(_stored_block(block))
        self._cache.used(self)
        return found

    def evict_oldest(self) -> int:
        """Drop the oldest block; return how many bytes that freed."""
        block = self._blocks[self._head]
        freed = block_bytes(block)
        self._head += 1
        self.bytes -= freed
        if self._head == len(self._blocks):
            self._blocks, self._bases, self._head = [], [], 0
        elif self._head >= _COMPACT_MIN and self._head * 2 >= len(self._blocks):
            del self._blocks[: self._head], self._bases[: self._head]
            self._head = 0
        else:
            # The list must not keep the payload alive until it is compacted.
            self._blocks[self._head - 1] = _EVICTED
        return freed

    def clear(self) -> None:
        """Drop everything."""
        self._cache.shrunk(self, self.bytes)
        self._blocks, self._bases, self._head, self.bytes = [], [], 0, 0


class TailCache:
    """One byte budget for all partitions; the partition unused for longest shrinks first."""

    __slots__ = ("_tails", "bytes", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._tails: OrderedDict[CachedTail, None] = OrderedDict()

    def tail(self) -> CachedTail:
        """An empty cache for one partition; costs nothing of the budget."""
        return CachedTail(self)

    def grown(self, tail: CachedTail, count_bytes: int) -> None:
        """``tail`` took in so many bytes; evict until the budget holds."""
        self._tails[tail] = None
        self._tails.move_to_end(tail)
        self.bytes += count_bytes
        while self.bytes > self.bytes_max:
            oldest = next(iter(self._tails))
            self.bytes -= oldest.evict_oldest()
            if not oldest.bytes:
                del self._tails[oldest]

    def used(self, tail: CachedTail) -> None:
        """A reader was served from ``tail``."""
        self._tails.move_to_end(tail)

    def shrunk(self, tail: CachedTail, count_bytes: int) -> None:
        """``tail`` was emptied."""
        self.bytes -= count_bytes
        self._tails.pop(tail, None)


def block_bytes(block: CachedBlock) -> int:
    """What a block counts against the budget."""
    return CACHED_BLOCK_BYTES + BLOCK_HEADER_BYTES + len(block[6]) + len(block[7])


_EVICTED: CachedBlock = (0, 0, 0, 0, 0, 0, b"", b"")
