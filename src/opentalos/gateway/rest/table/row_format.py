"""Rows of structured tables as JSON, converted by the types of the table's columns."""

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any

from opentalos.gateway.rest.routing.schema import Schema, boolean, either, fields, table, text
from opentalos.model.checks import shown_value
from opentalos.model.datum import Columns, DataType, Datum, Scalar
from opentalos.model.errors import ValidationFailed
from opentalos.model.mutation import Condition, ConditionOperator
from opentalos.model.table import TableSchema
from opentalos.wire.sds.datum import to_single

COLUMNS_MAX = 1_000  # of a row in a request; a table has fewer
_NAME = text(chars_min=1, chars_max=256)
ROW: Schema = {
    **table({}, _NAME, minimum=1, maximum=COLUMNS_MAX),
    "description": "Values by column.",
}
PREFIX: Schema = {
    **table({}, _NAME, maximum=COLUMNS_MAX),
    "description": "Values of the key or of a prefix of it; for an index, its columns first.",
}
SHOWN: Schema = table({})
NAMES: Schema = {
    "type": "array", "items": _NAME, "maxItems": COLUMNS_MAX, "description": "Names of columns.",
}  # fmt: skip
OPERATORS: Mapping[str, ConditionOperator] = {
    "=": ConditionOperator.EQUAL,
    "!=": ConditionOperator.NOT_EQUAL,
    ">": ConditionOperator.GREATER,
    ">=": ConditionOperator.GREATER_OR_EQUAL,
    "<": ConditionOperator.LESS,
    "<=": ConditionOperator.LESS_OR_EQUAL,
}
CONDITION: Schema = either(
    fields(column=_NAME, operator={"type": "string", "enum": list(OPERATORS)}, value={}),
    fields(exists=boolean("Whether the row must exist.")),
)
_SET = DataType.BOOL_SET - DataType.BOOL  # from a type to the type of its sets
_BINARY = (DataType.BINARY, DataType.RAWBINARY)
_NOT_JSON = {"Infinity": math.inf, "-Infinity": -math.inf}  # no column has NaN


def columns_of(schema: TableSchema, sent: Mapping[str, Any]) -> dict[str, Datum]:
    """Typed values of a row that was sent. Raises: ValidationFailed: names the column."""
    return {name: _datum(_type_of(schema, name), value, name) for name, value in sent.items()}


def condition_of(schema: TableSchema, sent: Mapping[str, Any] | None) -> Condition | None:
    """A condition that fits ``CONDITION``. Raises: ValidationFailed."""
    if sent is None:
        return None
    if "exists" in sent:
        return Condition(row_exists=sent["exists"])
    column = sent["column"]
    value = _datum(_type_of(schema, column), sent["value"], column)
    return Condition(OPERATORS[sent["operator"]], column, value)


def shown(columns: Columns) -> dict[str, Any]:
    """A row as JSON, which ``columns_of`` reads back to the same values."""
    return {name: _shown(datum) for name, datum in columns.items()}


def _type_of(schema: TableSchema, name: str) -> DataType:
    try:
        return schema.attributes[name]
    except KeyError:
        raise ValidationFailed(f"the table has no column {shown_value(name)}") from None


def _datum(kind: DataType, value: Any, name: str) -> Datum:
    try:
        return Datum(kind, None if value is None else _value(kind, value))
    except (ValueError, OverflowError, ValidationFailed):
        wanted = kind.name.lower()
        if kind in (*_BINARY, DataType.BINARY_SET):
            wanted += " (base64)"
        raise ValidationFailed(f"column {name} must be {wanted}") from None


def _value(kind: DataType, value: Any) -> Scalar | tuple[Scalar, ...]:
    """Raises: ValueError, OverflowError."""
    if kind < DataType.BOOL_SET:
        return _reader(kind)(value)
    if not isinstance(value, list):
        raise ValueError
    read = _reader(DataType(kind - _SET))
    return tuple(sorted({read(element) for element in value}))


def _reader(kind: DataType) -> Callable[[Any], Scalar]:
    if kind is DataType.BOOL:
        return _bool
    if kind is DataType.STRING:
        return _text
    if kind in _BINARY:
        return _bytes
    if kind is DataType.FLOAT:
        return lambda value: to_single(_float(value))
    return _float if kind is DataType.DOUBLE else _whole


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _bytes(value: Any) -> bytes:
    return base64.b64decode(_text(value), validate=True)


def _float(value: Any) -> float:
    if isinstance(value, str) and value in _NOT_JSON:
        return _NOT_JSON[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    return float(value)


def _whole(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value


def _shown(datum: Datum) -> Any:
    if isinstance(datum.value, tuple):
        return [_shown_scalar(element) for element in datum.value]
    return None if datum.value is None else _shown_scalar(datum.value)


def _shown_scalar(value: Scalar) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
