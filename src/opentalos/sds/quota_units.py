"""The read and write units that a call costs. Source: docs/protocol/sds.md#units."""

from typing import NamedTuple

from opentalos.model.mutation import Operation
from opentalos.model.table import IndexMode, TableSchema


class Units(NamedTuple):
    """Units of one call."""

    reads: int
    writes: int


GET = Units(1, 0)


def of_mutation(schema: TableSchema, operation: Operation) -> Units:
    """Units of a mutation, whether or not its condition holds."""
    if operation is Operation.INCREMENT:
        return Units(1, 1)
    eager = sum(index.mode is IndexMode.EAGER for index in schema.indexes.values())
    return Units(eager, 1)


def of_scanned(schema: TableSchema, index: str | None) -> Units:
    """Units of each record that a scan reads, matching or not."""
    lazy = index is not None and schema.indexes[index].mode is IndexMode.LAZY
    return Units(2 if lazy else 1, 0)
