import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sds.bed import KEY, SCHEMA, columns, done, put, remove, steady, stored, values

from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import CorruptLog
from opentalos.model.table import KeyPart, LocalIndex, TableSchema
from opentalos.sds.cell_format import StoredRow
from opentalos.sds.index_format import (
    ENTRY_CELLS,
    IndexChange,
    entries,
    entry_changes,
    entry_columns,
    proves,
    row_of_entry,
)
from opentalos.sds.key_format import row_key, scan_range, shard_of
from opentalos.sds.mutation import ABSENT

T = DataType


def test_the_bytes_of_an_entry_never_change() -> None:
    found = entries(SCHEMA, KEY, stored(city="Oslo", code=5))
    assert {name: raw.hex() for name, raw in found.items()} == {
        "by_city": "001575310000b08c9390ffff8000000000000007",
        "by_code": "00157531000080000000000000058000000000000007",
    }
    assert ENTRY_CELLS == {b"!": b"\x01"}


def test_a_record_without_the_columns_has_no_entry() -> None:
    assert entries(SCHEMA, KEY, stored(age=1)) == {}
    assert entries(SCHEMA, KEY, ABSENT) == {}
    retyped = StoredRow(1, 1, False, {"city": Datum(T.INT8, 1)})
    assert entries(SCHEMA, KEY, retyped) == {}


def test_a_put_makes_the_new_entry_and_leaves_the_old_one() -> None:
    before = stored(city="Oslo", code=5)
    after = done(before, put(city="Bern", age=3)).row
    old, new = entries(SCHEMA, KEY, before), entries(SCHEMA, KEY, after)
    changed = entry_changes(SCHEMA, KEY, before, after)
    assert changed == IndexChange([("by_city", new["by_city"])], [("by_city", old["by_city"])])
    gone = done(after, remove()).row
    assert entry_changes(SCHEMA, KEY, after, gone) == IndexChange([], list(new.items()))
    assert entry_changes(SCHEMA, KEY, ABSENT, before) == IndexChange(list(old.items()), [])
    assert entry_changes(SCHEMA, KEY, before, done(before, put(age=1)).row) == IndexChange([], [])


def test_a_table_without_indexes_has_nothing_to_change() -> None:
    schema = TableSchema(primary=SCHEMA.primary, attributes=SCHEMA.attributes)
    assert entry_changes(schema, KEY, ABSENT, stored(city="Oslo")) == IndexChange((), ())


def test_an_entry_contains_its_row_key() -> None:
    row = stored(city="Oslo")
    raw = entries(SCHEMA, KEY, row)["by_city"]
    assert entry_columns(SCHEMA, "by_city", raw) == {
        "user": KEY["user"],
        **columns(city="Oslo"),
        "at": KEY["at"],
    }
    assert row_of_entry(SCHEMA, "by_city", raw) == row_key(SCHEMA, KEY)
    assert shard_of(SCHEMA, raw) == shard_of(SCHEMA, row_key(SCHEMA, KEY))


def test_a_damaged_entry_is_found() -> None:
    with pytest.raises(CorruptLog, match="stored key"):
        row_of_entry(SCHEMA, "by_city", b"\x00\x15u1")


def test_an_entry_is_proved_by_its_row_alone() -> None:
    row = stored(city="Oslo")
    raw = entries(SCHEMA, KEY, row)["by_city"]
    assert proves(SCHEMA, "by_city", raw, row)
    moved = done(row, put(city="Bern")).row
    assert not proves(SCHEMA, "by_city", raw, moved)
    assert not proves(SCHEMA, "by_city", raw, done(row, remove()).row)
    assert proves(SCHEMA, "by_city", raw, done(moved, put(city="Oslo")).row)


def test_an_index_may_have_columns_of_the_primary_key() -> None:
    schema = TableSchema(
        group=(KeyPart("g"),),
        primary=(KeyPart("a"), KeyPart("b")),
        attributes={"g": T.INT8, "a": T.INT8, "b": T.INT8, "c": T.INT8},
        indexes={"by_b": LocalIndex(columns=(KeyPart("b"), KeyPart("c", False)))},
    )
    key = {name: Datum(T.INT8, number) for number, name in enumerate("gab", 1)}
    raw = entries(schema, key, StoredRow(1, 1, False, {"c": Datum(T.INT8, 4)}))["by_b"]
    assert raw.hex() == "81837b82"
    assert list(entry_columns(schema, "by_b", raw)) == ["g", "b", "c", "a"]
    assert row_of_entry(schema, "by_b", raw) == row_key(schema, key)


@given(values(T.STRING), values(T.STRING), st.booleans())
@steady
def test_a_scan_of_an_index_finds_its_values(stored: str, wanted_city: str, reverse: bool) -> None:
    raw = entries(SCHEMA, KEY, StoredRow(1, 1, False, columns(city=stored)))["by_city"]
    wanted = {"user": KEY["user"], **columns(city=wanted_city)}
    low, high = scan_range(SCHEMA, wanted, wanted, reverse=reverse, index="by_city")
    assert (low <= raw < high) is (stored == wanted_city)
    group = {"user": KEY["user"]}
    low, high = scan_range(SCHEMA, group, group, reverse=reverse, index="by_city")
    assert low <= raw < high
    onward = entry_columns(SCHEMA, "by_city", raw)
    low, high = scan_range(SCHEMA, onward, group, index="by_city")
    assert low == raw < high
