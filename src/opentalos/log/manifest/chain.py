"""Which files of a partition are its log, whatever its manifest says. Pure.

``ManifestRepair`` reads the files and asks. Each segment of a log begins where the one before it
ends, which only the later one says: an opening copies what it finds behind that offset.

A merged file has the epoch of the server that made it, and so may be newer than segments behind it.
Only merges and rolls number their files, and only what a power loss may cut has a header that does
not say "synced": all other files were made at the end of the log. In a flushed topic rolled files
look like merged ones.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES
from opentalos.log.segment.index import SparseIndex
from opentalos.model.message import Durability


class Place(NamedTuple):
    """Where a segment may end."""

    position: int
    last_append_ms: int


class Places(SparseIndex):
    """Takes the blocks of a scan, and keeps where those with the offsets ``wanted`` begin."""

    __slots__ = ("_last_append_ms", "found", "wanted")

    def __init__(self, wanted: frozenset[int]) -> None:
        super().__init__(0)  # every block is offered
        self.wanted = wanted
        self.found: dict[int, Place] = {}
        self._last_append_ms = 0

    def add(self, offset: int, position: int, append_ms: int) -> None:
        """See ``SparseIndex``."""
        if offset in self.wanted:
            self.found.setdefault(offset, Place(position, self._last_append_ms))
        self._last_append_ms = append_ms


class Piece(NamedTuple):
    """A file, or what a journal has of one, with the blocks that are whole from its start on."""

    segment: Segment  # base offset, epoch and number
    committed: int
    next_offset: int
    end: Place  # after the last whole block
    durability: Durability | None
    places: Mapping[int, Place]  # of the offsets at which any file begins
    seed: int = 0
    journal: str = ""  # that has bytes of it
    late: bool = False  # it has no file

    @property
    def begun(self) -> bool:
        """Whether it has the log's state, its first block."""
        return self.end.position > SEGMENT_HEADER_BYTES

    @property
    def rank(self) -> tuple[int, int, bool, int]:
        """The last segment of a log has the largest, merged files aside."""
        base, epoch = self.segment.base_offset, self.segment.epoch
        return epoch, base, self.committed > base, self.next_offset

    @property
    def witness(self) -> int:
        """All messages below were acknowledged, as far as this file proves; 0: it proves nothing.

        Merged files and what was only flushed may have lost their end with the power.
        """
        proves = self.durability is Durability.SYNCED and self.committed > self.segment.base_offset
        return self.committed if proves else 0

    @property
    def perhaps_merged(self) -> bool:
        """Whether its epoch may be newer than its messages."""
        return self.segment.number > 0 and self.durability is not Durability.SYNCED

    def sealed_at(self, offset: int, named: Mapping[tuple[int, ...], Segment]) -> Segment | None:
        """The segment if it ends at ``offset``, as the manifest names it if it does.

        None: no block begins or ends there, or it proves that it was longer.
        """
        row = named.get(self.segment.name)
        if row is not None and row.next_offset == offset and row.bytes <= self.end.position:
            return row
        if self.committed > offset and self.durability is Durability.SYNCED:
            return None
        place = self.end if offset == self.next_offset else self.places.get(offset)
        if place is None:
            return None
        position, last_ms = place
        return self.segment._replace(next_offset=offset, bytes=position, last_append_ms=last_ms)


def last_of(pieces: Sequence[Piece]) -> Piece:
    """The last segment of the log; there must be one."""
    at_the_end = [piece for piece in pieces if not piece.perhaps_merged]
    if not at_the_end:
        return max(pieces, key=_reach)
    last = max(at_the_end, key=attrgetter("rank"))
    behind = [
        piece
        for piece in pieces
        if piece.perhaps_merged
        and piece.segment.epoch >= last.segment.epoch
        and piece.next_offset > last.next_offset
    ]
    return max(behind, key=_reach, default=last)


def _reach(piece: Piece) -> tuple[int, int]:
    return piece.next_offset, piece.segment.epoch


def chain_to(
    last: Piece, pieces: Sequence[Piece], manifest: Manifest, damaged: Sequence[Segment] = ()
) -> list[Segment]:
    """The segments up to ``last`` that begin earliest without a gap.

    Where several do, those that the manifest names; else the newest, which a merge may have made.
    ``damaged``: it names them, too, and they are taken as they are where nothing else reaches as
    far, since readers get what is whole of them.
    """
    named = {segment.name: segment for segment in manifest.segments}
    damaged_to = {segment.next_offset: segment for segment in damaged}
    before: dict[int, Segment] = {}  # the segment to take if one begins at this offset
    begins: dict[int, int] = {}  # where a chain begins whose next segment begins at this offset
    covering: list[Piece] = []  # begin before the offset and reach it

    def choice(segment: Segment) -> tuple[int, bool, int, int]:
        start = max(begins[segment.base_offset], manifest.start)
        return -start, segment.name in named, segment.epoch, segment.number

    last_base = last.segment.base_offset
    following = sorted(pieces, key=lambda piece: piece.segment.base_offset, reverse=True)
    offsets = {segment.base_offset for segment in (*[each.segment for each in pieces], *damaged)}
    for offset in sorted(offsets):
        begins[offset] = offset
        while following and following[-1].segment.base_offset < offset:
            covering.append(following.pop())
        covering = [piece for piece in covering if piece.next_offset >= offset]
        if offset > manifest.start:
            sealed = [found for piece in covering if (found := piece.sealed_at(offset, named))]
            best = max(sealed, key=choice, default=None)
            hurt = damaged_to.get(offset)
            if hurt and begins[hurt.base_offset] < (begins[best.base_offset] if best else offset):
                best = hurt
            if best is not None:
                before[offset] = best
                begins[offset] = begins[best.base_offset]
        if offset == last_base:
            break
    chain = [last.segment]
    while (segment := before.get(chain[-1].base_offset)) is not None:
        chain.append(segment)
    return chain[::-1]
