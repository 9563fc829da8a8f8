"""OLAP tables in the format of Delta, on HDFS or a store with the protocol of S3.

A set of tables is one table of Delta, whose files each have rows of one hour of one table. So all
hours that a batch changes, of all tables of the set, change by one commit, which has the batch and
the epoch of the writer's lease, as with every table of the lake.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from opentalos.model.errors import NotFound, StoreUnavailable
from opentalos.pipelines.lake.delta.files import DeltaFileWriter, file_system, translated
from opentalos.pipelines.lake.delta.parts import DeltaParts
from opentalos.pipelines.lake.delta.table import delta_layout
from opentalos.pipelines.lake.file_writer import dataset_of
from opentalos.pipelines.lake.layout import Batch, DataFile, Layout
from opentalos.pipelines.lake.opening import delta_url
from opentalos.pipelines.lake.tables import hour_of
from opentalos.pipelines.lake.written_rows import check_files
from opentalos.pipelines.olap.duckdb_query import answered, table_info
from opentalos.pipelines.olap.rows import need_hour
from opentalos.pipelines.olap.store import NO_LEASE, TIME, Query, Selection, TableInfo, Writer
from opentalos.pipelines.olap.table_set import (
    HOUR,
    TABLE_NAME,
    TableSet,
    by_datasource,
    files_layout,
    hour_text,
)

_FOLDER: Final = "rollups"  # below the URL, which may be that of a lake


class DeltaStore:
    """Sets of tables below URL/rollups; other tables have one of Delta each.

    Args:   url: delta+STORE://...; sets: tables that are replaced together.
    Raises: ConfigError: not such a URL.
    """

    files_of_hour_max: Final = 64

    def __init__(self, url: str, sets: Sequence[TableSet] = ()) -> None:
        self._root = f"{delta_url(url).rstrip('/')}/{_FOLDER}"
        self._sets = tuple(sets)
        self._opened: dict[str, tuple[DeltaParts, Layout]] = {}

    def replace(
        self, hour_ms: int, tables: Mapping[str, pa.Table], writer: Writer = NO_LEASE
    ) -> None:
        """See OlapStore. Raises: ValueError: only some tables of a set are given."""
        for rows in tables.values():
            need_hour(rows, hour_ms)
        layouts = {each.name: each.layout() for each in self._sets}
        for name, rows in by_datasource(tables, self._sets).items():
            columns = pa.schema([field for field in rows.schema if field.name != TIME])
            layout = layouts.get(name) or files_layout(name, columns, (HOUR,))
            hours = pa.repeat(pa.scalar(hour_text(hour_ms)), rows.num_rows)
            with_hour = rows.append_column(HOUR, hours).select(layout.schema.names)
            table = self._create(layout)
            files = list(table.writer().write(with_hour.to_batches()))
            self._commit(table, [hour_ms], files, writer)

    def writer(self, tables: TableSet) -> DeltaFileWriter:
        """See FileStore."""
        return self._create(tables.layout()).writer()

    def publish(
        self,
        tables: TableSet,
        hours: Sequence[int],
        files: Sequence[DataFile],
        writer: Writer = NO_LEASE,
    ) -> None:
        """See FileStore: one commit; nothing changes if it has the batch already."""
        self._commit(self._create(tables.layout()), hours, files, writer)

    def query(self, query: Query) -> pa.Table:
        """See OlapStore."""
        name = query.rows.table
        info, table, schema = self._table(name)
        paths = self._paths(table, query.rows)
        files = dataset_of(paths, table.writer().file_system(), schema)
        return answered(query, info, files, self._root)

    def tables(self) -> list[TableInfo]:
        """See OlapStore."""
        ours = {each.name: each for each in self._sets}
        found: list[TableInfo] = []
        for name in self._names():
            found += ours[name].infos() if name in ours else [self._table(name)[0]]
        return sorted(found, key=lambda info: info.name)

    def close(self) -> None:
        """Nothing is kept open."""

    def _create(self, layout: Layout) -> DeltaParts:
        """The table of a set or of Delta; the first writer creates it."""
        if layout.name not in self._opened:
            table = DeltaParts(f"{self._root}/{layout.name}", layout)
            self._opened[layout.name] = table, layout
        return self._opened[layout.name][0]

    def _open(self, name: str) -> tuple[DeltaParts, Layout]:
        """Raises: NotFound; StoreUnavailable."""
        if name not in self._opened:
            url = f"{self._root}/{name}"
            layout = delta_layout(url, TIME)
            self._opened[name] = DeltaParts(url, layout, create=False), layout
        return self._opened[name]

    def _table(self, name: str) -> tuple[TableInfo, DeltaParts, pa.Schema]:
        """A table for queries, the one of Delta that has it, and its columns in files."""
        if not name.isidentifier():  # no path that leads out of the folder
            raise NotFound(f"no table {name!r} in {self._root}")
        of = next((each for each in self._sets if name in each.tables), None)
        table, layout = self._open(of.name if of else name)
        schema = of.tables[name] if of else layout.file_schema
        return table_info(name, schema, (TIME,)), table, schema

    def _commit(
        self,
        table: DeltaParts,
        hours: Sequence[int],
        files: Sequence[DataFile],
        writer: Writer,
    ) -> None:
        check_files(f"the OLAP store at {self._root}", table.writer(), files)
        batch = Batch(writer.query, writer.batch, writer.epoch)
        table.replace_parts(batch, HOUR, [hour_text(hour_ms) for hour_ms in hours], files)

    def _paths(self, table: DeltaParts, rows: Selection) -> list[str]:
        """Of the files that may have rows of a selection."""
        files = table.parts()
        hours = files.column(HOUR)  # texts in the order of time
        inside = pc.and_(
            pc.greater_equal(hours, hour_text(hour_of(rows.start_ms))),
            pc.less_equal(hours, hour_text(hour_of(rows.end_ms - 1))),
        )
        if TABLE_NAME in files.column_names:
            inside = pc.and_(inside, pc.equal(files.column(TABLE_NAME), rows.table))
        return sorted(files.filter(inside).column("path").to_pylist())

    def _names(self) -> list[str]:
        """Of the tables of Delta below the root."""
        from pyarrow.fs import FileSelector

        with translated(f"could not list tables at {self._root}", StoreUnavailable):
            selected = FileSelector("", allow_not_found=True)
            found = file_system(self._root).get_file_info(selected)
        return sorted(item.base_name for item in found)
