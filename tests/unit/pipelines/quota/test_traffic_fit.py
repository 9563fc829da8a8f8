"""Level, trend and season of daily peaks, and what outliers do not do to them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.pipelines.quota.pipeline import RATE_MAX, projected
from opentalos.pipelines.quota.traffic_fit import NOTHING, WEEK, Fit, fit

DAYS = np.arange(60, dtype=np.float64)
MONDAY_AFTER = 60 % WEEK  # weekday of the day after, if the first day is a Monday


def at(found: Fit, age: int, end_weekday: int = MONDAY_AFTER) -> float:
    return (found.level + found.trend_per_day * age) * found.season[(end_weekday + age) % WEEK]


def test_a_line_with_a_weekend_is_found_again() -> None:
    weekend = np.where(DAYS % WEEK >= 5, 0.4, 1.0)
    found = fit((100 + 2 * DAYS) * weekend, MONDAY_AFTER)
    for age in range(30):
        day = 60 + age
        true = (100 + 2 * day) * (0.4 if day % WEEK >= 5 else 1.0)
        assert at(found, age) == pytest.approx(true, rel=0.02)
    assert found.spread < 5


def test_single_spikes_and_short_gaps_move_nothing() -> None:
    plain = 100 + 5 * np.sin(DAYS)
    broken = plain.copy()
    broken[[20, 41, 55]] = [9_000, 0, 50_000]
    before, after = fit(plain, 0), fit(broken, 0)
    assert after.level == pytest.approx(before.level, rel=0.05)
    assert abs(after.trend_per_day) < 0.2
    assert after.peak == 50_000
    assert after.repeated_peak == pytest.approx(105, rel=0.01)
    assert max(after.season) < 1.1


def test_bursts_on_many_days_widen_the_spread() -> None:
    bursty = np.where(DAYS % 5 == 0, 300.0, 100.0)
    assert fit(bursty, 0).spread > 50


def test_traffic_that_ended_is_expected_to_stay_away() -> None:
    ended = np.where(DAYS < 40, 100.0, 0.0)
    assert fit(ended, 0).level == 0


def test_steady_noise_is_not_a_trend_and_a_step_is_not_a_season() -> None:
    random = np.random.default_rng(5)
    slopes = [fit(100 * random.lognormal(0, 0.1, 60), 0).trend_per_day for _ in range(50)]
    assert sum(slope == 0 for slope in slopes) >= 45
    step = fit(np.where(DAYS < 40, 100.0, 200.0), 0)
    assert max(step.season) == pytest.approx(1.0, abs=0.05)
    assert step.level == pytest.approx(200, rel=0.05)


def test_little_or_no_history_has_neither_trend_nor_season() -> None:
    assert fit(np.zeros(0), 3) == NOTHING
    single = fit(np.array([7.0]), 3)
    assert (single.level, single.trend_per_day, single.repeated_peak) == (7.0, 0.0, 0.0)
    two_weeks = fit(np.arange(13, dtype=np.float64), 3)
    assert (two_weeks.trend_per_day, two_weeks.season) == (0.0, (1.0,) * WEEK)


@given(
    st.lists(st.one_of(st.floats(0, 1e18), st.just(np.nan), st.just(np.inf)), max_size=70),
    st.integers(0, 6),
)
def test_every_series_has_a_projection_that_the_server_takes(
    series: list[float], weekday: int
) -> None:
    peaks = np.array(series, dtype=np.float64)
    made = projected("t", peaks, np.nan_to_num(peaks), (4 + weekday) * 86_400_000)
    for name in ("level", "spread", "peak", "repeated_peak", "mean"):
        assert 0 <= made[name] <= RATE_MAX
    assert abs(made["trend_per_day"]) <= RATE_MAX
    assert len(made["season"]) == WEEK
    assert all(0 <= factor <= 1_000_000 for factor in made["season"])
    assert made["days"] == len(series)
