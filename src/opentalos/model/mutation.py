"""What a caller asks for one row of a structured table.

Source: docs/protocol/sds.md#table-calls.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import NamedTuple

from opentalos.model.datum import Columns, Datum

NOTHING: Mapping[str, Datum] = MappingProxyType({})


class Operation(Enum):
    """What a mutation does to its row."""

    PUT = "put"
    INCREMENT = "increment"
    REMOVE = "remove"


class ConditionOperator(IntEnum):
    """How a condition compares a column with its value, as clients number it."""

    EQUAL = 1
    NOT_EQUAL = 2
    GREATER = 3
    GREATER_OR_EQUAL = 4
    LESS = 5
    LESS_OR_EQUAL = 6


class Condition(NamedTuple):
    """What must hold of the row before the mutation. ``row_exists`` alone, or the other three."""

    operator: ConditionOperator | None = None
    field: str = ""
    value: Datum | None = None
    row_exists: bool | None = None


class Mutation(NamedTuple):
    """A change of one row, which is done whole or not at all.

    ``columns``: of a put those written, of an increment the amounts. ``attributes``: of a remove
    the columns that go; empty: the whole row.
    """

    operation: Operation
    key: Columns
    columns: Columns = NOTHING
    attributes: tuple[str, ...] = ()
    condition: Condition | None = None
