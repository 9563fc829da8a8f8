"""Sketches: the error of a percentile, merging, and values that are no latencies."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.wire.metrics.sketch import (
    BUCKET_MAX,
    BUCKET_MIN,
    BUCKETS_MAX,
    RELATIVE_ERROR,
    Sketch,
    bucket_of,
    merged,
    percentile,
    value_of,
)

latencies = st.floats(min_value=1e-6, max_value=1e12)
sketches = st.dictionaries(
    st.integers(BUCKET_MIN, BUCKET_MAX), st.integers(1, 1_000_000), max_size=20
)


def exact(values: list[float], percent: float) -> float:
    rank = max(1, math.ceil(percent / 100 * len(values)))
    return sorted(values)[rank - 1]


@given(st.lists(latencies, min_size=1, max_size=200), st.floats(0, 100))
def test_a_percentile_is_off_by_one_percent_at_most(values: list[float], percent: float) -> None:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    wanted, found = exact(values, percent), sketch.percentile(percent)
    assert found is not None
    assert abs(found - wanted) <= (RELATIVE_ERROR + 1e-9) * wanted
    assert RELATIVE_ERROR < 0.01


@given(st.lists(latencies, max_size=100), st.lists(latencies, max_size=100))
def test_merging_two_is_counting_all(left: list[float], right: list[float]) -> None:
    first, second, both = Sketch(), Sketch(), Sketch()
    for value in left:
        first.add(value)
        both.add(value)
    for value in right:
        second.add(value)
        both.add(value)
    first.merge(second.counts)
    assert first.counts == both.counts


@given(sketches, sketches, sketches)
def test_the_order_of_merging_does_not_matter(
    first: dict[int, int], second: dict[int, int], third: dict[int, int]
) -> None:
    left = merged([merged([first, second]), third])
    assert left == merged([first, merged([second, third])]) == merged([third, second, first])


@given(st.floats(allow_nan=False))
def test_every_number_has_a_bucket_within_the_bound(value: float) -> None:
    assert BUCKET_MIN <= bucket_of(value) <= BUCKET_MAX
    assert BUCKETS_MAX == 2_101


@pytest.mark.parametrize("value", [0.0, -0.0, -3.5, -math.inf, 1e-9])
def test_zero_and_what_a_clock_made_negative_are_shown_as_zero(value: float) -> None:
    sketch = Sketch()
    sketch.add(value)
    assert sketch.percentile(99) == 0.0


def test_what_is_too_large_is_in_the_last_bucket() -> None:
    assert bucket_of(1e300) == bucket_of(math.inf) == BUCKET_MAX


def test_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        bucket_of(math.nan)


def test_an_empty_sketch_has_no_percentile() -> None:
    assert percentile({}, 50) is None


@pytest.mark.parametrize("percent", [-1, 100.1, math.nan])
def test_a_percentile_beyond_a_hundred_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match=r"is not in 0\.\.100"):
        percentile({1: 1}, percent)


@given(st.integers(BUCKET_MIN + 1, BUCKET_MAX))
def test_what_stands_for_a_bucket_lies_in_it(bucket: int) -> None:
    assert bucket_of(value_of(bucket)) == bucket
