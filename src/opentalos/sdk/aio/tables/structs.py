"""Converts between the SDK's values and the Thrift structs of table calls."""

from collections.abc import Callable, Mapping
from typing import Any

from opentalos.model.datum import Columns, Datum
from opentalos.model.errors import OutcomeUnknown, ThrottleRejected, ValidationFailed
from opentalos.model.table import TableState
from opentalos.sdk.core.table.calls import (
    BatchItem,
    BatchOutcome,
    Condition,
    Get,
    Increment,
    Put,
    Remove,
    RowExists,
    TableInfo,
    Where,
    operator_of,
)
from opentalos.sdk.core.table.stream_state import StreamMark
from opentalos.sdk.core.table.values import Given, Row, plain_row
from opentalos.sdk.errors import error_of_table_code
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_from, columns_to, to_struct
from opentalos.wire.sds.table_schema import spec_from

Typed = Callable[[Mapping[str, Given]], Columns]  # plain values with the types of their columns


def get_request(table: str, key: Columns, columns: Any) -> sds.GetRequest:
    """The request to read one row."""
    return sds.GetRequest(tableName=table, keys=columns_to(key), attributes=list(columns) or None)


def item_struct(table: str, item: BatchItem, types: Typed) -> sds.BatchRequestItem:
    """One operation, alone or in a batch."""
    match item:
        case Get(key, columns):
            get = get_request(table, types(key), columns)
            return _item(sds.BatchOp.GET, getRequest=get)
        case Put(record, condition):
            put = sds.PutRequest(
                tableName=table,
                record=columns_to(types(record)),
                condition=_condition(condition, types),
            )
            return _item(sds.BatchOp.PUT, putRequest=put)
        case Increment(key, amounts):
            increment = sds.IncrementRequest(
                tableName=table, keys=columns_to(types(key)), amounts=columns_to(types(amounts))
            )
            return _item(sds.BatchOp.INCREMENT, incrementRequest=increment)
        case Remove(key, columns, condition):
            remove = sds.RemoveRequest(
                tableName=table,
                keys=columns_to(types(key)),
                attributes=list(columns) or None,
                condition=_condition(condition, types),
            )
            return _item(sds.BatchOp.REMOVE, removeRequest=remove)


def _item(action: sds.BatchOp, **request: Any) -> sds.BatchRequestItem:
    return sds.BatchRequestItem(action=action, request=sds.Request(**request))


def _condition(condition: Condition | None, types: Typed) -> sds.SimpleCondition | None:
    if condition is None:
        return None
    if isinstance(condition, RowExists):
        return sds.SimpleCondition(rowExist=condition.exists)
    value: Datum = types({condition.column: condition.value})[condition.column]
    operator = sds.OperatorType(operator_of(condition))
    return sds.SimpleCondition(operator=operator, field=condition.column, value=to_struct(value))


def is_repeatable(item: BatchItem) -> bool:
    """Whether the item is idempotent."""
    return isinstance(item, Get) or (isinstance(item, Put | Remove) and item.condition is None)


def is_typed(item: BatchItem) -> bool:
    """Whether every value is a Datum, which carries its type."""
    parts: list[Given] = []
    for part in item:
        if isinstance(part, Mapping):
            parts += part.values()
        elif isinstance(part, Where):
            parts.append(part.value)
    return all(isinstance(part, Datum) for part in parts)


def row_of(structs: Mapping[str, sds.Datum] | None) -> Row:
    """Plain values of columns. Raises: OutcomeUnknown: the reply is invalid."""
    try:
        return plain_row(columns_from(structs))
    except ValidationFailed as error:
        raise OutcomeUnknown(f"invalid reply: {error}") from error


def outcome_of(item: sds.BatchResultItem) -> BatchOutcome:
    """The outcome of a batch item; an error is returned, not raised."""
    if item.serviceException is not None:
        return error_of_table_code("batch", item.serviceException)
    result = item.result or sds.Result()
    if result.getResult is not None:
        return row_of(result.getResult.item) or None
    if result.incrementResult is not None:
        return row_of(result.incrementResult.amounts)
    for wrote in (result.putResult, result.removeResult):
        if wrote is not None:
            return bool(wrote.success)
    if item.success:
        return OutcomeUnknown("invalid reply: the batch item succeeded without a result")
    return ThrottleRejected(
        "batch item throttled: the rate of the table is exceeded; send it again later"
    )


def info_of(info: sds.TableInfo) -> TableInfo:
    """A table in a reply."""
    status = info.status or sds.TableStatus()
    return TableInfo(
        name=info.name or "",
        spec=spec_from(info.spec or sds.TableSpec()),
        state=state_of(status.state),
        created_ms=status.createTime or 0,
        altered_ms=status.alterTime or 0,
    )


def state_of(state: int | None) -> TableState:
    """The state of a table. Raises: OutcomeUnknown: not known to this version."""
    try:
        return TableState(-1 if state is None else state)
    except ValueError:
        raise OutcomeUnknown(f"invalid reply: unknown table state {state}") from None


def mark_of(checkpoint: sds.StreamCheckpoint) -> StreamMark:
    """The mark of a stream; partitions without an offset start at 0."""
    states = checkpoint.partitionStates or ()
    offsets = {state.partitionId: state.offset for state in states
               if state.partitionId is not None and state.offset is not None}  # fmt: skip
    return StreamMark(checkpoint.timestamp or 0, offsets, checkpoint.enabling or 0)
