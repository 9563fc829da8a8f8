"""A day is unusual by numbers that the report names, and only then."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.pipelines.quota.traffic_fit import WEEK, Days
from opentalos.pipelines.traffic.anomalies import (
    HISTORY_DAYS_MIN,
    Tolerance,
    anomaly_of,
    rate_text,
)

MIB = 1 << 20
USUAL = Tolerance()
DAYS = np.arange(57)  # the last one is judged; the first is a Monday
LAST = int(DAYS[-1]) % WEEK


def history(last: float) -> Days:
    """Eight weeks around 3 MiB/s with quiet weekends, and a last day."""
    days = (3 + 0.1 * np.sin(DAYS)) * MIB * np.where(DAYS % WEEK >= 5, 0.4, 1.0)
    days[-1] = last * MIB
    return days


def test_a_day_as_the_others_is_usual() -> None:
    assert anomaly_of(history(3.0), LAST, USUAL) is None
    assert anomaly_of(history(3.3), LAST, USUAL) is None


@pytest.mark.parametrize(("value", "side"), [(9.0, "above"), (0.0, "below"), (1.0, "below")])
def test_a_rise_and_a_drop_are_found_with_their_numbers(value: float, side: str) -> None:
    found = anomaly_of(history(value), LAST, USUAL)
    assert found is not None
    text = found.text("busiest minute")
    assert text.startswith(f"busiest minute {rate_text(value * MIB)}, expected 3.")
    assert " for Mondays, trend +" in text
    assert f"from 56 days; {rate_text(abs(value * MIB - found.expected))} {side}" in text
    allowed, spread = rate_text(4 * found.found.spread), rate_text(found.found.spread)
    assert text.endswith(f"allowed are {allowed} (4 spreads of {spread})")


def test_a_quiet_weekend_is_expected() -> None:
    saturday = history(3.0)[:-2]  # the last day is a Saturday
    assert len(saturday) % WEEK == 6
    assert anomaly_of(saturday, 5, USUAL) is None
    saturday[-1] = 3 * MIB
    found = anomaly_of(saturday, 5, USUAL)
    assert found is not None
    assert found.expected == pytest.approx(1.2 * MIB, rel=0.05)


def test_a_steady_tenant_may_change_a_little() -> None:
    days = np.full(30, float(MIB))
    days[-1] = 1.4 * MIB  # the spread is zero
    assert anomaly_of(days, 0, USUAL) is None
    days[-1] = 1.6 * MIB
    assert anomaly_of(days, 0, USUAL) is not None


def test_bursts_that_happen_often_are_usual() -> None:
    days = np.where(np.arange(43) % 5 == 0, 9.0, 3.0) * MIB
    days[-1] = 9 * MIB
    assert anomaly_of(days, 0, USUAL) is None


def test_a_former_outlier_does_not_hide_the_next() -> None:
    days = history(9.0)
    days[-8] = 90 * MIB
    assert anomaly_of(days, LAST, USUAL) is not None


@pytest.mark.parametrize("days", [[], [5e6], [1e6] * HISTORY_DAYS_MIN, [0.0] * 40 + [1e6] * 5])
def test_a_short_history_says_nothing(days: list[float]) -> None:
    values = np.array([*days, 1e9]) if len(days) < HISTORY_DAYS_MIN else np.array(days)
    assert anomaly_of(values, 0, USUAL) is None


def test_a_trickle_is_never_unusual() -> None:
    assert anomaly_of(np.array([*[10.0] * 30, 900.0]), 0, USUAL) is None


def test_the_tolerance_is_the_operators() -> None:
    assert anomaly_of(history(9.0), LAST, Tolerance(factor=5.0)) is None
    assert anomaly_of(history(9.0), LAST, Tolerance(spreads=1e6)) is None


@given(st.lists(st.floats(0, 1e15), min_size=1, max_size=70), st.integers(0, 6))
def test_any_series_has_an_answer(days: list[float], weekday: int) -> None:
    found = anomaly_of(np.array(days), weekday, USUAL)
    assert found is None or "expected" in found.text("mean of the day")


def test_a_weekday_of_next_to_nothing_overflows_nothing() -> None:
    days = np.array(([1e-300] + [1.0] * 6) * 9)
    days[-7] = 1e12
    assert anomaly_of(days, 0, USUAL) is None


def test_rates_are_short() -> None:
    assert [rate_text(value) for value in (0, 1023, 1536, 5 << 30, float(1 << 60))] == [
        "0.0 B/s", "1023.0 B/s", "1.5 KiB/s", "5.0 GiB/s", "1048576.0 TiB/s",
    ]  # fmt: skip
