"""Outbox: the pending entries of one shard that this server knows. Sans-io.

An entry is added when its cell is durable, published when the topic has its message, and cleared
when its cell is removed. Cells that the outbox lacks were written by another server:
``PendingScan`` and the reads of ``ShardWriter`` find them.
"""

from collections.abc import Collection, Iterable, Mapping

from opentalos.broker.tables.stream.pending_format import Pending, decode_pending


class Entry:
    """One change for one stream. ``published``: the topic has it, or its stream is gone."""

    __slots__ = (
        "bytes",
        "column",
        "key",
        "message",
        "published",
        "sequence",
        "stream",
        "timestamp_ms",
    )

    def __init__(self, key: bytes, column: bytes, pending: Pending) -> None:
        self.key, self.column = key, column
        self.sequence, self.stream, self.timestamp_ms, self.message = pending
        self.bytes = len(key) + len(column) + len(pending.message)
        self.published = False


class Outbox:
    """Entries by row and column. Those that are published stay until their cells are removed."""

    def __init__(self) -> None:
        self._rows: dict[bytes, dict[bytes, Entry]] = {}
        self._published_rows: dict[
            bytes, None
        ] = {}  # rows with published entries, the oldest first
        self.entries = 0
        self.bytes = 0

    def add(self, entry: Entry) -> None:
        """A new entry, whose cell is durable."""
        self._rows.setdefault(entry.key, {})[entry.column] = entry
        self.entries += 1
        self.bytes += entry.bytes

    def add_found(self, key: bytes, cells: Mapping[bytes, bytes]) -> list[Entry]:
        """Add what a read of the row found; return the entries that were unknown, in order."""
        known = self._rows.get(key, {})
        found = [
            Entry(key, column, decode_pending(column, cells[column]))
            for column in sorted(cells)
            if column not in known
        ]
        for entry in found:
            self.add(entry)
        return found

    def published(self, entries: Iterable[Entry]) -> None:
        """The topic has these entries."""
        for entry in entries:
            entry.published = True
            self._published_rows[entry.key] = None

    def to_clear(self, count_max: int) -> list[bytes]:
        """Rows with cells to be removed, the first ones."""
        found: list[bytes] = []
        for key in self._published_rows:
            if len(found) == count_max:
                break
            found.append(key)
        return found

    @property
    def clearable(self) -> int:
        """How many rows have cells to be removed."""
        return len(self._published_rows)

    def published_columns(self, key: bytes) -> list[bytes]:
        """Cells of a row that are to be removed."""
        if key not in self._published_rows:
            return []
        return [entry.column for entry in self._rows[key].values() if entry.published]

    def cleared(self, key: bytes, columns: Collection[bytes]) -> None:
        """These cells are gone, or are known not to be there."""
        entries = self._rows.get(key)
        if entries is None:
            return
        for column in columns:
            entry = entries.pop(column, None)
            if entry is not None:
                self.entries -= 1
                self.bytes -= entry.bytes
        if not any(entry.published for entry in entries.values()):
            self._published_rows.pop(key, None)
        if not entries:
            del self._rows[key]

    def waiting(self, streams: Collection[int] | None = None) -> list[Entry]:
        """Unpublished entries of these streams (None: of all streams), each row's in order."""
        return [
            entry
            for entries in self._rows.values()
            for entry in entries.values()
            if not entry.published and (streams is None or entry.stream in streams)
        ]
