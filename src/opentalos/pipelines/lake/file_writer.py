"""Writes Parquet files of a lake table, in the driver or in Spark's Python workers.

A file has a random name, so attempts of the same task never write the same file; only those of the
attempt whose result the driver received are committed.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from opentalos.adapters.durable_files import sync_descriptor
from opentalos.pipelines.lake.durable_files import sync_folder
from opentalos.pipelines.lake.layout import DataFile, Layout

FILE_BYTES_MAX: Final = 256 << 20  # a file is closed after the row group that reaches it
COMPRESSION: Final = "zstd"


@dataclass(frozen=True)
class FileWriter(ABC):
    """Subclasses know where the files are; instances can be pickled."""

    layout: Layout
    root: str

    @property
    @abstractmethod
    def local(self) -> bool:
        """Whether only processes of this machine reach the files."""

    @abstractmethod
    def _create(self, path: str) -> Any:
        """A context that yields a new binary file, complete and durable when it ends."""

    def write(
        self, batches: Iterable[pa.RecordBatch], file_bytes_max: int = FILE_BYTES_MAX
    ) -> Iterator[DataFile]:
        """Write the rows into as many files as needed; none for no rows.

        Raises: BadRequest: the rows do not fit the table; OSError.
        """
        waiting = (self.layout.rows(pa.Table.from_batches([batch])) for batch in batches)
        filled = (rows for rows in waiting if rows.num_rows)
        for first in filled:
            yield self._write_one(first, filled, file_bytes_max)

    def _write_one(
        self, first: pa.Table, following: Iterator[pa.Table], bytes_max: int
    ) -> DataFile:
        path = f"data/{uuid.uuid4().hex}.parquet"
        count, low, high = 0, first.column(self.layout.time)[0].value, 0
        with self._create(path) as sink:
            schema = self.layout.schema
            with pq.ParquetWriter(sink, schema, compression=COMPRESSION) as parquet:
                rows: pa.Table | None = first
                while rows is not None:
                    parquet.write_table(rows)
                    found = pc.min_max(rows.column(self.layout.time))
                    low = min(low, found["min"].value)
                    high = max(high, found["max"].value)
                    count += rows.num_rows
                    rows = next(following, None) if sink.tell() < bytes_max else None
            size_bytes = sink.tell()
        return DataFile(path, size_bytes, count, low, high)


@dataclass(frozen=True)
class LocalFileWriter(FileWriter):
    """Below a folder of this machine; files and their entries survive a power loss."""

    @property
    def local(self) -> bool:
        return True

    @contextmanager
    def _create(self, path: str) -> Iterator[Any]:
        file = Path(self.root) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as sink:
            yield sink
            sink.flush()
            sync_descriptor(sink.fileno())
        sync_folder(file.parent)
