"""Conditions of a mutation: whether the row exists, or how one column compares with a value."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from opentalos.model.datum import Columns
from opentalos.model.errors import ValidationFailed
from opentalos.model.mutation import Condition, ConditionOperator
from opentalos.model.table import TableSchema
from opentalos.sds.value_rules import KEY_TYPES, column_fault, suits

COMPARISONS: Final[Mapping[ConditionOperator, Callable[[Any, Any], bool]]] = {
    ConditionOperator.EQUAL: operator.eq,
    ConditionOperator.NOT_EQUAL: operator.ne,
    ConditionOperator.GREATER: operator.gt,
    ConditionOperator.GREATER_OR_EQUAL: operator.ge,
    ConditionOperator.LESS: operator.lt,
    ConditionOperator.LESS_OR_EQUAL: operator.le,
}
EQUALITY: Final = (ConditionOperator.EQUAL, ConditionOperator.NOT_EQUAL)


def check_condition(schema: TableSchema, condition: Condition) -> None:
    """Refuse a condition that is of neither kind or does not suit its column.

    Raises: ValidationFailed.
    """
    wanted_operator, field, value, row_exists = condition
    if row_exists is not None:
        if wanted_operator is not None:
            raise ValidationFailed("a condition is on a column or on the existence of the row")
        return
    if wanted_operator is None or value is None:
        raise ValidationFailed("a condition needs operator, field and value, or rowExist")
    wanted = schema.attributes.get(field)
    if wanted is None:
        raise ValidationFailed(f"the condition's column {field} is not in the table")
    ordered = wanted_operator not in EQUALITY
    if ordered and (wanted not in KEY_TYPES or value.value is None):
        given = "null" if value.value is None else wanted.name
        raise ValidationFailed(f"the condition's column {field}: {given} has no order")
    fault = column_fault(wanted, value) if value.value is not None else ""
    if fault:
        raise ValidationFailed(f"the condition's column {field} {fault}")


def holds(condition: Condition, key: Columns, live: Columns | None) -> bool:
    """Whether a condition that passed `check_condition` holds of a record (None: there is none).

    Raises: ValidationFailed if the column has another type by now.
    """
    if condition.row_exists is not None:
        return (live is not None) is condition.row_exists
    wanted_operator, field, value, _ = condition
    assert wanted_operator is not None  # check_condition made sure
    assert value is not None
    datum = None if live is None else live.get(field) or key.get(field)
    if value.value is None:
        return (datum is None) is (wanted_operator is ConditionOperator.EQUAL)
    if datum is None:
        return False
    if not suits(datum.type, value.type):
        raise ValidationFailed(f"the condition's column {field} is of type {datum.type.name} now")
    return COMPARISONS[wanted_operator](datum.value, value.value)
