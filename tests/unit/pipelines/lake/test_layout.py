"""Layouts and spans of lake tables."""

import pyarrow as pa
import pytest

from opentalos.model.errors import BadRequest, ConfigError
from opentalos.pipelines.lake.layout import ALL, TIME_TYPE, Layout, Span

TIME = pa.field("at", TIME_TYPE, nullable=False)
NAME = pa.field("name", pa.string(), nullable=False)
SCHEMA = pa.schema([TIME, NAME])


@pytest.mark.parametrize(
    ("schema", "time", "key", "text"),
    [
        (SCHEMA, "when", (), "needs a column 'when'"),
        (pa.schema([TIME.with_nullable(True)]), "at", (), "without nulls"),
        (SCHEMA, "name", (), "must be timestamp"),
        (SCHEMA, "at", ("name",), "must include 'at'"),
        (pa.schema([TIME, NAME.with_nullable(True)]), "at", ("at", "name"), "'name' without nulls"),
    ],
)
def test_a_layout_that_no_table_can_have_is_refused(
    schema: pa.Schema, time: str, key: tuple[str, ...], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        Layout("t", schema, time, key)


@pytest.mark.parametrize(
    ("column", "key", "text"),
    [
        ("at", (), "cannot be partitioned by 'at': its type is timestamp"),
        ("other", (), "needs a column 'other'"),
        ("name", ("at",), "must include 'name'"),
    ],
)
def test_partition_columns_that_no_table_can_have_are_refused(
    column: str, key: tuple[str, ...], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        Layout("t", SCHEMA, "at", key, (column,))


def test_rows_are_split_by_the_values_of_partition_columns() -> None:
    layout = Layout("t", SCHEMA, "at", (), ("name",))
    given = pa.table({"at": pa.array([1, 2, 3], TIME_TYPE), "name": ["b", "a", "b"]}, SCHEMA)
    parts = [
        (values, part.column("at").cast("int64").to_pylist())
        for values, part in layout.split(given)
    ]
    assert parts == [(("b",), [1, 3]), (("a",), [2])]
    assert layout.file_schema.names == ["at"]
    assert list(layout.split(given.slice(0, 0))) == []


def test_rows_take_the_columns_and_types_of_the_table() -> None:
    given = pa.table({"more": [1], "name": ["n"], "at": pa.array([7], pa.timestamp("ms"))})
    rows = Layout("t", SCHEMA, "at").rows(given)
    assert rows.schema == SCHEMA
    assert rows.column("at")[0].value == 7000


def test_rows_with_a_null_where_none_may_be_are_refused() -> None:
    given = pa.table({"name": [None], "at": pa.array([7], TIME_TYPE)})
    with pytest.raises(BadRequest, match="do not fit table t"):
        Layout("t", SCHEMA, "at").rows(given)


def test_an_empty_span_is_refused() -> None:
    with pytest.raises(BadRequest, match="time range is empty"):
        Span(5, 5)
    assert (Span(5, 6).start.value, Span(5, 6).end.value) == (5000, 6000)
    assert ALL.start_ms == 0
