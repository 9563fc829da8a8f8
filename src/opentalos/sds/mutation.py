"""What a mutation does to a row, entirely or not at all. Sans-io; without a clock.

Rules beyond the protocol's: a put of null removes the column; a put of keys alone creates the row;
an increment of an absent row or column counts from 0 and creates the row; a remove of something
absent succeeds, changes nothing and is not a change for streams; a comparison with an absent column
does not hold, whatever its operator, but EQUAL null holds of an absent column and NOT_EQUAL null
of a present one. A record is expired, which means absent, from its last write + ttl on.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from opentalos.model.change import Change, ChangeKind
from opentalos.model.datum import Columns, Datum
from opentalos.model.errors import SizeExceeded, ValidationFailed
from opentalos.model.mutation import NOTHING, Mutation, Operation
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import NEVER, TableSchema
from opentalos.sds.cell_format import (
    ABSENT,
    HEADER_CELL,
    StoredRow,
    cell_bytes,
    encode_cell,
    encode_header,
)
from opentalos.sds.condition import check_condition, holds
from opentalos.sds.index_format import check_entries
from opentalos.sds.key_format import row_key
from opentalos.sds.layout import COLUMN_PREFIX, Layout, layout_of
from opentalos.sds.value_rules import INTEGER_BITS, column_fault, in_range, suits

__all__ = ["ABSENT", "Applied", "StoredRow", "apply", "check", "live_columns", "split_record"]

RECORD_BYTES_MAX: Final = SdsLimits().record_bytes_max
MS_PER_S: Final = 1_000
NO_CELLS: Final[Mapping[bytes, bytes | None]] = MappingProxyType({})


class Applied(NamedTuple):
    """The effect of a mutation. ``success``: its condition held. ``amounts``: of an increment the
    resulting values. ``cells``: to be written in family "data" (None: removed), empty: none.
    ``row``: the row afterwards. ``change``: for streams; None if nothing was changed."""

    success: bool
    amounts: Columns
    cells: Mapping[bytes, bytes | None]
    row: StoredRow
    change: Change | None


def split_record(schema: TableSchema, record: Columns) -> tuple[Columns, Columns]:
    """Key columns of a record and its others, as a `Mutation` has them; nothing is checked."""
    columns = dict(record)
    names = [column.name for column in layout_of(schema).key]
    key = {name: columns.pop(name) for name in names if name in columns}
    return key, columns


def live_columns(schema: TableSchema, stored: StoredRow, now_ms: int) -> Columns | None:
    """Columns of a record beside its key as callers see them; None: there is no record.

    What the schema does not have, or has with another type now, is left out.
    """
    if stored.deleted:
        return None
    if schema.ttl_s != NEVER and now_ms >= stored.timestamp_ms + schema.ttl_s * MS_PER_S:
        return None
    types = layout_of(schema).types
    for name, datum in stored.columns.items():
        if types.get(name) is not datum.type:
            return {
                name: datum for name, datum in stored.columns.items() if types.get(name) is datum[0]
            }
    return stored.columns


def check(schema: TableSchema, mutation: Mutation, limits: SdsLimits) -> bytes:
    """Refuse what no row could take, before any row is read; the key of its row.

    Raises: ValidationFailed, SizeExceeded: not done.
    """
    layout = layout_of(schema)
    key = row_key(schema, mutation.key)
    if len(key) > limits.key_bytes_max:
        raise SizeExceeded(f"the key has {len(key)} bytes, at most {limits.key_bytes_max}")
    if mutation.operation is Operation.PUT:
        _check_put(layout, mutation.columns)
    elif mutation.operation is Operation.INCREMENT:
        _check_increment(layout, mutation.columns)
    else:
        for name in mutation.attributes:
            if name not in layout.types:
                raise _unknown(layout, name)
    if mutation.condition is not None:
        check_condition(schema, mutation.condition)
    return key


def _check_put(layout: Layout, columns: Columns) -> None:
    types = layout.types
    for name, datum in columns.items():
        wanted = types.get(name)
        if wanted is None:
            raise _unknown(layout, name)
        if datum.value is not None:  # null is of every type
            fault = column_fault(wanted, datum)
            if fault:
                raise ValidationFailed(f"column {name} {fault}")


def _check_increment(layout: Layout, amounts: Columns) -> None:
    if not amounts:
        raise ValidationFailed("an increment needs the amount of a column")
    for name, datum in amounts.items():
        wanted = layout.types.get(name)
        if wanted is None:
            raise _unknown(layout, name)
        if wanted not in INTEGER_BITS:
            raise ValidationFailed(f"column {name} is of type {wanted.name}, which does not count")
        if name in layout.indexed:
            raise ValidationFailed(f"column {name} is in an index, so it cannot be incremented")
        fault = column_fault(wanted, datum)
        if fault:
            raise ValidationFailed(f"column {name} {fault}")


def _unknown(layout: Layout, name: str) -> ValidationFailed:
    if name in layout.key_names:
        return ValidationFailed(f"column {name} is part of the key, so it cannot be changed")
    return ValidationFailed(f"the table has no column {name}")


class _Work(NamedTuple):
    """A mutation under way. ``live``: as `live_columns`."""

    layout: Layout
    stored: StoredRow
    live: Columns | None
    mutation: Mutation
    timestamp_ms: int
    record_bytes_max: int


def apply(
    schema: TableSchema,
    stored: StoredRow,
    mutation: Mutation,
    now_ms: int,
    record_bytes_max: int = RECORD_BYTES_MAX,
) -> Applied:
    """What a mutation that passed `check` does to its row. Nothing given is changed.

    Time and sequence of a row grow with each change, also after a remove and when clocks go back.
    Raises: ValidationFailed, SizeExceeded: nothing applied.
    """
    live = live_columns(schema, stored, now_ms)
    if mutation.condition is not None and not holds(mutation.condition, mutation.key, live):
        return Applied(False, NOTHING, NO_CELLS, stored, None)
    timestamp_ms = max(now_ms, stored.timestamp_ms + 1)
    layout = layout_of(schema)
    mutation = _as_stored(layout, mutation)
    work = _Work(layout, stored, live, mutation, timestamp_ms, record_bytes_max)
    if mutation.operation is Operation.PUT:
        return _write(work, mutation.columns, ChangeKind.PUT)
    if mutation.operation is Operation.INCREMENT:
        return _write(work, _sums(work), ChangeKind.INCREMENT)
    return _remove_columns(work) if mutation.attributes else _remove_row(work)


def _as_stored(layout: Layout, mutation: Mutation) -> Mutation:
    """A mutation whose columns have the types of the table, as far as theirs `suits` these."""
    types, columns = layout.types, mutation.columns
    others = [name for name, datum in columns.items() if types.get(name) is not datum.type]
    if not others:
        return mutation
    changed = {
        name: Datum(types[name], columns[name].value)
        for name in others
        if name in types and suits(types[name], columns[name].type)
    }
    return mutation._replace(columns={**columns, **changed})


def _sums(work: _Work) -> dict[str, Datum]:
    before = work.live or NOTHING
    sums = {}
    for name, amount in work.mutation.columns.items():
        _check_still(work.layout, name, amount)
        old = before.get(name)
        number = _integer(old) + _integer(amount)
        if not in_range(amount.type, number):
            raise ValidationFailed(
                f"column {name} would become {number}, which {amount.type.name} does not hold"
            )
        sums[name] = Datum(amount.type, number)
    return sums


def _integer(datum: Datum | None) -> int:
    value = datum.value if datum else 0
    assert isinstance(value, int)  # by check, and by the column's type
    return value


def _write(work: _Work, written: Columns, kind: ChangeKind) -> Applied:
    layout, stored, live, mutation, timestamp_ms, _ = work
    if layout.immutable and live:
        _check_immutable(layout, live, written)
    sequence = stored.sequence + 1
    after = dict(live) if live else {}
    cells: dict[bytes, bytes | None] = {HEADER_CELL: encode_header(timestamp_ms, sequence, False)}
    if live is None:
        cells.update(_without(stored.columns))
    for name, datum in written.items():
        _check_still(layout, name, datum)
        if datum.value is None:
            after.pop(name, None)
            if name in stored.columns:
                cells[layout.cells[name]] = None
        else:
            after[name] = datum
            cells[layout.cells[name]] = encode_cell(datum)
    _check_size(work, after)
    row = StoredRow(timestamp_ms, sequence, False, _all_columns(work, after, written))
    amounts = mutation.columns if kind is ChangeKind.INCREMENT else NOTHING
    change = Change(kind, mutation.key, written, amounts, after, False, timestamp_ms, sequence)
    return Applied(True, written if amounts else NOTHING, cells, row, change)


def _check_still(layout: Layout, name: str, datum: Datum) -> None:
    """Check types again: the schema may have changed since `check`."""
    wanted = layout.types.get(name)
    if wanted is not datum.type and (wanted is None or datum.value is not None):
        raise ValidationFailed(f"column {name} is no longer of type {datum.type.name}")


def _check_immutable(layout: Layout, live: Columns, written: Columns) -> None:
    for name, datum in written.items():
        if name in layout.immutable and name in live and live[name].value != datum.value:
            raise _immutable(name)


def _immutable(name: str) -> ValidationFailed:
    return ValidationFailed(f"column {name} is in an immutable index, so it stays as it was set")


def _check_size(work: _Work, after: Columns) -> None:
    cells = work.layout.cells
    size = sum([len(cells[name]) + cell_bytes(datum) for name, datum in after.items()])
    if size > work.record_bytes_max:
        raise SizeExceeded(f"the record would have {size} bytes, at most {work.record_bytes_max}")
    if work.layout.index_keys:
        check_entries(work.layout, work.mutation.key, after)


def _without(columns: Columns) -> dict[bytes, None]:
    return {COLUMN_PREFIX + name.encode(): None for name in columns}


def _all_columns(work: _Work, after: Columns, written: Collection[str]) -> Columns:
    """``after`` and the columns that are stored though the schema does not know them."""
    stored, live = work.stored.columns, work.live
    if live is None or live is stored:
        return after
    unknown = {
        name: datum for name, datum in stored.items() if name not in live and name not in written
    }
    return {**unknown, **after}


def _remove_row(work: _Work) -> Applied:
    stored, mutation = work.stored, work.mutation
    if work.live is None:
        return Applied(True, NOTHING, NO_CELLS, stored, None)
    timestamp_ms, sequence = work.timestamp_ms, stored.sequence + 1
    cells = {
        HEADER_CELL: encode_header(timestamp_ms, sequence, True),
        **_without(stored.columns),
    }
    change = Change(
        ChangeKind.DELETE, mutation.key, NOTHING, NOTHING, NOTHING, True, timestamp_ms, sequence
    )
    return Applied(True, NOTHING, cells, StoredRow(timestamp_ms, sequence, True, NOTHING), change)


def _remove_columns(work: _Work) -> Applied:
    layout, stored, live, mutation, timestamp_ms, _ = work
    live = live or NOTHING
    gone = {name: live[name] for name in mutation.attributes if name in live}
    if not gone:
        return Applied(True, NOTHING, NO_CELLS, stored, None)
    for name in gone:
        if name in layout.immutable:
            raise _immutable(name)
    sequence = stored.sequence + 1
    after = {name: datum for name, datum in live.items() if name not in gone}
    cells = {HEADER_CELL: encode_header(timestamp_ms, sequence, False), **_without(gone)}
    row = StoredRow(timestamp_ms, sequence, False, _all_columns(work, after, gone))
    change = Change(
        ChangeKind.DELETE, mutation.key, gone, NOTHING, after, False, timestamp_ms, sequence
    )
    return Applied(True, NOTHING, cells, row, change)
