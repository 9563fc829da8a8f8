"""Requests of records as mutations; the broker decides what a table allows."""

from typing import Any, Final, TypeVar

from opentalos.gateway.sds_http.handlers.context import Services
from opentalos.model.errors import ValidationFailed
from opentalos.model.identity import Principal
from opentalos.model.mutation import Condition, ConditionOperator, Mutation, Operation
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_from, from_struct

Value = TypeVar("Value")

Arguments = tuple[Any, ...]
REQUEST: Final = "a request"
TABLE: Final = "a table name"


def needed(value: Value | None, what: str) -> Value:
    """A required part of a call. Raises: ValidationFailed."""
    if value is None or value == "":
        raise ValidationFailed(f"the call needs {what}")
    return value


async def put_from(services: Services, caller: Principal, request: sds.PutRequest) -> Mutation:
    """A put; which of the record's columns are its key is in the table's schema.

    Raises: ValidationFailed; as ``TableAdminService.describe``.
    """
    record = dict(columns_from(request.record))
    condition = condition_from(request.condition)
    table = await services.admin.describe(caller, needed(request.tableName, TABLE))
    key = {name: record.pop(name) for name in table.schema.key_columns if name in record}
    return Mutation(Operation.PUT, key, record, condition=condition)


def increment_from(request: sds.IncrementRequest) -> Mutation:
    """An increment. Raises: ValidationFailed."""
    key, amounts = columns_from(request.keys), columns_from(request.amounts)
    return Mutation(Operation.INCREMENT, key, amounts)


def remove_from(request: sds.RemoveRequest) -> Mutation:
    """A removal of columns or of the record. Raises: ValidationFailed."""
    return Mutation(
        Operation.REMOVE,
        columns_from(request.keys),
        attributes=tuple(request.attributes or ()),
        condition=condition_from(request.condition),
    )


def condition_from(struct: sds.SimpleCondition | None) -> Condition | None:
    """The condition on the row. Raises: ValidationFailed: neither or both kinds, or a part."""
    if struct is None:
        return None
    if struct.rowExist is not None:
        if struct.operator is not None or struct.field or struct.value is not None:
            raise ValidationFailed("a condition on the row itself names no column as well")
        return Condition(row_exists=struct.rowExist)
    field = needed(struct.field, "the column of its condition")
    value = from_struct(needed(struct.value, "the value of its condition"))
    try:
        operator = ConditionOperator(needed(struct.operator, "the operator of its condition"))
    except ValueError:
        raise ValidationFailed(f"unknown operator {struct.operator}") from None
    return Condition(operator, field, value)
