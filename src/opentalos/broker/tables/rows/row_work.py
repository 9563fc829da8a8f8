"""RowWork: what a group of mutations comes to in one row, decided without a store."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

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

VALUE_BYTES = 16  # of a value that is no text and no bytes
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
            size += sum(len(one) if isinstance(one, str | bytes) else VALUE_BYTES for one in value)
        else:
            size += VALUE_BYTES
    return Waiting(mutation, key, size, answer)


class StreamTarget(NamedTuple):
    """A stream that hears of changes now, and what it tells."""

    state: StreamState
    content: StreamContent


class TableView(NamedTuple):
    """A table as the groups of a shard need it. ``streams``: those that go on, by id. ``space``:
    None if it has no quota. ``gap_ms``: no change is older, so that those before a gap stay those
    that were told (clocks may go back)."""

    table: Table
    targets: Sequence[StreamTarget]
    streams: Mapping[int, StreamState]
    space: TableSpace | None = None
    gap_ms: int = 0


def view_of(table: Table, space: TableSpace | None = None) -> TableView:
    """What mutations of a table have to tell."""
    targets = []
    for content in stream_contents(table.schema):
        state = table.streams.get(content.topic)
        if state is not None and state.live:
            targets.append(StreamTarget(state, content))
    streams = {state.id: state for state in table.streams.values() if state.live}
    gap_ms = max((state.gap_ms or 0 for state in table.streams.values()), default=0)
    return TableView(table, targets, streams, space, gap_ms)


class RowWork:
    """Mutations of one row, in their order, and one write for all of them."""

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
                self._tell(view, applied.change)
        self.after = row

    def answer(self) -> None:
        """Tell each caller what came of its mutation, once."""
        if self._is_answered():
            return
        for waiting, outcome in zip(self.waiting, self.outcomes, strict=True):
            settle(waiting, outcome)

    def refuse(self, error: TalosError) -> None:
        """Tell every caller the same, unless it was told something before."""
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

    def _tell(self, view: TableView, change: Change) -> None:
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
        _log.exception("a caller could not be answered")
