"""A table's state out of its stream: each change once, in the order of its row; no I/O.

Changes of a row have strictly growing timestamps and sequence numbers without gaps, so a change
that comes again, alone or in a run among new ones, is known by them. Numbers begin at 1 again once
the table has forgotten a row that is long gone; times never go back.
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
_UNKNOWN: Final = -1  # number of a row's last change, if none was told of
_MS: Final = 1000

Key = tuple[Plain, ...]  # values of the key's columns, in their order


class StreamMark(NamedTuple):
    """Every change up to ``timestamp_ms`` lies before these offsets of the stream's topic."""

    timestamp_ms: int
    offsets: Mapping[int, int]  # the next one, by partition
    enabling: int = 0  # another number if the stream was off, or stopped, since another mark


class StoredState(NamedTuple):
    """What is known of a row, to be kept elsewhere and given back to ``Replica.restore``."""

    key: Row
    record: Row | None  # with the key; None: it was removed
    timestamp_ms: int  # of the last change
    sequence: int  # of the last change
    begun_ms: int = 0  # of change 1, if the row was there before and forgotten
    misfits: int = 0  # increments whose amount did not give the value that they told


@dataclass(slots=True)
class ReplicaCounters:
    """What became of the changes that a replica was given."""

    applied: int = 0
    repeated: int = 0  # seen before, also by the scan it began with
    misfits: int = 0  # applied increments whose amount does not give the value that they tell
    late: int = 0  # applied, though a mark had said that nothing so old is missing


class _Row(NamedTuple):
    record: Row | None
    timestamp_ms: int
    sequence: int
    begun_ms: int = 0
    misfits: int = 0


class Replica:
    """A table by key, in memory: the rows, and of each row ever seen the number of its last change.

    It follows a stream from the stream's start, or from a scan: ``restore`` the states of a scan
    (``TalosTable.states``), then give it what lies behind a mark that was taken before the scan.
    Give it the changes of a row in the order of their partition; changes may be there several
    times.

    Args:   complete: the first change of a row that is not known must be its first one ever;
            strict: refuse an increment whose amount does not give the value that it tells, else
            take the value and count it.
    Raises: NotSupported: the view does not tell values.
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
            raise NotSupported("a stream of view KEYS_ONLY does not tell a table's values")
        self.schema, self.view = schema, view
        self.counters = ReplicaCounters()
        self.resolved_ms = 0  # everything up to here has been applied
        self._rows: dict[Key, _Row] = {}
        self._strict = strict
        self._exact = complete  # rows are what the table had after their last change
        self._first = 0 if complete else _UNKNOWN

    # --- reading -------------------------------------------------------------------------------

    def get(self, key: Mapping[str, Given], now_ms: int | None = None) -> Row | None:
        """The record of a key, also with the key's columns; None: there is none.

        Args: now_ms: leaves out what has outlived the table's time to live by then.
        """
        typed = typed_columns(self.schema.attributes, key)
        row = self._rows.get(self._identity(typed))
        return None if row is None else self._alive(row, now_ms)

    def rows(self, now_ms: int | None = None) -> Iterator[Row]:
        """All records, in no order; ``now_ms`` as for ``get``."""
        for row in self._rows.values():
            record = self._alive(row, now_ms)
            if record is not None:
                yield record

    def states(self) -> Iterator[StoredState]:
        """What is known of each row, also of deleted ones."""
        for key, row in self._rows.items():
            named = dict(zip(self.schema.key_columns, key, strict=True))
            yield StoredState(named, *row)

    # --- writing -------------------------------------------------------------------------------

    def restore(self, state: StoredState) -> None:
        """Go on with a row as ``states``, here or of a scan, gave it."""
        key = tuple(state.key[name] for name in self.schema.key_columns)
        self._rows[key] = _Row(*state[1:])

    def resolved(self, timestamp_ms: int) -> None:
        """Everything up to a mark's time has been given to ``apply``."""
        self.resolved_ms = max(self.resolved_ms, timestamp_ms)

    def apply(self, change: Change) -> bool:
        """Take one change; False: it was there before.

        Raises: ChangeMissing: a change of the row before this one never came; ChangeContradicts:
                it cannot follow what is known of the row. Nothing of it is applied.
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
                f"{_named(change)}: the change before it is {row.sequence}, those between never "
                "came; begin anew with a scan"
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
            _LOG.warning("%s came after the mark %d", _named(change), self.resolved_ms)
        return True

    # --- rules ---------------------------------------------------------------------------------

    def _is_new_life(self, row: _Row, change: Change) -> bool:
        """A table forgets a row long after its end; whoever puts it then begins with change 1."""
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
                raise ChangeContradicts(f"{_named(change)} removes columns of no row")
            return {n: v for n, v in (before or plain_row(change.key)).items()
                    if n not in change.columns}  # fmt: skip
        return _written(before or plain_row(change.key), change.columns)

    def _misfit(self, row: _Row, change: Change) -> str:
        """Why an increment's amounts do not give what it tells; empty if they do."""
        if not self._exact or not change.amounts or change.kind is not ChangeKind.INCREMENT:
            return ""
        before = self._alive(row, change.timestamp_ms) or {}
        for name, amount in change.amounts.items():
            old, new = before.get(name) or 0, change.columns[name].value
            added = amount.value
            if not (isinstance(old, int) and isinstance(added, int)):
                return f"{_named(change)} cannot be added to {name} = {old!r}"
            if old + added != new:
                text = f"adds {added} to {name} = {old} and says that this makes {new!r}"
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
    """Null is stored as no value at all."""
    return {n: v for n, v in (before | plain_row(columns)).items() if v is not None}


def _named(change: Change) -> str:
    key = ", ".join(f"{name}={datum.value!r}" for name, datum in change.key.items())
    return f"change {change.sequence} of row {key}"
