"""Splits the rows of a table by the partition of their keys; needs the extra ``arrow``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from opentalos.model.settings.partitioning import MULTIPLIER, POSITIVE, SEED, SHIFT
from opentalos.sdk.core.producer.partitioner import (
    Partitioner,
    murmur2_partition_of,
    official_partition_of,
)

_KEY: Final = "partition_key"
_KEY_BYTES_MAX: Final = 64  # longest key of columns that are hashed at once
_JAVA: Final = np.uint32(31)
_MURMUR: Final = np.uint32(MULTIPLIER)
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
    at_once = _AT_ONCE.get(partitioner)
    chosen = None if at_once is None else at_once(column, partitions)
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


class _Keys(NamedTuple):
    """The UTF-8 bytes of all keys, those of null empty."""

    held: NDArray[np.uint8]
    starts: NDArray[np.int32]
    sizes: NDArray[np.int32]


def _keys(column: Any) -> _Keys | None:
    """None: there are no bytes, or a key is too long for hashing all at once to pay off."""
    _, ends, data = column.buffers()
    places = np.frombuffer(ends, np.int32)[column.offset :][: len(column) + 1]
    sizes = np.diff(places)
    if data is None or not sizes.size or sizes.max() > _KEY_BYTES_MAX:
        return None
    return _Keys(np.frombuffer(data, np.uint8), places[:-1], sizes)


def _official(column: Any, partitions: int) -> NDArray[np.int64] | None:
    """By Java's hash code as in ``model.message``; None: or a key is not ASCII."""
    keys = _keys(column)
    if keys is None:
        return None
    held, starts, sizes = keys
    if held[starts[0] : starts[-1] + sizes[-1]].max(initial=0) > _ASCII_MAX:
        return None
    hashes = np.zeros(len(column), np.uint32)
    everywhere = int(sizes.min())  # all rows are at least this long
    for place in range(everywhere):
        hashes *= _JAVA
        hashes += held[starts + np.int32(place)]
    for place in range(everywhere, int(sizes.max())):
        longer = np.flatnonzero(sizes > place)
        hashes[longer] = hashes[longer] * _JAVA + held[starts[longer] + place]
    interval = POSITIVE // partitions
    return (hashes & np.uint32(POSITIVE)).astype(np.int64) // interval % partitions


def _murmur2(column: Any, partitions: int) -> NDArray[np.int64] | None:
    """As in ``model.settings.partitioning``."""
    keys = _keys(column)
    if keys is None:
        return None
    held, starts, sizes = keys
    hashes = np.uint32(SEED) ^ sizes.astype(np.uint32)
    for place in range(0, int(sizes.max()) & ~3, 4):
        rows = np.flatnonzero(sizes >= place + 4)
        words = _little(held, starts[rows] + np.int32(place), 4) * _MURMUR
        words ^= words >> np.uint32(SHIFT)
        hashes[rows] = hashes[rows] * _MURMUR ^ words * _MURMUR
    for rest in (1, 2, 3):
        rows = np.flatnonzero(sizes & 3 == rest)
        tails = _little(held, starts[rows] + (sizes[rows] & ~3), rest)
        hashes[rows] = (hashes[rows] ^ tails) * _MURMUR
    hashes = (hashes ^ hashes >> np.uint32(13)) * _MURMUR
    hashes ^= hashes >> np.uint32(15)
    return (hashes & np.uint32(POSITIVE)).astype(np.int64) % partitions


def _little(held: NDArray[np.uint8], places: NDArray[np.int32], count: int) -> NDArray[np.uint32]:
    """So many bytes from each place, as a little-endian number."""
    found = np.zeros(len(places), np.uint32)
    for number in range(count):
        found |= held[places + np.int32(number)].astype(np.uint32) << np.uint32(8 * number)
    return found


# What hashes all keys at once, and returns None where it cannot.
_AT_ONCE: Final[Mapping[Partitioner, Callable[[Any, int], NDArray[np.int64] | None]]] = {
    official_partition_of: _official,
    murmur2_partition_of: _murmur2,
}


def _one_by_one(column: Any, partitioner: Partitioner, partitions: int) -> NDArray[np.int64]:
    coded = column.dictionary_encode()
    chosen = [partitioner(key, partitions) % partitions for key in coded.dictionary.to_pylist()]
    places: NDArray[np.int32] = pc.fill_null(coded.indices, -1).to_numpy()
    return np.array([*chosen, 0], np.int64)[places]
