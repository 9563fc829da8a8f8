"""The tables of an invoice version: their format, and whether two versions bill the same.

Format 1 has no mark, and no columns of periods and credits; format 2 is marked in each file. All
older formats are read; the columns that one lacks are null.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from opentalos.model.errors import ConfigError

LINES: Final = "lines.parquet"
TOTALS: Final = "totals.parquet"
TOPICS: Final = "topics.parquet"
DAYS: Final = "days.parquet"
READS: Final = "reads.parquet"  # only if something that was read has a price
KEPT: Final = "kept.parquet"  # likewise, of what was kept
PROBLEMS: Final = "problems.txt"
FORMAT: Final = 2
_COMPARED: Final = (LINES, TOTALS, TOPICS, PROBLEMS)
_MARK: Final = b"opentalos.invoices.format"


def to_parquet(table: pa.Table) -> bytes:
    """The file; its bytes depend on the rows only, not on metadata such as Spark's."""
    out = io.BytesIO()
    marked = table.replace_schema_metadata({_MARK: str(FORMAT).encode()})
    pq.write_table(marked, out, compression="zstd")
    return out.getvalue()


def read_rows(path: Path, columns: Sequence[str], *, with_value: str = "") -> list[dict[str, Any]]:
    """These columns of a file of any format. Raises: ConfigError: its format is newer.

    Args: with_value: one of the columns; rows in which it is null are left out.
    """
    return _rows(pq.ParquetFile(path), path, columns, with_value)


def same_bill(version: Path, files: Mapping[str, bytes]) -> bool:
    """Whether a stored version bills what these files bill, in all columns that it has.

    So invoices which an older version of this software has closed are not changed by a newer one,
    which lays out pages or tables otherwise.
    """
    if any(not (version / name).exists() or name not in files for name in _COMPARED):
        return False
    if (version / PROBLEMS).read_bytes() != files[PROBLEMS]:
        return False
    for name in (LINES, TOTALS, TOPICS):
        stored = pq.ParquetFile(version / name)
        columns = stored.schema_arrow.names
        made = pq.ParquetFile(pa.BufferReader(files[name]))
        rows = _rows(made, version / name, columns)
        if _rows(stored, version / name, columns) != rows:
            return False
    return True


def _rows(
    file: pq.ParquetFile, path: Path, columns: Sequence[str], with_value: str = ""
) -> list[dict[str, Any]]:
    schema = file.schema_arrow
    found = int((schema.metadata or {}).get(_MARK, b"1"))
    if found > FORMAT:
        raise ConfigError(
            f"{path} has format {found}, but this version reads up to {FORMAT}: update opentalos"
        )
    stored = [name for name in columns if name in schema.names]
    if with_value and with_value not in stored:
        return []
    table = file.read(stored)
    if with_value:
        table = table.filter(table.column(with_value).is_valid())
    nothing = dict.fromkeys(columns)
    return [{**nothing, **row} for row in table.to_pylist()]
