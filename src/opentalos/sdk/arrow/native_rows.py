"""Arrow columns as the accelerator takes them: their buffers, batch by batch, none copied.

The accelerator is optional: native/rows.c, built with a wheel of a platform or by ``make
accelerator``. It copies each byte of a row once, from the column into the block.
"""

from types import ModuleType
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from opentalos.sdk.arrow.written_columns import CreateTimes, array_of, check_data, chunks_of

INTERFACE: Final = 1  # of the module; one that was built from other sources is not used
_TEXTS: Final = {  # field ids of a message
    "partition_key": 1,
    "sequence_number": 2,
    "data": 3,
    "schema_fingerprint": 7,
    "tag": 8,
}
_CREATE_TIME, _TYPE = 4, 6
_BYTES, _I32, _I64 = 8, 5, 6  # types of the compact protocol


def load_native() -> ModuleType | None:
    """The module; None: it is not built, or from other sources."""
    try:
        import opentalos.sdk.arrow._native as native
    except ImportError:
        return None
    return native if native.INTERFACE == INTERFACE else None


NATIVE = load_native()  # None: blocks are encoded by numpy and Arrow


class NativeRows:
    """The rows of a table.

    Args:   rows: numbers of those that count, None: all.
    Raises: BadRequest: data contains nulls, or create_time has no time zone; ArrowInvalid,
            ArrowNotImplementedError: a column does not fit its type.
    """

    def __init__(self, table: Any, create_ms: int | None, rows: NDArray[np.int64] | None) -> None:
        assert NATIVE is not None
        texts = {field: chunks_of(table, name) for name, field in _TEXTS.items()}
        check_data(texts[_TEXTS["data"]])
        times = array_of(table, "create_time")
        self.times = CreateTimes(times, create_ms)
        columns = {
            field: column.cast(pa.binary()) for field, column in texts.items() if column is not None
        }
        if times is not None:
            columns[_CREATE_TIME] = self.times.of(table.num_rows)
        kinds = array_of(table, "message_type")
        if kinds is not None:
            columns[_TYPE] = kinds
        same = () if self.times.same_ms is None else ((_CREATE_TIME, _I64, self.times.same_ms),)
        whole = pa.table({str(field): column for field, column in columns.items()})
        batches = tuple(_batch(batch, same) for batch in whole.to_batches())
        self._numbers = None if rows is None else np.ascontiguousarray(rows, np.int64)
        self.rows = table.num_rows if rows is None else len(rows)
        self._native = NATIVE.Rows(batches, self._numbers)

    def block(self, start: int, bytes_max: int, rows_max: int) -> tuple[bytes, int]:
        """The messages of the rows from ``start`` on that fit, at least one, and their end.

        Raises: ValueError: a row number is outside of the table.
        """
        payload, end = self._native.block(start, bytes_max, rows_max)
        return payload, end

    def average_ms(self, row: int, end: int) -> int:
        """The average of the create times, 0 if there are none."""
        return self.times.average_ms(row, end, self._numbers)


def _batch(batch: Any, same: tuple[tuple[int, int, int], ...]) -> Any:
    """The number of rows, and the columns in the order of their fields."""
    columns: list[tuple[Any, ...]] = [*same]
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        field = int(name)
        valid, *buffers = array.buffers()
        if not array.null_count:
            valid = None
        if pa.types.is_binary(array.type):
            columns.append((field, _BYTES, array.offset, valid, *buffers))
        else:
            kind = _I64 if field == _CREATE_TIME else _I32
            columns.append((field, kind, array.offset, valid, None, *buffers))
    return batch.num_rows, tuple(sorted(columns, key=lambda column: column[0]))
