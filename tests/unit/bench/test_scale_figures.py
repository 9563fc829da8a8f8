"""Figures over partitions and connections."""

import pytest
from bench.arena import Sample
from bench.scale_figures import Scale


def _scale() -> Scale:
    found = Scale()
    for cell, rates in {
        (8, 8): (3_000.0,),
        (8, 64): (9_000.0, 10_000.0, 12_000.0),
        (1_000, 64): (8_000.0, 5_000.0, 6_000.0),
    }.items():
        for rate in rates:
            found.add("compiled", cell, Sample(rate, 1.0, 2.0, 50.0))
    return found


def test_a_line_over_partitions_has_the_medians_of_one_number_of_connections() -> None:
    lines = _scale().lines(lambda run: run.puts_per_s, connections=64)
    assert lines == {"compiled": {8: 10_000.0, 1_000: 6_000.0}}


def test_a_line_over_connections_has_the_medians_of_one_number_of_partitions() -> None:
    lines = _scale().lines(lambda run: run.puts_per_s, partitions=8)
    assert lines == {"compiled": {8: 3_000.0, 64: 10_000.0}}


def test_many_partitions_are_judged_by_their_share_of_the_rate_at_8() -> None:
    [share] = [figure for figure in _scale().figures() if "/ at 8" in figure.name]
    assert share.values == pytest.approx([0.8, 0.5, 0.6])
    assert share.met is False
