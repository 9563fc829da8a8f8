"""Fetched messages, as the decoders of values take them."""

from typing import Any

import pyarrow as pa


def table(*rows: tuple[bytes, str | None]) -> Any:
    """Messages by data and schema fingerprint."""
    return pa.table(
        {
            "partition": pa.array([1] * len(rows), pa.int32()),
            "offset": pa.array(range(10, 10 + len(rows)), pa.int64()),
            "data": pa.array([data for data, _ in rows], pa.binary()),
            "schema_fingerprint": pa.array([name for _, name in rows], pa.string()),
        }
    )
