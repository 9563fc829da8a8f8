"""Tables that are always replaced together, so that an engine may store them as one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from opentalos.pipelines.lake.layout import TIME_TYPE, Layout
from opentalos.pipelines.olap.store import TIME, TableInfo

TABLE_NAME: Final = "table_name"  # column of the merged rows: the table that a row belongs to
HOUR: Final = "hour"  # column by which files of merged rows are kept apart, as HOUR_FORMAT
HOUR_FORMAT: Final = "%Y-%m-%dT%H"  # in UTC


@dataclass(frozen=True, slots=True)
class TableSet:
    """Its name, and the columns of each of its tables. A column has one type in all of them."""

    name: str
    tables: Mapping[str, pa.Schema]

    def layout(self) -> Layout:
        """Of the merged rows in files, each with rows of one hour of one table."""
        columns = {
            field.name: field
            for schema in self.tables.values()
            for field in schema
            if field.name != TIME
        }
        return files_layout(self.name, pa.schema(columns.values()), (HOUR, TABLE_NAME))

    def infos(self) -> list[TableInfo]:
        """The tables for queries."""
        return [_info(name, schema) for name, schema in self.tables.items()]

    def merged(self, tables: Mapping[str, pa.Table]) -> pa.Table:
        """All rows as one table. A column that a table does not have is null there.

        Raises: ValueError: a table is missing; the hour would lose its rows.
        """
        if missing := sorted(self.tables.keys() - tables.keys()):
            raise ValueError(f"tables of {self.name} are replaced together: add {missing}")
        parts = [_named(name, tables[name]) for name in self.tables]
        return pa.concat_tables(parts, promote_options="default")


def files_layout(name: str, columns: pa.Schema, partition_by: tuple[str, ...]) -> Layout:
    """The layout of files in folders, with these columns beside time."""
    parts = [pa.field(each, pa.string(), nullable=False) for each in partition_by]
    return Layout(
        name,
        pa.schema([pa.field(TIME, TIME_TYPE, nullable=False), *columns, *parts]),
        TIME,
        partition_by=partition_by,
    )


def hour_text(hour_ms: int) -> str:
    """An hour as the value of its column. Args: hour_ms: Unix milliseconds."""
    return datetime.fromtimestamp(hour_ms / 1000, UTC).strftime(HOUR_FORMAT)


def by_datasource(
    tables: Mapping[str, pa.Table], sets: Iterable[TableSet]
) -> Mapping[str, pa.Table]:
    """What to store under which name: each set as one table, every other table by itself."""
    left, found = dict(tables), dict[str, pa.Table]()
    for each in sets:
        given = {name: left.pop(name) for name in each.tables if name in left}
        if given:
            found[each.name] = each.merged(given)
    return {**found, **left}


def _named(name: str, rows: pa.Table) -> pa.Table:
    return rows.append_column(TABLE_NAME, pa.repeat(pa.scalar(name), rows.num_rows))


def _info(name: str, schema: pa.Schema) -> TableInfo:
    fields = [field for field in schema if field.name != TIME]
    numbers = frozenset(field.name for field in fields if not pa.types.is_string(field.type))
    return TableInfo(name, tuple(field.name for field in fields), numbers)
