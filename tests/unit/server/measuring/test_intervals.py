"""Intervals: aligned to the clock, each once, whatever the clock does."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.server.measuring.intervals import SET_BACK_MS_MAX, Intervals


def test_steps_end_at_multiples_of_their_length() -> None:
    steps = Intervals(10_000)
    assert steps.wait_s(1_003_000) == pytest.approx(7.0)
    assert steps.end(1_010_004) == (1_010_000, 10_000)
    assert steps.end(1_020_000) == (1_020_000, 10_000)


def test_a_timer_that_fires_early_ends_nothing_twice() -> None:
    steps = Intervals(10_000)
    assert steps.end(1_010_000) == (1_010_000, 10_000)
    assert steps.end(1_019_999) is None
    assert steps.end(1_020_000) == (1_020_000, 10_000)


def test_a_suspended_machine_has_one_long_step() -> None:
    steps = Intervals(10_000)
    steps.end(1_010_000)
    assert steps.end(1_075_500) == (1_070_000, 60_000)


def test_a_stop_ends_the_step_early_and_the_next_process_skips_it() -> None:
    steps = Intervals(10_000)
    steps.end(1_010_000)
    assert steps.cut(1_013_000) == (1_020_000, 10_000)
    again = Intervals(10_000)
    again.resume(steps.last_ms, 1_014_000)
    assert again.end(1_020_100) is None
    assert again.end(1_030_000) == (1_030_000, 10_000)


def test_what_ended_before_the_start_belongs_to_a_process_that_was_killed() -> None:
    again = Intervals(10_000)
    again.resume(0, 1_013_000)
    assert again.end(1_019_999) is None  # a timer that fires early
    assert again.end(1_020_000) == (1_020_000, 10_000)


def test_a_clock_set_far_back_before_the_start_is_followed() -> None:
    again = Intervals(10_000)
    again.resume(9_000_000, 1_013_000)
    assert again.end(1_019_999) is None
    assert again.end(1_020_000) == (1_020_000, 10_000)


def test_a_second_stop_within_a_step_takes_the_next_one() -> None:
    again = Intervals(10_000)
    again.resume(1_020_000, 1_014_000)
    assert again.cut(1_015_000) == (1_030_000, 10_000)


def test_a_long_absence_makes_no_long_interval() -> None:
    again = Intervals(10_000)
    again.resume(1_020_000, 8_995_000)
    assert again.end(9_000_000) == (9_000_000, 10_000)


def test_a_clock_set_back_a_little_is_waited_for() -> None:
    steps = Intervals(10_000)
    steps.end(1_010_000)
    assert steps.end(1_000_000) is None
    assert steps.end(1_020_000) == (1_020_000, 10_000)


def test_a_clock_set_far_back_is_followed() -> None:
    steps = Intervals(10_000)
    steps.end(9_000_000)
    assert steps.end(1_010_000) == (1_010_000, 10_000)
    assert steps.end(1_020_000) == (1_020_000, 10_000)


@given(st.lists(st.integers(0, SET_BACK_MS_MAX), min_size=2, max_size=30))
def test_no_time_is_measured_twice(moments: list[int]) -> None:
    steps = Intervals(1_000)
    ended = [interval for now in moments if (interval := steps.end(1_000_000 + now)) is not None]
    ends = [at_ms for at_ms, _ in ended]
    assert ends == sorted(set(ends))
    for (before, _), (at_ms, length) in pairwise(ended):
        assert at_ms - length == before
