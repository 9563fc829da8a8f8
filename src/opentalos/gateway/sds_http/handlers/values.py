"""Requests of records as mutations; the broker decides what a table allows."""

from typing import Any, Final, TypeVar

from opentalos.gateway.sds_http.handlers.context import Services
from opentalos.model.datum import Columns
from opentalos.model.errors import ValidationFailed
from opentalos.model.identity import Principal
from opentalos.model.mutation import Condition, ConditionOperator, Mutation, Operation
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_from, from_struct

Value = TypeVar("Value")

Arguments = tuple[Any, ...]
Keyed = sds.GetRequest | sds.IncrementRequest | sds.RemoveRequest
REQUEST: Final = "a request"
TABLE: Final = "a table name"


def needed(value: Value | None, what: str) -> Value:
    """A required part of a call. Raises: ValidationFailed."""
    if value is None or value == "":
        raise ValidationFailed(f"the call needs {what}")
    return value


async def put_from(services: Services, caller: Principal, request: sds.PutRequest) -> Mutation:
    """A put; which of the record's columns are its key is in the table's schema.

    Raises: ValidationFailed; as ``TableService.key_columns``.
    """
    record = dict(columns_from(request.record))
    condition = condition_from(request.condition)
    names = await services.tables.key_columns(caller, needed(request.tableName, TABLE))
    key = {name: record.pop(name) for name in names if name in record}
    return Mutation(Operation.PUT, key, record, condition=condition)


async def key_from(services: Services, caller: Principal, request: Keyed) -> Columns:
    """The key that a request names; what else its ``keys`` have is ignored.

    Clients pass whole records there. All columns of the key are needed, so the row is the same;
    the ends of a scan are not read so, since a column that was ignored would make it larger.
    Raises: ValidationFailed; as ``TableService.key_columns``.
    """
    given = columns_from(request.keys)
    names = await services.tables.key_columns(caller, needed(request.tableName, TABLE))
    return {name: given[name] for name in names if name in given}


async def increment_from(
    services: Services, caller: Principal, request: sds.IncrementRequest
) -> Mutation:
    """An increment. Raises: as ``key_from``."""
    amounts = columns_from(request.amounts)
    return Mutation(Operation.INCREMENT, await key_from(services, caller, request), amounts)


async def remove_from(
    services: Services, caller: Principal, request: sds.RemoveRequest
) -> Mutation:
    """A removal of columns or of the record. Raises: as ``key_from``."""
    condition = condition_from(request.condition)
    key = await key_from(services, caller, request)
    attributes = tuple(request.attributes or ())
    return Mutation(Operation.REMOVE, key, attributes=attributes, condition=condition)


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
