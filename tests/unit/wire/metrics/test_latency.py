"""Latencies: the classes of /metrics and the sketch count the same calls."""

from hypothesis import given
from hypothesis import strategies as st

from opentalos.model.histogram import CALL_S, Histogram
from opentalos.wire.metrics.latency import Latency
from opentalos.wire.metrics.sketch import bucket_of, value_of

times_s = st.floats(min_value=2e-5, max_value=50.0) | st.sampled_from(CALL_S)


@given(st.lists(times_s, max_size=100))
def test_the_coarse_classes_are_exact(times: list[float]) -> None:
    latency, plain = Latency(), Histogram(CALL_S)
    for time in times:
        latency.observe(time)
        plain.observe(time)
    coarse = latency.coarse()
    assert (coarse.counts, coarse.sum) == (plain.counts, plain.sum)


@given(times_s)
def test_the_sketch_is_within_its_error(time_s: float) -> None:
    latency = Latency()
    latency.observe(time_s)
    ((bucket, count),) = latency.sketch_since([0] * len(latency.counts)).items()
    assert count == 1
    assert abs(bucket - bucket_of(time_s * 1_000)) <= (time_s in CALL_S)
    assert abs(value_of(bucket) - time_s * 1_000) <= 0.0101 * time_s * 1_000


def test_only_what_is_new_is_in_a_step() -> None:
    latency = Latency()
    latency.observe(0.004)
    before = list(latency.counts)
    assert latency.sketch_since(before) == {}
    for _ in range(3):
        latency.observe(0.004)
    assert latency.sketch_since(before) == {bucket_of(4.0): 3}


def test_what_is_out_of_all_bounds_counts_at_the_ends() -> None:
    latency = Latency()
    latency.observe(0.0)
    latency.observe(1e9)
    sketch = latency.sketch_since([0] * len(latency.counts))
    assert sorted(sketch.values()) == [1, 1]
    assert value_of(min(sketch)) < 0.0102
    assert value_of(max(sketch)) > 60_000
