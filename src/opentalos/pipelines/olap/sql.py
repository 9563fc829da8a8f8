"""Queries as SQL for both DuckDB and Druid, with the values as parameters.

Names are quoted and come from a table's own columns (``checked_columns``); our own numbers are
literals; every value that a caller gives is a parameter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from opentalos.pipelines.olap.store import (
    BUCKET,
    COUNT,
    SKETCH_ROWS_MAX,
    TIME,
    Group,
    Measure,
    Percentile,
    Query,
    Selection,
    Series,
    TableInfo,
    Top,
    Value,
    checked_columns,
    checked_value,
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine names a row's time in Unix ms and compares it; ``{}`` is a number."""

    time_ms: str
    since: str
    before: str
    divide: str = "/"  # of whole numbers


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with a ``?`` for each parameter."""

    text: str
    parameters: tuple[Value, ...]


def statement(query: Query, table: TableInfo, source: str, dialect: Dialect) -> Statement:
    """The SQL of a query over ``source``. It requests one row more than the limit.

    Raises: BadRequest: a column that the table does not have.
    """
    rows = query.rows
    _check(query, table)
    keys = [*_steps(query, dialect), *map(quoted, query.by)]
    if isinstance(query, Percentile):
        keys.append(quoted(BUCKET))
        amounts = [f"SUM({quoted(COUNT)}) AS {quoted(COUNT)}"]
    else:
        amounts = [f"{_aggregate(measure)} AS {quoted(measure.name)}" for measure in query.measures]
    places = [str(place) for place in range(1, len(keys) + 1)]
    shown = [*keys, *amounts]
    if isinstance(query, Series | Percentile) and query.step_ms:
        shown[0] += f" AS {quoted(TIME)}"
    text = f"SELECT {', '.join(shown)} FROM {source} WHERE {_where(rows, dialect)}"
    if keys:
        text += f" GROUP BY {', '.join(keys)}"
    order = [f"{len(keys) + 1} DESC", *places] if isinstance(query, Top) else places
    if order:
        text += f" ORDER BY {', '.join(order)}"
    text += f" LIMIT {_limit(query)}"
    values = [(condition.column, value) for condition in rows.filters for value in condition.values]
    return Statement(text, tuple(checked_value(table, *pair) for pair in values))


def quoted(name: str) -> str:
    """A quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _check(query: Query, table: TableInfo) -> None:
    names = [*query.by, *(condition.column for condition in query.rows.filters)]
    if isinstance(query, Percentile):
        names += [BUCKET, COUNT]
    else:
        for measure in query.measures:
            names += [name for name in (measure.column, measure.per) if name]
    checked_columns(table, names)


def _limit(query: Query) -> int:
    if isinstance(query, Percentile):
        return SKETCH_ROWS_MAX + 1
    return query.limit if isinstance(query, Top) else query.limit + 1


def _steps(query: Query, dialect: Dialect) -> Sequence[str]:
    if isinstance(query, Group | Top) or not query.step_ms:
        return []
    step = int(query.step_ms)
    return [f"({dialect.time_ms} {dialect.divide} {step}) * {step}"]


def _aggregate(measure: Measure) -> str:
    if measure.function == "count":
        return "COUNT(*)"
    column = f"{measure.function.upper()}({quoted(measure.column)})"
    return f"{column} / NULLIF(SUM({quoted(measure.per)}), 0)" if measure.per else column


def _where(rows: Selection, dialect: Dialect) -> str:
    conditions = [
        dialect.since.format(int(rows.start_ms)),
        dialect.before.format(int(rows.end_ms)),
    ]
    for condition in rows.filters:
        places = ", ".join("?" for _ in condition.values)
        conditions.append(f"{quoted(condition.column)} IN ({places})" if places else "1 = 0")
    return " AND ".join(conditions)
