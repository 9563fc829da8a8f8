"""Ratios of two versions are of the same round."""

import pytest
from bench.arena import Sample
from bench.compare import BEFORE, ratio


def _runs(*rates: float) -> list[Sample]:
    return [Sample(rate, 1.0, 2.0, 1e6 / rate) for rate in rates]


def test_a_ratio_is_of_each_round_and_judged_by_its_median() -> None:
    runs = {BEFORE: _runs(1_000, 2_000, 1_000), "now": _runs(2_000, 2_000, 3_000)}
    figure = ratio("puts/s", runs, "now", lambda run: run.puts_per_s, (">=", 2.0))
    assert figure.values == pytest.approx([2.0, 1.0, 3.0])
    assert figure.met is True
    assert figure.notes == {"before": 1_000, "now": 2_000, "errors": 0}


def test_less_is_better_for_time() -> None:
    runs = {BEFORE: _runs(1_000), "now": _runs(1_500)}
    assert ratio("CPU", runs, "now", lambda run: run.cpu_us, ("<=", 0.7)).met is True
    assert ratio("CPU", runs, "now", lambda run: run.cpu_us, ("<=", 0.5)).met is False
