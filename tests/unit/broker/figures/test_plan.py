"""Plans: the resolution that fits a time range, and whole steps."""

import pytest

from opentalos.broker.figures.plan import POINTS_MAX, Plan, Times, archive_plan, plan, span_ms
from opentalos.broker.figures.ring import LEVELS
from opentalos.model.errors import BadRequest

SAMPLE_MS = 10_000
NOW_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def made(**times: int) -> Plan:
    return plan(Times(**times), LEVELS, SAMPLE_MS, NOW_MS)


def test_without_a_range_it_is_the_last_hour_in_samples() -> None:
    found = made()
    assert (found.level, found.step_ms, found.steps) == (0, SAMPLE_MS, 360)
    assert found.to_ms == NOW_MS


@pytest.mark.parametrize(
    ("ago_ms", "step_ms", "level", "got_ms"),
    [
        (HOUR_MS, 10_000, 0, 10_000),
        (HOUR_MS, 1_000, 0, 10_000),  # finer than samples are
        (HOUR_MS, 25_000, 0, 30_000),
        (HOUR_MS, 60_000, 1, 60_000),
        (HOUR_MS // 2, HOUR_MS, 2, HOUR_MS),
        (2 * HOUR_MS, 10_000, 1, 60_000),  # the hour does not go back so far
        (DAY_MS, 0, 1, 240_000),
        (2 * DAY_MS, 60_000, 2, 600_000),
        (7 * DAY_MS, 0, 2, 1_800_000),
    ],
)
def test_the_coarsest_level_that_suffices_is_read(
    ago_ms: int, step_ms: int, level: int, got_ms: int
) -> None:
    found = made(from_ms=NOW_MS - ago_ms, step_ms=step_ms)
    assert (found.level, found.step_ms) == (level, got_ms)
    assert found.from_ms % got_ms == 0
    assert found.step_ms == found.step * LEVELS[level].samples * SAMPLE_MS


def test_a_range_that_is_older_than_the_last_level_stays_as_it_is() -> None:
    found = made(from_ms=NOW_MS - 30 * DAY_MS, to_ms=NOW_MS - 20 * DAY_MS)
    assert span_ms(LEVELS, SAMPLE_MS) == 7 * DAY_MS
    assert (found.level, found.step_ms) == (2, 2_400_000)
    assert found.from_ms <= NOW_MS - 30 * DAY_MS
    assert NOW_MS - 20 * DAY_MS <= found.to_ms < NOW_MS - 20 * DAY_MS + found.step_ms


def test_no_range_begins_before_1970() -> None:
    assert made(to_ms=1_000).from_ms == 0


def test_without_an_end_the_step_that_runs_is_left_out() -> None:
    found = plan(Times(step_ms=60_000), LEVELS, SAMPLE_MS, NOW_MS + 30_000)
    assert found.to_ms <= NOW_MS + 30_000
    assert NOW_MS + 30_000 - found.to_ms < 60_000
    young = plan(Times(step_ms=60_000), LEVELS, SAMPLE_MS, NOW_MS + 30_000, NOW_MS + 20_000)
    assert young.to_ms >= NOW_MS + 30_000
    whole = plan(
        Times(from_ms=NOW_MS - 60_000, to_ms=NOW_MS + 30_000, step_ms=60_000),
        LEVELS, SAMPLE_MS, NOW_MS + 30_000,
    )  # fmt: skip
    assert whole.to_ms >= NOW_MS + 30_000


@pytest.mark.parametrize(
    "times",
    [
        {"from_ms": NOW_MS, "to_ms": NOW_MS},
        {"from_ms": NOW_MS + 1, "to_ms": NOW_MS + 2},
    ],
)
def test_a_range_without_time_is_refused(times: dict[str, int]) -> None:
    with pytest.raises(BadRequest, match="time range"):
        made(**times)


def test_a_store_has_any_step_but_not_too_many() -> None:
    found = archive_plan(Times(from_ms=NOW_MS - 90 * DAY_MS, step_ms=DAY_MS), NOW_MS, SAMPLE_MS)
    assert (found.steps, found.step_ms) == (90, DAY_MS)
    with pytest.raises(BadRequest, match=f"{POINTS_MAX:,}"):
        archive_plan(Times(from_ms=NOW_MS - DAY_MS, step_ms=10_000), NOW_MS, SAMPLE_MS)
