"""Tables of a set are stored as one, and never only some of them."""

import pyarrow as pa
import pytest

from opentalos.pipelines.olap.store import TableInfo
from opentalos.pipelines.olap.table_set import TABLE_NAME, TableSet, by_datasource

TIMES = ("time", pa.timestamp("ms", tz="UTC"))
SUMS = pa.schema([TIMES, ("topic", pa.string()), ("total", pa.float64())])
COUNTS = pa.schema([TIMES, ("topic", pa.string()), ("count", pa.int64())])
SET = TableSet("all", {"sums": SUMS, "counts": COUNTS})


def rows(schema: pa.Schema, *values: tuple[object, ...]) -> pa.Table:
    named = [dict(zip(schema.names, row, strict=True)) for row in values]
    return pa.Table.from_pylist(named, schema=schema)


def test_rows_of_a_set_keep_their_values_and_name_their_table() -> None:
    tables = {
        "counts": rows(COUNTS, (1, "b", 7)),
        "sums": rows(SUMS, (0, "a", 1.5)),
        "alone": rows(SUMS, (0, "c", 2.5)),
    }
    found = by_datasource(tables, (SET,))
    assert list(found) == ["all", "alone"]
    assert found["alone"] is tables["alone"]
    shown = found["all"].drop_columns(["time"]).to_pylist()
    assert shown == [
        {"topic": "a", "total": 1.5, "count": None, TABLE_NAME: "sums"},
        {"topic": "b", "total": None, "count": 7, TABLE_NAME: "counts"},
    ]


def test_a_set_without_any_of_its_tables_is_left_alone() -> None:
    tables = {"alone": rows(SUMS)}
    assert by_datasource(tables, (SET,)) == tables
    assert by_datasource({"sums": rows(SUMS), "counts": rows(COUNTS)}, (SET,))["all"].num_rows == 0


def test_some_tables_of_a_set_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"tables of all are replaced together: add \['counts'\]"):
        by_datasource({"sums": rows(SUMS)}, (SET,))


def test_queries_are_told_the_columns_of_each_table() -> None:
    sums, counts = SET.infos()
    assert sums == TableInfo("sums", ("topic", "total"), frozenset({"total"}))
    assert counts == TableInfo("counts", ("topic", "count"), frozenset({"count"}))
