"""Records in the form that callers ask for."""

from collections.abc import Sequence

from opentalos.broker.tables.api.values import Table
from opentalos.model.datum import Columns
from opentalos.model.errors import ValidationFailed
from opentalos.ports.row_store import Row


def selected(record: Columns, attributes: Sequence[str]) -> Columns:
    """The columns that were asked for, of those the record has; none asked for: all."""
    return {name: record[name] for name in attributes if name in record} if attributes else record


def check_attributes(table: Table, attributes: Sequence[str]) -> None:
    """Raises: ValidationFailed: the table has no such column."""
    for name in attributes:
        if name not in table.schema.attributes:
            raise ValidationFailed(f"the table has no column {name}")


def bytes_of(row: Row | None) -> int:
    """Bytes of a row's key and cells; 0 if it is absent."""
    if row is None:
        return 0
    cells = row.cells
    return len(row.key) + sum(map(len, cells)) + sum(map(len, cells.values()))
