"""OLAP tables in Apache Druid, over HTTP."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa

from opentalos.model.errors import NotFound, StoreUnavailable
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.olap.answers import answer
from opentalos.pipelines.olap.druid_http import DruidHttp, part
from opentalos.pipelines.olap.rows import json_pieces, need_hour
from opentalos.pipelines.olap.sql import Dialect, quoted, statement
from opentalos.pipelines.olap.store import NO_LEASE, TIME, Filter, Query, TableInfo, Writer
from opentalos.pipelines.olap.table_set import TABLE_NAME, TableSet, by_datasource

PIECE_BYTES_MAX: Final = 8 << 20  # of rows within one task
TASK_TIMEOUT_S: Final = 600.0
VISIBLE_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2
_TIME: Final = "__time"  # Druid's name of the column
_PIECES: Final = "__pieces"  # suffix of a table that collects the pieces of an hour
_DIALECT: Final = Dialect(
    time_ms=f"TIMESTAMP_TO_MILLIS({_TIME})",
    since=f"{_TIME} >= MILLIS_TO_TIMESTAMP({{}})",
    before=f"{_TIME} < MILLIS_TO_TIMESTAMP({{}})",
)
_COLUMNS: Final = (
    "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE FROM INFORMATION_SCHEMA.COLUMNS "
    "WHERE TABLE_SCHEMA = 'druid' ORDER BY 1, ORDINAL_POSITION"
)
_SQL_TYPES: Final = {"VARCHAR": pa.string(), "DOUBLE": pa.float64(), "FLOAT": pa.float64()}
_Kinds = Mapping[str, Mapping[str, str]]  # SQL types by datasource and column
_PARAMETERS: Final = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE"}


class DruidStore:
    """A table is a datasource with one segment per hour, or a few if it is large.

    The tables of a set share a datasource with the column ``TABLE_NAME``, since a task costs
    seconds however few its rows are, so an hour of the set needs one task instead of one per table.
    A new version of an hour replaces the old one atomically; ``replace`` returns when the broker
    serves it.
    """

    def __init__(
        self, url: str, sets: Sequence[TableSet] = (), *, piece_bytes_max: int = PIECE_BYTES_MAX
    ) -> None:
        self._http = DruidHttp(url)
        self._sets = tuple(sets)
        self._piece_bytes_max = piece_bytes_max

    def replace(
        self, hour_ms: int, tables: Mapping[str, pa.Table], writer: Writer = NO_LEASE
    ) -> None:
        """See OlapStore; the tasks of several datasources run concurrently.

        Druid cannot compare epochs. So the writer's lease is confirmed right before each change.

        Raises: ValueError: only some tables of a set are given.
        """
        for rows in tables.values():
            need_hour(rows, hour_ms)
        tables = by_datasource(tables, self._sets)
        interval = f"{_iso(hour_ms)}/{_iso(hour_ms + HOUR_MS)}"
        before = {table: self._versions(table, interval) for table in tables}
        tasks = [self._begin(table, interval, rows, writer) for table, rows in tables.items()]
        for task in tasks:
            self._end(task)
        for table, rows in tables.items():
            visible = partial(self._shows, table, interval, before[table], rows)
            self._await(f"{table} {interval}", visible)

    def query(self, query: Query) -> pa.Table:
        """See OlapStore."""
        name, kinds = query.rows.table, self._kinds()
        info = next((table for table in self._tables(kinds) if table.name == name), None)
        if info is None:
            raise NotFound(f"no table {name!r} in Druid")
        datasource = self._set_of(name, kinds)
        if datasource:
            ours = Filter(TABLE_NAME, (name,))
            query = replace(query, rows=replace(query.rows, filters=(*query.rows.filters, ours)))
            info = replace(info, columns=(*info.columns, TABLE_NAME))
        found = statement(query, info, quoted(datasource or name), _DIALECT)
        parameters = [
            {"type": _PARAMETERS[type(value)], "value": value} for value in found.parameters
        ]
        return answer(query, self._sql(found.text, parameters))

    def tables(self) -> list[TableInfo]:
        """See OlapStore."""
        return self._tables(self._kinds())

    def _tables(self, kinds: _Kinds) -> list[TableInfo]:
        sets = [each for each in self._sets if each.name in kinds]
        shared = [info for each in sets for info in each.infos()]
        # Earlier releases stored each table of a set by itself.
        hidden = {each.name for each in sets} | {info.name for info in shared}
        own = [
            TableInfo(name, tuple(found), frozenset(found) - _texts(found))
            for name, found in kinds.items()
            if name not in hidden and not name.endswith(_PIECES)
        ]
        return sorted([*shared, *own], key=lambda info: info.name)

    def _set_of(self, table: str, kinds: _Kinds) -> str:
        """The datasource of a table that shares one; empty for others."""
        found = (each.name for each in self._sets if table in each.tables and each.name in kinds)
        return next(found, "")

    def _kinds(self) -> _Kinds:
        found: dict[str, dict[str, str]] = {}
        for row in self._sql(_COLUMNS, []).to_pylist():
            datasource, column, kind = row.values()
            if column != _TIME:
                found.setdefault(datasource, {})[column] = kind
        return found

    def close(self) -> None:
        """No connection is kept open."""

    def _sql(self, text: str, parameters: list[dict[str, Any]]) -> pa.Table:
        form = {"resultFormat": "array", "header": True, "sqlTypesHeader": True}
        body = {"query": text, "parameters": parameters, **form}
        names, kinds, *rows = self._http.broker("/druid/v2/sql", body)
        types = [_SQL_TYPES.get(kind, pa.int64()) for kind in kinds]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        return pa.table(arrays, names=names)

    def _begin(self, table: str, interval: str, rows: pa.Table, writer: Writer) -> str:
        """Start the task that replaces an hour and return its id; empty if no task is needed.

        Rows that do not fit into one task are first collected in a second table, piece by piece, so
        that the hour still changes atomically. That table is overwritten the next time.
        """
        pieces = json_pieces(rows, self._piece_bytes_max)
        first = next(pieces, None)
        if first is None:
            path = f"/druid/coordinator/v1/datasources/{part(table)}/markUnused"
            writer.confirm()
            self._http.coordinator(path, {"interval": interval})
            return ""
        second = next(pieces, None)
        if second is None:
            writer.confirm()
            return self._submit(_task(table, interval, rows.schema, _inline(first)))
        beside = table + _PIECES
        self._end(self._submit(_task(beside, interval, rows.schema, _inline(first))))
        while second is not None:
            more = _task(beside, interval, rows.schema, _inline(second), append=True)
            self._end(self._submit(more))
            second = next(pieces, None)
        gathered = {"type": "druid", "dataSource": beside, "interval": interval}
        writer.confirm()
        return self._submit(_task(table, interval, rows.schema, {"inputSource": gathered}))

    def _submit(self, task: dict[str, Any]) -> str:
        return str(self._http.coordinator("/druid/indexer/v1/task", task)["task"])

    def _end(self, task: str) -> None:
        path = f"/druid/indexer/v1/task/{part(task)}/status"
        if task:
            self._await(task, lambda: self._ended(path), TASK_TIMEOUT_S)

    def _ended(self, path: str) -> bool:
        status = self._http.coordinator(path)["status"]
        if status["statusCode"] == "FAILED":
            raise StoreUnavailable(f"Druid task failed: {status.get('errorMsg')}")
        return bool(status["statusCode"] == "SUCCESS")

    def _versions(self, table: str, interval: str) -> set[str]:
        """Versions of an hour that the broker serves now."""
        path = f"/druid/v2/datasources/{part(table)}/candidates?intervals={part(interval)}"
        found = self._http.broker(path)
        return {segment["version"] for segment in found if segment["locations"]}

    def _shows(self, table: str, interval: str, before: set[str], rows: pa.Table) -> bool:
        now = self._versions(table, interval)
        if not rows.num_rows:
            return not now
        if not now or now & before:
            return False
        known = self._kinds().get(table, ())
        return set(rows.schema.names) <= {*known, TIME}

    def _await(
        self, what: str, done: Callable[[], bool], timeout_s: float = VISIBLE_TIMEOUT_S
    ) -> None:
        until = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > until:
                raise StoreUnavailable(f"Druid did not finish {what} within {timeout_s:.0f} s")
            time.sleep(_POLL_S)


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _inline(rows: str) -> dict[str, Any]:
    inline = {"type": "inline", "data": rows}
    return {"inputSource": inline, "inputFormat": {"type": "json"}}


def _task(
    table: str, interval: str, schema: pa.Schema, source: dict[str, Any], *, append: bool = False
) -> dict[str, Any]:
    dimensions = [
        {"name": field.name, "type": _druid_type(field.type)}
        for field in schema
        if field.name != TIME
    ]
    grain = {"segmentGranularity": "HOUR", "queryGranularity": "NONE", "rollup": False}
    return {
        "type": "index_parallel",
        "spec": {
            "dataSchema": {
                "dataSource": table,
                "timestampSpec": {"column": _TIME, "format": "millis"},
                "dimensionsSpec": {"dimensions": dimensions},
                "metricsSpec": [],
                "granularitySpec": {**grain, "intervals": [interval]},
            },
            "ioConfig": {
                "type": "index_parallel",
                **source,
                "appendToExisting": append,
                "dropExisting": not append,
            },
            "tuningConfig": {
                "type": "index_parallel",
                "partitionsSpec": {"type": "dynamic"},
                "maxNumConcurrentSubTasks": 1,
            },
        },
    }


def _druid_type(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "long"
    return "double" if pa.types.is_floating(kind) else "string"


def _texts(kinds: Mapping[str, str]) -> set[str]:
    return {name for name, kind in kinds.items() if kind == "VARCHAR"}
