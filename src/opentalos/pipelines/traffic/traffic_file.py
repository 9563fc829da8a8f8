"""Reading of past traffic from CSV or Parquet files: topic, partition, day, bytes."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from opentalos.model.errors import ConfigError
from opentalos.model.message import PartitionKey
from opentalos.model.names import uuid_of

COLUMNS = ("topic", "partition", "day", "bytes")
_PARQUET = {".parquet", ".pq"}
_ROWS_PER_BATCH = 65_536


def read_traffic(path: Path) -> Sequence[Mapping[PartitionKey, int]]:
    """Bytes by partition for each day in the file, the oldest first.

    ``topic`` is the UUID or resource name of a topic, ``day`` an ISO date or a number. Rows of the
    same partition and day are added. Raises: ConfigError: names the file and the row.
    """
    rows = _parquet_rows(path) if path.suffix.lower() in _PARQUET else _csv_rows(path)
    days: dict[str, dict[PartitionKey, int]] = {}
    try:
        for number, row in enumerate(rows, 1):
            try:
                topic, partition, day, amount = row
                uuid = uuid_of(str(topic))
                key = PartitionKey(uuid, int(partition))
                found = days.setdefault(_sortable(day), {})
                found[key] = found.get(key, 0) + int(amount)
                if not uuid or key.partition < 0 or int(amount) < 0:
                    raise ValueError("topic must not be empty, partition and bytes not be negative")
            except (ValueError, TypeError) as error:
                raise ConfigError(f"{path}, row {number}: {error}") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    return [days[day] for day in sorted(days)]


def _sortable(day: Any) -> str:
    """A string that sorts like the day."""
    if isinstance(day, datetime):
        return day.date().isoformat()
    if isinstance(day, date):
        return day.isoformat()
    text = str(day).strip()
    return f"{int(text):020d}" if text.isdecimal() else date.fromisoformat(text).isoformat()


def _csv_rows(path: Path) -> Iterator[Sequence[Any]]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        _check_columns(path, reader.fieldnames or ())
        try:
            for row in reader:
                yield [row[name] for name in COLUMNS]
        except (csv.Error, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not a CSV file: {error}") from error


def _parquet_rows(path: Path) -> Iterator[Sequence[Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ConfigError(
            f"{path}: Parquet files need pyarrow; pip install pyarrow, or use CSV"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow.names)
            for batch in file.iter_batches(_ROWS_PER_BATCH, columns=list(COLUMNS)):
                yield from zip(*(batch[name].to_pylist() for name in COLUMNS), strict=True)
    except ArrowException as error:
        raise ConfigError(f"{path} is not a Parquet file: {error}") from error


def _check_columns(path: Path, found: Iterable[str]) -> None:
    missing = [name for name in COLUMNS if name not in set(found)]
    if missing:
        raise ConfigError(
            f"{path}: missing columns: {', '.join(missing)}; required: {', '.join(COLUMNS)}"
        )
