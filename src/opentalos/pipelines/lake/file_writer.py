"""Writes Parquet files of a lake table, in the driver or in Spark's Python workers.

A file has a random name, so attempts of the same task never write the same file; only those of the
attempt whose result the driver received are committed.
"""

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from opentalos.adapters.durable_files import sync_descriptor
from opentalos.pipelines.lake.durable_files import sync_folder
from opentalos.pipelines.lake.layout import TIME_US_MAX, DataFile, Layout

FILE_BYTES_MAX: Final = 256 << 20  # a file is closed after the row group that reaches it
FILES_OPEN_MAX: Final = 16  # of one task, in a partitioned table
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
    def stored_rows(self, paths: Sequence[str]) -> Iterator[int]:
        """The rows of each file as this process sees it, by its footer; 0: no whole file is there.

        Raises: StoreUnavailable.
        """

    @abstractmethod
    def _create(self, path: str) -> Any:
        """A context that yields a new binary file, complete and durable when it ends."""

    def write(
        self, batches: Iterable[pa.RecordBatch], file_bytes_max: int = FILE_BYTES_MAX
    ) -> Iterator[DataFile]:
        """Write the rows into as many files as needed; none for no rows.

        Raises: BadRequest: the rows do not fit the table; OSError.
        """
        files: dict[tuple[str, ...], _OpenFile] = {}
        with ExitStack() as opened:
            for batch in batches:
                rows = self.layout.rows(pa.Table.from_batches([batch]))
                for values, part in self.layout.split(rows):
                    if not part.num_rows:
                        continue
                    if values not in files and len(files) == FILES_OPEN_MAX:
                        yield files.pop(next(iter(files))).closed()
                    file = files.pop(values, None) or self._open(values, opened)
                    if file.write(part) < file_bytes_max:
                        files[values] = file  # at the end: the first one was written least recently
                    else:
                        yield file.closed()
            while files:
                yield files.pop(next(iter(files))).closed()

    def _path_of(self, values: tuple[str, ...]) -> str:
        """The path of a new file, which no other one has."""
        named = zip(self.layout.partition_by, values, strict=True)
        folder = "/".join(f"{name}={value}" for name, value in named) or "data"
        return f"{folder}/{uuid.uuid4().hex}.parquet"

    def _schema_of(self, _values: tuple[str, ...]) -> pa.Schema:
        """The columns of a file."""
        return self.layout.file_schema

    def _open(self, values: tuple[str, ...], opened: ExitStack) -> "_OpenFile":
        path, schema = self._path_of(values), self._schema_of(values)
        parts = opened.enter_context(self._closing(path, schema))
        return _OpenFile(self.layout.time, path, values, parts)

    @contextmanager
    def _closing(self, path: str, schema: pa.Schema) -> Iterator["_Parts"]:
        """Everything that is open for a file; it is closed by ``_OpenFile``, or after an error."""
        with ExitStack() as parts:
            sink = parts.enter_context(self._create(path))
            parquet = parts.enter_context(pq.ParquetWriter(sink, schema, compression=COMPRESSION))
            yield _Parts(sink, schema, parquet, parts)


class _Parts(NamedTuple):
    sink: Any
    schema: pa.Schema
    parquet: pq.ParquetWriter
    open: ExitStack


class _OpenFile:
    """A file that is being written, and the bounds of its rows so far."""

    def __init__(self, time: str, path: str, values: tuple[str, ...], parts: _Parts) -> None:
        self._time, self._path, self._values, self._parts = time, path, values, parts
        self._rows, self._first_us, self._last_us = 0, TIME_US_MAX, 0

    def write(self, rows: pa.Table) -> int:
        """Write a row group; return the size of the file."""
        schema = self._parts.schema
        self._parts.parquet.write_table(rows.select(schema.names).cast(schema))
        found = pc.min_max(rows.column(self._time))
        self._first_us = min(self._first_us, found["min"].value)
        self._last_us = max(self._last_us, found["max"].value)
        self._rows += rows.num_rows
        return int(self._parts.sink.tell())

    def closed(self) -> DataFile:
        """Complete the file."""
        self._parts.parquet.close()  # writes the footer
        size_bytes = int(self._parts.sink.tell())
        self._parts.open.close()
        return DataFile(
            self._path, size_bytes, self._rows, self._first_us, self._last_us, self._values
        )


@dataclass(frozen=True)
class LocalFileWriter(FileWriter):
    """Below a folder of this machine; files and their entries survive a power loss."""

    @property
    def local(self) -> bool:
        return True

    def stored_rows(self, paths: Sequence[str]) -> Iterator[int]:
        """See FileWriter."""
        for path in paths:
            try:
                yield int(pq.read_metadata(Path(self.root) / path).num_rows)
            except (FileNotFoundError, pa.ArrowInvalid):
                yield 0

    @contextmanager
    def _create(self, path: str) -> Iterator[Any]:
        file = Path(self.root) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as sink:
            yield sink
            sink.flush()
            sync_descriptor(sink.fileno())
        sync_folder(file.parent)


def dataset_of(paths: Sequence[str], files: Any, schema: pa.Schema) -> ds.Dataset:
    """Parquet files of a file system of pyarrow as one data set."""
    form = ds.ParquetFileFormat()
    fragments = [form.make_fragment(path, filesystem=files) for path in paths]
    return ds.FileSystemDataset(fragments, schema, form, files)
