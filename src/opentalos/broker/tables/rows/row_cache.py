"""RowCache: recently used rows of all shards of this server."""

from collections import OrderedDict
from typing import NamedTuple

from opentalos.sds.cell_format import StoredRow

CACHE_BYTES_MAX = 64 << 20  # of all shards; the overhead of a row is estimated
ROW_BYTES_MAX = 64 << 10  # a larger row is read each time
ROW_OVERHEAD_BYTES = 512


class CachedRow(NamedTuple):
    """A row as of its version. ``bytes``: of its cells, or more."""

    version: int
    row: StoredRow
    bytes: int


class RowCache:
    """Least recently used rows go first; keyed by the opening of a shard and the row's key.

    Each opening has a number of its own, so rows of a former opening are never found again. A row
    that is here has no pending entry which its shard does not know.
    """

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._rows: OrderedDict[tuple[int, bytes], CachedRow] = OrderedDict()
        self._bytes_max = bytes_max
        self._openings = 0
        self.bytes = 0

    def new_opening(self) -> int:
        """A number that no opening had before."""
        self._openings += 1
        return self._openings

    def get(self, opening: int, key: bytes) -> CachedRow | None:
        """The row, if it is here."""
        place = (opening, key)
        found = self._rows.get(place)
        if found is not None:
            self._rows.move_to_end(place)
        return found

    def put(self, opening: int, key: bytes, row: CachedRow) -> None:
        """Keep a row, replacing what was kept of it."""
        place = (opening, key)
        former = self._rows.pop(place, None)
        if former is not None:
            self.bytes -= former.bytes + ROW_OVERHEAD_BYTES
        if row.bytes > ROW_BYTES_MAX:
            return
        self._rows[place] = row
        self.bytes += row.bytes + ROW_OVERHEAD_BYTES
        while self.bytes > self._bytes_max:
            _, oldest = self._rows.popitem(last=False)
            self.bytes -= oldest.bytes + ROW_OVERHEAD_BYTES

    def forget(self, opening: int, key: bytes) -> None:
        """Drop a row, which may have changed."""
        found = self._rows.pop((opening, key), None)
        if found is not None:
            self.bytes -= found.bytes + ROW_OVERHEAD_BYTES
