"""What a chart shows of an answer: series, gaps, sums of the rest, titles and units."""

import math
from typing import Any

import pytest

from opentalos.cli.output.chart.content import (
    BARS_MAX,
    CURVES_MAX,
    PANELS_MAX,
    chart_of,
    shown,
    span_text,
)
from opentalos.model.errors import BadRequest
from opentalos.pipelines.olap.store import (
    Filter,
    Group,
    Measure,
    Percentile,
    Query,
    Selection,
    Series,
    Top,
)

START = 1_764_000_000_000
MINUTE = 60_000
TOTAL = Measure("sum_total", "sum", "total")
HIGH = Measure("max_high", "max", "high")
COUNT = Measure("count", "count")


def selection(*filters: Filter) -> Selection:
    return Selection(
        table="metrics_1m", start_ms=START, end_ms=START + 60 * MINUTE, filters=filters
    )


PUT_BYTES = selection(Filter("measure", ("put_bytes",)), Filter("topic", ("a", "b")))


def series(*measures: Measure, by: tuple[str, ...] = ("topic",)) -> Series:
    return Series(rows=PUT_BYTES, step_ms=MINUTE, measures=measures, by=by)


def at(minute: int, topic: Any, value: float | None, column: str = "sum_total") -> dict[str, Any]:
    return {"time": START + minute * MINUTE, "topic": topic, column: value}


def test_a_series_has_a_curve_for_each_group() -> None:
    rows = [at(0, "a", 1.0), at(0, "b", 2.0), at(1, "a", 3.0)]
    chart = chart_of(series(TOTAL), rows)
    assert chart.times == (START, START + MINUTE)
    [panel] = chart.panels
    assert [curve.label for curve in panel.curves] == ["a", "b"]
    assert panel.curves[0].values == (1.0, 3.0)
    assert panel.curves[1].values[0] == 2.0
    assert math.isnan(panel.curves[1].values[1])


def test_a_curve_is_interrupted_where_the_answer_has_no_interval() -> None:
    chart = chart_of(series(TOTAL), [at(0, "a", 1.0), at(5, "a", 2.0)])
    assert chart.times == (START, START + MINUTE, START + 5 * MINUTE)
    assert math.isnan(chart.panels[0].curves[0].values[1])


def test_title_and_axis_come_from_the_query() -> None:
    chart = chart_of(series(TOTAL), [at(0, "a", 1.0)])
    assert chart.title == "put_bytes: sum of total by topic"
    assert chart.subtitle == (
        "metrics_1m, topic = a or b, 2025-11-24 16:00:00 to 2025-11-24 17:00:00 UTC, every 1 min"
    )
    assert chart.legend == "topic"
    [panel] = chart.panels
    assert (panel.label, panel.unit, panel.per) == ("sum of total", "bytes", "1 min")


def test_sums_beyond_the_limit_are_one_curve() -> None:
    rows = [at(minute, f"t{topic}", topic) for minute in (0, 1) for topic in range(15)]
    [panel] = chart_of(series(TOTAL), rows).panels
    assert len(panel.curves) == CURVES_MAX
    assert [curve.label for curve in panel.curves[:2]] == ["t6", "t7"]
    assert panel.curves[-1].label == "sum of 6 others"
    assert panel.curves[-1].values == (15.0, 15.0)
    assert panel.left_out == 0


def test_values_that_do_not_add_up_are_left_out_and_counted() -> None:
    rows = [at(0, f"t{topic}", topic, "max_high") for topic in range(15)]
    [panel] = chart_of(series(HIGH), rows).panels
    assert [curve.label for curve in panel.curves] == [f"t{topic}" for topic in range(5, 15)]
    assert panel.left_out == 5


def test_each_value_has_its_own_axis() -> None:
    row = {**at(0, "a", 1.0), "max_high": 2.0, "count": 3}
    panels = chart_of(series(TOTAL, HIGH, COUNT), [row]).panels
    assert [(panel.label, panel.unit, panel.per) for panel in panels] == [
        ("sum of total", "bytes", "1 min"),
        ("highest high", "bytes", ""),
        ("count", "", "1 min"),
    ]


def test_a_missing_value_is_a_gap() -> None:
    [panel] = chart_of(series(TOTAL), [at(0, "a", None)]).panels
    assert math.isnan(panel.curves[0].values[0])


def test_percentiles_share_an_axis() -> None:
    rows = selection(Filter("measure", ("put_ms",)))
    query = Percentile(rows=rows, percents=(50, 99), by=("machine",), step_ms=MINUTE)
    found = [{"time": START, "machine": "m1", "count": 9, "p50": 1.0, "p99": 7.0}]
    chart = chart_of(query, found)
    [panel] = chart.panels
    assert [curve.label for curve in panel.curves] == ["p50 m1", "p99 m1"]
    assert (chart.title, panel.unit) == ("put_ms: p50, p99 by machine", "ms")


def test_groups_are_bars_in_their_order() -> None:
    query = Group(rows=PUT_BYTES, by=("topic", "partition"), measures=(TOTAL, HIGH))
    rows = [
        {"topic": "a", "partition": 0, "sum_total": 1.0, "max_high": 5.0},
        {"topic": "", "partition": -1, "sum_total": 9.0, "max_high": None},
    ]
    chart = chart_of(query, rows)
    assert chart.times == ()
    assert chart.names == ("a, 0", "(empty), -1")
    assert [panel.curves[0].values[0] for panel in chart.panels] == [1.0, 5.0]


def test_bars_beyond_the_limit_are_one_sum_or_are_counted() -> None:
    query = Top(rows=PUT_BYTES, by=("topic",), measures=(TOTAL, HIGH), limit=100)
    rows = [
        {"topic": f"t{number}", "sum_total": 100 - number, "max_high": 1} for number in range(40)
    ]
    chart = chart_of(query, rows)
    assert len(chart.names) == BARS_MAX
    assert (chart.names[0], chart.names[-1]) == ("t0", "sum of 11 others")
    added, highest = chart.panels
    assert added.curves[0].values[-1] == sum(100 - number for number in range(29, 40))
    assert (added.left_out, highest.left_out) == (0, 11)
    assert math.isnan(highest.curves[0].values[-1])
    assert chart.title == "put_bytes: sum of total, highest high by topic, 100 largest"


def test_a_single_value_is_a_bar() -> None:
    chart = chart_of(Group(rows=selection(), by=(), measures=(COUNT,)), [{"count": 4}])
    assert (chart.title, chart.names) == ("metrics_1m: count", ("all",))


def test_an_answer_without_rows_has_a_chart_without_panels() -> None:
    assert chart_of(series(TOTAL), []).panels == ()


def test_measures_of_several_units_have_none() -> None:
    both = selection(Filter("measure", ("put_bytes", "put_ms")))
    query = Group(rows=both, by=("measure",), measures=(TOTAL,))
    [panel] = chart_of(query, [{"measure": "put_ms", "sum_total": 1.0}]).panels
    assert panel.unit == ""


@pytest.mark.parametrize(
    "query",
    [
        Group(
            rows=PUT_BYTES,
            by=(),
            measures=tuple(Measure(f"v{n}", "sum", f"c{n}") for n in range(PANELS_MAX + 1)),
        ),
        Percentile(rows=PUT_BYTES, percents=tuple(range(CURVES_MAX + 1))),
    ],
)
def test_more_values_than_a_chart_shows_are_rejected(query: Query) -> None:
    with pytest.raises(BadRequest, match=r"cannot draw \d+ values: a chart shows at most \d+"):
        chart_of(query, [])


def test_labels_are_one_short_visible_line() -> None:
    assert shown("a\n\x1b[2J") == r"a \u001b[2J"
    assert shown("") == "(empty)"
    assert shown("x" * 50) == "x" * 39 + "…"


def test_a_span_has_the_largest_unit_that_divides_it() -> None:
    assert [span_text(ms) for ms in (10_000, 90_000, 3_600_000, 172_800_000, 1_500)] == [
        "10 s",
        "90 s",
        "1 h",
        "2 d",
        "1500 ms",
    ]
