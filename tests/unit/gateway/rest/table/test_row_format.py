"""Rows as JSON: what is read, what is shown, and what is refused."""

import json
import math
from typing import Any

import pytest
from tests.unit.matrix import matrix

from opentalos.gateway.rest.table.row_format import columns_of, condition_of, shown
from opentalos.model.checks import json_number
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import ValidationFailed
from opentalos.model.mutation import Condition, ConditionOperator
from opentalos.model.table import KeyPart, TableSchema

SCHEMA = TableSchema(
    primary=(KeyPart("string"),), attributes={item.name.lower(): item for item in DataType}
)
VALUES: dict[str, tuple[Any, Any]] = {  # as JSON, and as a value
    "bool": (True, True), "int8": (-128, -128), "int16": (7, 7), "int32": (2**31 - 1, 2**31 - 1),
    "int64": (2**63 - 1, 2**63 - 1), "float": (1.5, 1.5), "double": (-2.25, -2.25),
    "string": ("ä", "ä"), "binary": ("AP8=", b"\x00\xff"), "rawbinary": ("", b""),
    "bool_set": ([False, True], (False, True)), "int8_set": ([1, 2], (1, 2)), "int16_set": ([], ()),
    "int32_set": ([-1], (-1,)), "int64_set": ([2**62], (2**62,)), "float_set": ([0.5], (0.5,)),
    "double_set": ([1.0, 2.0], (1.0, 2.0)), "string_set": (["a", "b"], ("a", "b")),
    "binary_set": (["YQ==", "Yg=="], (b"a", b"b")),
}  # fmt: skip


@matrix("name", list(VALUES))
def test_a_value_of_every_type_goes_there_and_back(name: str) -> None:
    sent, value = VALUES[name]
    found = columns_of(SCHEMA, {name: sent})
    assert found == {name: Datum(DataType[name.upper()], value)}
    assert json.loads(json.dumps(shown(found))) == {name: sent}


def test_every_type_was_tried() -> None:
    assert list(VALUES) == [item.name.lower() for item in DataType]


def test_sets_are_ascending_and_without_repetitions() -> None:
    assert columns_of(SCHEMA, {"int32_set": [3, 1, 3, 2]})["int32_set"].value == (1, 2, 3)


def test_a_value_that_is_not_set_is_null() -> None:
    found = columns_of(SCHEMA, {"int32": None, "string_set": None})
    assert [item.value for item in found.values()] == [None, None]
    assert shown(found) == {"int32": None, "string_set": None}


def test_whole_numbers_may_be_written_as_json_likes() -> None:
    assert repr(columns_of(SCHEMA, {"int64": 3.0})["int64"].value) == "3"
    assert repr(columns_of(SCHEMA, {"double": 3})["double"].value) == "3.0"
    beyond = json_number("9007199254740993.5")  # the nearest double is another whole number
    assert type(columns_of(SCHEMA, {"double": beyond})["double"].value) is float
    with pytest.raises(ValidationFailed, match="int64"):
        columns_of(SCHEMA, {"int64": beyond})


def test_a_float_is_rounded_to_single_precision() -> None:
    assert columns_of(SCHEMA, {"float": 0.1})["float"].value == 0.10000000149011612
    assert columns_of(SCHEMA, {"float_set": [0.5, 0.1]})["float_set"].value == (
        0.10000000149011612,
        0.5,
    )


@pytest.mark.parametrize("text", ["Infinity", "-Infinity"])
def test_what_json_has_no_number_for_is_a_text(text: str) -> None:
    found = columns_of(SCHEMA, {"double": text})
    assert not math.isfinite(float(str(found["double"].value)))
    assert shown(found) == {"double": text}


@matrix(
    ("name", "value"),
    [
        ("bool", 1), ("int32", True), ("int32", 1.5), ("int32", "1"), ("double", "1"),
        ("double", "NaN"), ("double", True), ("double", 10**400),
        ("int32_set", 1), ("int32_set", ["a"]), ("binary_set", ["a"]), ("string", {}),
        ("string", ["a"]), ("string_set", [None]), ("string_set", [[]]),
    ],
)  # fmt: skip
def test_another_type_is_refused_with_the_column(name: str, value: Any) -> None:
    with pytest.raises(ValidationFailed, match=f"column {name} must be {name}"):
        columns_of(SCHEMA, {name: value})


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValidationFailed, match='the table has no column "nme"'):
        columns_of(SCHEMA, {"nme": 1})


def test_conditions() -> None:
    assert condition_of(SCHEMA, None) is None
    assert condition_of(SCHEMA, {"exists": False}) == Condition(row_exists=False)
    sent = {"column": "int32", "operator": ">=", "value": 5}
    wanted = Condition(ConditionOperator.GREATER_OR_EQUAL, "int32", Datum(DataType.INT32, 5))
    assert condition_of(SCHEMA, sent) == wanted
    with pytest.raises(ValidationFailed, match="no column"):
        condition_of(SCHEMA, {**sent, "column": "x"})
