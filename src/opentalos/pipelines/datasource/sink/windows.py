"""Regroups Spark's record batches into windows that depend only on the rows.

A retry receives the same rows in record batches of other sizes, and it must make the same blocks.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

WINDOW_ROWS_MAX: Final = 50_000
WINDOW_BYTES_MAX: Final = 16 << 20  # of values and keys; a single row may have more


def windows(
    batches: Iterable[Any],
    sized: tuple[str, ...],
    rows_max: int = WINDOW_ROWS_MAX,
    bytes_max: int = WINDOW_BYTES_MAX,
) -> Iterator[Any]:
    """The rows as tables of the largest size within the bounds; none is empty.

    Args: sized: columns of bytes or text whose lengths count.
    """
    waiting: list[Any] = []
    rows = bytes_count = 0
    for batch in batches:
        size = _size(batch, sized)
        if rows + batch.num_rows <= rows_max and bytes_count + size <= bytes_max:
            if batch.num_rows:
                waiting.append(batch)
            rows += batch.num_rows
            bytes_count += size
            continue
        ends = np.concatenate([[0], np.cumsum(_sizes(batch, sized))])
        at = 0
        while at < batch.num_rows:
            fitting = np.searchsorted(ends, ends[at] + bytes_max - bytes_count, "right") - 1
            end = min(int(fitting), at + rows_max - rows, batch.num_rows)
            if end <= at and rows:
                yield pa.Table.from_batches(waiting)
                waiting, rows, bytes_count = [], 0, 0
                continue
            end = max(end, at + 1)
            waiting.append(batch.slice(at, end - at))
            rows += end - at
            bytes_count += int(ends[end] - ends[at])
            at = end
    if waiting:
        yield pa.Table.from_batches(waiting)


def _size(batch: Any, sized: tuple[str, ...]) -> int:
    """Bytes of all rows."""
    lengths = (pc.binary_length(batch.column(name)) for name in sized)
    return sum(pc.sum(of, min_count=0).as_py() for of in lengths)


def _sizes(batch: Any, sized: tuple[str, ...]) -> NDArray[np.int64]:
    """Bytes of each row."""
    total = np.zeros(batch.num_rows, np.int64)
    for name in sized:
        lengths = pc.fill_null(pc.binary_length(batch.column(name)), 0)
        total += lengths.to_numpy(zero_copy_only=False)
    return total
