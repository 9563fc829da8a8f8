"""Which days of a table are whole."""

import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.layout import Span
from opentalos.pipelines.lake.periods.whole_days import DAY_MS, WholeDays, days_before, days_option
from opentalos.pipelines.lake.tables import HOUR_MS


@pytest.mark.parametrize("newest_ms", [8 * DAY_MS, 8 * DAY_MS + 23 * HOUR_MS, 9 * DAY_MS - 1])
def test_the_day_of_the_newest_row_is_not_complete(newest_ms: int) -> None:
    assert days_before(newest_ms, 2) == WholeDays(8, Span(6 * DAY_MS, 8 * DAY_MS))
    assert days_before(newest_ms, 9) == WholeDays(8, Span(0, 8 * DAY_MS))


def test_the_first_day_of_all_has_none_before_it() -> None:
    assert days_before(DAY_MS - 1, 3) is None


def test_an_option_is_a_number_of_days_within_its_bounds() -> None:
    assert days_option({}, "days", default=7, most=31) == 7
    assert days_option({"days": "31"}, "days", default=7, most=31) == 31
    for wrong in ("0", "32", "-1", "x"):
        with pytest.raises(ConfigError, match="give a number of days from 1 to 31"):
            days_option({"days": wrong}, "days", default=7, most=31)
