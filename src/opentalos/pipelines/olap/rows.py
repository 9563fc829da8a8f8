"""Checks and encodes the rows that are written into a store."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.olap.store import TIME

_ROWS_AT_ONCE = 10_000


def need_hour(rows: pa.Table, hour_ms: int) -> None:
    """Reject rows of another hour with ValueError: they would be lost or returned twice."""
    times = pc.min_max(times_ms(rows)).as_py()
    if rows.num_rows and not hour_ms <= times["min"] <= times["max"] < hour_ms + HOUR_MS:
        raise ValueError(
            f"rows from {times['min']} to {times['max']} ms are outside the hour at {hour_ms} ms"
        )


def times_ms(rows: pa.Table) -> pa.ChunkedArray:
    """The rows' times in Unix ms."""
    return rows.column(TIME).cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())


def json_pieces(rows: pa.Table, bytes_max: int) -> Iterator[str]:
    """JSON lines, one per row, with the time as ``__time`` in ms and without nulls.

    A piece has at most ``bytes_max`` bytes, but at least one row. Without rows there is no piece.
    """
    named = rows.drop_columns([TIME]).append_column("__time", times_ms(rows))
    lines: list[str] = []
    size = 0
    for batch in named.to_batches(_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            known = {name: value for name, value in row.items() if value is not None}
            line = json.dumps(known, separators=(",", ":"))  # ASCII: a character is a byte
            if lines and size + len(line) > bytes_max:
                yield "\n".join(lines)
                lines, size = [], 0
            lines.append(line)
            size += len(line) + 1
    if lines:
        yield "\n".join(lines)
