"""Post-processing of an engine's rows that all stores share: percentiles and limits."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from opentalos.model.errors import BadRequest
from opentalos.pipelines.olap.store import (
    BUCKET,
    COUNT,
    SKETCH_ROWS_MAX,
    TIME,
    Percentile,
    Query,
    Top,
)
from opentalos.wire.metrics.sketch import percentile


def answer(query: Query, rows: pa.Table) -> pa.Table:
    """The answer from an engine's rows. Raises: BadRequest: more rows than the limit."""
    if isinstance(query, Percentile):
        if rows.num_rows > SKETCH_ROWS_MAX:
            raise BadRequest(
                f"the query merges more than {SKETCH_ROWS_MAX} counts; narrow the query"
            )
        rows = _percentiles(query, rows)
    if not isinstance(query, Top) and rows.num_rows > query.limit:
        raise BadRequest(
            f"the answer has more than {query.limit} rows; narrow the query or raise its limit"
        )
    return rows


def _percentiles(query: Percentile, rows: pa.Table) -> pa.Table:
    """Percentiles per group; rows are ordered by their keys, so groups are contiguous."""
    keys = [*([TIME] if query.step_ms else []), *query.by]
    columns: dict[str, list[Any]] = {name: [] for name in (*keys, COUNT, *query.names)}
    for key, counts in _merged(rows, keys):
        for name, value in zip(keys, key, strict=True):
            columns[name].append(value)
        columns[COUNT].append(sum(counts.values()))
        for name, percent in zip(query.names, query.percents, strict=True):
            columns[name].append(percentile(counts, percent))
    types = [rows.schema.field(name).type for name in keys]
    types += [pa.int64(), *(pa.float64() for _ in query.names)]
    fields = zip(columns, types, strict=True)
    return pa.table(columns, schema=pa.schema([pa.field(name, kind) for name, kind in fields]))


def _merged(rows: pa.Table, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], dict[int, int]]]:
    names = [rows.column(name).to_pylist() for name in (*keys, BUCKET, COUNT)]
    for key, group in groupby(zip(*names, strict=True), key=lambda row: row[:-2]):
        yield key, {int(bucket): int(count) for *_, bucket, count in group}
