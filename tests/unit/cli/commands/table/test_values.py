"""Rows and conditions as users type them."""

from typing import Any

import click
import pytest

from opentalos.cli.commands.table.values import condition_of, row_of, rows_of
from opentalos.model.errors import BadRequest

TYPES = {
    "name": "string", "n": "int32", "on": "bool", "x": "double", "raw": "binary",
    "tags": "string_set",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [("name=5", "5"), ("name=", ""), ("name=a=b", "a=b"), ("n=-7", -7), ("on=true", True),
     ("x=1e3", 1000.0), ("x=-Infinity", "-Infinity"), ("raw=AAE=", "AAE="), ('tags=["a"]', ["a"]),
     ("n=null", None)],
)  # fmt: skip
def test_a_value_is_read_by_the_type_of_its_column(text: str, value: Any) -> None:
    assert list(row_of([text], TYPES).values()) == [value]


def test_a_row_may_be_one_json_object() -> None:
    assert row_of(['{"name": "a", "n": 1}'], TYPES) == {"name": "a", "n": 1}
    assert row_of(["name=a", "n=1"], TYPES) == {"name": "a", "n": 1}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((), "missing ROW"),
        (("name",), "neither COLUMN=VALUE nor a JSON object"),
        (("nme=1",), "the table has no column 'nme'; it has name, n"),
        (("n=1", "n=2"), "duplicate column n"),
        (("n=1.5",), "column n has type int32, '1.5' is not valid"),
        (("on=yes",), "column on has type bool"),
        (("tags=a",), "column tags has type string_set"),
        (('{"name"}',), "the row is not JSON"),
    ],
)
def test_invalid_rows_are_rejected_with_the_reason(given: tuple[str, ...], says: str) -> None:
    with pytest.raises(click.UsageError, match=says):
        row_of(given, TYPES)


@pytest.mark.parametrize(
    ("text", "column", "operator", "value"),
    [("n >= 5", "n", ">=", 5), ("n=5", "n", "=", 5), (" name != a b ", "name", "!=", "a b"),
     ("name =", "name", "=", ""), ("n<-1", "n", "<", -1)],
)  # fmt: skip
def test_a_condition_is_column_operator_value(
    text: str, column: str, operator: str, value: Any
) -> None:
    assert condition_of(text, TYPES) == {"column": column, "operator": operator, "value": value}


def test_an_invalid_condition_is_rejected() -> None:
    with pytest.raises(click.BadParameter, match="COLUMN OPERATOR VALUE"):
        condition_of("n is 5", TYPES)


def test_an_invalid_row_names_its_line() -> None:
    lines = iter(['{"name": "a"}', "", "[]"])
    rows = rows_of(lines)
    assert next(rows) == {"name": "a"}
    with pytest.raises(BadRequest, match="line 3 is not a JSON object"):
        next(rows)
