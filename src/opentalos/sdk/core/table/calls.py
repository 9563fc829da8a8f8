"""What callers of the table client name: conditions, the parts of a batch, what is known of a
table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentalos.model.datum import Columns
from opentalos.model.errors import TalosError, ValidationFailed
from opentalos.model.mutation import NOTHING, ConditionOperator
from opentalos.model.table import TableSpec, TableState
from opentalos.sdk.core.table.values import Given, Row

_OPERATORS: Final = {
    "==": ConditionOperator.EQUAL,
    "!=": ConditionOperator.NOT_EQUAL,
    ">": ConditionOperator.GREATER,
    ">=": ConditionOperator.GREATER_OR_EQUAL,
    "<": ConditionOperator.LESS,
    "<=": ConditionOperator.LESS_OR_EQUAL,
}


class Where(NamedTuple):
    """The row's column compares so with the value: ``Where("balance", ">=", 10)``."""

    column: str
    operator: str  # == != > >= < <=
    value: Given


def operator_of(condition: Where) -> ConditionOperator:
    """The operator in the protocol's terms. Raises: ValidationFailed: there is no such operator."""
    found = _OPERATORS.get(condition.operator)
    if found is None:
        known = " ".join(_OPERATORS)
        raise ValidationFailed(f"unknown operator {condition.operator!r}; use one of {known}")
    return found


class RowExists(NamedTuple):
    """There is such a row, or there is none."""

    exists: bool = True


Condition = Where | RowExists


class Get(NamedTuple):
    """Read a record; ``columns``: only these, empty: all."""

    key: Mapping[str, Given]
    columns: Sequence[str] = ()


class Put(NamedTuple):
    """Write the columns of a record, which has its key's columns as well."""

    record: Mapping[str, Given]
    condition: Condition | None = None


class Increment(NamedTuple):
    """Add amounts to columns of whole numbers."""

    key: Mapping[str, Given]
    amounts: Mapping[str, Given]


class Remove(NamedTuple):
    """Remove columns of a record; none named: the record."""

    key: Mapping[str, Given]
    columns: Sequence[str] = ()
    condition: Condition | None = None


BatchItem = Get | Put | Increment | Remove
# Of a get its record or None, of an increment the new values, else whether its condition held.
BatchOutcome = Row | bool | TalosError | None


class TableRange(NamedTuple):
    """A part of a table, from a key on, up to but without another; empty: the table's end."""

    start: Columns = NOTHING
    stop: Columns = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """A table of the caller's."""

    name: str
    spec: TableSpec
    state: TableState
    created_ms: int = 0
    altered_ms: int = 0
