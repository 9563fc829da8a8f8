"""Series of lag are bounded, show the worst groups, and change seldom."""

from hypothesis import given
from hypothesis import strategies as st

from opentalos.gateway.metrics.lag_series import OTHER, GroupOfTopic, LagSeries


def place(number: int) -> GroupOfTopic:
    return GroupOfTopic("alice/orders", f"bob/g{number:02}")


def rows(series: LagSeries, *lags: int) -> dict[str, int]:
    found = series.rows({place(number): lag for number, lag in enumerate(lags)})
    return {row.group.removeprefix("bob/"): lag for row, lag in found}


def test_the_groups_furthest_behind_have_their_own_series() -> None:
    assert rows(LagSeries(2), 1, 9, 5, 2) == {"g01": 9, "g02": 5, OTHER: 3}
    assert rows(LagSeries(2), 7) == {"g00": 7, OTHER: 0}
    assert rows(LagSeries(0), 1, 9) == {OTHER: 10}


def test_groups_of_about_the_same_lag_do_not_take_turns() -> None:
    series = LagSeries(2)
    assert rows(series, 90, 10, 9, 1) == {"g00": 90, "g01": 10, OTHER: 10}
    assert rows(series, 90, 10, 11, 1) == {"g00": 90, "g01": 10, OTHER: 12}
    assert rows(series, 90, 8, 11, 9, 10) == {"g00": 90, "g02": 11, OTHER: 27}


def test_a_group_that_falls_far_behind_is_shown_at_once() -> None:
    series = LagSeries(2)
    rows(series, 90, 80, 0, 0)
    assert rows(series, 90, 80, 1000, 0) == {"g02": 1000, "g00": 90, OTHER: 80}


@given(st.integers(0, 5), st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=6))
def test_nothing_is_lost_and_the_bound_holds(most: int, scrapes: list[list[int]]) -> None:
    series = LagSeries(most)
    for lags in scrapes:
        found = rows(series, *lags)
        assert sum(found.values()) == sum(lags)
        assert len(found) <= most + 1
        if most and lags:
            assert max(found[group] for group in found if group != OTHER) == max(lags)
