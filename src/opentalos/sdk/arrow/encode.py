"""Encodes Arrow columns as message blocks, without an object per message.

The accelerator does so in one pass, if it is there. Without it numpy computes the framing bytes of
all messages, then Arrow joins framing and contents row by row; the joined buffer is the payload of
consecutive blocks. The bytes equal those of the plain encoder, and so do the ends of blocks: what
one attempt of a task stored is compared with the blocks of another.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from opentalos.model.errors import BadRequest
from opentalos.model.message import Compression, MessageBlock
from opentalos.sdk.arrow import native_rows
from opentalos.sdk.arrow.written_columns import (
    WRITTEN,
    CreateTimes,
    array_of,
    check_data,
    check_names,
)
from opentalos.wire.message import compress

Bits = NDArray[np.bool_]
ByteColumn = tuple[NDArray[np.uint8], Bits | None]  # one byte of each row; None: of every row

_BLOCK_BYTES_MAX: Final = 1 << 20  # before compression
_BLOCK_MESSAGES_MAX: Final = 20_000
_WINDOW_ROWS_MAX: Final = 20_000  # encoded at once
_WINDOW_BYTES_MAX: Final = 64 << 20  # a single row may be larger
_MARK: Final = b"V\0\3\0"
_BYTES, _I32, _I64 = 8, 5, 6  # types of the compact protocol


def encode_batch(
    data: Any,
    compression: Compression,
    bytes_max: int = _BLOCK_BYTES_MAX,
    messages_max: int = _BLOCK_MESSAGES_MAX,
    create_ms: int | None = None,
    rows: NDArray[np.int64] | None = None,
) -> Iterator[MessageBlock]:
    """Encode the rows of a table or record batch as blocks, in order and lazily.

    Of the columns of SCHEMA, ``data`` is required and must not contain nulls; ``topic``,
    ``partition``, ``offset`` and ``append_time`` are ignored.

    Args:    bytes_max: of a block before compression; a single message may be larger; create_ms:
             default create time, None: none; rows: numbers of the rows to encode, None: all.
    Raises:  BadRequest: a column is unknown or has the wrong type.
    """
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    check_names(table.column_names)
    if native_rows.NATIVE is not None and _windows_are_of_rows(table, rows):
        yield from _native_blocks(table, compression, bytes_max, messages_max, create_ms, rows)
        return
    if rows is not None:
        table = table.take(pa.array(rows))
    row = 0
    while row < table.num_rows:
        window = _window(table, row)
        last = row + window.num_rows == table.num_rows
        with _as_bad_request():
            encoded = _Encoded(window, create_ms)
        at = 0
        while at < window.num_rows:
            end = encoded.block_end(at, bytes_max, messages_max)
            if end == window.num_rows and at and not last:
                break  # the next window starts with these rows, so that blocks are full
            payload = compress(encoded.payload(at, end), compression)
            yield MessageBlock(payload, end - at, compression, encoded.times.average_ms(at, end))
            at = end
        row += at


def _native_blocks(
    table: Any,
    compression: Compression,
    bytes_max: int,
    messages_max: int,
    create_ms: int | None,
    rows: NDArray[np.int64] | None,
) -> Iterator[MessageBlock]:
    """The same blocks, each made by one call of the accelerator."""
    if not table.num_rows:
        return
    with _as_bad_request():
        encoded = native_rows.NativeRows(table, create_ms, rows)
    rows_max = min(messages_max, _WINDOW_ROWS_MAX)
    at = 0
    while at < encoded.rows:
        payload, end = encoded.block(at, bytes_max, rows_max)
        yield MessageBlock(
            compress(payload, compression),
            end - at,
            compression,
            encoded.average_ms(at, end),
        )
        at = end


@contextmanager
def _as_bad_request() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadRequest(
            f"cannot encode the table: a column does not fit its type: {error}"
        ) from error


def _windows_are_of_rows(table: Any, rows: NDArray[np.int64] | None) -> bool:
    """Whether no window is cut by its bytes; then only the limits of a block decide its end."""
    if table.nbytes <= _WINDOW_BYTES_MAX:
        return True
    if rows is not None:
        return False
    starts = range(0, table.num_rows, _WINDOW_ROWS_MAX)
    return all(table.slice(at, 2 * _WINDOW_ROWS_MAX).nbytes <= _WINDOW_BYTES_MAX for at in starts)


def _window(table: Any, row: int) -> Any:
    """The rows from ``row`` on to encode at once."""
    rows = _WINDOW_ROWS_MAX
    while rows > 1 and table.slice(row, rows).nbytes > _WINDOW_BYTES_MAX:
        rows //= 2
    return table.slice(row, rows)


class _Encoded:
    """Encoded rows of one window."""

    def __init__(self, window: Any, create_ms: int | None) -> None:
        columns = {name: array_of(window, name) for name in WRITTEN}
        check_data(columns["data"])
        self.times = CreateTimes(columns["create_time"], create_ms)
        made = _Pieces(window.num_rows)
        made.content(1, columns["partition_key"])
        made.content(2, columns["sequence_number"])
        made.content(3, columns["data"])
        made.numbers(4, _I64, self.times.of(window.num_rows))
        made.numbers(6, _I32, columns["message_type"])
        made.content(7, columns["schema_fingerprint"])
        made.content(8, columns["tag"])
        joined = made.joined()
        _, ends, self._data = joined.buffers()
        places = np.frombuffer(ends, np.int32)[joined.offset :][: window.num_rows + 1]
        self._ends = places.astype(np.int64)

    def block_end(self, row: int, bytes_max: int, messages_max: int) -> int:
        """The end row (exclusive) of a block that starts at ``row``, with at least one row."""
        fitting = int(np.searchsorted(self._ends, self._ends[row] + bytes_max, "right")) - 1
        return min(max(fitting, row + 1), row + max(messages_max, 1))

    def payload(self, row: int, end: int) -> bytes:
        """The messages of these rows."""
        return bytes(memoryview(self._data)[self._ends[row] : self._ends[end]])


class _Pieces:
    """The pieces joined to rows: columns of single bytes, and contents of any length."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._field: int | NDArray[np.int64] = 0  # id of the last one written
        self._sizes = np.zeros(rows, np.int64)  # bytes of each row so far
        self._bytes: list[ByteColumn] = []  # of the piece that is being made
        self._done: list[list[ByteColumn] | Any] = [self._bytes]

    def content(self, field: int, values: Any) -> None:
        """Add a field of bytes or text, if any row has it."""
        if values is None:
            return
        present = _present(values)
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        if present is not None:
            values = values.fill_null(b"")
        sizes = pc.binary_length(values).to_numpy().astype(np.uint64)
        self._head(field, _BYTES, present)
        self._varints(sizes, present)
        self._sizes += sizes.astype(np.int64)
        self._bytes = []
        self._done += [values, self._bytes]

    def numbers(self, field: int, kind: int, values: Any) -> None:
        """Add a field of zigzag numbers, if any row has it."""
        if values is None:
            return
        present = _present(values)
        if present is not None:
            values = values.fill_null(0)
        plain = values.to_numpy().astype(np.int64)
        self._head(field, kind, present)
        self._varints(((plain << 1) ^ (plain >> 63)).view(np.uint64), present)

    def joined(self) -> Any:
        """One binary array of all rows."""
        self._add(np.zeros(self._rows, np.uint8), None)
        sizes = self._sizes
        prefix: list[ByteColumn] = [(np.full(self._rows, byte, np.uint8), None) for byte in _MARK]
        prefix += [((sizes >> shift & 0xFF).astype(np.uint8), None) for shift in (24, 16, 8, 0)]
        self._done[0] = prefix + self._done[0]
        arrays = [_array(piece) if isinstance(piece, list) else piece for piece in self._done]
        return pc.binary_join_element_wise(*arrays, b"")

    def _add(self, column: NDArray[np.uint8], present: Bits | None) -> None:
        self._bytes.append((column, present))
        self._sizes += 1 if present is None else present

    def _head(self, field: int, kind: int, present: Bits | None) -> None:
        head = (field - self._field) << 4 | kind
        if isinstance(head, int):
            self._add(np.full(self._rows, head, np.uint8), present)
        else:
            self._add(head.astype(np.uint8), present)
        self._field = field if present is None else np.where(present, field, self._field)

    def _varints(self, values: NDArray[np.uint64], present: Bits | None) -> None:
        """Absent values are 0."""
        while True:
            rest = values >> np.uint64(7)
            more = rest > 0
            self._add((values & np.uint64(0x7F)).astype(np.uint8) | more * np.uint8(0x80), present)
            if not more.any():
                return
            present = None if more.all() else more
            values = rest


def _present(values: Any) -> Bits | None:
    if not values.null_count:
        return None
    present: Bits = values.is_valid().to_numpy(zero_copy_only=False)
    return present


def _array(columns: list[ByteColumn]) -> Any:
    """The bytes of each row as a binary array."""
    rows = len(columns[0][0])
    grid = np.empty((rows, len(columns)), np.uint8)
    for index, (column, _) in enumerate(columns):
        grid[:, index] = column
    if all(present is None for _, present in columns):
        ends = np.arange(0, grid.size + 1, len(columns), dtype=np.int32)
    else:
        wanted = np.ones(grid.shape, np.bool_)
        for index, (_, present) in enumerate(columns):
            if present is not None:
                wanted[:, index] = present
        ends = np.zeros(rows + 1, np.int32)
        np.cumsum(wanted.sum(axis=1), out=ends[1:])
        grid = grid[wanted]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(grid)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)
