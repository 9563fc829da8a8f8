"""Builds the state of a table from its change stream, applying each change once; no I/O.

Per row, timestamps grow strictly and sequence numbers have no gaps, which identifies redelivered
changes. Sequence numbers restart at 1 after the table has purged a deleted row; timestamps never go
back.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentalos.model.change import Change, ChangeKind, StreamView
from opentalos.model.datum import Columns
from opentalos.model.errors import NotSupported
from opentalos.model.table import NEVER, TableSchema
from opentalos.sdk.core.table.values import Given, Plain, Row, plain_row, typed_columns
from opentalos.sdk.errors import ChangeContradicts, ChangeMissing

_LOG: Final = logging.getLogger("opentalos.sdk.stream")
_UNKNOWN: Final = -1  # sequence number of the last change of a row, if unknown
_MS: Final = 1000

Key = tuple[Plain, ...]  # values of the key columns, in order


class StreamMark(NamedTuple):
    """Every change up to ``timestamp_ms`` precedes these offsets of the stream's topic."""

    timestamp_ms: int
    offsets: Mapping[int, int]  # next offset, by partition
    enabling: int = 0  # changes whenever the stream is disabled or stops


class StoredState(NamedTuple):
    """The state of a row, to store elsewhere and pass to ``Replica.restore`` later."""

    key: Row
    record: Row | None  # including the key; None: removed
    timestamp_ms: int  # of the last change
    sequence: int  # of the last change
    begun_ms: int = 0  # of change 1, if an earlier row with this key was purged
    misfits: int = 0  # increments whose amount did not match their result


@dataclass(slots=True)
class ReplicaCounters:
    """Counters of the changes passed to a replica."""

    applied: int = 0
    repeated: int = 0  # duplicates, including changes already in the scan
    misfits: int = 0  # applied increments whose amount does not match their result
    late: int = 0  # applied although older than a reached mark


class _Row(NamedTuple):
    record: Row | None
    timestamp_ms: int
    sequence: int
    begun_ms: int = 0
    misfits: int = 0


class Replica:
    """The rows of a table in memory, with the sequence number of the last change per row.

    It follows a stream from its start, or from a scan: ``restore`` the states of a scan
    (``TalosTable.states``), then ``apply`` the changes after a mark taken before the scan. Apply
    the changes of a row in partition order; duplicates are ignored.

    Args:   complete: the first change of an unknown row must have sequence number 1;
            strict: reject an increment whose amount does not match its result, else
            take the result and count it.
    Raises: NotSupported: the stream carries keys only.
    """

    def __init__(
        self,
        schema: TableSchema,
        view: StreamView,
        *,
        complete: bool = True,
        strict: bool = True,
    ) -> None:
        if view is StreamView.KEYS_ONLY:
            raise NotSupported(
                "no replica from a stream of view KEYS_ONLY: it carries no values; use another view"
            )
        self.schema, self.view = schema, view
        self.counters = ReplicaCounters()
        self.resolved_ms = 0  # all changes up to this time are applied
        self._rows: dict[Key, _Row] = {}
        self._strict = strict
        self._exact = complete  # each row equals the table's after its last change
        self._first = 0 if complete else _UNKNOWN

    # --- reading -------------------------------------------------------------------------------

    def get(self, key: Mapping[str, Given], now_ms: int | None = None) -> Row | None:
        """The row with this key, including the key columns; None: there is none.

        Args: now_ms: exclude rows expired by then under the table's time to live.
        """
        typed = typed_columns(self.schema.attributes, key)
        row = self._rows.get(self._identity(typed))
        return None if row is None else self._alive(row, now_ms)

    def rows(self, now_ms: int | None = None) -> Iterator[Row]:
        """All rows, unordered; ``now_ms`` as for ``get``."""
        for row in self._rows.values():
            record = self._alive(row, now_ms)
            if record is not None:
                yield record

    def states(self) -> Iterator[StoredState]:
        """The state of each row, including deleted ones."""
        for key, row in self._rows.items():
            named = dict(zip(self.schema.key_columns, key, strict=True))
            yield StoredState(named, *row)

    # --- writing -------------------------------------------------------------------------------

    def restore(self, state: StoredState) -> None:
        """Restore a row from ``states`` of a replica or a table."""
        key = tuple(state.key[name] for name in self.schema.key_columns)
        self._rows[key] = _Row(*state[1:])

    def resolved(self, timestamp_ms: int) -> None:
        """All changes up to the time of a mark have been applied."""
        self.resolved_ms = max(self.resolved_ms, timestamp_ms)

    def apply(self, change: Change) -> bool:
        """Apply one change; False: a duplicate.

        Raises: ChangeMissing: an earlier change of the row is missing; ChangeContradicts: it
                cannot follow the known state of the row. Nothing is applied.
        """
        key = self._identity(change.key)
        row = self._rows.get(key) or _Row(None, 0, self._first)
        if self._is_new_life(row, change):
            row = _Row(None, 0, 0, change.timestamp_ms, row.misfits)
        if self._is_repeated(row, change):
            self.counters.repeated += 1
            return False
        if change.sequence and row.sequence != _UNKNOWN and change.sequence != row.sequence + 1:
            raise ChangeMissing(
                f"{_named(change)}: changes are missing after change {row.sequence}; start a new "
                "replica from a scan"
            )
        misfit = self._misfit(row, change)
        if misfit and self._strict:
            raise ChangeContradicts(misfit)
        record = self._record_after(row, change)
        sequence = change.sequence or row.sequence
        misfits = row.misfits + bool(misfit)
        self._rows[key] = _Row(record, change.timestamp_ms, sequence, row.begun_ms, misfits)
        self.counters.applied += 1
        self.counters.misfits += bool(misfit)
        if change.timestamp_ms <= self.resolved_ms:
            self.counters.late += 1
            _LOG.warning("late change: %s arrived after mark %d", _named(change), self.resolved_ms)
        return True

    # --- rules ---------------------------------------------------------------------------------

    def _is_new_life(self, row: _Row, change: Change) -> bool:
        """A table purges a row long after its deletion; a later put starts with change 1."""
        begins = change.sequence == 1 and change.timestamp_ms > row.timestamp_ms > 0
        return begins and self._alive(row, change.timestamp_ms) is None

    def _is_repeated(self, row: _Row, change: Change) -> bool:
        repeated = change.timestamp_ms <= row.timestamp_ms
        compared = change.timestamp_ms >= row.begun_ms and row.sequence != _UNKNOWN
        if change.sequence and compared:
            same = change.timestamp_ms == row.timestamp_ms
            if repeated is not (change.sequence <= row.sequence) or (
                same is not (change.sequence == row.sequence)
            ):
                raise ChangeContradicts(
                    f"{_named(change)} has the time {change.timestamp_ms}, but change "
                    f"{row.sequence} has {row.timestamp_ms}"
                )
        return repeated

    def _record_after(self, row: _Row, change: Change) -> Row | None:
        if change.row_deleted:
            return None
        if self.view is StreamView.RECORD_IMAGE:
            return _written(plain_row(change.key), change.image)
        before = self._alive(row, change.timestamp_ms)
        if change.kind is ChangeKind.DELETE:
            if before is None and self._exact:
                raise ChangeContradicts(
                    f"{_named(change)} removes columns of a row that does not exist"
                )
            return {n: v for n, v in (before or plain_row(change.key)).items()
                    if n not in change.columns}  # fmt: skip
        return _written(before or plain_row(change.key), change.columns)

    def _misfit(self, row: _Row, change: Change) -> str:
        """Why the amounts of an increment do not match its results; empty if they do."""
        if not self._exact or not change.amounts or change.kind is not ChangeKind.INCREMENT:
            return ""
        before = self._alive(row, change.timestamp_ms) or {}
        for name, amount in change.amounts.items():
            old, new = before.get(name) or 0, change.columns[name].value
            added = amount.value
            if not (isinstance(old, int) and isinstance(added, int)):
                return f"{_named(change)} cannot be added to {name} = {old!r}"
            if old + added != new:
                text = f"adds {added} to {name} = {old} with the result {new!r}"
                return f"{_named(change)} {text}"
        return ""

    def _alive(self, row: _Row, now_ms: int | None) -> Row | None:
        ttl_s = self.schema.ttl_s
        if now_ms is not None and ttl_s != NEVER and now_ms >= row.timestamp_ms + ttl_s * _MS:
            return None
        return row.record

    def _identity(self, columns: Columns) -> Key:
        return tuple(columns[name].value for name in self.schema.key_columns)


def _written(before: Row, columns: Columns) -> Row:
    """A null value removes the column."""
    return {n: v for n, v in (before | plain_row(columns)).items() if v is not None}


def _named(change: Change) -> str:
    key = ", ".join(f"{name}={datum.value!r}" for name, datum in change.key.items())
    return f"change {change.sequence} of row {key}"
