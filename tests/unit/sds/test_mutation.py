from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sds.bed import (
    KEY,
    LIMITS,
    NOW_MS,
    SCHEMA,
    columns,
    data,
    datum,
    done,
    increment,
    put,
    remove,
    steady,
    stored,
    when,
)

from opentalos.model.change import Change, ChangeKind
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import SizeExceeded, ValidationFailed
from opentalos.model.mutation import Condition, ConditionOperator, Mutation, Operation
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import NEVER, TableSchema
from opentalos.sds.cell_format import decode_row
from opentalos.sds.mutation import (
    ABSENT,
    Applied,
    StoredRow,
    apply,
    check,
    live_columns,
    split_record,
)

T = DataType
TTL_MS = 60_000


def refused(row: StoredRow, mutation: Mutation, now_ms: int = NOW_MS) -> str:
    with pytest.raises(ValidationFailed) as failure:
        done(row, mutation, now_ms)
    return str(failure.value)


def nothing_done(applied: Applied, row: StoredRow, *, success: bool) -> bool:
    return applied == Applied(success, {}, {}, row, None)


# --- put


def test_a_put_makes_the_row() -> None:
    applied = done(ABSENT, put(name="Ann", age=30))
    assert applied.success
    assert applied.row == StoredRow(NOW_MS, 1, False, columns(name="Ann", age=30))
    assert set(applied.cells) == {b"!", b"=name", b"=age"}
    assert applied.change == Change(
        ChangeKind.PUT,
        KEY,
        columns(name="Ann", age=30),
        {},
        columns(name="Ann", age=30),
        False,
        NOW_MS,
        1,
    )


def test_a_put_merges_its_columns() -> None:
    applied = done(stored(name="Ann", age=30), put(age=31))
    assert applied.row.columns == columns(name="Ann", age=31)
    assert set(applied.cells) == {b"!", b"=age"}
    assert applied.change is not None
    assert applied.change.columns == columns(age=31)
    assert applied.change.image == columns(name="Ann", age=31)


def test_a_put_of_keys_alone_makes_the_row_and_lengthens_its_life() -> None:
    applied = done(ABSENT, put())
    assert applied.row == StoredRow(NOW_MS, 1, False, {})
    assert applied.change is not None
    again = done(applied.row, put(), NOW_MS + 5)
    assert again.row == StoredRow(NOW_MS + 5, 2, False, {})
    assert again.change is not None


def test_a_put_of_null_removes_the_column() -> None:
    applied = done(stored(name="Ann", age=30), put(name=None, score=None))
    assert applied.row.columns == columns(age=30)
    assert applied.cells == {b"!": applied.cells[b"!"], b"=name": None}
    assert applied.change is not None
    assert applied.change.columns == columns(name=None, score=None)
    assert applied.change.image == columns(age=30)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"size": Datum(T.INT8, 1)}, "the table has no column size"),
        ({"at": Datum(T.INT64, 1)}, "column at is part of the key, so it cannot be changed"),
        ({"age": Datum(T.INT64, 1)}, "column age is of type INT32, but INT64 was given"),
        ({"age": Datum(T.INT32, 2**31)}, "column age .* does not fit 32 bits"),
        ({"age": Datum(T.INT32, "1")}, "column age .* is no integer"),
        ({"size": Datum(T.INT8, None)}, "the table has no column size"),
    ],
)
def test_a_put_of_what_the_schema_does_not_have_is_refused(
    given: dict[str, Datum], wrong: str
) -> None:
    with pytest.raises(ValidationFailed, match=wrong):
        done(ABSENT, Mutation(Operation.PUT, KEY, {**columns(name="Ann"), **given}))


def test_bytes_that_a_client_types_binary_are_stored_as_the_columns_type() -> None:
    given = {"photo": Datum(T.BINARY, b"p"), **columns(age=1)}
    applied = done(ABSENT, Mutation(Operation.PUT, KEY, given))
    assert applied.row.columns == columns(photo=b"p", age=1)
    assert applied.change is not None
    assert applied.change.columns == applied.change.image == columns(photo=b"p", age=1)
    assert given["photo"].type is T.BINARY  # nothing given is changed
    condition = Condition(ConditionOperator.EQUAL, "photo", given["photo"])
    assert done(applied.row, put(condition, age=2)).success
    null = Mutation(Operation.PUT, KEY, {"photo": Datum(T.BINARY, None)})
    assert done(applied.row, null).row.columns == columns(age=1)
    raw = Mutation(Operation.PUT, KEY, {"name": Datum(T.RAWBINARY, b"p")})
    assert "of type STRING, but RAWBINARY was given" in refused(ABSENT, raw)


def test_a_record_is_split_into_key_and_others() -> None:
    assert split_record(SCHEMA, {**columns(name="Ann"), **KEY}) == (KEY, columns(name="Ann"))


def test_a_wrong_key_is_refused() -> None:
    with pytest.raises(ValidationFailed, match="key column at is missing"):
        check(SCHEMA, Mutation(Operation.REMOVE, {"user": KEY["user"]}), LIMITS)


# --- size


def test_a_long_key_is_refused() -> None:
    def of(size: int) -> Mutation:
        return Mutation(Operation.PUT, {**KEY, "user": Datum(T.STRING, "u" * size)})

    limits = SdsLimits(key_bytes_max=100)
    check(SCHEMA, of(100 - 2 - 2 - 8), limits)
    with pytest.raises(SizeExceeded, match="the key has 101 bytes, at most 100"):
        check(SCHEMA, of(100 - 2 - 2 - 8 + 1), limits)


def test_a_large_record_is_refused_as_it_would_become() -> None:
    row = stored(name="n" * 50)
    room = 5 + 51 + 6 + 1  # the cells' names, types and the text that is there
    apply(SCHEMA, row, put(photo=b"p" * 37), NOW_MS, record_bytes_max=room + 37)
    with pytest.raises(SizeExceeded, match="would have 101 bytes, at most 100"):
        apply(SCHEMA, row, put(photo=b"p" * 38), NOW_MS, record_bytes_max=100)


def test_a_long_index_entry_is_refused() -> None:
    assert done(ABSENT, put(city="c" * 4_000)).success
    with pytest.raises(SizeExceeded, match="entry in index by_city has"):
        done(ABSENT, put(city="c" * 5_000))


# --- increment


def test_an_increment_adds_and_reports_the_result() -> None:
    applied = done(stored(age=30, name="Ann"), increment(age=-5, level=1))
    assert applied.amounts == columns(age=25, level=1)
    assert applied.row.columns == columns(name="Ann", age=25, level=1)
    assert set(applied.cells) == {b"!", b"=age", b"=level"}
    assert applied.change is not None
    assert applied.change.kind is ChangeKind.INCREMENT
    assert applied.change.columns == columns(age=25, level=1)
    assert applied.change.amounts == columns(age=-5, level=1)
    assert applied.change.image == applied.row.columns


def test_a_shorter_integer_counts_as_one_of_the_columns_type() -> None:
    """As the official LocalBasicExample increments an INT64 by an INT32."""
    given = Mutation(Operation.INCREMENT, KEY, {"age": Datum(T.INT8, 127)})
    applied = done(stored(age=30), given)
    assert applied.amounts == applied.row.columns == columns(age=157)
    assert applied.change is not None
    assert (applied.change.columns, applied.change.amounts) == (columns(age=157), columns(age=127))
    put_of_it = Mutation(Operation.PUT, KEY, {"age": Datum(T.INT16, -5)})
    assert done(applied.row, put_of_it).row.columns == columns(age=-5)
    top = stored(age=2**31 - 1)
    assert "does not hold" in refused(top, given)


def test_an_increment_makes_the_row() -> None:
    applied = done(ABSENT, increment(age=5))
    assert applied.row == StoredRow(NOW_MS, 1, False, columns(age=5))


@pytest.mark.parametrize(
    ("first", "amount", "wrong"),
    [(127, 1, 128), (-128, -1, -129), (100, 127, 227), (-1, -128, -129)],
)
def test_an_overflow_applies_nothing(first: int, amount: int, wrong: int) -> None:
    text = refused(stored(level=first, age=1), increment(age=1, level=amount))
    assert text == f"column level would become {wrong}, which INT8 does not hold"


@pytest.mark.parametrize(
    ("amounts", "wrong"),
    [
        ({}, "needs the amount of a column"),
        ({"size": Datum(T.INT8, 1)}, "the table has no column size"),
        ({"at": Datum(T.INT64, 1)}, "column at is part of the key"),
        ({"score": Datum(T.DOUBLE, 1.0)}, "column score is of type DOUBLE, which does not count"),
        ({"code": Datum(T.INT64, 1)}, "column code is in an index"),
        ({"age": Datum(T.INT64, 1)}, "column age is of type INT32, but INT64 was given"),
        ({"age": Datum(T.INT32, None)}, "column age is of type INT32, but null was given"),
    ],
)
def test_an_increment_of_what_does_not_count_is_refused(
    amounts: dict[str, Datum], wrong: str
) -> None:
    assert wrong in refused(ABSENT, Mutation(Operation.INCREMENT, KEY, amounts))


# --- remove


def test_a_remove_leaves_time_and_sequence() -> None:
    applied = done(stored(name="Ann", age=30), remove())
    assert applied.row == StoredRow(NOW_MS + 1, 2, True, {})
    assert applied.cells == {b"!": applied.cells[b"!"], b"=name": None, b"=age": None}
    assert applied.change == Change(ChangeKind.DELETE, KEY, {}, {}, {}, True, NOW_MS + 1, 2)
    again = done(applied.row, put(name="Bob"))
    assert again.row == StoredRow(NOW_MS + 2, 3, False, columns(name="Bob"))


def test_a_remove_of_columns_leaves_the_row() -> None:
    applied = done(stored(name="Ann", age=30), remove("name", "score", "name"))
    assert applied.row.columns == columns(age=30)
    assert applied.cells == {b"!": applied.cells[b"!"], b"=name": None}
    assert applied.change is not None
    assert applied.change.kind is ChangeKind.DELETE
    assert applied.change.columns == columns(name="Ann")
    assert applied.change.image == columns(age=30)
    assert not applied.change.row_deleted
    empty = done(applied.row, remove("age"))
    assert empty.row == StoredRow(NOW_MS + 2, 3, False, {})
    assert live_columns(SCHEMA, empty.row, NOW_MS) == {}


@pytest.mark.parametrize("row", [ABSENT, StoredRow(NOW_MS, 7, True, {})])
@pytest.mark.parametrize("mutation", [remove(), remove("name")])
def test_a_remove_of_nothing_changes_nothing(row: StoredRow, mutation: Mutation) -> None:
    assert nothing_done(done(row, mutation), row, success=True)


def test_a_remove_of_columns_that_are_not_set_changes_nothing() -> None:
    row = stored(age=30)
    assert nothing_done(done(row, remove("name")), row, success=True)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("size", "the table has no column size"), ("at", "column at is part of the key")],
)
def test_a_remove_of_an_unknown_column_is_refused(name: str, wrong: str) -> None:
    assert wrong in refused(stored(age=1), remove(name))


# --- conditions


def test_a_failed_condition_changes_nothing() -> None:
    row = stored(age=30)
    condition = when("age", ConditionOperator.EQUAL, 31)
    assert nothing_done(done(row, put(condition, age=40)), row, success=False)
    assert nothing_done(done(row, remove(condition=condition)), row, success=False)
    overflow = Mutation(Operation.INCREMENT, KEY, columns(age=2**31 - 1), condition=condition)
    assert nothing_done(done(row, overflow), row, success=False)


def test_a_condition_that_holds_lets_pass() -> None:
    condition = when("age", ConditionOperator.GREATER, 29)
    assert done(stored(age=30), put(condition, age=40)).row.columns == columns(age=40)
    assert done(stored(age=30), remove("age", condition=condition)).row.columns == {}


def test_a_put_only_if_the_row_is_absent() -> None:
    condition = Condition(row_exists=False)
    assert done(ABSENT, put(condition, age=1)).success
    assert not done(stored(age=1), put(condition, age=1)).success
    assert done(stored(age=1), put(condition, age=2), NOW_MS + TTL_MS).success


# --- time


def test_time_and_sequence_grow_when_the_clock_goes_back() -> None:
    row = done(ABSENT, put(), NOW_MS).row
    for mutation in (put(age=1), increment(age=1), remove("age"), remove()):
        after = done(row, mutation, NOW_MS - 5_000).row
        assert (after.timestamp_ms, after.sequence) == (row.timestamp_ms + 1, row.sequence + 1)
        row = after


def test_an_expired_record_is_absent() -> None:
    row = stored(name="Ann", age=30)
    assert live_columns(SCHEMA, row, NOW_MS + TTL_MS - 1) == row.columns
    assert live_columns(SCHEMA, row, NOW_MS + TTL_MS) is None
    later = NOW_MS + TTL_MS
    assert nothing_done(done(row, remove(), later), row, success=True)
    assert nothing_done(done(row, remove("age"), later), row, success=True)
    assert done(row, increment(age=1), later).amounts == columns(age=1)
    applied = done(row, put(age=1), later)
    assert applied.row == StoredRow(later, 2, False, columns(age=1))
    assert applied.cells[b"=name"] is None
    assert applied.cells[b"=age"] is not None


def test_a_record_without_a_ttl_stays() -> None:
    schema = TableSchema(primary=SCHEMA.primary, attributes=SCHEMA.attributes)
    assert schema.ttl_s == NEVER
    assert live_columns(schema, stored(age=1), NOW_MS * 2) == columns(age=1)


def test_a_table_without_indexes_takes_long_texts() -> None:
    schema = TableSchema(
        group=SCHEMA.group, primary=SCHEMA.primary, attributes=SCHEMA.attributes, hashed=True
    )
    assert apply(schema, ABSENT, put(city="c" * 5_000), NOW_MS).success


# --- immutable columns


def test_a_column_of_an_immutable_index_stays_as_it_was_set() -> None:
    wrong = "column code is in an immutable index, so it stays as it was set"
    row = done(stored(age=1), put(code=5)).row
    assert refused(row, put(code=6)) == wrong
    assert refused(row, put(code=None)) == wrong
    assert refused(row, remove("age", "code")) == wrong
    assert done(row, put(code=5, age=2)).success
    gone = done(row, remove()).row
    assert done(gone, put(code=6)).success
    assert done(row, put(code=6), NOW_MS + 2 * TTL_MS).success


# --- what the schema does not have any more

ODD = StoredRow(
    NOW_MS, 3, False, {**columns(age=30), "old": Datum(T.INT8, 1), "name": Datum(T.INT8, 2)}
)


def test_columns_of_a_former_schema_are_not_published() -> None:
    assert live_columns(SCHEMA, ODD, NOW_MS) == columns(age=30)
    applied = done(ODD, put(score=1.0))
    assert applied.change is not None
    assert applied.change.image == columns(age=30, score=1.0)
    assert applied.row.columns == {**ODD.columns, **columns(score=1.0)}
    assert set(applied.cells) == {b"!", b"=score"}


def test_columns_of_a_former_schema_are_written_over() -> None:
    assert done(ODD, put(name="Ann")).row.columns["name"] == datum("name", "Ann")
    emptied = done(ODD, put(name=None))
    assert emptied.cells[b"=name"] is None
    assert "name" not in emptied.row.columns


def test_columns_of_a_former_schema_stay_when_others_are_removed() -> None:
    assert set(done(ODD, remove("age")).row.columns) == {"old", "name"}
    assert nothing_done(done(ODD, remove("name")), ODD, success=True)


def test_columns_of_a_former_schema_go_with_the_row() -> None:
    assert done(ODD, remove()).cells.keys() == {b"!", b"=old", b"=name", b"=age"}
    assert done(ODD, put(), NOW_MS + TTL_MS).cells.keys() == {b"!", b"=old", b"=name", b"=age"}


@pytest.mark.parametrize("operation", [Operation.PUT, Operation.INCREMENT])
@pytest.mark.parametrize(
    ("name", "datum"),
    [
        ("age", Datum(T.INT64, 1)),
        ("name", Datum(T.INT8, 1)),
        ("old", Datum(T.INT8, 1)),
        ("old", Datum(T.INT8, None)),
    ],
)
def test_what_was_checked_by_a_former_schema_is_refused(
    operation: Operation, name: str, datum: Datum
) -> None:
    row = StoredRow(NOW_MS, 3, False, {**columns(name="Ann"), "old": Datum(T.INT8, 1)})
    with pytest.raises(
        ValidationFailed, match=f"column {name} is no longer of type {datum.type.name}"
    ):
        apply(SCHEMA, row, Mutation(operation, KEY, {name: datum}), NOW_MS)


def test_a_remove_checked_by_a_former_schema_does_nothing() -> None:
    assert nothing_done(apply(SCHEMA, ODD, remove("old"), NOW_MS), ODD, success=True)


# --- any sequence of mutations

COUNTED = ("age", "level")
CHANGED = ("name", "age", "level", "tags", "photo")


def some(names: Sequence[str], **more: Any) -> st.SearchStrategy[dict[str, Datum]]:
    strategies = {name: data(SCHEMA.attributes[name]) for name in names}
    return st.fixed_dictionaries({}, optional=strategies)


mutations = st.one_of(
    some(CHANGED).map(lambda found: Mutation(Operation.PUT, KEY, found)),
    some(COUNTED).filter(bool).map(lambda found: Mutation(Operation.INCREMENT, KEY, found)),
    st.lists(st.sampled_from(CHANGED), max_size=3).map(
        lambda found: Mutation(Operation.REMOVE, KEY, attributes=tuple(found))
    ),
)


@given(st.lists(st.tuples(mutations, st.integers(-TTL_MS, TTL_MS)), max_size=8))
@steady
def test_cells_and_changes_follow_the_row(steps: list[tuple[Mutation, int]]) -> None:
    """What a store keeps of the cells is the row; what streams publish adds up to the record."""
    cells: dict[bytes, bytes] = {}
    row = ABSENT
    now_ms = NOW_MS
    for mutation, pause_ms in steps:
        now_ms += pause_ms
        before = live_columns(SCHEMA, row, now_ms)
        try:
            applied = done(row, mutation, now_ms)
        except ValidationFailed:
            continue  # an overflow
        for cell, raw in applied.cells.items():
            if raw is None:
                del cells[cell]
            else:
                cells[cell] = raw
        assert decode_row(cells) == applied.row
        assert (applied.change is None) is (not applied.cells)
        if applied.change is not None:
            replay(before, applied.change, live_columns(SCHEMA, applied.row, now_ms))
            assert applied.row.timestamp_ms == max(now_ms, row.timestamp_ms + 1)
            assert applied.row.sequence == row.sequence + 1
        row = applied.row


def replay(
    before: Any,
    change: Change,
    after: Any,
) -> None:
    if change.row_deleted:
        assert after is None
        return
    published = dict(before or {})
    if change.kind is ChangeKind.DELETE:
        published = {name: item for name, item in published.items() if name not in change.columns}
    else:
        published.update(change.columns)
    assert published == change.image == after
