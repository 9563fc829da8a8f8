"""Typed values of structured tables.

Source: docs/protocol/sds.md#data-model.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

Scalar = bool | int | float | str | bytes
Value = Scalar | tuple[Scalar, ...] | None  # a tuple for sets, None for null


class DataType(IntEnum):
    """Type of a column, as clients number it."""

    BOOL = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    FLOAT = 6
    DOUBLE = 7
    STRING = 8
    BINARY = 9
    RAWBINARY = 10
    BOOL_SET = 100
    INT8_SET = 101
    INT16_SET = 102
    INT32_SET = 103
    INT64_SET = 104
    FLOAT_SET = 105
    DOUBLE_SET = 106
    STRING_SET = 107
    BINARY_SET = 108


class Datum(NamedTuple):
    """A value with its type. Sets are tuples in ascending order without repetitions."""

    type: DataType
    value: Value


Columns = Mapping[str, Datum]  # by column name: a record, a key, or some columns of one
