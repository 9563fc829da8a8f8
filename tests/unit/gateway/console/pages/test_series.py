"""Series of REST as the charts of pages take them."""

from opentalos.gateway.console.pages.series import series_of, source

FOUND = {
    "kind": "sum",
    "step_s": 10,
    "times_s": [10, 20, 30],
    "series": [
        {"labels": {"topic": "CL1/orders"}, "values": [100, None, 30]},
        {"labels": {"rest": "3"}, "values": [0, 0, 0]},
    ],
}


def test_sums_become_rates_and_unknown_values_stay_unknown() -> None:
    series = series_of(FOUND)
    assert [line.name for line in series.lines] == ["CL1/orders", "3 more"]
    assert series.of("topic", "CL1/orders") == [10.0, None, 3.0]
    assert series.of("topic", "CL1/other") == ()
    assert series.first is not None
    assert series.first.latest == 10.0


def test_other_kinds_stay_as_they_are() -> None:
    assert series_of(FOUND | {"kind": "gauge"}).lines[0].values == [100, None, 30]


def test_the_source_of_a_chart_is_a_page() -> None:
    assert source("lag", topic="CL1/orders", group=None) == (
        "/console/series?metric=lag&topic=CL1%2Forders"
    )
