"""Rows of a table by the partition their keys belong to; needs the extra ``arrow``."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from opentalos.sdk.partitioner import Partitioner

_KEY: Final = "partition_key"


def split_by_key(
    table: Any, partitioner: Partitioner, partitions: int
) -> Iterator[tuple[int | None, Any, Sequence[int]]]:
    """Partition, rows as a table, and their numbers; partition None: rows without a key.

    The order of rows is kept within each partition.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    keyed = _KEY in table.column_names and table.column(_KEY).null_count < table.num_rows
    if not keyed:
        yield None, table, range(table.num_rows)
        return
    column = table.column(_KEY).cast(pa.string()).combine_chunks().dictionary_encode()
    chosen = [partitioner(key, partitions) % partitions for key in column.dictionary.to_pylist()]
    rows: dict[int | None, list[int]] = {}
    for row, key in enumerate(column.indices.to_pylist()):
        rows.setdefault(None if key is None else chosen[key], []).append(row)
    for partition, numbers in rows.items():
        yield partition, table.take(pa.array(numbers, pa.int64())), numbers
