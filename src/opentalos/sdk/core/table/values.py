"""Converts plain Python values to the column types of a table, and back.

A plain value is a bool, int, float, str, bytes, a set, list or tuple of these, or None. It is
converted to the type of its column in the schema; a ``Datum`` carries its own type.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from opentalos.model.datum import Columns, DataType, Datum, Scalar
from opentalos.model.errors import ValidationFailed

Plain = bool | int | float | str | bytes | tuple[Scalar, ...] | None
Given = Any  # a plain value or a Datum; dict literals have no narrower type
Row = dict[str, Plain]  # plain values by column

_SETS_FROM: Final = DataType.BOOL_SET.value  # the type of a set is that of its items plus 99
_SET_STEP: Final = DataType.BOOL_SET.value - DataType.BOOL.value
_BITS: Final = {DataType.INT8: 8, DataType.INT16: 16, DataType.INT32: 32, DataType.INT64: 64}
_FLOATS: Final = (DataType.FLOAT, DataType.DOUBLE)
_FLOAT_MAX: Final = 3.4028234663852886e38  # the largest that four bytes hold


def plain_row(columns: Columns) -> Row:
    """Plain values of columns."""
    return {name: datum.value for name, datum in columns.items()}


def typed_columns(types: Mapping[str, DataType], values: Mapping[str, Given]) -> dict[str, Datum]:
    """Convert values to the types of their columns.

    Raises: ValidationFailed: no such column, or the type cannot hold the value; not done.
    """
    return {name: typed(types, name, value) for name, value in values.items()}


def typed(types: Mapping[str, DataType], name: str, value: Given) -> Datum:
    """Convert a value to the type of its column. Raises: ValidationFailed."""
    if isinstance(value, Datum):
        return value
    kind = types.get(name)
    if kind is None:
        raise ValidationFailed(f"the table has no column {name!r}")
    if value is None:
        return Datum(kind, None)
    if kind < _SETS_FROM:
        return Datum(kind, _scalar(kind, name, value))
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise ValidationFailed(f"column {name!r} of type {kind.name} cannot hold {value!r}")
    item = DataType(kind - _SET_STEP)
    return Datum(kind, tuple(sorted({_scalar(item, name, member) for member in value})))


def _scalar(kind: DataType, name: str, value: Any) -> Scalar:
    if kind in _BITS:
        if isinstance(value, int) and not isinstance(value, bool):
            limit = 1 << (_BITS[kind] - 1)
            if -limit <= value < limit:
                return value
    elif kind in _FLOATS:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _number(kind, name, value)
    elif kind is DataType.BOOL:
        if isinstance(value, bool):
            return value
    elif kind is DataType.STRING:
        if isinstance(value, str) and _is_text(value):
            return value
    elif isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise ValidationFailed(f"column {name!r} of type {kind.name} cannot hold {value!r}")


def _is_text(value: str) -> bool:
    """Whether it is valid Unicode: a lone surrogate is not."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(kind: DataType, name: str, value: float) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if kind is DataType.FLOAT and math.isfinite(number) and abs(number) > _FLOAT_MAX:
        raise ValidationFailed(f"column {name!r} of type FLOAT cannot hold {value!r}")
    return number
