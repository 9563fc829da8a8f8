"""Queries of the stores that keep Parquet files: DuckDB answers them."""

from typing import Any, Final

import duckdb
import pyarrow as pa

from opentalos.model.errors import BadRequest, StoreUnavailable
from opentalos.pipelines.olap.answers import answer
from opentalos.pipelines.olap.sql import Dialect, statement
from opentalos.pipelines.olap.store import Query, TableInfo

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


def answered(query: Query, info: TableInfo, source: list[str] | Any, place: object) -> pa.Table:
    """The answer from rows of ``info``.

    Args:   source: paths of Parquet files, or rows that DuckDB can register (a table or data set of
            pyarrow); place: of the files, for errors.
    Raises: BadRequest; StoreUnavailable: a file cannot be read.
    """
    with duckdb.connect(":memory:", config=dict(_SETTINGS)) as engine:
        values: list[Any] = []
        if isinstance(source, list):
            name, values = "read_parquet(?, union_by_name = true)", [source]
        else:
            name = "given"
            engine.register(name, source)
        found = statement(query, info, name, _DIALECT)
        try:
            rows = engine.sql(found.text, params=[*values, *found.parameters]).to_arrow_table()
        except duckdb.ConversionException as error:
            raise BadRequest(f"a value has the wrong type: {error}") from error
        except duckdb.OutOfMemoryException as error:
            raise BadRequest(
                f"the query needs more than {_MEMORY} of memory; narrow the query"
            ) from error
        except (duckdb.IOException, OSError) as error:
            raise StoreUnavailable(f"cannot read {place}: {error}") from error
    return answer(query, _plain(rows))


def table_info(name: str, fields: pa.Schema, hidden: tuple[str, ...]) -> TableInfo:
    """A table for queries by the columns of its files.

    Args: hidden: columns that no query names.
    """
    shown = [field for field in fields if field.name not in hidden]
    numbers = frozenset(field.name for field in shown if not pa.types.is_string(field.type))
    return TableInfo(name, tuple(field.name for field in shown), numbers)


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
