"""Every OLAP store replaces hours as a whole and answers the same queries alike."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from opentalos.model.errors import BadRequest, LeaseNotHeld, NotFound
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.olap.store import (
    Filter,
    Group,
    Measure,
    OlapStore,
    Percentile,
    Query,
    Selection,
    Series,
    Top,
    Writer,
)
from opentalos.wire.metrics.sketch import RELATIVE_ERROR, bucket_of

HOUR = 1_764_000_000_000 // HOUR_MS * HOUR_MS
NEXT = HOUR + HOUR_MS
TOTAL = Measure("total", "sum", "total")
FIELDS = pa.schema(
    [
        ("time", pa.timestamp("ms", tz="UTC")),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("total", pa.float64()),
        ("samples", pa.int64()),
    ]
)
SKETCH_FIELDS = pa.schema(
    [
        ("time", pa.timestamp("ms", tz="UTC")),
        ("topic", pa.string()),
        ("bucket", pa.int32()),
        ("count", pa.int64()),
    ]
)


def table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema = FIELDS) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema.names)
    return pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)],
        schema=schema,
    )


def selection(name: str, *filters: Filter, start: int = HOUR, end: int = NEXT) -> Selection:
    return Selection(table=name, start_ms=start, end_ms=end, filters=filters)


def answered(store: OlapStore, query: Query) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in store.query(query).to_pylist()]


FIRST = [
    (HOUR, "orders", 0, 1.5, 1),
    (HOUR + 9_999, "orders", 1, 2.0, 1),
    (HOUR + 10_000, "orders", 0, 4.0, 2),
    (HOUR + 10_000, 'it\'s "odd"; --', 0, 8.0, 4),
    (NEXT - 1, "", -1, 16.0, 1),
]


@pytest.fixture(scope="module")
def metrics(store: OlapStore, run: str) -> str:
    name = f"metrics_{run}"
    store.replace(HOUR, {name: table(FIRST)})
    store.replace(NEXT, {name: table([(NEXT, "orders", 0, 32.0, 1)])})
    return name


def test_a_series_has_a_row_for_each_step(store: OlapStore, metrics: str) -> None:
    query = Series(rows=selection(metrics), step_ms=10_000, measures=(TOTAL,))
    assert answered(store, query) == [(HOUR, 3.5), (HOUR + 10_000, 12.0), (NEXT - 10_000, 16.0)]


def test_a_series_by_columns_over_hours(store: OlapStore, metrics: str) -> None:
    rows = selection(metrics, Filter("topic", ("orders",)), end=NEXT + HOUR_MS)
    query = Series(rows=rows, step_ms=HOUR_MS, measures=(TOTAL,), by=("partition",))
    assert answered(store, query) == [(HOUR, 0, 5.5), (HOUR, 1, 2.0), (NEXT, 0, 32.0)]


def test_the_end_of_a_time_range_is_not_part_of_it(store: OlapStore, metrics: str) -> None:
    rows = selection(metrics, start=HOUR + 1, end=HOUR + 10_000)
    assert answered(store, Group(rows=rows, by=(), measures=(TOTAL,))) == [(2.0,)]


def test_a_group_has_every_measure(store: OlapStore, metrics: str) -> None:
    measures = (
        Measure("n", "count"),
        Measure("least", "min", "total"),
        Measure("most", "max", "total"),
        Measure("mean", "sum", "total", per="samples"),
        Measure("avg", "avg", "total"),
    )
    query = Group(rows=selection(metrics), by=("topic",), measures=measures)
    assert answered(store, query) == [
        ("", 1, 16.0, 16.0, 16.0, 16.0),
        ('it\'s "odd"; --', 1, 8.0, 8.0, 2.0, 8.0),
        ("orders", 3, 1.5, 4.0, 1.875, 2.5),
    ]


def test_sums_of_whole_numbers_are_whole(store: OlapStore, metrics: str) -> None:
    measures = (Measure("samples", "sum", "samples"), TOTAL)
    found = store.query(Group(rows=selection(metrics), by=("partition",), measures=measures))
    assert found.schema.field("samples").type == pa.int64()
    assert found.schema.field("total").type == pa.float64()
    assert pa.types.is_integer(found.schema.field("partition").type)


def test_the_largest_come_first(store: OlapStore, metrics: str) -> None:
    query = Top(rows=selection(metrics), by=("topic",), measures=(TOTAL,), limit=2)
    assert answered(store, query) == [("", 16.0), ('it\'s "odd"; --', 8.0)]


@pytest.mark.parametrize(
    ("column", "values", "total"),
    [
        ("topic", ('it\'s "odd"; --',), 8.0),
        ("topic", ("orders", ""), 23.5),
        ("topic", ("' OR '1'='1",), None),
        ("topic", (), None),
        ("partition", (0,), 13.5),
        ("partition", (-1, 1), 18.0),
        ("partition", ("-1", "1"), 18.0),
        ("topic", (1,), None),
    ],
)
def test_filters_compare_values(
    store: OlapStore, metrics: str, column: str, values: tuple[Any, ...], total: float | None
) -> None:
    query = Group(rows=selection(metrics, Filter(column, values)), by=("topic",), measures=(TOTAL,))
    found = sum(row[1] for row in answered(store, query))
    assert found == (total or 0)


@pytest.mark.parametrize(
    "query",
    [
        Group(rows=selection("?", Filter('topic" = "topic', ("x",))), by=(), measures=(TOTAL,)),
        Group(rows=selection("?"), by=('topic", "x',), measures=(TOTAL,)),
        Group(rows=selection("?"), by=(), measures=(Measure("x", "sum", "nothing"),)),
        Series(rows=selection("?"), step_ms=1, measures=(TOTAL,), by=("1",)),
        Percentile(rows=selection("?"), percents=(50,)),
    ],
)
def test_a_name_that_is_no_column_is_refused(store: OlapStore, metrics: str, query: Query) -> None:
    named = replace(query, rows=replace(query.rows, table=metrics))
    with pytest.raises(BadRequest, match="has no column"):
        store.query(named)


def test_a_text_for_a_number_is_refused(store: OlapStore, metrics: str) -> None:
    rows = selection(metrics, Filter("partition", ("one",)))
    with pytest.raises(BadRequest, match="is numeric, 'one' is not a number"):
        store.query(Group(rows=rows, by=(), measures=(TOTAL,)))


@pytest.mark.parametrize("name", ["nothing_of_it", 'x"; DROP TABLE y; --', "../../etc", ""])
def test_a_table_that_is_not_there_is_said(store: OlapStore, metrics: str, name: str) -> None:
    with pytest.raises(NotFound):
        store.query(Group(rows=selection(name), by=(), measures=(TOTAL,)))


def test_more_rows_than_the_limit_are_refused_not_cut(store: OlapStore, metrics: str) -> None:
    rows = selection(metrics)
    assert len(answered(store, Group(rows=rows, by=("topic",), measures=(TOTAL,), limit=3))) == 3
    with pytest.raises(BadRequest, match="more than 2 rows"):
        store.query(Group(rows=rows, by=("topic",), measures=(TOTAL,), limit=2))


def test_hours_without_rows_answer_nothing(store: OlapStore, metrics: str) -> None:
    rows = selection(metrics, start=NEXT + HOUR_MS, end=NEXT + 2 * HOUR_MS)
    query = Series(rows=rows, step_ms=1000, measures=(TOTAL,), by=("topic",))
    assert answered(store, query) == []
    assert store.query(query).column_names == ["time", "topic", "total"]


def test_tables_list_their_columns(store: OlapStore, metrics: str) -> None:
    found = {item.name: set(item.columns) for item in store.tables()}
    assert found[metrics] == {"topic", "partition", "total", "samples"}


def test_an_hour_is_replaced_as_a_whole(store: OlapStore, run: str) -> None:
    name = f"replaced_{run}"
    query = Group(rows=selection(name, end=NEXT + 1), by=("topic",), measures=(TOTAL,))
    store.replace(HOUR, {name: table([(HOUR, "a", 0, 1.0, 1), (HOUR + 5, "b", 0, 2.0, 1)])})
    store.replace(NEXT, {name: table([(NEXT, "next", 0, 1.0, 1)])})
    for _ in range(2):  # the same again changes nothing
        store.replace(HOUR, {name: table([(HOUR + 7, "c", 0, 4.0, 1)])})
        assert answered(store, query) == [("c", 4.0), ("next", 1.0)]
    store.replace(HOUR, {name: table([])})
    assert answered(store, query) == [("next", 1.0)]


def test_percentiles_of_merged_sketches(store: OlapStore, run: str) -> None:
    name = f"metrics_{run}_sketches"
    values = [(HOUR + place, "a" if place % 2 else "b", float(place)) for place in range(1, 1001)]
    rows = [(time, topic, bucket_of(value), 1) for time, topic, value in values]
    store.replace(HOUR, {name: table(rows, SKETCH_FIELDS)})
    query = Percentile(rows=selection(name), percents=(50, 99.9))
    assert store.query(query).column_names == ["count", "p50", "p99.9"]
    [(count, p50, p999)] = answered(store, query)
    assert count == 1000
    assert p50 == pytest.approx(500, rel=RELATIVE_ERROR)
    assert p999 == pytest.approx(999, rel=RELATIVE_ERROR)
    by = Percentile(rows=selection(name), percents=(100,), by=("topic",), step_ms=600)
    found = answered(store, by)
    assert [row[:3] for row in found] == [
        (HOUR, "a", 300), (HOUR, "b", 299), (HOUR + 600, "a", 200), (HOUR + 600, "b", 201),
    ]  # fmt: skip
    assert found[-1][3] == pytest.approx(1000, rel=RELATIVE_ERROR)


def test_a_late_run_replaces_nothing(store: OlapStore, run: str) -> None:
    name = f"late_{run}"
    totals = Group(rows=selection(name), by=("topic",), measures=(TOTAL,))

    def refuse() -> None:
        raise LeaseNotHeld("another run has taken over")

    store.replace(HOUR, {name: table([(HOUR, "a", 0, 1.0, 1)])}, Writer(f"query-{run}", 2))
    for late in ([(HOUR, "a", 0, 4.0, 1)], []):
        with pytest.raises(LeaseNotHeld):
            store.replace(HOUR, {name: table(late)}, Writer(f"query-{run}", 1, refuse))
    assert answered(store, totals) == [("a", 1.0)]
