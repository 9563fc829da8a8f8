"""Parts of a month add up to the month."""

from datetime import date

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opentalos.pipelines.billing.plans.days import WHOLE, Days, day_number, days_of, parse_day
from opentalos.pipelines.lake.periods.month import Month

# Independent of the machine's speed: few examples, without a deadline, the same in each run.
QUICK = settings(
    max_examples=30, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
FEBRUARY = Month(2028, 2)


@QUICK
@given(st.sets(st.integers(-40, 400)), st.integers(0, 10**30))
def test_shares_of_any_split_add_up(starts: set[int], count: int) -> None:
    split = days_of(FEBRUARY, starts)
    assert sum(days.end - days.begin for days in split) == 29
    shares = [days.share(count) for days in split]
    assert sum(shares) == count
    assert min(shares) >= 0


def test_days_are_dates_of_their_month() -> None:
    first, rest = days_of(FEBRUARY, {14, 0, 29, -3})
    assert first.dates(FEBRUARY) == (date(2028, 2, 1), date(2028, 2, 15))
    assert rest.dates(FEBRUARY) == (date(2028, 2, 15), date(2028, 3, 1))
    assert WHOLE.dates(FEBRUARY) == (date(2028, 2, 1), date(2028, 3, 1))
    assert (rest.whole, Days(0, 29, 29).whole, WHOLE.whole) == (False, True, True)


def test_a_day_is_written_as_such_or_as_the_month_it_begins() -> None:
    assert parse_day("2028-02-29") == date(2028, 2, 29)
    assert parse_day("2028-02") == date(2028, 2, 1)
    assert day_number(date(2028, 3, 2), FEBRUARY) == 30
    for text in ("2027-02-29", "2028-13", "20280229", ""):
        with pytest.raises(ValueError, match=r"is not a (day|month)"):
            parse_day(text)
