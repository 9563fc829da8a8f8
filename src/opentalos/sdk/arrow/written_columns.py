"""The columns of a table that is encoded: their names, types and defaults."""

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from opentalos.model.errors import BadRequest

WRITTEN: Final = {
    "data": pa.binary(),
    "partition_key": pa.string(),
    "sequence_number": pa.string(),
    "create_time": pa.timestamp("ms", "UTC"),
    "message_type": pa.int32(),
    "schema_fingerprint": pa.string(),
    "tag": pa.string(),
}
_PASSED_OVER: Final = frozenset(("topic", "partition", "offset", "append_time"))


def check_names(names: list[str]) -> None:
    """Raises: BadRequest: a column is unknown or there twice, or data is missing."""
    unknown = sorted(set(names) - set(WRITTEN) - _PASSED_OVER)
    if unknown or len(set(names)) != len(names):
        raise BadRequest(
            f"cannot encode the table: unknown or duplicate columns: {unknown or names}"
        )
    if "data" not in names:
        raise BadRequest("cannot encode the table: the column data is missing")


def check_data(data: Any) -> None:
    """Raises: BadRequest: a row has no data. ``data``: None if no row has any."""
    if data is None or data.null_count:
        raise BadRequest("cannot encode the table: the column data contains nulls")


def chunks_of(table: Any, name: str) -> Any:
    """A column of its encoded type, chunked as it is; None: all null."""
    if name not in table.column_names:
        return None
    column = table.column(name)
    return None if column.null_count == len(column) else column.cast(WRITTEN[name])


def array_of(table: Any, name: str) -> Any:
    """A column as one array of its encoded type, times in ms; None: all null."""
    if name not in table.column_names:
        return None
    column = table.column(name)
    if column.null_count == len(column):
        return None
    kind = column.type
    # combine_chunks copies even a single one.
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if name != "create_time":
        return array.cast(WRITTEN[name])
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        raise BadRequest(
            f"cannot encode the table: create_time is {kind}; use a timestamp with a time zone"
        )
    return array.cast(WRITTEN[name], safe=kind.unit == "s").view(pa.int64())


class CreateTimes:
    """The create times of rows.

    Args: times: int64 array of Unix milliseconds, None: no row has one; create_ms: of rows without
    one, None: they have none.
    """

    def __init__(self, times: Any, create_ms: int | None) -> None:
        # Of all rows, so that no average is computed; None: it depends on the rows.
        self.same_ms = create_ms if times is None else None
        self._times = times if times is None or create_ms is None else times.fill_null(create_ms)

    def of(self, rows: int) -> Any:
        """The times of all rows, which are so many; None: no row has one."""
        if self.same_ms is None:
            return self._times
        return pa.array(np.full(rows, self.same_ms, np.int64))

    def average_ms(self, row: int, end: int, numbers: NDArray[np.int64] | None = None) -> int:
        """The average of the times of these rows, 0 if there are none.

        Args: numbers: of all rows that count, to which ``row`` and ``end`` refer; None: all.
        """
        if self.same_ms is not None:
            return self.same_ms
        if self._times is None:
            return 0
        if numbers is None:
            found = self._times.slice(row, end - row)
        else:
            found = self._times.take(pa.array(numbers[row:end]))
        times = found.drop_null().to_numpy()
        # Two halves, so that no sum exceeds 64 bits.
        total = (int((times >> 32).sum()) << 32) + int((times & 0xFFFFFFFF).sum())
        return total // len(times) if len(times) else 0
