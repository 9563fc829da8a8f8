"""Splits the rows of a table by the partition of their keys; needs the extra ``arrow``."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from opentalos.sdk.core.producer.partitioner import Partitioner, partition_of

_KEY: Final = "partition_key"
_KEY_BYTES_MAX: Final = 64  # longest key of columns that are hashed at once
_MULTIPLIER: Final = np.uint32(31)
_POSITIVE: Final = 0x7FFFFFFF
_ASCII_MAX: Final = 0x7F
NO_PARTITION: Final = -1  # of a row without a key


def split_by_key(
    table: Any, partitioner: Partitioner, partitions: int
) -> Iterator[tuple[int | None, Any, Sequence[int]]]:
    """Split a table by partition: partition (None: rows without a key), rows, row numbers.

    Rows keep their order within each partition.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    keyed = _KEY in table.column_names and table.column(_KEY).null_count < table.num_rows
    if not keyed:
        yield None, table, range(table.num_rows)
        return
    chosen = partitions_of(table.column(_KEY), partitioner, partitions)
    for partition, rows in rows_by_partition(chosen):
        where = None if partition == NO_PARTITION else partition
        yield where, table.take(pa.array(rows)), rows.tolist()


def partitions_of(keys: Any, partitioner: Partitioner, partitions: int) -> NDArray[np.int64]:
    """The partition of the key of each row; NO_PARTITION where there is no key."""
    column = keys.cast(pa.string())
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    chosen = _by_bytes(column, partitions) if partitioner is partition_of else None
    if chosen is None:
        chosen = _one_by_one(column, partitioner, partitions)
    if column.null_count:
        chosen[column.is_null().to_numpy(zero_copy_only=False)] = NO_PARTITION
    return chosen


def rows_by_partition(chosen: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each chosen partition, ascending, with its rows in order."""
    order = np.argsort(chosen, kind="stable")
    found, starts = np.unique(chosen[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, starts[1:]), strict=True)


def _by_bytes(column: Any, partitions: int) -> NDArray[np.int64] | None:
    """The partitions of all keys at once, by Java's hash code as in ``model.message``.

    None: a key is too long for this to pay off, or not ASCII.
    """
    _, ends, data = column.buffers()
    places = np.frombuffer(ends, np.int32)[column.offset :][: len(column) + 1]
    sizes = np.diff(places)
    if data is None or not sizes.size or sizes.max() > _KEY_BYTES_MAX:
        return None
    held = np.frombuffer(data, np.uint8)
    if held[places[0] : places[-1]].max(initial=0) > _ASCII_MAX:
        return None
    hashes = np.zeros(len(column), np.uint32)
    starts = places[:-1]
    everywhere = int(sizes.min())  # all rows are at least this long
    for place in range(everywhere):
        hashes *= _MULTIPLIER
        hashes += held[starts + np.int32(place)]
    for place in range(everywhere, int(sizes.max())):
        longer = np.flatnonzero(sizes > place)
        hashes[longer] = hashes[longer] * _MULTIPLIER + held[starts[longer] + place]
    interval = _POSITIVE // partitions
    return (hashes & np.uint32(_POSITIVE)).astype(np.int64) // interval % partitions


def _one_by_one(column: Any, partitioner: Partitioner, partitions: int) -> NDArray[np.int64]:
    coded = column.dictionary_encode()
    chosen = [partitioner(key, partitions) % partitions for key in coded.dictionary.to_pylist()]
    places: NDArray[np.int32] = pc.fill_null(coded.indices, -1).to_numpy()
    return np.array([*chosen, 0], np.int64)[places]
