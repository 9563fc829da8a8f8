import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sds.bed import KEY, SCHEMA, columns, steady, values, when

from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import ValidationFailed
from opentalos.model.mutation import Condition, ConditionOperator
from opentalos.sds.condition import check_condition, holds

EQUAL, NOT_EQUAL, GREATER, GREATER_OR_EQUAL, LESS, LESS_OR_EQUAL = ConditionOperator
PYTHON: dict[ConditionOperator, Callable[[Any, Any], bool]] = {
    EQUAL: operator.eq,
    NOT_EQUAL: operator.ne,
    GREATER: operator.gt,
    GREATER_OR_EQUAL: operator.ge,
    LESS: operator.lt,
    LESS_OR_EQUAL: operator.le,
}


@given(st.sampled_from(ConditionOperator), values(DataType.STRING), values(DataType.STRING))
@steady
def test_values_are_compared_in_their_order(
    wanted: ConditionOperator, left: str, right: str
) -> None:
    condition = when("name", wanted, right)
    check_condition(SCHEMA, condition)
    assert holds(condition, KEY, columns(name=left)) is PYTHON[wanted](left, right)


@pytest.mark.parametrize("live", [{}, None])
@pytest.mark.parametrize("wanted", ConditionOperator)
def test_no_comparison_holds_of_an_absent_column(
    live: dict[str, Datum] | None, wanted: ConditionOperator
) -> None:
    assert not holds(when("age", wanted, 1), KEY, live)


def test_a_comparison_with_null_asks_whether_the_column_is_set() -> None:
    unset, is_set = when("age", EQUAL, None), when("age", NOT_EQUAL, None)
    check_condition(SCHEMA, unset)
    check_condition(SCHEMA, Condition(NOT_EQUAL, "age", Datum(DataType.BOOL, None)))
    absent: tuple[dict[str, Datum] | None, ...] = (None, {})
    for live in absent:
        assert holds(unset, KEY, live)
        assert not holds(is_set, KEY, live)
    assert not holds(unset, KEY, columns(age=1))
    assert holds(is_set, KEY, columns(age=1))


def test_columns_of_the_key_can_be_compared() -> None:
    condition = when("at", GREATER, 6)
    check_condition(SCHEMA, condition)
    assert holds(condition, KEY, {})
    assert not holds(condition, KEY, None)


def test_sets_can_be_compared_for_equality() -> None:
    condition = when("tags", EQUAL, ("a", "b"))
    check_condition(SCHEMA, condition)
    assert holds(condition, KEY, columns(tags=("a", "b")))
    assert not holds(condition, KEY, columns(tags=("a",)))


def test_a_row_is_there_or_not() -> None:
    for wanted in (True, False):
        condition = Condition(row_exists=wanted)
        check_condition(SCHEMA, condition)
        assert holds(condition, KEY, {}) is wanted
        assert holds(condition, KEY, None) is not wanted


ONE = Datum(DataType.INT32, 1)


@pytest.mark.parametrize(
    ("condition", "wrong"),
    [
        (Condition(), "needs operator, field and value, or rowExist"),
        (Condition(EQUAL, "age"), "needs operator, field and value, or rowExist"),
        (Condition(None, "age", ONE), "needs operator, field and value, or rowExist"),
        (Condition(EQUAL, "age", ONE, True), "on a column or on the existence of the row"),
        (Condition(EQUAL, "size", ONE), "column size is not in the table"),
        (Condition(EQUAL, "name", ONE), "column name is of type STRING, but INT32 was given"),
        (when("age", LESS, None), "column age: null has no order"),
        (when("tags", LESS, ("a",)), "column tags: STRING_SET has no order"),
        (when("photo", GREATER_OR_EQUAL, b"a"), "column photo: RAWBINARY has no order"),
        (when("age", EQUAL, 2**31), "column age .* does not fit 32 bits"),
    ],
)
def test_a_wrong_condition_is_refused(condition: Condition, wrong: str) -> None:
    with pytest.raises(ValidationFailed, match=wrong):
        check_condition(SCHEMA, condition)


def test_a_condition_checked_by_a_former_schema_is_refused() -> None:
    with pytest.raises(ValidationFailed, match="column age is of type INT32 now"):
        holds(Condition(EQUAL, "age", Datum(DataType.INT64, 1)), KEY, columns(age=1))


def test_a_shorter_integer_is_compared_with_a_longer_one() -> None:
    condition = Condition(GREATER, "age", Datum(DataType.INT8, 1))
    check_condition(SCHEMA, condition)
    assert holds(condition, KEY, columns(age=2))
    with pytest.raises(ValidationFailed, match="column level is of type INT8, but INT32 was given"):
        check_condition(SCHEMA, Condition(EQUAL, "level", ONE))
