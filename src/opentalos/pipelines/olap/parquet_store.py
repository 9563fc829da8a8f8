"""OLAP tables as Parquet files, one per hour, read by DuckDB."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from opentalos.model.errors import NotFound, StoreUnavailable
from opentalos.pipelines.lake.file_writer import LocalFileWriter
from opentalos.pipelines.lake.folder_writers import fence, writing
from opentalos.pipelines.lake.layout import DataFile
from opentalos.pipelines.lake.tables import (
    GRACE_S,
    SWEEP_EVERY,
    HourTable,
    hour_of,
    version_path,
)
from opentalos.pipelines.lake.written_rows import check_files
from opentalos.pipelines.olap.duckdb_query import answered, table_info
from opentalos.pipelines.olap.rows import need_hour
from opentalos.pipelines.olap.store import NO_LEASE, TIME, Query, Selection, TableInfo, Writer
from opentalos.pipelines.olap.table_set import TableSet, hour_text

_REMEDY = "repeat the hour"


@dataclass(frozen=True)
class HourFileWriter(LocalFileWriter):
    """Writes versions of an hour of a table, which no reader sees before they are published.

    The rows of an hour of a table come to one writer, one after the other, so they are one file.
    """

    schemas: Mapping[str, pa.Schema] = field(default_factory=dict)

    def write(
        self, batches: Iterable[pa.RecordBatch], file_bytes_max: int = sys.maxsize
    ) -> Iterator[DataFile]:
        """See FileWriter."""
        return super().write(batches, file_bytes_max)

    def _path_of(self, values: tuple[str, ...]) -> str:
        hour, table = values
        return f"{table}/{version_path(hour)}"

    def _schema_of(self, values: tuple[str, ...]) -> pa.Schema:
        return self.schemas[values[1]]


class ParquetStore:
    """A folder per table (``HourTable``) below HOME/olap, or ``folder``; one writer at a time, any
    readers.

    Every call reads the current files; nothing is kept open.
    """

    files_of_hour_max: Final = 1

    def __init__(self, home: Path, folder: Path | None = None) -> None:
        self._folder = folder or home / "olap"
        self._known: dict[str, HourTable] = {}  # kept: a table cleans up every so many replacements
        self._published = 0

    def replace(
        self, hour_ms: int, tables: Mapping[str, pa.Table], writer: Writer = NO_LEASE
    ) -> None:
        """See OlapStore. Raises: StoreUnavailable: the disk is full or not writable, or another
        process writes."""
        for rows in tables.values():
            need_hour(rows, hour_ms)
        with writing(self._folder, self._what, _REMEDY):
            try:
                fence(self._folder, self._what, writer.query, writer.epoch)
                for table, rows in tables.items():
                    self._table(table).replace(hour_ms, rows)
            except OSError as error:
                raise StoreUnavailable(f"cannot write below {self._folder}: {error}") from error

    def writer(self, tables: TableSet) -> HourFileWriter:
        """See FileStore."""
        return HourFileWriter(tables.layout(), str(self._folder.absolute()), tables.tables)

    def publish(
        self,
        tables: TableSet,
        hours: Sequence[int],
        files: Sequence[DataFile],
        writer: Writer = NO_LEASE,
    ) -> None:
        """See FileStore: one hour of a table after the other. Raises: ValueError: an hour of a
        table has two files; StoreUnavailable: as ``replace``."""
        found = {file.partition: file for file in files}
        if len(found) < len(files):
            raise ValueError(f"two files have rows of one hour of a table: {files}")
        with writing(self._folder, self._what, _REMEDY):
            try:
                fence(self._folder, self._what, writer.query, writer.epoch)
                # While the lock is held, nothing removes files that were written long ago.
                check_files(self._what, self.writer(tables), files)
                for hour_ms in hours:
                    for name, schema in tables.tables.items():
                        file = found.get((hour_text(hour_ms), name))
                        self._publish(self._table(name), hour_ms, schema, file)
                self._sweep(tables)
            except OSError as error:
                raise StoreUnavailable(f"cannot write below {self._folder}: {error}") from error

    def query(self, query: Query) -> pa.Table:
        """See OlapStore."""
        info = self._info(query.rows.table)
        files = [str(path) for path in self._files(query.rows)]
        if files:
            return answered(query, info, files, self._folder)
        newest = self._table(info.name).files()[-1]  # an empty answer still has the columns
        empty = pq.ParquetFile(newest).schema_arrow.empty_table()
        return answered(query, info, empty, self._folder)

    def tables(self) -> list[TableInfo]:
        """See OlapStore."""
        if not self._folder.exists():
            return []
        names = sorted(path.name for path in self._folder.iterdir() if path.is_dir())
        return [self._info(name) for name in names if self._table(name).hours()]

    def close(self) -> None:
        """Nothing is kept open."""

    @property
    def _what(self) -> str:
        return f"the OLAP store at {self._folder}"

    def _sweep(self, tables: TableSet) -> None:
        """Once everything is published, since files that are not yet in a table go, too."""
        self._published += 1
        if self._published % SWEEP_EVERY == 1:
            for name in tables.tables:
                self._table(name).sweep(GRACE_S)

    def _publish(
        self, table: HourTable, hour_ms: int, schema: pa.Schema, file: DataFile | None
    ) -> None:
        if file is None:
            version = table.stage(hour_ms, schema.empty_table())
        else:
            version = Path(file.path).name
        table.publish(hour_ms, version)

    def _table(self, name: str) -> HourTable:
        if name not in self._known:
            self._known[name] = HourTable(self._folder, name, folder=self._folder / name)
        return self._known[name]

    def _info(self, name: str) -> TableInfo:
        ours = name.isidentifier()  # no path that leads out of the folder
        files = self._table(name).files() if ours else []
        if not files:
            raise NotFound(f"no table {name!r} in {self._folder}")
        return table_info(name, pq.ParquetFile(files[-1]).schema_arrow, (TIME,))

    def _files(self, rows: Selection) -> list[Path]:
        table = self._table(rows.table)
        first = hour_of(rows.start_ms)
        hours = [hour for hour in table.hours() if first <= hour < rows.end_ms]
        return table.files(hours) if hours else []
