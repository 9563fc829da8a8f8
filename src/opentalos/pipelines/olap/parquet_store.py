"""OLAP tables as Parquet files, one per hour, read by DuckDB."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from opentalos.model.errors import BadRequest, NotFound, StoreUnavailable
from opentalos.pipelines.lake.folder_writers import fence, writing
from opentalos.pipelines.lake.tables import HourTable, hour_of
from opentalos.pipelines.olap.answers import answer
from opentalos.pipelines.olap.rows import need_hour
from opentalos.pipelines.olap.sql import Dialect, statement
from opentalos.pipelines.olap.store import NO_LEASE, TIME, Query, Selection, TableInfo, Writer

_TIME_MS: Final = 'epoch_ms("time")'
_DIALECT: Final = Dialect(_TIME_MS, f"{_TIME_MS} >= {{}}", f"{_TIME_MS} < {{}}", divide="//")
_MEMORY: Final = "1GB"  # of one query; DuckDB spills the rest to disk or fails
_SETTINGS: Final[dict[str, str | int | float | list[str]]] = {
    "memory_limit": _MEMORY,
    "threads": 4,
    # Never download an extension while a query waits.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class ParquetStore:
    """A folder per table (``HourTable``) below HOME/olap, or ``folder``; one writer at a time, any
    readers.

    Every call reads the current files; nothing is kept open.
    """

    def __init__(self, home: Path, folder: Path | None = None) -> None:
        self._folder = folder or home / "olap"
        self._known: dict[str, HourTable] = {}  # kept: a table cleans up every so many replacements

    def replace(
        self, hour_ms: int, tables: Mapping[str, pa.Table], writer: Writer = NO_LEASE
    ) -> None:
        """See OlapStore. Raises: StoreUnavailable: the disk is full or not writable, or another
        process writes."""
        for rows in tables.values():
            need_hour(rows, hour_ms)
        what = f"the OLAP store at {self._folder}"
        with writing(self._folder, what, "repeat the hour"):
            try:
                fence(self._folder, what, writer.query, writer.epoch)
                for table, rows in tables.items():
                    self._table(table).replace(hour_ms, rows)
            except OSError as error:
                raise StoreUnavailable(f"cannot write below {self._folder}: {error}") from error

    def query(self, query: Query) -> pa.Table:
        """See OlapStore."""
        info = self._info(query.rows.table)
        files = [str(path) for path in self._files(query.rows)]
        with duckdb.connect(":memory:", config=dict(_SETTINGS)) as engine:
            if not files:  # an empty answer still has the columns
                newest = self._table(info.name).files()[-1]
                empty = pq.ParquetFile(newest).schema_arrow.empty_table()
                engine.register("empty", empty)
            source = "read_parquet(?, union_by_name = true)" if files else "empty"
            found = statement(query, info, source, _DIALECT)
            parameters: list[Any] = [*([files] if files else []), *found.parameters]
            try:
                rows = engine.sql(found.text, params=parameters).to_arrow_table()
            except duckdb.ConversionException as error:
                raise BadRequest(f"a value has the wrong type: {error}") from error
            except duckdb.OutOfMemoryException as error:
                raise BadRequest(
                    f"the query needs more than {_MEMORY} of memory; narrow the query"
                ) from error
            except duckdb.IOException as error:
                raise StoreUnavailable(f"cannot read {self._folder}: {error}") from error
        return answer(query, _plain(rows))

    def tables(self) -> list[TableInfo]:
        """See OlapStore."""
        if not self._folder.exists():
            return []
        names = sorted(path.name for path in self._folder.iterdir() if path.is_dir())
        return [self._info(name) for name in names if self._table(name).hours()]

    def close(self) -> None:
        """Nothing is kept open."""

    def _table(self, name: str) -> HourTable:
        if name not in self._known:
            self._known[name] = HourTable(self._folder, name, folder=self._folder / name)
        return self._known[name]

    def _info(self, name: str) -> TableInfo:
        ours = name.isidentifier()  # no path that leads out of the folder
        files = self._table(name).files() if ours else []
        if not files:
            raise NotFound(f"no table {name!r} in {self._folder}")
        fields = [
            column for column in pq.ParquetFile(files[-1]).schema_arrow if column.name != TIME
        ]
        numbers = frozenset(column.name for column in fields if not pa.types.is_string(column.type))
        return TableInfo(name, tuple(column.name for column in fields), numbers)

    def _files(self, rows: Selection) -> list[Path]:
        table = self._table(rows.table)
        first = hour_of(rows.start_ms)
        hours = [hour for hour in table.hours() if first <= hour < rows.end_ms]
        return table.files(hours) if hours else []


def _plain(rows: pa.Table) -> pa.Table:
    """Integer sums, which DuckDB returns as 128 bits, as bigint or otherwise as double."""
    for place, kind in enumerate(rows.schema.types):
        if pa.types.is_decimal(kind):
            name, column = rows.schema.names[place], rows.column(place)
            try:
                column = column.cast(pa.int64())
            except pa.ArrowInvalid:
                column = column.cast(pa.float64())
            rows = rows.set_column(place, name, column)
    return rows
