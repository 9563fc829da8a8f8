"""RowWork: the mutations of one row in a group, and the one write that they become. Sans-io.

``ShardWriter`` loads the row, lets ``decide`` apply the mutations, writes, and answers.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from opentalos.broker.tables.rows.row_cache import CachedRow
from opentalos.broker.tables.stream.outbox import Entry
from opentalos.broker.tables.stream.pending_format import Pending, encode_column, encode_pending
from opentalos.catalog.tables.space import TableSpace
from opentalos.catalog.tables.table import StreamState, Table
from opentalos.model.change import Change
from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.model.mutation import Mutation
from opentalos.sds.cell_format import ABSENT, StoredRow
from opentalos.sds.mutation import Applied, apply
from opentalos.sds.record_size import record_bytes
from opentalos.sds.stream_content import StreamContent, stream_contents
from opentalos.wire.sds.change import encode_change

VALUE_BYTES = 16  # estimate for a value that is neither text nor bytes
Outcome = Applied | TalosError
Answer = Callable[[Outcome], None]  # called once, on the loop

_log = logging.getLogger("opentalos.tables")


class Waiting(NamedTuple):
    """A mutation whose caller waits. ``bytes``: of its values, estimated."""

    mutation: Mutation
    key: bytes
    bytes: int
    answer: Answer


def waiting_of(mutation: Mutation, key: bytes, answer: Answer) -> Waiting:
    """Args: key: of its row."""
    size = len(key)
    for _, value in mutation.columns.values():
        if isinstance(value, str | bytes):
            size += len(value)
        elif isinstance(value, tuple):
            size += sum(
                len(element) if isinstance(element, str | bytes) else VALUE_BYTES
                for element in value
            )
        else:
            size += VALUE_BYTES
    return Waiting(mutation, key, size, answer)


class StreamTarget(NamedTuple):
    """An enabled stream, and what its messages contain."""

    state: StreamState
    content: StreamContent


class TableView(NamedTuple):
    """A table as the groups of a shard need it. ``streams``: enabled ones, by id. ``space``: None
    without a quota. ``gap_ms``: new changes are not older, also if clocks go back, so that no
    change before a gap is missing."""

    table: Table
    targets: Sequence[StreamTarget]
    streams: Mapping[int, StreamState]
    space: TableSpace | None = None
    gap_ms: int = 0


def view_of(table: Table, space: TableSpace | None = None) -> TableView:
    """The view of a table's record."""
    targets = []
    for content in stream_contents(table.schema):
        state = table.streams.get(content.topic)
        if state is not None and state.live:
            targets.append(StreamTarget(state, content))
    streams = {state.id: state for state in table.streams.values() if state.live}
    gap_ms = max((state.gap_ms or 0 for state in table.streams.values()), default=0)
    return TableView(table, targets, streams, space, gap_ms)


class RowWork:
    """Mutations of one row, in order, and one compare-and-set for all of them.

    ``loaded``: ``before`` is the row as of ``version``. ``cached``: from memory, so it may be older
    than another server's write, which the compare-and-set then detects.
    """

    __slots__ = (
        "after", "answered", "before", "bytes", "cached", "cells", "entries", "key", "loaded",
        "outcomes", "pending", "space", "taken", "version", "waiting",
    )  # fmt: skip

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.waiting: list[Waiting] = []
        self.loaded = self.cached = self.answered = False
        self.version, self.before, self.bytes = 0, ABSENT, 0
        self.after: StoredRow = ABSENT
        self.outcomes: list[Outcome] = []
        self.space: TableSpace | None = None
        self.taken = 0  # bytes of the table's quota
        self.cells: dict[bytes, bytes | None] = {}  # of family "data"
        self.pending: dict[bytes, bytes | None] = {}
        self.entries: list[Entry] = []

    def load_cached(self, cached: CachedRow) -> None:
        """The row as this server remembers it."""
        self.version, self.before, self.bytes = cached
        self.loaded = self.cached = True

    def load(self, version: int, row: StoredRow, size: int) -> None:
        """The row as it was read now. Args: size: of its cells, in bytes."""
        self.version, self.before, self.bytes = version, row, size
        self.loaded, self.cached = True, False

    def forget(self) -> None:
        """The row may have changed: it has to be loaded again."""
        self.loaded = self.cached = False

    def stored(self, version: int) -> CachedRow:
        """The write succeeded; return the row as it is now."""
        cells = sum(len(cell) for cell in self.cells.values() if cell is not None)
        self.version, self.before = version, self.after
        self.bytes += cells
        return self.as_loaded()

    def as_loaded(self) -> CachedRow:
        """The row for the cache."""
        return CachedRow(self.version, self.before, self.bytes)

    def decide(self, view: TableView, now_ms: int, record_bytes_max: int) -> None:
        """Apply the mutations to the row as it was loaded."""
        self._give_back()
        self.space = view.space
        self.outcomes, self.cells, self.pending, self.entries = [], {}, {}, []
        row, schema = self.before, view.table.schema
        for waiting in self.waiting:
            try:
                applied = apply(schema, row, waiting.mutation, now_ms, record_bytes_max)
                if self.space is not None:
                    self._take(view, self.space, (row, applied.row), now_ms)
            except TalosError as error:
                self.outcomes.append(error)
                continue
            self.outcomes.append(applied)
            self.cells.update(applied.cells)
            row = applied.row
            if applied.change is not None:
                self._add_messages(view, applied.change)
        self.after = row

    def answer(self) -> None:
        """Answer each caller with its mutation's outcome, once."""
        if self._is_answered():
            return
        for waiting, outcome in zip(self.waiting, self.outcomes, strict=True):
            settle(waiting, outcome)

    def refuse(self, error: TalosError) -> None:
        """Answer every caller with this error, unless they were answered before."""
        if self._is_answered():
            return
        if not isinstance(error, OutcomeUnknown):
            self._give_back()
        for waiting in self.waiting:
            settle(waiting, error)

    def _is_answered(self) -> bool:
        before, self.answered = self.answered, True
        return before

    def _take(
        self, view: TableView, space: TableSpace, rows: tuple[StoredRow, StoredRow], now_ms: int
    ) -> None:
        """Raises: QuotaExceeded: the mutation must not be done."""
        schema, key = view.table.schema, self.waiting[0].mutation.key
        before, after = (record_bytes(schema, key, self.key, row, now_ms) for row in rows)
        self.taken += space.take(after - before)

    def _give_back(self) -> None:
        if self.space is not None and self.taken:
            self.space.give_back(self.taken)
        self.taken = 0

    def _add_messages(self, view: TableView, change: Change) -> None:
        for state, (_, kind, attributes) in view.targets:
            message = encode_change(kind, view.table.name, change, attributes)
            column = encode_column(change.sequence, state.id)
            self.pending[column] = encode_pending(change.timestamp_ms, message)
            pending = Pending(change.sequence, state.id, change.timestamp_ms, message)
            self.entries.append(Entry(self.key, column, pending))


def settle(waiting: Waiting, outcome: Outcome) -> None:
    """Answer one caller; nothing may raise here, since others wait after it.

    Source: docs/internals/hot-path.md#rule-1.
    """
    try:
        waiting.answer(outcome)
    except Exception:
        _log.exception("could not answer the caller of a mutation")
