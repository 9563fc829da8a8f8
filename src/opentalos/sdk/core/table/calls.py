"""Arguments and results of the table client: conditions, batch items, ranges, table info."""

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
    """A condition that compares a column with a value: ``Where("balance", ">=", 10)``."""

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
    """A condition that the row exists, or does not exist."""

    exists: bool = True


Condition = Where | RowExists


class Get(NamedTuple):
    """Read a row; ``columns``: only these, empty: all."""

    key: Mapping[str, Given]
    columns: Sequence[str] = ()


class Put(NamedTuple):
    """Write columns of a row, given with the columns of its key."""

    record: Mapping[str, Given]
    condition: Condition | None = None


class Increment(NamedTuple):
    """Add amounts to integer columns."""

    key: Mapping[str, Given]
    amounts: Mapping[str, Given]


class Remove(NamedTuple):
    """Remove columns of a row, or the row if none are named."""

    key: Mapping[str, Given]
    columns: Sequence[str] = ()
    condition: Condition | None = None


BatchItem = Get | Put | Increment | Remove
# For a get the row or None, for an increment the new values, else whether the condition held.
BatchOutcome = Row | bool | TalosError | None


class TableRange(NamedTuple):
    """A range of a table, from a key up to but excluding another; empty: unbounded."""

    start: Columns = NOTHING
    stop: Columns = NOTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """A table of the caller: name, settings and state."""

    name: str
    spec: TableSpec
    state: TableState
    created_ms: int = 0
    altered_ms: int = 0
